/* Many shards as one row of records, whether they are files or a user's own. */
#include "data/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct mu_reader {
    struct found_list found;
    struct shard *shards;  /* of files; NULL: a user's own */
    mu_reader_shard *told; /* of both */
    size_t n;
    uint64_t records;
    mu_reader_calls calls;
    void *arg;
    struct columns columns;      /* of a user's own: copies */
    const struct columns *shown; /* those, or the first shard's that has any */
};

struct mu_scan {
    mu_reader *reader;
    uint64_t next, end;
    size_t shard; /* that the cursor is in; reader->n: none */
    struct cursor cursor;
    void *own;
    bool begun;
};

static int no_memory(void)
{
    return error_say(MU_ENOMEM, "no memory for a reader");
}

/* ---- of files ---- */

static void tell(struct mu_reader *r, size_t i)
{
    const struct shard *s = &r->shards[i];

    r->told[i] = (mu_reader_shard){.name = s->name,
                                   .format = s->format->name,
                                   .first = r->records,
                                   .records = s->records,
                                   .chunks = s->chunks,
                                   .bytes = s->source.map_n + s->bytes,
                                   .skipped = s->skipped,
                                   .packed = s->packed};
    r->records += s->records;
    if (r->shown == NULL && s->columns.n > 0) {
        r->shown = &s->columns;
    }
}

static int open_files(struct mu_reader *r, const struct found *files, size_t n,
                      const struct watch *watch)
{
    int rc = MU_OK;

    r->shards = calloc(MAX(n, (size_t)1), sizeof(*r->shards));
    r->told = calloc(MAX(n, (size_t)1), sizeof(*r->told));
    if (r->shards == NULL || r->told == NULL) {
        return no_memory();
    }
    for (size_t i = 0; i < n && rc == MU_OK; i++) {
        r->shards[i].watch = watch;
        rc = shard_open(&r->shards[i], files[i].path, files[i].o);
        if (rc == MU_OK) {
            r->shards[i].watch = NULL;
            r->n++;
            tell(r, i);
        }
    }
    return rc;
}

static int finish(struct mu_reader *r, int rc, mu_reader **reader_out)
{
    if (rc == MU_OK) {
        *reader_out = r;
    } else {
        mu_reader_close(r);
    }
    return rc;
}

int reader_open_found(const struct found *files, size_t n, const struct watch *watch,
                      mu_reader **reader_out)
{
    struct mu_reader *r = calloc(1, sizeof(*r));

    return r != NULL ? finish(r, open_files(r, files, n, watch), reader_out) : no_memory();
}

int mu_reader_open(const char *const *sources, size_t n, const char *options,
                   mu_reader **reader_out)
{
    struct mu_reader *r = calloc(1, sizeof(*r));
    int rc;

    if (r == NULL) {
        return no_memory();
    }
    rc = find_files(sources, n, options, &r->found);
    return finish(r, rc == MU_OK ? open_files(r, r->found.files, r->found.n, NULL) : rc,
                  reader_out);
}

/* ---- of a user's own ---- */

static int copy_shards(struct mu_reader *r)
{
    const mu_reader_shard *shards = NULL;
    size_t n = 0;
    int rc = r->calls.shards(r->arg, &shards, &n);

    if (rc != MU_OK) {
        return rc;
    }
    r->told = calloc(MAX(n, (size_t)1), sizeof(*r->told));
    if (r->told == NULL) {
        return no_memory();
    }
    for (; r->n < n; r->n++) {
        char *name = strdup(shards[r->n].name != NULL ? shards[r->n].name : "");

        if (name == NULL) {
            return no_memory();
        }
        r->told[r->n] = (mu_reader_shard){.name = name,
                                          .format = "custom",
                                          .first = r->records,
                                          .records = shards[r->n].records,
                                          .packed = "none"};
        if (__builtin_add_overflow(r->records, shards[r->n].records, &r->records)) {
            r->n++;
            return error_say(MU_ELIMIT, "a reader of more than 2^64 records");
        }
    }
    return MU_OK;
}

static int copy_columns(struct mu_reader *r)
{
    const mu_column *columns = NULL;
    size_t n = 0;
    int rc = r->calls.columns != NULL ? r->calls.columns(r->arg, &columns, &n) : MU_OK;

    for (size_t i = 0; i < n && rc == MU_OK; i++) {
        rc = columns_add(&r->columns, columns[i].name, strlen(columns[i].name), columns[i].type,
                         columns[i].detail != NULL ? columns[i].detail : "");
    }
    r->shown = r->columns.n > 0 ? &r->columns : NULL;
    return rc;
}

