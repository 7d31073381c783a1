#include "cli/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 16

void table_cell(struct table *t, const char *fmt, ...)
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
static int width(const struct table *t, uint32_t column)
{
    size_t widest = 0;

    for (uint32_t i = column; i < t->cells_n; i += t->columns_n) {
        widest = MAX(widest, strlen(t->cells[i]));
    }
    return widest == 0 ? 0 : (int)MAX(widest, strlen(t->columns[column].title));
}

/* One line: of its titles if there are no cells. Blanks wait for the next text, so that no line
 * ends with any. */
static void row(const struct table *t, char *const *cells, const int *widths, FILE *to)
{
    int blanks = t->indent;

    for (uint32_t i = 0; i < t->columns_n; i++) {
        const struct table_column *c = &t->columns[i];
        const char *text = cells != NULL ? cells[i] : c->title;
        int spare = widths[i] - (int)strlen(text);

        if (widths[i] == 0) {
            continue;
        }
        if (*text == '\0') {
            blanks += widths[i] + 2;
            continue;
        }
        fprintf(to, "%*s", blanks + (c->right ? spare : 0), "");
        if (t->colours && cells != NULL && c->colour != NULL) {
            fprintf(to, "\033[%sm%s\033[0m", c->colour(text), text);
        } else {
            fputs(text, to);
        }
        blanks = 2 + (c->right ? 0 : spare);
    }
    fputc('\n', to);
}

int table_end(struct table *t, FILE *to)
{
    bool failed = t->failed;
    int widths[COLUMNS_MAX];

    mu_assert(t->columns_n <= COLUMNS_MAX);
    for (uint32_t i = 0; i < t->columns_n; i++) {
        widths[i] = width(t, i);
    }
    if (!failed && t->cells_n > 0) {
        mu_assert(t->cells_n % t->columns_n == 0);
        row(t, NULL, widths, to);
        for (uint32_t i = 0; i < t->cells_n; i += t->columns_n) {
            row(t, t->cells + i, widths, to);
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
