/* Tables whose columns stand in line, on a terminal. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "base/base.h"

#include <stdio.h>

struct table_column {
    const char *title;
    bool right;                          /* numbers */
    const char *(*colour)(const char *); /* the code of a text's colour; NULL: it has none */
};

/* Rows are gathered first, as columns are as wide as the widest cell. A column in which all cells
 * are empty is left out. */
struct table {
    const struct table_column *columns; /* borrowed */
    uint32_t columns_n;
    int indent;
    bool colours;
    char **cells; /* row by row */
    uint32_t cells_n, cells_cap;
    bool failed; /* out of memory */
};

void table_cell(struct table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Prints what there is, titles first, and frees it. MU_ENOMEM: nothing was printed. */
int table_end(struct table *t, FILE *to);

#endif
