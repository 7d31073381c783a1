/* How those who lack the state get it. All members make the same calls, in this order:
 *
 *   the first holder says where the run stands, and how long the parts are that save has made
 *   everyone says whether it can go on: nobody waits for one that can't
 *   the bytes
 *   the hashes of all chunks, by those who have sent them
 *
 * Holders are only read. What a newcomer must be able to take back, and what load takes, comes
 * into memory of its own first. Numbers travel as they are in memory, as gradients do.
 *
 * The bytes go in batches: one for each piece of a large part, and for each row of small ones. Each
 * holder shares a part of every batch. While one batch is on its way the one before is hashed, in
 * chunks: by the rank that has sent a chunk, and by those that it came to. */
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_PART ((uint64_t)1 << 20) /* A part of this size goes by itself. */
#define BATCH_MAX ((uint64_t)16 << 20) /* of a large part, or of small ones together, at once */
#define CHUNK ((uint64_t)4 << 20)      /* of what is hashed */

/* The first holder's words: these, then a length for each part by calls. */
enum { HEAD_STATUS, HEAD_STEP, HEAD_SAMPLES, HEAD_OFFSET, HEAD_N };
#define HEAD_MAX (HEAD_N + STATE_PARTS_MAX)

struct stream {
    struct state *s;
    struct comm *c;
    const uint8_t *holds;
    bool whole;
    bool gives; /* this rank holds it */
    uint32_t ranks_n, me, giver, lacking_n;
    wid *lost_out;

    uint32_t head_n;
    uint64_t head[HEAD_MAX], said[HEAD_MAX]; /* this rank's, and the first holder's */
    int32_t ready[MU_REDUCE_MAX];            /* by rank: a status */
    struct piece pieces[STATE_PARTS_MAX];

    uint8_t *packed;                /* two rows: one is on its way, the other is looked at */
    uint64_t packed_bytes;          /* of one */
    uint64_t chunks_n;              /* of the rank that sends most of them */
    uint64_t hashed[MU_REDUCE_MAX]; /* by rank: how many so far */
    uint8_t *sums;   /* by rank, chunks_n each: hashes of what this rank has sent, or got */
    uint8_t *theirs; /* in the same order: what each says of what it has sent; behind `sums` */
};

/* ---- calls ---- */

static int fail(struct stream *t, int rc, const struct comm_result *result)
{
    if (rc == MU_EPEER) {
        *t->lost_out = result->worker;
    }
    return run_fail(rc, "the state could not be %s: %s", t->gives ? "given" : "got", result->error);
}

static int make(struct stream *t, struct comm_call call)
{
    struct comm_result result;
    int rc;

    call.dtype = DTYPE_U8;
    call.timeout_ms = -1; /* A generation of failure ends it. */
    rc = comm_run(t->c, &call, &result);
    return rc == MU_OK ? rc : fail(t, rc, &result);
}

/* ---- what is said first ---- */

static void fill_head(struct stream *t, int status, const struct state_mark *mark)
{
    uint32_t at = HEAD_N;

    t->head[HEAD_STATUS] = (uint64_t)(uint32_t)status;
    t->head[HEAD_STEP] = mark->step;
    t->head[HEAD_SAMPLES] = mark->samples;
    t->head[HEAD_OFFSET] = mark->offset;
    for (uint32_t i = 0; i < t->s->n; i++) {
        if (t->s->parts[i].save != NULL) {
            t->head[at++] = t->pieces[i].bytes;
        }
    }
}

/* Is this holder's state the one that the first holder speaks of? */
static int compare_heads(struct stream *t)
{
    static const char *const WORDS[] = {"status", "step", "samples", "offset"};

    for (uint32_t at = HEAD_STEP; at < t->head_n; at++) {
        if (t->head[at] != t->said[at]) {
            return run_fail(MU_ECORRUPT,
                            "this worker's state is not that of rank %" PRIu32 ": %s %" PRIu64
                            ", not %" PRIu64,
                            t->giver, at < HEAD_N ? WORDS[at] : "what save gives has length",
                            t->head[at], t->said[at]);
        }
    }
    return MU_OK;
}

static int take_head(struct stream *t)
{
    uint32_t at = HEAD_N;

    if (t->said[HEAD_STATUS] != 0) {
        return MU_OK; /* That rank will say so itself. */
    }
    if (t->gives) {
        return compare_heads(t);
    }
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct state_part *p = &t->s->parts[i];

        t->pieces[i].bytes = p->save != NULL ? t->said[at++] : p->bytes;
        if (t->pieces[i].bytes > STATE_PART_BYTES_MAX) {
            return run_fail(MU_ECORRUPT, "state %s: %" PRIu64 " bytes are said to come", p->name,
                            t->pieces[i].bytes);
        }
    }
    return MU_OK;
}

