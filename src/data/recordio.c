/* RecordIO: chunks one after another, of either layout (chunk.h). The index says where each begins;
 * what is in one is checked when it is first read, or, with skip=yes, when the file is opened. */
#include "data/chunk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MARK_EVERY 64u

struct chunk {
    uint64_t at, first;
    uint32_t *marks; /* where in its bytes every MARK_EVERYth record begins; NULL: not read yet */
};

struct recordio {
    enum layout layout;
    struct chunk *chunks;
    size_t n, cap;
    uint64_t budget; /* bytes that may still be looked at in search of chunks */
};

/* The chunk that a cursor has at hand. */
struct held {
    const struct chunk *chunk; /* NULL: none */
    const uint8_t *data;
    size_t n;
    uint32_t *marks; /* the chunk's */
    uint64_t number; /* of the record that begins at `at` in it */
    size_t at;
    struct bytes bytes;
};

static uint64_t limit(const struct shard *s)
{
    return MIN(s->o->max + ((uint64_t)64 << 20), (uint64_t)UINT32_MAX); /* Marks are u32. */
}

/* ---- damages ---- */

static int check(const struct shard *s, const struct chunk_head *h, uint64_t at, struct bytes *room)
{
    const uint8_t *payload = s->source.map + at + CHUNK_HEAD, *data;
    size_t n;
    int rc;

    if (!chunk_sum_holds(h, payload)) {
        return shard_damaged(
            s, at, "a chunk of %" PRIu32 " records and %" PRIu32 " bytes is not what was written",
            h->records, h->bytes);
    }
    rc = chunk_unpack(h, payload, limit(s), room, &data, &n);
    if (rc == MU_ECORRUPT || rc == MU_ELIMIT) {
        return shard_damaged(s, at, "%s", mu_error());
    }
    if (rc == MU_OK && !chunk_holds(data, n, h->records)) {
        return shard_damaged(s, at, "a chunk of %" PRIu32 " records doesn't hold that many",
                             h->records);
    }
    return rc;
}

/* 0: a chunk begins there and is what was written. Its end is in *end. */
static bool is_sound(const struct shard *s, uint64_t at, struct bytes *room, uint64_t *end)
{
    struct recordio *r = s->own;
    struct chunk_head h;

    if (at >= s->source.size ||
        !chunk_parse(r->layout, s->source.map + at, s->source.size - at, &h) ||
        h.bytes + CHUNK_HEAD > r->budget) {
        return false;
    }
    r->budget -= h.bytes + CHUNK_HEAD;
    *end = at + CHUNK_HEAD + h.bytes;
    return check(s, &h, at, room) == MU_OK;
}

/* Whether sound chunks, one after another, reach from `at` to `end`. */
static bool reaches(const struct shard *s, uint64_t at, uint64_t end, struct bytes *room)
{
    uint64_t next;

    while (at < end && is_sound(s, at, room, &next)) {
        at = next;
    }
    return at == end;
}

/* Where to go on behind a damaged chunk. A record may hold the magic number, or a whole file; so
 * the end that the damaged head tells of is looked at first, and believed if what lies there is
 * sound and no other row of chunks leads to it. */
static uint64_t find_next(const struct shard *s, uint64_t at, struct bytes *room)
{
    const struct recordio *r = s->own;
    const uint8_t *map = s->source.map;
    const uint64_t size = s->source.size;
    struct chunk_head h;
    uint64_t end = 0, next;
    bool lands = chunk_parse(r->layout, map + at, size - at, &h);

    if (lands) {
        end = at + CHUNK_HEAD + h.bytes;
        if (h.compressor == COMPRESS_NONE &&
            chunk_holds(map + at + CHUNK_HEAD, h.bytes, h.records)) {
            return end; /* A byte of a record. */
        }
        lands = end == size || is_sound(s, end, room, &next);
    }
    while (at + 1 < size) {
        const uint8_t *p = memmem(map + at + 1, (size_t)(size - at - 1), CHUNK_MAGIC, 4);

        at = p != NULL ? (uint64_t)(p - map) : size;
        if (p == NULL || (lands && at >= end)) {
            break;
        }
        if (lands ? reaches(s, at, end, room) : is_sound(s, at, room, &next)) {
            return at;
        }
    }
    return lands ? end : size;
}

/* ---- the index ---- */

