/* The bytes of a state on their way: a share for each piece of a large part, and for each run of
 * small ones. While one is on its way the one before is hashed, in chunks: by the rank that has
 * sent a chunk, and by those that it came to. */
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_PART ((uint64_t)1 << 20) /* A part of this size goes by itself. */
#define BATCH_MAX ((uint64_t)16 << 20) /* of a large part, or of small ones together, at once */
#define CHUNK ((uint64_t)4 << 20)      /* of what is hashed */

/* Parts [first, end) in one share; of a large one `bytes` bytes from lo on. */
struct batch {
    uint32_t first, end;
    uint64_t lo, bytes;
};

/* ---- batches ---- */

/* From one to the next, beginning with an empty one; false: there is no more. */
static bool next_batch(const struct stream *t, struct batch *b)
{
    const uint64_t done = b->lo + b->bytes;

    if (b->end == b->first + 1 && done < t->pieces[b->first].bytes) {
        b->lo = done;
        b->bytes = MIN(t->pieces[b->first].bytes - done, BATCH_MAX);
        return true;
    }
    *b = (struct batch){b->end, b->end, 0, 0};
    while (b->end < t->s->n) {
        const uint64_t n = t->pieces[b->end].bytes;

        if (n >= LARGE_PART && b->end == b->first) {
            b->bytes = MIN(n, BATCH_MAX);
            b->end++;
            break;
        }
        if (n >= LARGE_PART || b->bytes + n > BATCH_MAX) {
            break;
        }
        b->bytes += n;
        b->end++;
    }
    return b->end > b->first;
}

static bool is_packed(const struct batch *b)
{
    return b->end - b->first > 1;
}

/* Small parts to, or from, the row that travels. */
static void pack(struct stream *t, const struct batch *b, uint8_t *row)
{
    for (uint32_t i = b->first; i < b->end; i++) {
        const struct piece *p = &t->pieces[i];

        if (p->bytes > 0 && t->gives) {
            memcpy(row, p->from, p->bytes);
        } else if (p->bytes > 0) {
            memcpy(p->to, row, p->bytes);
        }
        row += p->bytes;
    }
}

/* ---- chunks ---- */

struct chunk {
    const struct batch *batch;
    uint32_t rank;   /* that sends it */
    uint64_t lo, hi; /* of the batch */
    uint64_t number; /* of this rank's */
};

/* Those that this rank has to do with: a holder with its own, a newcomer with all. */
static int each_chunk(struct stream *t, const struct batch *b, const uint8_t *data,
                      int (*visit)(struct stream *t, const struct chunk *c, const uint8_t *data))
{
    for (uint32_t r = 0; r < t->ranks_n; r++) {
        uint64_t lo, hi;

        comm_share_part(b->bytes, t->holds, t->ranks_n, r, &lo, &hi);
        for (; (!t->gives || r == t->me) && lo < hi; lo += CHUNK) {
            const struct chunk c = {b, r, lo, MIN(hi, lo + CHUNK), t->hashed[r]++};
            int rc = visit(t, &c, data);

            if (rc != MU_OK) {
                return rc;
            }
        }
    }
    return MU_OK;
}

/* Where the hash of a chunk is, among those of all ranks. */
static size_t sum_at(const struct stream *t, const struct chunk *c)
{
    return (c->rank * t->chunks_n + c->number) * DIGEST_BYTES;
}

static int hash(struct stream *t, const struct chunk *c, const uint8_t *data)
{
    state_sum(XXH3_128bits(data + c->lo, c->hi - c->lo), t->sums + sum_at(t, c));
    return MU_OK;
}

static int check(struct stream *t, const struct chunk *c, const uint8_t *data)
{
    const size_t at = sum_at(t, c);
    uint32_t first = c->batch->first, last;
    uint64_t lo = 0, hi;
    char who[WHO_MAX];

    if (memcmp(t->sums + at, t->theirs + at, DIGEST_BYTES) == 0) {
        return MU_OK;
    }
    while (lo + t->pieces[first].bytes <= c->lo) {
        lo += t->pieces[first++].bytes;
    }
    last = first;
    for (hi = lo + t->pieces[first].bytes; hi < c->hi; hi += t->pieces[last].bytes) {
        last++;
    }
    return run_fail(MU_ECORRUPT,
                    "state %s%s%s: chunk %" PRIu64 " from %s (%" PRIu64 " bytes from byte %" PRIu64
                    " on) is not what was sent: look at the memory and the network of both hosts",
                    t->s->parts[first].name, last > first ? " to " : "",
                    last > first ? t->s->parts[last].name : "", c->number,
                    run_who(comm_worker(t->c, c->rank), who), c->hi - c->lo,
                    c->batch->lo + c->lo - lo);
}

int batches_check(struct stream *t)
{
    struct batch b = {.end = 0};
    int rc;

    if (t->chunks_n == 0) {
        return MU_OK;
    }
    rc = stream_make(t, (struct comm_call){.op = COMM_ALLGATHER,
                                           .in = t->sums + t->me * t->chunks_n * DIGEST_BYTES,
                                           .out = t->theirs,
                                           .count = t->chunks_n * DIGEST_BYTES});
    memset(t->hashed, 0, t->ranks_n * sizeof(*t->hashed));
    while (rc == MU_OK && !t->gives && next_batch(t, &b)) {
        rc = each_chunk(t, &b, NULL, check);
    }
    return rc;
}