int mu_reader_custom(const mu_reader_calls *calls, void *arg, mu_reader **reader_out)
{
    struct mu_reader *r = calloc(1, sizeof(*r));
    int rc = MU_OK;

    if (r == NULL) {
        rc = no_memory();
    } else if (calls->size < offsetof(mu_reader_calls, close) || calls->shards == NULL ||
               calls->read == NULL) {
        rc = error_say(MU_EINVAL, "a reader of one's own needs its size, shards() and read()");
    }
    if (rc != MU_OK) {
        if (calls->size >= sizeof(*calls) && calls->close != NULL) {
            calls->close(arg);
        }
        free(r);
        return rc;
    }
    memcpy(&r->calls, calls, MIN(calls->size, sizeof(*calls)));
    r->arg = arg;
    rc = copy_shards(r);
    return finish(r, rc == MU_OK ? copy_columns(r) : rc, reader_out);
}

void mu_reader_close(mu_reader *r)
{
    if (r == NULL) {
        return;
    }
    for (size_t i = 0; i < r->n; i++) {
        if (r->shards != NULL) {
            shard_close(&r->shards[i]);
        } else {
            free((void *)(uintptr_t)r->told[i].name);
        }
    }
    if (r->calls.close != NULL) {
        r->calls.close(r->arg);
    }
    columns_free(&r->columns);
    free(r->shards);
    free(r->told);
    find_free(&r->found);
    free(r);
}

uint64_t mu_reader_records(const mu_reader *r)
{
    return r->records;
}

const mu_reader_shard *mu_reader_shards(const mu_reader *r, size_t *n_out)
{
    *n_out = r->n;
    return r->told;
}

const mu_column *mu_reader_columns(const mu_reader *r, size_t *n_out)
{
    *n_out = r->shown != NULL ? r->shown->n : 0;
    return r->shown != NULL ? r->shown->items : NULL;
}

/* ---- scans ---- */

int mu_scan_open(mu_reader *r, uint64_t first, uint64_t n, mu_scan **scan_out)
{
    struct mu_scan *s;

    if (first > r->records) {
        return error_say(MU_EINVAL, "there is no record %" PRIu64 " of %" PRIu64, first,
                         r->records);
    }
    s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return no_memory();
    }
    s->reader = r;
    s->next = first;
    s->end = first + MIN(n, r->records - first);
    s->shard = r->n;
    if (r->calls.begin != NULL) {
        int rc = r->calls.begin(r->arg, &s->own);

        if (rc != MU_OK) {
            free(s);
            return rc;
        }
        s->begun = true;
    }
    *scan_out = s;
    return MU_OK;
}

static void leave(struct mu_scan *s)
{
    if (s->reader->shards != NULL && s->shard < s->reader->n) {
        cursor_close(&s->reader->shards[s->shard], &s->cursor);
    }
    s->shard = s->reader->n;
}

void mu_scan_close(mu_scan *s)
{
    if (s == NULL) {
        return;
    }
    leave(s);
    if (s->begun && s->reader->calls.end != NULL) {
        s->reader->calls.end(s->reader->arg, s->own);
    }
    free(s);
}

/* The shard that has the record: the last that begins at it or before, and is not empty. */
static size_t shard_of(const struct mu_reader *r, uint64_t number)
{
    size_t low = 0, high = r->n;

    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (r->told[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

int mu_scan_at(mu_scan *s, uint64_t number, mu_record *record_out)
{
    const struct mu_reader *r = s->reader;
    mu_record record = {.number = number};
    size_t i = s->shard;
    int rc;

    if (number >= r->records) {
        return error_say(MU_EINVAL, "there is no record %" PRIu64 " of %" PRIu64, number,
                         r->records);
    }
    if (i == r->n || number < r->told[i].first || number - r->told[i].first >= r->told[i].records) {
        i = shard_of(r, number);
        leave(s);
        if (r->shards != NULL) {
            window_init(&s->cursor.window, &r->shards[i].source);
        }
        s->shard = i;
    }
    if (r->shards != NULL) {
        const struct shard *shard = &r->shards[i];

        rc = shard->format->read(shard, &s->cursor, number - r->told[i].first, &record);
    } else {
        rc = r->calls.read(r->arg, s->own, i, number - r->told[i].first, &record);
        record.number = number;
    }
    if (rc == MU_OK) {
        *record_out = record;
    }
    return rc;
}

int mu_scan_next(mu_scan *s, mu_record *record_out)
{
    int rc;

    if (s->next == s->end) {
        return MU_EDONE;
    }
    rc = mu_scan_at(s, s->next, record_out);
    if (rc == MU_OK || rc == MU_ECORRUPT) {
        s->next++;
    }
    return rc;
}
