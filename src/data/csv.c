/* CSV (RFC 4180): a record is a row, which may have line ends between quotes. The first row names
 * the columns, unless header=no. Types are found out by the first TYPES_ROWS rows, or said. */
#include "data/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TYPES_ROWS 1000

struct csv {
    char delimiter;
    size_t in_file_n; /* columns that the file has; 0: not known yet */
    uint32_t
        *wanted; /* for each of them: its place among those wanted, from 1; 0: nobody wants it */
};

static bool guess(const struct guess *g)
{
    return (guess_ends(g, ".csv") || guess_ends(g, ".tsv")) && guess_text(g);
}

/* ---- rows ---- */

enum state {
    BEGIN,
    PLAIN,
    QUOTED,
    QUOTE
}; /* QUOTE: the last one ends the value, or is half of two */

static enum state step(enum state state, char c, char delimiter)
{
    switch (state) {
    case QUOTED:
        return c == '"' ? QUOTE : QUOTED;
    case QUOTE:
        return c == '"' ? QUOTED : c == delimiter ? BEGIN : PLAIN;
    case BEGIN:
        return c == '"' ? QUOTED : c == delimiter ? BEGIN : PLAIN;
    default:
        return c == delimiter ? BEGIN : PLAIN;
    }
}

/* The bytes of the row without its end; *next is what follows, 0: it doesn't end in these n bytes.
 */
static uint64_t row_end(const uint8_t *p, uint64_t n, char delimiter, uint64_t *next, bool *quoted)
{
    enum state state = BEGIN;

    *quoted = false;
    for (uint64_t i = 0; i < n; i++) {
        if (p[i] == '\n' && state != QUOTED) {
            *next = i + 1;
            return i - (i > 0 && p[i - 1] == '\r');
        }
        state = step(state, (char)p[i], delimiter);
    }
    *next = 0;
    *quoted = state == QUOTED;
    return n;
}

/* ---- values ---- */

/* The value at p, its quotes solved to *to; gives what follows its delimiter, NULL at the end. */
static const uint8_t *value(const uint8_t *p, const uint8_t *end, char delimiter, uint8_t **to,
                            mu_field *out)
{
    enum state state = BEGIN;
    uint8_t *text = *to;

    if (p == end || *p != '"') {
        const uint8_t *stop = p < end ? memchr(p, delimiter, (size_t)(end - p)) : NULL;

        out->data = p;
        out->n = (size_t)((stop != NULL ? stop : end) - p);
        return stop != NULL ? stop + 1 : NULL;
    }
    for (; p < end; p++) {
        const enum state before = state;

        state = step(state, (char)*p, delimiter);
        if (state == BEGIN) {
            break;
        }
        if (state != QUOTE && (before == QUOTE || before == PLAIN || state == before)) {
            *(*to)++ = *p;
        }
    }
    out->data = text;
    out->n = (size_t)(*to - text);
    return p < end ? p + 1 : NULL;
}

static int typed(const struct shard *s, uint64_t at, const mu_column *column, mu_field *f)
{
    f->name = column->name;
    f->type = column->type;
    f->integer = 0;
    f->real = 0;
    if (f->type == MU_TEXT || field_number(f)) {
        return MU_OK;
    }
    if (f->n == 0) {
        f->type = MU_NULL;
        return MU_OK;
    }
    return shard_damaged(s, at, "'%.*s' in column %s is no %s number; say types=… if it may be",
                         (int)MIN(f->n, (size_t)40), (const char *)f->data, column->name,
                         f->type == MU_INTEGER ? "whole" : "real");
}

/* The row's values that are wanted, in c->fields. */
static int split(const struct shard *s, struct cursor *c, uint64_t at, const uint8_t *p, size_t n)
{
    const struct csv *csv = s->own;
    const uint8_t *end = p + n;
    size_t i = 0;
    uint8_t *to;
    int rc = cursor_bytes(s, c, n + 1);

    rc = rc == MU_OK ? cursor_fields(s, c, s->columns.n) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    to = c->bytes;
    for (; p != NULL && i < csv->in_file_n && rc == MU_OK; i++) {
        mu_field f;

        p = value(p, end, csv->delimiter, &to, &f);
        if (csv->wanted[i] > 0) {
            rc = typed(s, at, &s->columns.items[csv->wanted[i] - 1], &f);
            c->fields[csv->wanted[i] - 1] = f;
        }
    }
    if (rc == MU_OK && (i < csv->in_file_n || p != NULL)) {
        return shard_damaged(s, at, "a row has %s than the %zu columns",
                             p != NULL ? "more values" : "fewer values", csv->in_file_n);
    }
    return rc;
}