static int add(struct shard *s, uint64_t at, const struct chunk_head *h)
{
    static const char *const names[] = {"none", "snappy", "gzip"};
    struct recordio *r = s->own;

    s->packed = s->chunks == 0 || strcmp(s->packed, names[h->compressor]) == 0
                    ? names[h->compressor]
                    : "mixed";
    s->chunks++;
    if (h->records == 0) {
        return MU_OK;
    }
    if (r->n == r->cap) {
        const size_t cap = r->cap == 0 ? 64 : r->cap * 2;
        struct chunk *chunks = reallocarray(r->chunks, cap, sizeof(*chunks));

        if (chunks == NULL) {
            return shard_no_memory(s);
        }
        r->chunks = chunks;
        r->cap = cap;
    }
    r->chunks[r->n++] = (struct chunk){.at = at, .first = s->records};
    s->records += h->records;
    return MU_OK;
}

static int say_no_chunk(const struct shard *s, uint64_t at)
{
    const uint64_t left = s->source.size - at;

    if (left < CHUNK_HEAD) {
        return shard_damaged(s, at, "it ends in the head of a chunk");
    }
    if (memcmp(s->source.map + at, CHUNK_MAGIC, 4) != 0) {
        return shard_damaged(s, at, "there should be a chunk, and is none");
    }
    return shard_damaged(s, at,
                         "the head of a chunk is damaged, or the file ends in the middle of it");
}

static int index_all(struct shard *s, struct bytes *room)
{
    const struct recordio *r = s->own;
    struct chunk_head h;
    uint64_t at = 0;
    int rc = MU_OK;

    while (rc == MU_OK && at < s->source.size) {
        shard_progress(s, at);
        rc = chunk_parse(r->layout, s->source.map + at, s->source.size - at, &h)
                 ? MU_OK
                 : say_no_chunk(s, at);
        /* A count of none is looked at now: nobody will read that chunk. */
        if (rc == MU_OK && (s->o->skip || (h.records == 0 && h.bytes > 0))) {
            rc = check(s, &h, at, room);
        }
        if (rc == MU_ECORRUPT && shard_skips(s)) {
            rc = MU_OK;
            at = find_next(s, at, room);
        } else if (rc == MU_OK) {
            rc = add(s, at, &h);
            at += CHUNK_HEAD + (uint64_t)h.bytes;
        }
    }
    return rc;
}

/* How far a layout is believed: its heads lead to the end of the file, or its first sum holds. */
static int credit(const struct shard *s, enum layout layout)
{
    struct chunk_head h;
    uint64_t at = 0;
    int credit = 0;

    while (at < s->source.size &&
           chunk_parse(layout, s->source.map + at, s->source.size - at, &h)) {
        if (at == 0 && chunk_sum_holds(&h, s->source.map + CHUNK_HEAD)) {
            return 3;
        }
        credit = 1;
        at += CHUNK_HEAD + (uint64_t)h.bytes;
    }
    return at == s->source.size ? 2 : credit;
}

static int open_recordio(struct shard *s)
{
    struct recordio *r = calloc(1, sizeof(*r));
    struct bytes room = {NULL, 0, 0};
    int rc;

    if (r == NULL) {
        return shard_no_memory(s);
    }
    s->own = r;
    r->budget = s->source.size < UINT64_MAX / 64 ? s->source.size * 64 : UINT64_MAX;
    r->layout = s->o->layout;
    if (r->layout == LAYOUT_ANY) {
        r->layout = credit(s, LAYOUT_B) > credit(s, LAYOUT_A) ? LAYOUT_B : LAYOUT_A;
    }
    rc = index_all(s, &room);
    free(room.data);
    return rc;
}

static void close_recordio(struct shard *s)
{
    struct recordio *r = s->own;

    for (size_t i = 0; r != NULL && i < r->n; i++) {
        free(r->chunks[i].marks);
    }
    if (r != NULL) {
        free(r->chunks);
        free(r);
    }
}

/* ---- reading ---- */

