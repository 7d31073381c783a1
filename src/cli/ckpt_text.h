/* Checkpoints as people read them: sizes, times, steps, and tables whose columns stand in line. */
#ifndef CLI_CKPT_TEXT_H
#define CLI_CKPT_TEXT_H

#include "base/base.h"

#include <stdio.h>

#define CKPT_TEXT_MAX 64

/* "0 B", "1023 B", "1.0 KiB", "4.0 MiB", "1.2 GiB". */
void ckpt_text_size(uint64_t bytes, char text[CKPT_TEXT_MAX]);

/* "2026-11-16 13:14:02", by the clock on the wall; "" if there is no such time. */
void ckpt_text_time(uint64_t ms, char text[CKPT_TEXT_MAX]);

/* "less than a minute", "1 minute", "3 hours", "12 days": how long that is. */
void ckpt_text_age(uint64_t ms, char text[CKPT_TEXT_MAX]);

/* "1200", or a folder's name, "step-000000001200". */
bool ckpt_text_step(const char *text, uint64_t *step_out);

/* Whether a path ends so, with something before it. */
bool ckpt_text_ends(const char *path, const char *end);

struct ckpt_column {
    const char *title;
    bool right; /* numbers */
};

/* Rows are gathered first, as columns are as wide as the widest cell. One in which all cells are
 * empty is left out. */
struct ckpt_table {
    const struct ckpt_column *columns; /* borrowed */
    uint32_t columns_n;
    char **cells; /* row by row */
    uint32_t cells_n, cells_cap;
    bool failed; /* out of memory */
};

void ckpt_table_cell(struct ckpt_table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints what there is, titles first, and frees it. MU_ENOMEM: nothing was printed. */
int ckpt_table_end(struct ckpt_table *t, FILE *to);

#endif