/* ---- on their way ---- */

/* A batch that was sent off; data NULL: none. */
struct flight {
    struct batch batch;
    uint8_t *data; /* a holder's is only read */
    struct comm_started *started;
};

static uint8_t *data_of(struct stream *t, const struct batch *b, uint8_t *packed)
{
    const struct piece *p = &t->pieces[b->first];

    return is_packed(b) ? packed : (t->gives ? (uint8_t *)(uintptr_t)p->from : p->to) + b->lo;
}

/* Small ones are not worth a thread: all that were sent off before are there, then. */
static int send_off(struct stream *t, const struct batch *b, uint8_t *packed, struct flight *out)
{
    struct flight f = {.batch = *b, .data = data_of(t, b, packed)};
    const struct comm_call call = {.op = COMM_SHARE,
                                   .in = t->gives ? f.data : NULL,
                                   .out = t->gives ? NULL : f.data,
                                   .count = b->bytes,
                                   .dtype = DTYPE_U8,
                                   .timeout_ms = -1,
                                   .holds = t->holds};
    int rc;

    if (is_packed(b) && t->gives) {
        pack(t, b, f.data);
    }
    rc = b->bytes < LARGE_PART ? stream_make(t, call) : comm_start(t->c, &call, &f.started);
    if (rc == MU_OK) {
        *out = f;
    } else if (b->bytes >= LARGE_PART) {
        run_fail(rc, "the state can't be sent off: %s", mu_strerror(rc));
    }
    return rc;
}

static void count(struct stream *t, const struct batch *b)
{
    uint64_t lo, hi;

    comm_share_part(b->bytes, t->holds, t->ranks_n, t->me, &lo, &hi);
    t->s->sent += (hi - lo) * t->lacking_n;
    t->s->got += t->gives ? 0 : b->bytes;
}

/* rc: how the others went. If one was lost so are those behind it: the first says why. */
static int await(struct stream *t, struct flight *f, int rc)
{
    struct comm_result result;
    int mine = f->started != NULL ? comm_finish(f->started, -1, &result) : MU_OK;

    f->started = NULL;
    if (rc == MU_OK && mine != MU_OK) {
        rc = stream_fail(t, mine, &result);
    }
    if (rc == MU_OK && f->data != NULL) {
        count(t, &f->batch);
        (void)each_chunk(t, &f->batch, f->data, hash);
        if (is_packed(&f->batch) && !t->gives) {
            pack(t, &f->batch, f->data);
        }
    }
    f->data = NULL;
    return rc;
}

int batches_share(struct stream *t)
{
    struct flight flights[2] = {{.data = NULL}, {.data = NULL}};
    struct batch b = {.end = 0};
    uint32_t k = 0;
    int rc = MU_OK;

    while (rc == MU_OK && next_batch(t, &b)) {
        if (b.bytes > 0) {
            rc = send_off(t, &b, t->packed[k % 2], &flights[k % 2]);
            k++;
            rc = await(t, &flights[k % 2], rc); /* the one before */
        }
    }
    rc = await(t, &flights[k % 2], rc);
    return await(t, &flights[(k + 1) % 2], rc);
}

/* ---- memory ---- */

/* Every rank has room for what any of them may send: they all come to the same numbers. */
static uint64_t count_chunks(struct stream *t)
{
    uint64_t packed_bytes = 0;
    struct batch b = {.end = 0};

    while (next_batch(t, &b)) {
        for (uint32_t r = 0; r < t->ranks_n; r++) {
            uint64_t lo, hi;

            comm_share_part(b.bytes, t->holds, t->ranks_n, r, &lo, &hi);
            t->hashed[r] += (hi - lo + CHUNK - 1) / CHUNK;
            t->chunks_n = MAX(t->chunks_n, t->hashed[r]);
        }
        packed_bytes = is_packed(&b) ? MAX(packed_bytes, b.bytes) : packed_bytes;
    }
    memset(t->hashed, 0, t->ranks_n * sizeof(*t->hashed));
    return packed_bytes;
}

int batches_open(struct stream *t)
{
    uint64_t packed_bytes, sums_n;

    t->hashed = calloc(t->ranks_n, sizeof(*t->hashed));
    if (t->hashed == NULL) {
        return MU_ENOMEM;
    }
    packed_bytes = MAX(count_chunks(t), 1);
    sums_n = MAX(t->chunks_n * t->ranks_n, 1);
    t->packed[0] = malloc(packed_bytes);
    t->packed[1] = malloc(packed_bytes);
    t->sums = calloc(sums_n, DIGEST_BYTES);
    t->theirs = calloc(sums_n, DIGEST_BYTES);
    return t->packed[0] != NULL && t->packed[1] != NULL && t->sums != NULL && t->theirs != NULL
               ? MU_OK
               : MU_ENOMEM;
}

void batches_close(struct stream *t)
{
    free(t->hashed);
    free(t->packed[0]);
    free(t->packed[1]);
    free(t->sums);
    free(t->theirs);
}