static int next(const struct shard *s, struct cursor *c, uint64_t at, bool whole,
                struct extent *out)
{
    const struct csv *csv = s->own;
    uint64_t have, want = 4096, n = 0, after = 0;
    const uint8_t *p;
    bool quoted = false;
    int rc;

    for (;;) {
        if (at >= s->source.size) {
            return MU_EDONE;
        }
        rc = window_need(&c->window, at, want, &p, &have);
        if (rc != MU_OK) {
            return rc;
        }
        n = row_end(p, MIN(have, want), csv->delimiter, &after, &quoted);
        if (n == 0 && after > 0) { /* A line with nothing on it is no row. */
            at += after;
        } else if (after > 0 || want >= s->source.size - at || n > s->o->max) {
            break;
        } else {
            want *= 2;
        }
    }
    *out = (struct extent){.at = at, .n = n, .next = at + (after > 0 ? after : n)};
    if (n > s->o->max) {
        out->next = after > 0 ? out->next : 0;
        return shard_damaged(s, at, "a row is longer than %" PRIu64 " bytes (the option max)",
                             s->o->max);
    }
    if (quoted) {
        return shard_damaged(s, at, "a quote is opened in this row, and not closed");
    }
    return whole && s->o->skip ? split(s, c, at, p, (size_t)n) : MU_OK;
}

static int take(const struct shard *s, struct cursor *c, const struct extent *e, mu_record *out)
{
    int rc = split(s, c, e->at, out->data, out->n);

    out->fields = c->fields;
    out->fields_n = (uint32_t)s->columns.n;
    return rc;
}

/* ---- columns ---- */

/* Those wanted, in the order in which they are wanted; each has to be there. */
static int want(struct shard *s, struct columns *all)
{
    struct csv *csv = s->own;
    const char *list = s->o->columns;
    int rc = MU_OK;

    csv->in_file_n = all->n;
    csv->wanted = calloc(all->n, sizeof(*csv->wanted));
    if (csv->wanted == NULL) {
        return shard_no_memory(s);
    }
    for (size_t i = 0; list == NULL && i < all->n && rc == MU_OK; i++) {
        csv->wanted[i] = (uint32_t)i + 1;
        rc = columns_add(&s->columns, all->items[i].name, strlen(all->items[i].name), MU_TEXT,
                         "text");
    }
    while (list != NULL && rc == MU_OK) {
        const char *comma = strchr(list, ',');
        const size_t n = comma != NULL ? (size_t)(comma - list) : strlen(list);
        size_t i = 0;

        while (i < all->n &&
               (strlen(all->items[i].name) != n || memcmp(all->items[i].name, list, n) != 0)) {
            i++;
        }
        if (i == all->n || csv->wanted[i] > 0) {
            return error_say(MU_EINVAL, "%s has %s column '%.*s'", s->name,
                             i == all->n ? "no" : "only one", (int)MIN(n, (size_t)80), list);
        }
        rc = columns_add(&s->columns, list, n, MU_TEXT, "text");
        csv->wanted[i] = (uint32_t)s->columns.n;
        list = comma != NULL ? comma + 1 : NULL;
    }
    return rc;
}

static void set_type(mu_column *column, enum mu_type type)
{
    static const char *const names[] = {"bytes", "text", "integer", "real", "null"};
    char *detail = strdup(names[type]);

    column->type = type;
    if (detail != NULL) { /* It is only for people. */
        free((void *)(uintptr_t)column->detail);
        column->detail = detail;
    }
}

static int set_types(struct shard *s)
{
    static const char *const names[] = {"int", "float", "str", "integer", "real", "text"};
    static const enum mu_type types[] = {MU_INTEGER, MU_REAL, MU_TEXT,
                                         MU_INTEGER, MU_REAL, MU_TEXT};
    const char *list = s->o->types;
    size_t i = 0;

    for (; list != NULL && i < s->columns.n; i++) {
        const size_t n = strcspn(list, ",");
        size_t k = 0;

        while (k < ARRAY_LEN(names) && (strlen(names[k]) != n || memcmp(names[k], list, n) != 0)) {
            k++;
        }
        if (k == ARRAY_LEN(names)) {
            return error_say(MU_EINVAL, "'%.*s' is no type of a column: int, float or str",
                             (int)MIN(n, (size_t)40), list);
        }
        set_type(&s->columns.items[i], types[k]);
        list = list[n] == ',' ? list + n + 1 : NULL;
    }
    return list == NULL && i == s->columns.n
               ? MU_OK
               : error_say(MU_EINVAL, "types=%.80s: %s has %zu columns", s->o->types, s->name,
                           s->columns.n);
}

