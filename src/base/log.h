/* One line per happening, on stderr: time, level, area, text. Safe from any thread. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/base.h"

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* Lines above this level are dropped. MUSTER_LOG=error|warn|info|debug sets it in log_init(). */
void log_init(void);
void log_set_level(enum log_level level);

void log_write(enum log_level level, const char *area, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* For what a peer can make happen at will: at most one line a second. */
struct log_pace {
    uint64_t last_ms; /* 0: never */
    uint32_t left_out_n;
};

/* Whether this one gets a line now, and what to say of those that got none since the last: "", or
 * " (and 7 more like this since the last line)". */
#define LOG_PACE_TEXT 64
bool log_pace_take(struct log_pace *pace, uint64_t now_ms, char more[LOG_PACE_TEXT]);

#define log_error(area, ...) log_write(LOG_ERROR, area, __VA_ARGS__)
#define log_warn(area, ...) log_write(LOG_WARN, area, __VA_ARGS__)
#define log_info(area, ...) log_write(LOG_INFO, area, __VA_ARGS__)
#define log_debug(area, ...) log_write(LOG_DEBUG, area, __VA_ARGS__)

#endif
