#include "data/shard.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD_BYTES 65536 /* of a file: enough to tell what it is */

static _Thread_local uint64_t damaged_at;

int shard_damaged(const struct shard *s, uint64_t at, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    (void)error_vsay(MU_ECORRUPT, fmt, args);
    va_end(args);
    damaged_at = at;
    return error_say(MU_ECORRUPT, "%s at %" PRIu64 "%s: %s", s->name, at,
                     s->source.packing != PACKING_NONE ? " (uncompressed)" : "", mu_error());
}

uint64_t shard_damaged_at(void)
{
    return damaged_at;
}

bool shard_skips(struct shard *s)
{
    if (!s->o->skip) {
        return false;
    }
    s->skipped++;
    if (s->watch != NULL && s->watch->damage != NULL) {
        s->watch->damage(s->watch->arg, s, damaged_at);
    }
    return true;
}

void shard_progress(const struct shard *s, uint64_t at)
{
    if (s->watch != NULL && s->watch->progress != NULL) {
        s->watch->progress(s->watch->arg, s, at);
    }
}

int shard_no_memory(const struct shard *s)
{
    return error_say(MU_ENOMEM, "no memory to read %s", s->name);
}

/* ---- columns and fields ---- */

int columns_add(struct columns *c, const char *name, size_t name_n, enum mu_type type,
                const char *detail)
{
    mu_column *items, *column;

    if (c->n >= DATA_COLUMNS_MAX) {
        return error_say(MU_ELIMIT, "more than %d columns", DATA_COLUMNS_MAX);
    }
    if ((c->n & (c->n - 1)) == 0) {
        items = reallocarray(c->items, MAX(c->n * 2, (size_t)1), sizeof(*items));
        if (items == NULL) {
            return error_say(MU_ENOMEM, "no memory for columns");
        }
        c->items = items;
    }
    column = &c->items[c->n];
    *column = (mu_column){strndup(name, name_n), type, strdup(detail)};
    c->n++;
    return column->name != NULL && column->detail != NULL
               ? MU_OK
               : error_say(MU_ENOMEM, "no memory for columns");
}

void columns_free(struct columns *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free((void *)(uintptr_t)c->items[i].name);
        free((void *)(uintptr_t)c->items[i].detail);
    }
    free(c->items);
    *c = (struct columns){NULL, 0};
}

bool field_number(mu_field *f)
{
    char text[64];
    char *end;

    if (f->n == 0 || f->n >= sizeof(text) || memchr(f->data, '\0', f->n) != NULL) {
        return false;
    }
    memcpy(text, f->data, f->n);
    text[f->n] = '\0';
    if (strspn(text, "+-.0123456789eEinfatyNIFATY") !=
        f->n) { /* Nothing else that strtod() takes. */
        return false;
    }
    errno = 0;
    if (f->type == MU_INTEGER) {
        f->integer = strtoll(text, &end, 10);
        f->real = (double)f->integer;
        return *end == '\0' && errno == 0;
    }
    f->real = strtod(text, &end);
    f->integer = fabs(f->real) < 9e18 ? (int64_t)f->real : 0;
    return *end == '\0';
}

int cursor_fields(const struct shard *s, struct cursor *c, size_t n)
{
    if (n > c->fields_cap) {
        mu_field *fields = reallocarray(c->fields, n, sizeof(*fields));

        if (fields == NULL) {
            return shard_no_memory(s);
        }
        c->fields = fields;
        c->fields_cap = n;
    }
    return MU_OK;
}

int cursor_bytes(const struct shard *s, struct cursor *c, size_t n)
{
    if (n > c->bytes_cap) {
        const size_t cap = MAX(n, c->bytes_cap + c->bytes_cap / 2);
        uint8_t *bytes = realloc(c->bytes, cap);

        if (bytes == NULL) {
            return shard_no_memory(s);
        }
        c->bytes = bytes;
        c->bytes_cap = cap;
    }
    return MU_OK;
}

void cursor_close(const struct shard *s, struct cursor *c)
{
    if (c->own != NULL && s->format->leave != NULL) {
        s->format->leave(s, c);
    }
    window_close(&c->window);
    free(c->fields);
    free(c->bytes);
    *c = (struct cursor){.own = NULL};
}

/* ---- which format it is ---- */

const struct format *const formats[] = {
    &format_mds, &format_recordio, &format_sqlite, &format_tar,   &format_idx, &format_tfrecord,
    &format_csv, &format_lines,    &format_fixed,  &format_whole, NULL,
};

const struct format *format_find(const char *name)
{
    for (size_t i = 0; formats[i] != NULL; i++) {
        if (strcmp(formats[i]->name, name) == 0) {
            return formats[i];
        }
    }
    return NULL;
}