/* Nobody has begun: whoever can't says so, and all go back. */
static int all_ready(struct stream *t, int32_t status)
{
    char who[WID_TEXT_MAX];
    int rc =
        make(t, (struct comm_call){
                    .op = COMM_ALLGATHER, .in = &status, .out = t->ready, .count = sizeof(status)});

    if (rc != MU_OK || status != MU_OK) {
        return rc != MU_OK ? rc : status;
    }
    for (uint32_t r = 0; r < t->ranks_n; r++) {
        if (t->ready[r] != MU_OK) {
            *t->lost_out = comm_worker(t->c, r);
            return run_fail(MU_EPEER, "%s can't %s the state: %s", wid_print(*t->lost_out, who),
                            t->holds[r] ? "give" : "take", mu_strerror(t->ready[r]));
        }
    }
    return MU_OK;
}

/* ---- batches ---- */

/* Parts [first, end) in one share; of a large one `bytes` bytes from lo on. */
struct batch {
    uint32_t first, end;
    uint64_t lo, bytes;
};

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
    if (b->end < t->s->n && t->pieces[b->end].bytes >= LARGE_PART) {
        b->bytes = MIN(t->pieces[b->end].bytes, BATCH_MAX);
        b->end++;
        return true;
    }
    while (b->end < t->s->n && t->pieces[b->end].bytes < LARGE_PART &&
           b->bytes + t->pieces[b->end].bytes <= BATCH_MAX) {
        b->bytes += t->pieces[b->end++].bytes;
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

        if (p->bytes > 0) {
            memcpy(t->gives ? row : p->data, t->gives ? p->data : row, p->bytes);
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
    char who[WID_TEXT_MAX];

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
                    wid_print(comm_worker(t->c, c->rank), who), c->hi - c->lo,
                    c->batch->lo + c->lo - lo);
}

/* Those who have sent chunks say what their hashes are. MU_ECORRUPT. */
static int check_all(struct stream *t)
{
    struct batch b = {.end = 0};
    int rc;

    if (t->chunks_n == 0) {
        return MU_OK;
    }
    rc = make(t, (struct comm_call){.op = COMM_ALLGATHER,
                                    .in = t->sums + t->me * t->chunks_n * DIGEST_BYTES,
                                    .out = t->theirs,
                                    .count = t->chunks_n * DIGEST_BYTES});
    memset(t->hashed, 0, sizeof(t->hashed));
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

/* Small ones are not worth a thread: all that were sent off before are there, then. */
static int send_off(struct stream *t, const struct batch *b, uint8_t *packed, struct flight *out)
{
    struct flight f = {.batch = *b,
                       .data = is_packed(b) ? packed : t->pieces[b->first].data + b->lo};
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
    rc = b->bytes < LARGE_PART ? make(t, call) : comm_start(t->c, &call, &f.started);
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
        rc = fail(t, mine, &result);
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

/* All bytes are shared, and hashed on both sides. */
static int share_all(struct stream *t)
{
    struct flight flights[2] = {{.data = NULL}, {.data = NULL}};
    struct batch b = {.end = 0};
    uint32_t k = 0;
    int rc = MU_OK;

    while (rc == MU_OK && next_batch(t, &b)) {
        if (b.bytes > 0) {
            rc = send_off(t, &b, t->packed + k % 2 * t->packed_bytes, &flights[k % 2]);
            k++;
            rc = await(t, &flights[k % 2], rc); /* the one before */
        }
    }
    rc = await(t, &flights[k % 2], rc);
    return await(t, &flights[(k + 1) % 2], rc);
}

/* ---- what is done last ---- */

/* All of it has come, and is what was sent. */
static int put(struct stream *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct state_part *p = &t->s->parts[i];
        const struct piece *piece = &t->pieces[i];
        int rc = p->load != NULL ? state_load(p, piece->data, piece->bytes) : MU_OK;

        if (rc != MU_OK) {
            return rc;
        }
        if (p->load == NULL && piece->data != p->data && p->bytes > 0) {
            memcpy(p->data, piece->data, p->bytes);
        }
    }
    return MU_OK;
}

/* ---- memory ---- */

static int place_pieces(struct stream *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        struct piece *p = &t->pieces[i];

        p->data = t->whole || t->s->parts[i].save != NULL ? malloc(MAX(p->bytes, 1))
                                                          : t->s->parts[i].data;
        if (p->data == NULL) {
            return run_fail(MU_ENOMEM, "no memory for %" PRIu64 " bytes of state that come",
                            p->bytes);
        }
    }
    return MU_OK;
}

