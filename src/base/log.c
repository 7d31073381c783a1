/* Each line leaves in one write(), so lines of several threads and processes that share a
 * stderr do not mix. No lock is held and nothing is buffered. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_BYTES 2048
#define PACE_MS 1000u

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

static atomic_int max_level = LOG_INFO;

void log_set_level(enum log_level level)
{
    atomic_store(&max_level, (int)level);
}

void log_init(void)
{
    const char *wanted = getenv("MUSTER_LOG");

    if (wanted == NULL || *wanted == '\0') {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++) {
        if (strcmp(wanted, level_names[i]) == 0) {
            log_set_level((enum log_level)i);
            return;
        }
    }
    log_warn("log", "MUSTER_LOG=%s is no level; set error, warn, info or debug", wanted);
}

/* The length of what snprintf wrote into a buffer of cap bytes, given its result. */
static size_t written(int result, size_t cap)
{
    return result < 0 ? 0 : MIN((size_t)result, cap - 1);
}

static size_t put_head(char *line, size_t cap, enum log_level level, const char *area)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    return written(snprintf(line, cap,
                            "%04d-%02d-%02dT%02d:%02d:%02d.%03ldZ %-5s %s: ", utc.tm_year + 1900,
                            utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                            now.tv_nsec / 1000000, level_names[level], area),
                   cap);
}

void log_write(enum log_level level, const char *area, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    const size_t cap = sizeof(line) - 1; /* room for the newline */
    size_t head_n, n;
    va_list args;
    int wanted;

    if ((int)level > atomic_load_explicit(&max_level, memory_order_relaxed)) {
        return;
    }
    head_n = put_head(line, cap, level, area);
    va_start(args, fmt);
    wanted = vsnprintf(line + head_n, cap - head_n, fmt, args);
    va_end(args);
    n = head_n + written(wanted, cap - head_n);
    if (wanted > 0 && (size_t)wanted >= cap - head_n) {
        memcpy(line + n - 3, "...", 3);
    }
    /* A peer's text must not forge lines or drive the terminal. */
    for (size_t i = head_n; i < n; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) {
            line[i] = ' ';
        }
    }
    line[n++] = '\n';

    /* Nobody is left to tell about an error on stderr. */
    ssize_t ignored = write(STDERR_FILENO, line, n);
    (void)ignored;
}

bool log_pace_take(struct log_pace *pace, uint64_t now_ms, char more[LOG_PACE_TEXT])
{
    if (pace->last_ms != 0 && now_ms - pace->last_ms < PACE_MS) {
        pace->left_out_n++;
        return false;
    }
    more[0] = '\0';
    if (pace->left_out_n > 0) {
        snprintf(more, LOG_PACE_TEXT, " (and %u more like this since the last line)",
                 pace->left_out_n);
    }
    pace->last_ms = now_ms;
    pace->left_out_n = 0;
    return true;
}
