/* Records of the same size, one after another: fixed:FILE?record=BYTES&head=BYTES; and IDX, the
 * format of MNIST: a head with a type and dimensions, of which the first counts the records. */
#include "data/shard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int read_one(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    const uint8_t *p;
    uint64_t have;
    int rc = window_need(&c->window, s->at + number * s->record, s->record, &p, &have);

    if (rc != MU_OK) {
        return rc;
    }
    if (have < s->record) {
        return error_say(MU_ESTALE, "%s has changed since it was opened", s->name);
    }
    out->data = p;
    out->n = (size_t)s->record;
    return MU_OK;
}

static int open_fixed(struct shard *s)
{
    uint64_t bytes;
    int rc;

    if (s->o->record == 0) {
        return error_say(MU_EINVAL,
                         "records of a fixed size: how many bytes? Write fixed:%s?record=BYTES",
                         s->name);
    }
    s->record = s->o->record;
    s->at = s->o->head;
    if (s->source.size < s->at) {
        rc = shard_damaged(s, s->source.size, "it ends in the head of %" PRIu64 " bytes", s->at);
        return shard_skips(s) ? MU_OK : rc;
    }
    bytes = s->source.size - s->at;
    s->records = bytes / s->record;
    if (bytes % s->record != 0) {
        rc = shard_damaged(s, s->at + s->records * s->record,
                           "the last record has %" PRIu64 " of %" PRIu64 " bytes",
                           bytes % s->record, s->record);
        return shard_skips(s) ? MU_OK : rc;
    }
    return MU_OK;
}

/* ---- IDX ---- */

#define DIMENSIONS_MAX 8

struct idx {
    const char *type;
    uint32_t dimensions_n, dimensions[DIMENSIONS_MAX];
    uint64_t record, total; /* UINT64_MAX: too many */
};

/* False: no head of IDX. */
static bool parse(const uint8_t *p, size_t n, struct idx *out)
{
    static const struct {
        uint8_t code, bytes;
        const char *name;
    } types[] = {{8, 1, "u8"},     {9, 1, "i8"},     {11, 2, "i16be"},
                 {12, 4, "i32be"}, {13, 4, "f32be"}, {14, 8, "f64be"}};

    if (n < 4 || p[0] != 0 || p[1] != 0 || p[3] == 0 || p[3] > DIMENSIONS_MAX ||
        n < 4 + 4 * (size_t)p[3]) {
        return false;
    }
    out->type = NULL;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        if (types[i].code == p[2]) {
            out->type = types[i].name;
            out->record = types[i].bytes;
        }
    }
    out->dimensions_n = p[3];
    for (uint32_t i = 0; i < out->dimensions_n; i++) {
        const uint8_t *d = p + 4 + 4 * (size_t)i;

        out->dimensions[i] =
            (uint32_t)d[0] << 24 | (uint32_t)d[1] << 16 | (uint32_t)d[2] << 8 | d[3];
        if (i > 0 && __builtin_mul_overflow(out->record, out->dimensions[i], &out->record)) {
            out->record = UINT64_MAX;
        }
    }
    if (__builtin_mul_overflow(out->record, out->dimensions[0], &out->total)) {
        out->total = UINT64_MAX;
    }
    return out->type != NULL;
}

/* Two zero bytes are not much of a magic number: the size must be right too, where it is known. */
static bool guess(const struct guess *g)
{
    struct idx idx;

    return parse(g->head, g->head_n, &idx) && idx.total < UINT64_MAX - 64 &&
           (g->size == UINT64_MAX || g->size == 4 + 4 * (uint64_t)idx.dimensions_n + idx.total ||
            guess_ends(g, "-ubyte") || guess_ends(g, ".idx"));
}

static int add_column(struct shard *s, const struct idx *idx)
{
    char detail[16 + 12 * DIMENSIONS_MAX];
    int n = snprintf(detail, sizeof(detail), "%s", idx->type);

    for (uint32_t i = 1; i < idx->dimensions_n; i++) {
        n += snprintf(detail + n, sizeof(detail) - (size_t)n, "%c%" PRIu32 "%s", i == 1 ? '[' : ',',
                      idx->dimensions[i], i + 1 == idx->dimensions_n ? "]" : "");
    }
    return columns_add(&s->columns, "data", 4, MU_BYTES, detail);
}

static int open_idx(struct shard *s)
{
    struct window w;
    struct idx idx;
    const uint8_t *p;
    uint64_t have, bytes;
    int rc;

    window_init(&w, &s->source);
    rc = window_need(&w, 0, 4 + 4 * DIMENSIONS_MAX, &p, &have);
    if (rc == MU_OK && !parse(p, (size_t)MIN(have, (uint64_t)64), &idx)) {
        rc = shard_damaged(s, 0, "it doesn't begin as an IDX file does");
    } else if (rc == MU_OK && idx.record > s->o->max) {
        rc = shard_damaged(
            s, 4, "records of %" PRIu64 " bytes are more than %" PRIu64 " (the option max)",
            idx.record, s->o->max);
    }
    window_close(&w);
    if (rc == MU_ECORRUPT && shard_skips(s)) {
        return MU_OK;
    }
    rc = rc == MU_OK ? add_column(s, &idx) : rc;
    if (rc != MU_OK) {
        return rc;
    }
    s->at = 4 + 4 * (uint64_t)idx.dimensions_n;
    s->record = idx.record;
    s->records = idx.dimensions[0];
    bytes = s->source.size - s->at;
    if (bytes == idx.total) {
        return MU_OK;
    }
    if (bytes < idx.total) {
        s->records = bytes / s->record;
        rc = shard_damaged(s, s->source.size, "it ends after %" PRIu64 " of %" PRIu32 " records",
                           s->records, idx.dimensions[0]);
    } else {
        rc = shard_damaged(s, s->at + idx.total, "more follows than its head tells of");
    }
    return shard_skips(s) ? MU_OK : rc;
}

const struct format format_fixed = {.name = "fixed", .open = open_fixed, .read = read_one};
const struct format format_idx = {
    .name = "idx", .guess = guess, .open = open_idx, .read = read_one};
