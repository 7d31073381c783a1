/* Long records in several rows: a head of 12 bytes (a kind that no record has, which part, of how
 * many), then that part. Rows of other records never stand between them; a record whose last part
 * is missing never was. */
#include "journal/journal_state.h"
#include "wire/bytes.h"

#include <stdlib.h>
#include <string.h>

#define PART_KIND 0xffff
#define PARTS_MAX (JOURNAL_RECORD_MAX / PART_BYTES + 1)

uint32_t parts_n(size_t n)
{
    return n <= STORE_RECORD_MAX ? 1 : (uint32_t)((n + PART_BYTES - 1) / PART_BYTES);
}

struct store_bytes part_at(const uint8_t *bytes, size_t n, uint32_t i, uint8_t *room)
{
    size_t from = (size_t)i * PART_BYTES, part_n = MIN(n - from, PART_BYTES);

    if (parts_n(n) == 1) {
        return (struct store_bytes){bytes, n};
    }
    put_u16(room, PART_KIND);
    put_u16(room + 2, 0);
    put_u32(room + 4, i);
    put_u32(room + 8, parts_n(n));
    memcpy(room + PART_HEAD_BYTES, bytes + from, part_n);
    return (struct store_bytes){room, PART_HEAD_BYTES + part_n};
}

/* Parts that are queued before it fails are rows that mean nothing. */
int parts_append(struct journal *j, const struct entry *e)
{
    uint32_t all = parts_n(e->n);
    uint8_t *room = all == 1 ? NULL : malloc(STORE_RECORD_MAX);
    int rc = MU_OK;

    if (e->n > JOURNAL_RECORD_MAX || (all > 1 && room == NULL)) {
        free(room);
        return e->n > JOURNAL_RECORD_MAX ? MU_ELIMIT : MU_ENOMEM;
    }
    for (uint32_t i = 0; rc == MU_OK && i < all; i++) {
        struct store_bytes row = part_at(e->bytes, e->n, i, room);

        rc = store_append(j->store, row.data, row.n, i + 1 == all ? COOKIE_RECORD : COOKIE_PART);
    }
    free(room);
    return rc;
}

static int begin(struct gather *g, uint32_t all)
{
    if (all < 2 || all > PARTS_MAX) {
        return MU_ECORRUPT;
    }
    if (g->cap < all * PART_BYTES) {
        uint8_t *more = realloc(g->bytes, all * PART_BYTES);

        if (more == NULL) {
            return MU_ENOMEM;
        }
        g->bytes = more;
        g->cap = all * PART_BYTES;
    }
    g->n = 0;
    g->next = 0;
    g->parts_n = all;
    return MU_OK;
}

int parts_take(struct gather *g, const void *row, size_t n, struct store_bytes *whole_out)
{
    const uint8_t *b = row;
    uint32_t i, all;
    int rc = MU_OK;

    if (n < PART_HEAD_BYTES || get_u16(b) != PART_KIND) {
        g->parts_n = 0; /* What there was of one before never became whole. */
        *whole_out = (struct store_bytes){row, n};
        return MU_OK;
    }
    i = get_u32(b + 4);
    all = get_u32(b + 8);
    if (i == 0) {
        rc = begin(g, all);
    }
    if (rc != MU_OK || all != g->parts_n || i != g->next || i >= all ||
        n - PART_HEAD_BYTES > PART_BYTES) {
        return rc != MU_OK ? rc : MU_ECORRUPT;
    }
    memcpy(g->bytes + g->n, b + PART_HEAD_BYTES, n - PART_HEAD_BYTES);
    g->n += n - PART_HEAD_BYTES;
    g->next++;
    if (g->next < all) {
        return MU_EAGAIN;
    }
    g->parts_n = 0;
    *whole_out = (struct store_bytes){g->bytes, g->n};
    return MU_OK;
}