/* The narrowest type that all of the first rows have. */
static int find_types(struct shard *s, struct cursor *c)
{
    uint8_t *seen =
        calloc(s->columns.n, 1); /* by column: 1 not whole, 2 not real, 4 anything at all */
    struct extent e = {.next = s->at};
    const uint8_t *p;
    uint64_t have;
    int rc = seen != NULL ? MU_OK : shard_no_memory(s);

    for (uint32_t row = 0; row < TYPES_ROWS && rc == MU_OK; row++) {
        rc = next(s, c, e.next, false, &e);
        rc = rc == MU_OK ? window_need(&c->window, e.at, e.n, &p, &have) : rc;
        rc = rc == MU_OK ? split(s, c, e.at, p, (size_t)e.n) : rc;
        for (size_t i = 0; rc == MU_OK && i < s->columns.n; i++) {
            mu_field f = c->fields[i];

            f.type = MU_INTEGER;
            seen[i] |= f.n == 0 ? 0 : 4;
            seen[i] |= f.n == 0 || field_number(&f) ? 0 : 1;
            f.type = MU_REAL;
            seen[i] |= f.n == 0 || field_number(&f) ? 0 : 2;
        }
    }
    for (size_t i = 0; seen != NULL && i < s->columns.n; i++) {
        set_type(&s->columns.items[i], seen[i] == 4   ? MU_INTEGER
                                       : seen[i] == 5 ? MU_REAL
                                                      : MU_TEXT);
    }
    free(seen);
    return rc == MU_ENOMEM ? rc : MU_OK; /* What is damaged is seen again. */
}

/* The first row; without one that names them they are called c0, c1, … */
static int name_columns(struct shard *s, struct cursor *c, struct columns *all)
{
    const struct csv *csv = s->own;
    struct extent e;
    const uint8_t *p, *end;
    uint64_t have;
    uint8_t *to;
    int rc = next(s, c, s->at, false, &e);

    rc = rc == MU_OK ? window_need(&c->window, e.at, e.n, &p, &have) : rc;
    rc = rc == MU_OK ? cursor_bytes(s, c, (size_t)e.n + 1) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    end = p + e.n;
    to = c->bytes;
    while (p != NULL && rc == MU_OK) {
        char number[16];
        mu_field f;

        p = value(p, end, csv->delimiter, &to, &f);
        if (s->o->headless) {
            f.n = (size_t)snprintf(number, sizeof(number), "c%zu", all->n);
            f.data = number;
        }
        rc = columns_add(all, f.data, f.n, MU_TEXT, "text");
    }
    s->at = s->o->headless ? s->at : e.next;
    return rc;
}

static int open_csv(struct shard *s)
{
    struct csv *csv = calloc(1, sizeof(*csv));
    struct columns all = {NULL, 0};
    struct cursor c = {.own = NULL};
    const uint8_t *p;
    uint64_t have;
    int rc;

    if (csv == NULL) {
        return shard_no_memory(s);
    }
    s->own = csv;
    csv->delimiter = s->o->delimiter != 0              ? s->o->delimiter
                     : strstr(s->path, ".tsv") != NULL ? '\t'
                                                       : ',';
    window_init(&c.window, &s->source);
    rc = window_need(&c.window, 0, 3, &p, &have);
    s->at = rc == MU_OK && have >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    rc = rc == MU_OK ? name_columns(s, &c, &all) : rc;
    if (rc == MU_OK) {
        rc = want(s, &all);
        rc = rc != MU_OK ? rc : s->o->types != NULL ? set_types(s) : find_types(s, &c);
        rc = rc == MU_OK ? walk_open(s) : rc;
    } else if (rc == MU_ECORRUPT && shard_skips(s)) {
        rc = MU_OK;
    }
    columns_free(&all);
    cursor_close(s, &c);
    return rc == MU_EDONE ? MU_OK : rc;
}

static void close_csv(struct shard *s)
{
    struct csv *csv = s->own;

    if (csv != NULL) {
        free(csv->wanted);
        free(csv);
    }
}

const struct format format_csv = {.name = "csv",
                                  .guess = guess,
                                  .open = open_csv,
                                  .close = close_csv,
                                  .read = walk_read,
                                  .next = next,
                                  .take = take};