/* Goes over the lengths of a chunk that is read for the first time, and leaves its marks. */
static int mark(const struct shard *s, struct held *d, struct chunk *k, const struct chunk_head *h)
{
    uint32_t *marks, *none = NULL;
    size_t at = 0;

    if (!chunk_holds(d->data, d->n, h->records)) {
        return shard_damaged(s, k->at, "a chunk of %" PRIu32 " records doesn't hold that many",
                             h->records);
    }
    marks = malloc((h->records + MARK_EVERY - 1) / MARK_EVERY * sizeof(*marks));
    if (marks == NULL) {
        return shard_no_memory(s);
    }
    for (uint32_t i = 0; i < h->records; i++) {
        if (i % MARK_EVERY == 0) {
            marks[i / MARK_EVERY] = (uint32_t)at;
        }
        at += 4 + (size_t)le32(d->data + at);
    }
    if (!__atomic_compare_exchange_n(&k->marks, &none, marks, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
        free(marks); /* Another thread was faster. */
        marks = none;
    }
    d->marks = marks;
    return MU_OK;
}

static int hold(const struct shard *s, struct held *d, struct chunk *k)
{
    const struct recordio *r = s->own;
    const uint8_t *payload = s->source.map + k->at + CHUNK_HEAD;
    struct chunk_head h;
    int rc;

    if (d->chunk == k) {
        return MU_OK;
    }
    d->chunk = NULL;
    d->marks = __atomic_load_n(&k->marks, __ATOMIC_ACQUIRE);
    if (!chunk_parse(r->layout, s->source.map + k->at, s->source.size - k->at, &h)) {
        return error_say(MU_ESTALE, "%s has changed since it was opened", s->name);
    }
    if (d->marks == NULL && !chunk_sum_holds(&h, payload)) {
        return shard_damaged(s, k->at,
                             "a chunk of %" PRIu32 " records and %" PRIu32
                             " bytes is not what was written",
                             h.records, h.bytes);
    }
    rc = chunk_unpack(&h, payload, limit(s), &d->bytes, &d->data, &d->n);
    if (rc == MU_ECORRUPT) {
        return shard_damaged(s, k->at, "%s", mu_error());
    }
    rc = rc == MU_OK && d->marks == NULL ? mark(s, d, k, &h) : rc;
    if (rc == MU_OK) {
        d->chunk = k;
        d->number = k->first;
        d->at = 0;
    }
    return rc;
}

static struct chunk *find(const struct recordio *r, uint64_t number)
{
    size_t low = 0, high = r->n;

    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (r->chunks[middle].first <= number) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return &r->chunks[low];
}

static int read_recordio(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    struct recordio *r = s->own;
    struct held *d = c->own;
    struct chunk *k;
    uint64_t mark;
    int rc;

    if (d == NULL) {
        d = c->own = calloc(1, sizeof(*d));
        if (d == NULL) {
            return shard_no_memory(s);
        }
    }
    k = d->chunk != NULL && number >= d->chunk->first &&
                (d->chunk + 1 == r->chunks + r->n || number < d->chunk[1].first)
            ? (struct chunk *)(uintptr_t)d->chunk
            : find(r, number);
    rc = hold(s, d, k);
    if (rc != MU_OK) {
        return rc;
    }
    mark = (number - k->first) / MARK_EVERY;
    if (d->number > number || d->number < k->first + mark * MARK_EVERY) {
        d->number = k->first + mark * MARK_EVERY;
        d->at = d->marks[mark];
    }
    for (;; d->number++) {
        const size_t left = d->n - d->at;

        if (d->at > d->n || left < 4 || le32(d->data + d->at) > left - 4) {
            d->chunk = NULL;
            return error_say(MU_ESTALE, "%s has changed since it was opened", s->name);
        }
        out->n = le32(d->data + d->at);
        out->data = d->data + d->at + 4;
        d->at += 4 + out->n;
        if (d->number == number) {
            d->number++;
            return MU_OK;
        }
    }
}

static void leave(const struct shard *s, struct cursor *c)
{
    struct held *d = c->own;

    free(d->bytes.data);
    free(d);
}

static bool guess(const struct guess *g)
{
    const size_t n = strlen(g->path);

    return (g->head_n >= 4 && memcmp(g->head, CHUNK_MAGIC, 4) == 0) || g->size == 0 ||
           (n > 9 && strcmp(g->path + n - 9, ".recordio") == 0);
}

const struct format format_recordio = {.name = "recordio",
                                       .bare = true,
                                       .guess = guess,
                                       .open = open_recordio,
                                       .close = close_recordio,
                                       .read = read_recordio,
                                       .leave = leave};
