#include "cli/ckpt_text.h"

#include "core/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void ckpt_text_size(uint64_t bytes, char text[CKPT_TEXT_MAX])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double n = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        snprintf(text, CKPT_TEXT_MAX, "%" PRIu64 " B", bytes);
        return;
    }
    while (n >= 1023.95 && unit + 1 < ARRAY_LEN(units)) { /* It would be shown as 1024.0. */
        n /= 1024;
        unit++;
    }
    snprintf(text, CKPT_TEXT_MAX, "%.1f %s", n, units[unit]);
}

void ckpt_text_time(uint64_t ms, char text[CKPT_TEXT_MAX])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm local;

    text[0] = '\0';
    if (localtime_r(&seconds, &local) != NULL &&
        strftime(text, CKPT_TEXT_MAX, "%Y-%m-%d %H:%M:%S", &local) == 0) {
        text[0] = '\0';
    }
}

void ckpt_text_age(uint64_t ms, char text[CKPT_TEXT_MAX])
{
    static const struct {
        uint64_t seconds;
        const char *name;
    } units[] = {{86400, "day"}, {3600, "hour"}, {60, "minute"}};

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t n = ms / 1000 / units[i].seconds;

        if (n > 0) {
            snprintf(text, CKPT_TEXT_MAX, "%" PRIu64 " %s%s", n, units[i].name, n > 1 ? "s" : "");
            return;
        }
    }
    snprintf(text, CKPT_TEXT_MAX, "less than a minute");
}

bool ckpt_text_step(const char *text, uint64_t *step_out)
{
    static const char folder[] = "step-";

    if (strncmp(text, folder, strlen(folder)) == 0) {
        text += strlen(folder);
    }
    return text_number(text, strlen(text), 1, UINT64_MAX, step_out);
}

bool ckpt_text_ends(const char *path, const char *end)
{
    size_t n = strlen(path), end_n = strlen(end);

    return n > end_n && path[n - end_n - 1] != '/' && strcmp(path + n - end_n, end) == 0;
}

/* ---- tables ---- */

void ckpt_table_cell(struct ckpt_table *t, const char *fmt, ...)
{
    char *text = NULL;
    va_list args;
    int n;

    if (t->cells_n == t->cells_cap) {
        uint32_t cap = t->cells_cap == 0 ? 64 : t->cells_cap * 2;
        char **cells = reallocarray(t->cells, cap, sizeof(*cells));

        if (cells == NULL) {
            t->failed = true;
            return;
        }
        t->cells = cells;
        t->cells_cap = cap;
    }
    va_start(args, fmt);
    n = vasprintf(&text, fmt, args);
    va_end(args);
    if (n < 0) {
        t->failed = true;
        return;
    }
    t->cells[t->cells_n++] = text;
}

/* 0: nobody has anything to say in this column. */
static int width(const struct ckpt_table *t, uint32_t column)
{
    size_t widest = 0;

    for (uint32_t i = column; i < t->cells_n; i += t->columns_n) {
        widest = MAX(widest, strlen(t->cells[i]));
    }
    return widest == 0 ? 0 : (int)MAX(widest, strlen(t->columns[column].title));
}

/* One line: of its titles if there are no cells. Blanks wait for the next text, so that no line
 * ends with any. */
static void row(const struct ckpt_table *t, char *const *cells, FILE *to)
{
    int blanks = 0;

    for (uint32_t i = 0; i < t->columns_n; i++) {
        const char *text = cells != NULL ? cells[i] : t->columns[i].title;
        int all = width(t, i);
        int spare = all - (int)strlen(text);

        if (all == 0) {
            continue;
        }
        if (*text == '\0') {
            blanks += all + 2;
            continue;
        }
        fprintf(to, "%*s%s", blanks + (t->columns[i].right ? spare : 0), "", text);
        blanks = 2 + (t->columns[i].right ? 0 : spare);
    }
    fputc('\n', to);
}

int ckpt_table_end(struct ckpt_table *t, FILE *to)
{
    bool failed = t->failed;

    if (!failed && t->cells_n > 0) {
        mu_assert(t->cells_n % t->columns_n == 0);
        row(t, NULL, to);
        for (uint32_t i = 0; i < t->cells_n; i += t->columns_n) {
            row(t, t->cells + i, to);
        }
    }
    for (uint32_t i = 0; i < t->cells_n; i++) {
        free(t->cells[i]);
    }
    free(t->cells);
    t->cells = NULL;
    t->cells_n = t->cells_cap = 0;
    return failed ? MU_ENOMEM : MU_OK;
}