/* Every rank has room for what any of them may send: they all come to the same numbers. */
static void count_chunks(struct stream *t)
{
    struct batch b = {.end = 0};

    while (next_batch(t, &b)) {
        for (uint32_t r = 0; r < t->ranks_n; r++) {
            uint64_t lo, hi;

            comm_share_part(b.bytes, t->holds, t->ranks_n, r, &lo, &hi);
            t->hashed[r] += (hi - lo + CHUNK - 1) / CHUNK;
            t->chunks_n = MAX(t->chunks_n, t->hashed[r]);
        }
        t->packed_bytes = is_packed(&b) ? MAX(t->packed_bytes, b.bytes) : t->packed_bytes;
    }
    memset(t->hashed, 0, sizeof(t->hashed));
}

static int prepare(struct stream *t)
{
    size_t sums_bytes;
    int rc = take_head(t);

    if (rc != MU_OK) {
        return rc;
    }
    count_chunks(t);
    sums_bytes = t->chunks_n * t->ranks_n * DIGEST_BYTES;
    t->packed = malloc(MAX(2 * t->packed_bytes, 1));
    t->sums = calloc(MAX(2 * sums_bytes, 1), 1);
    if (t->packed == NULL || t->sums == NULL) {
        return run_fail(MU_ENOMEM, "no memory to %s the state", t->gives ? "give" : "get");
    }
    t->theirs = t->sums + sums_bytes;
    return t->gives ? MU_OK : place_pieces(t);
}

/* ---- all of it ---- */

static int run(struct stream *t, const struct state_mark *mark)
{
    const int status = t->gives ? state_collect(t->s, t->pieces) : MU_OK;
    int rc;

    fill_head(t, status, mark);
    memcpy(t->said, t->head, t->head_n * sizeof(*t->head));
    rc = make(t, (struct comm_call){.op = COMM_BROADCAST,
                                    .in = t->head,
                                    .out = t->me == t->giver ? NULL : t->said,
                                    .count = t->head_n * sizeof(*t->head),
                                    .root = t->giver});
    if (rc == MU_OK) {
        rc = all_ready(t, status != MU_OK ? status : prepare(t));
    }
    if (rc == MU_OK) {
        rc = share_all(t);
    }
    if (rc == MU_OK) {
        rc = check_all(t);
    }
    return rc == MU_OK && !t->gives ? put(t) : rc;
}

int state_stream(struct state *s, struct comm *c, const uint8_t *holds, bool whole,
                 struct state_mark *mark, wid *lost_out)
{
    const uint32_t ranks_n = comm_size(c), me = comm_rank(c);
    struct stream *t;
    int rc;

    mu_assert(me < ranks_n && ranks_n <= MU_REDUCE_MAX && memchr(holds, 1, ranks_n) != NULL);
    *lost_out = 0;
    if (memchr(holds, 0, ranks_n) == NULL) {
        return MU_OK; /* Nobody lacks it. */
    }
    t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return run_fail(MU_ENOMEM, "no memory to %s the state", holds[me] ? "give" : "get");
    }
    t->s = s;
    t->c = c;
    t->holds = holds;
    t->whole = whole;
    t->gives = holds[me] != 0;
    t->ranks_n = ranks_n;
    t->me = me;
    t->lost_out = lost_out;
    t->head_n = HEAD_N;
    for (uint32_t i = 0; i < s->n; i++) {
        t->head_n += s->parts[i].save != NULL;
    }
    for (uint32_t r = ranks_n; r-- > 0;) {
        t->lacking_n += !holds[r];
        t->giver = holds[r] ? r : t->giver;
    }
    rc = run(t, mark);
    if (rc == MU_OK && !t->gives) {
        *mark =
            (struct state_mark){t->said[HEAD_STEP], t->said[HEAD_SAMPLES], t->said[HEAD_OFFSET]};
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (!t->gives && t->pieces[i].data != s->parts[i].data) {
            free(t->pieces[i].data);
        }
    }
    free(t->packed);
    free(t->sums);
    free(t);
    return rc;
}