bool guess_ends(const struct guess *g, const char *ending)
{
    size_t n = strlen(g->path), ending_n = strlen(ending);

    if (n > 3 && strcmp(g->path + n - 3, ".gz") == 0) {
        n -= 3;
    }
    return n > ending_n && strncmp(g->path + n - ending_n, ending, ending_n) == 0;
}

bool guess_text(const struct guess *g)
{
    for (size_t i = 0; i < g->head_n; i++) {
        const uint8_t c = g->head[i];

        if (c == 127 || (c < 32 && strchr("\t\r\n\f\v\b\033", c) == NULL) || c == 0) {
            return false;
        }
    }
    return true;
}

static const struct format *guess_in(struct shard *s, enum packing packing, uint8_t *head)
{
    const struct guess g = {.path = s->path,
                            .head = head,
                            .size = packing == PACKING_NONE ? s->source.size : UINT64_MAX,
                            .head_n = source_peek(&s->source, packing, head, HEAD_BYTES)};

    for (size_t i = 0; formats[i] != NULL; i++) {
        const struct format *f = formats[i];

        if (f->guess != NULL && !f->folder && (!f->bare || packing == PACKING_NONE) &&
            (packing != PACKING_ZLIB || f->zlib) && f->guess(&g)) {
            return f;
        }
    }
    return NULL;
}

/* A zlib stream has no magic number: it is one if what comes out of it makes sense, or it was said.
 */
static int find_format(struct shard *s, enum packing *packing)
{
    uint8_t *head = malloc(HEAD_BYTES);
    const bool maybe_zlib = s->source.map_n >= 2 && (s->source.map[0] & 15) == 8 &&
                            (s->source.map[0] << 8 | s->source.map[1]) % 31 == 0;
    const struct format *zlib = NULL;

    if (head == NULL) {
        return shard_no_memory(s);
    }
    *packing = source_packing(&s->source);
    if (maybe_zlib && (s->format == NULL || s->format->zlib)) {
        zlib = guess_in(s, PACKING_ZLIB, head);
    }
    if (s->format == NULL) {
        s->format = zlib != NULL ? zlib : guess_in(s, *packing, head);
    }
    *packing = zlib != NULL && s->format == zlib ? PACKING_ZLIB : *packing;
    free(head);
    if (s->format == NULL) {
        return error_say(
            MU_EINVAL,
            "it can't be told what %s is: say FORMAT:FILE, such as fixed:%s?record=BYTES or "
            "file:%s",
            s->name, s->name, s->name);
    }
    return MU_OK;
}

static int open_source(struct shard *s)
{
    enum packing packing = PACKING_NONE;
    int rc = source_open(&s->source, s->path);

    if (rc == MU_OK) {
        rc = find_format(s, &packing);
    }
    if (rc != MU_OK || s->format->bare || packing == PACKING_NONE) {
        return rc;
    }
    s->packed = packing == PACKING_GZIP ? "gzip" : "zlib";
    rc = source_unpack(&s->source, packing);
    if (rc == MU_OK && s->source.damaged) {
        damaged_at = s->source.damaged_at;
        rc = error_say(MU_ECORRUPT, "%s at %" PRIu64 ": what is compressed there is damaged: %s",
                       s->name, damaged_at, s->source.damage);
        rc = shard_skips(s) ? MU_OK : rc;
    }
    return rc;
}

int shard_open(struct shard *s, const char *path, const struct data_options *o)
{
    struct stat st;
    int rc = MU_OK;

    s->o = o;
    s->format = o->format;
    s->packed = "none";
    s->path = strdup(path);
    s->name = strdup(path);
    if (s->path == NULL || s->name == NULL) {
        rc = error_say(MU_ENOMEM, "no memory to read %s", path);
    } else if (stat(path, &st) != 0) {
        rc = error_say(errno == ENOENT ? MU_ENOENT : MU_EIO, "can't read %s: %s", path,
                       strerror(errno));
    } else if (!S_ISDIR(st.st_mode) && !(o->format != NULL && o->format->folder)) {
        rc = open_source(s);
    } else if (S_ISDIR(st.st_mode)) {
        rc = error_say(MU_EINVAL, "%s is a folder", path);
    }
    if (rc == MU_OK) {
        rc = s->format->open(s);
    }
    if (rc != MU_OK) {
        shard_close(s);
    }
    return rc;
}

void shard_close(struct shard *s)
{
    if (s->format != NULL && s->format->close != NULL) {
        s->format->close(s);
    }
    source_close(&s->source);
    columns_free(&s->columns);
    free(s->marks);
    free(s->path);
    free(s->name);
    *s = (struct shard){.own = NULL};
}
