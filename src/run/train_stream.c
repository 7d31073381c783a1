/* How those who lack the state get it. All members make the same calls, in this order:
 *
 *   the first holder says where the run stands, and how long the parts are that save has made
 *   everyone says whether it can go on: nobody waits for one that can't
 *   the bytes: a share for each large part, and one for each batch of small ones
 *   the hashes of all chunks, by those who have sent them
 *
 * Holders are only read. What a newcomer must be able to take back, and what load takes, comes
 * into an arena first. */
#include "run/state.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define LARGE_PART ((uint64_t)1 << 20) /* goes by itself */
#define BATCH_MAX ((uint64_t)16 << 20) /* of small ones that go together */
#define CHUNK ((uint64_t)4 << 20)      /* of what is hashed */
#define SUM_BYTES sizeof(XXH128_canonical_t)
#define ARENA_ALIGN ((uint64_t)64)

/* The first holder's words: these, then a length for each part by calls. */
enum { HEAD_STATUS, HEAD_STEP, HEAD_SAMPLES, HEAD_OFFSET, HEAD_N };

struct piece {
    const uint8_t *from; /* a holder's */
    uint8_t *to;         /* a newcomer's: its own place, or in the arena */
    uint64_t bytes;
};

/* Parts [first, end) in one share. */
struct batch {
    uint32_t first, end;
    uint64_t bytes;
};

struct stream {
    struct state *s;
    struct comm *c;
    const uint8_t *holds;
    bool whole;
    bool gives; /* this rank holds it */
    uint32_t ranks_n, me, giver, lacking_n;
    wid *lost_out;

    struct piece *pieces; /* by part */
    uint8_t *head, *said; /* this rank's, and the first holder's */
    size_t head_bytes;
    uint8_t *ready; /* by rank, 8 bytes each */
    uint8_t *arena;
    uint8_t *packed;
    uint64_t chunks_n; /* of the rank that sends most of them */
    uint64_t *hashed;  /* by rank: how many so far */
    uint8_t *mine;     /* hashes of what this rank has sent */
    uint8_t *theirs;   /* … of what each says that it has, ranks_n * chunks_n */
    uint8_t *came;     /* … of what has come, in the same order */
};

/* ---- calls ---- */

static int blame(struct stream *t, wid worker)
{
    if (t->lost_out != NULL) {
        *t->lost_out = worker;
    }
    return MU_EPEER;
}

static int make(struct stream *t, struct comm_call call)
{
    struct comm_result result;
    int rc;

    call.dtype = DTYPE_U8;
    call.timeout_ms = -1; /* A generation of failure ends it. */
    rc = comm_run(t->c, &call, &result);
    if (rc == MU_EPEER) {
        blame(t, result.worker);
    }
    return rc == MU_OK ? rc
                       : run_fail(rc, "the state could not be %s: %s", t->gives ? "given" : "got",
                                  result.error);
}

/* ---- what is said first ---- */

static int collect(struct stream *t)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < t->s->n; i++) {
        const struct state_part *p = &t->s->parts[i];
        const void *data = p->data;
        size_t n = p->bytes;

        if (t->gives) {
            rc = state_save(p, &data, &n);
        }
        t->pieces[i] = (struct piece){.from = data, .bytes = rc == MU_OK ? n : 0};
    }
    return rc;
}

static void fill_head(struct stream *t, int status, const struct state_mark *mark)
{
    uint32_t at = HEAD_N;

    put_u64(t->head + 8 * HEAD_STATUS, (uint64_t)(uint32_t)status);
    put_u64(t->head + 8 * HEAD_STEP, mark->step);
    put_u64(t->head + 8 * HEAD_SAMPLES, mark->samples);
    put_u64(t->head + 8 * HEAD_OFFSET, mark->offset);
    for (uint32_t i = 0; i < t->s->n; i++) {
        if (t->s->parts[i].save != NULL) {
            put_u64(t->head + 8 * at++, t->pieces[i].bytes);
        }
    }
}

/* Is this holder's state the one that the first holder speaks of? */
static int compare_heads(struct stream *t)
{
    static const char *const WORDS[] = {"status", "step", "samples", "offset"};

    for (uint32_t at = HEAD_STEP; 8 * at < t->head_bytes; at++) {
        const uint64_t a = get_u64(t->head + 8 * at), b = get_u64(t->said + 8 * at);

        if (a != b) {
            return run_fail(MU_ECORRUPT,
                            "this worker's state is not that of rank %" PRIu32 ": %s %" PRIu64
                            ", not %" PRIu64,
                            t->giver, at < HEAD_N ? WORDS[at] : "what save gives has length", a, b);
        }
    }
    return MU_OK;
}

static int take_head(struct stream *t)
{
    uint32_t at = HEAD_N;

    if (get_u64(t->said + 8 * HEAD_STATUS) != 0) {
        return MU_OK; /* That rank will say so itself. */
    }
    if (t->gives) {
        return compare_heads(t);
    }
    for (uint32_t i = 0; i < t->s->n; i++) {
        if (t->s->parts[i].save != NULL) {
            t->pieces[i].bytes = get_u64(t->said + 8 * at++);
            if (t->pieces[i].bytes > STATE_PART_BYTES_MAX) {
                return run_fail(MU_ECORRUPT, "state %s: %" PRIu64 " bytes are said to come",
                                t->s->parts[i].name, t->pieces[i].bytes);
            }
        }
    }
    return MU_OK;
}

/* Nobody has begun: whoever can't says so, and all go back. */
static int all_ready(struct stream *t, int status)
{
    uint8_t mine[8];
    char who[WHO_MAX];
    int rc;

    put_u64(mine, (uint64_t)(uint32_t)status);
    rc = make(t, (struct comm_call){
                     .op = COMM_ALLGATHER, .in = mine, .out = t->ready, .count = sizeof(mine)});
    if (rc != MU_OK || status != MU_OK) {
        return rc != MU_OK ? rc : status;
    }
    for (uint32_t r = 0; r < t->ranks_n; r++) {
        const int theirs = (int)(uint32_t)get_u64(t->ready + (size_t)8 * r);

        if (theirs != MU_OK) {
            const wid worker = comm_worker(t->c, r);

            blame(t, worker);
            return run_fail(MU_EPEER, "%s can't %s the state: %s", run_who(worker, who),
                            t->holds[r] ? "give" : "take", mu_strerror(theirs));
        }
    }
    return MU_OK;
}

/* ---- batches ---- */

static bool next_batch(const struct stream *t, uint32_t first, struct batch *out)
{
    struct batch b = {first, first, 0};

    while (b.end < t->s->n) {
        const uint64_t n = t->pieces[b.end].bytes;

        if (b.end > b.first && (n >= LARGE_PART || b.bytes + n > BATCH_MAX)) {
            break;
        }
        b.bytes += n;
        b.end++;
        if (n >= LARGE_PART) {
            break;
        }
    }
    *out = b;
    return b.end > b.first;
}

static void pack(struct stream *t, const struct batch *b)
{
    uint8_t *at = t->packed;

    for (uint32_t i = b->first; i < b->end; i++) {
        const struct piece *p = &t->pieces[i];

        if (p->bytes > 0) {
            memcpy(at, p->from, p->bytes);
        }
        at += p->bytes;
    }
}

static void unpack(struct stream *t, const struct batch *b)
{
    const uint8_t *at = t->packed;

    for (uint32_t i = b->first; i < b->end; i++) {
        const struct piece *p = &t->pieces[i];

        if (p->bytes > 0) {
            memcpy(p->to, at, p->bytes);
        }
        at += p->bytes;
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

static int hash(struct stream *t, const struct chunk *c, const uint8_t *data)
{
    const XXH128_hash_t sum = XXH3_128bits(data + c->lo, c->hi - c->lo);
    uint8_t *to = t->gives ? t->mine : t->came + c->rank * t->chunks_n * SUM_BYTES;
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, sum);
    memcpy(to + c->number * SUM_BYTES, canonical.digest, SUM_BYTES);
    return MU_OK;
}

static int check(struct stream *t, const struct chunk *c, const uint8_t *data)
{
    const size_t at = (c->rank * t->chunks_n + c->number) * SUM_BYTES;
    const struct batch *b = c->batch;
    uint64_t part_lo = 0;
    uint32_t first = b->first, last;
    char who[WHO_MAX];

    if (memcmp(t->came + at, t->theirs + at, SUM_BYTES) == 0) {
        return MU_OK;
    }
    while (part_lo + t->pieces[first].bytes <= c->lo) {
        part_lo += t->pieces[first++].bytes;
    }
    last = first;
    for (uint64_t hi = part_lo + t->pieces[first].bytes; hi < c->hi; hi += t->pieces[last].bytes) {
        last++;
    }
    return run_fail(MU_ECORRUPT,
                    "state %s%s%s: chunk %" PRIu64 " from %s (%" PRIu64 " bytes from byte %" PRIu64
                    " on) is not what was sent: look at the memory and the network of both hosts",
                    t->s->parts[first].name, last > first ? " to " : "",
                    last > first ? t->s->parts[last].name : "", c->number,
                    run_who(comm_worker(t->c, c->rank), who), c->hi - c->lo, c->lo - part_lo);
}

static int check_hashes(struct stream *t)
{
    struct batch b;
    int rc = MU_OK;

    if (t->chunks_n == 0) {
        return MU_OK;
    }
    rc = make(t, (struct comm_call){.op = COMM_ALLGATHER,
                                    .in = t->mine,
                                    .out = t->theirs,
                                    .count = t->chunks_n * SUM_BYTES});
    if (rc != MU_OK || t->gives) {
        return rc;
    }
    memset(t->hashed, 0, t->ranks_n * sizeof(*t->hashed));
    for (uint32_t at = 0; rc == MU_OK && next_batch(t, at, &b); at = b.end) {
        rc = each_chunk(t, &b, NULL, check);
    }
    return rc;
}

/* ---- the bytes ---- */

static int share(struct stream *t, const struct batch *b)
{
    const bool packs = b->end - b->first > 1;
    const uint8_t *in = packs ? t->packed : t->pieces[b->first].from;
    uint8_t *out = packs ? t->packed : t->pieces[b->first].to;
    int rc;

    if (b->bytes == 0) {
        return MU_OK;
    }
    if (packs && t->gives) {
        pack(t, b);
    }
    rc = make(t, (struct comm_call){.op = COMM_SHARE,
                                    .in = t->gives ? in : NULL,
                                    .out = t->gives ? NULL : out,
                                    .count = b->bytes,
                                    .holds = t->holds});
    if (rc != MU_OK) {
        return rc;
    }
    (void)each_chunk(t, b, t->gives ? in : out, hash);
    if (t->gives) {
        uint64_t lo, hi;

        comm_share_part(b->bytes, t->holds, t->ranks_n, t->me, &lo, &hi);
        t->s->sent += (hi - lo) * t->lacking_n;
    } else {
        t->s->got += b->bytes;
    }
    if (packs && !t->gives) {
        unpack(t, b);
    }
    return MU_OK;
}

/* All of it has come, and is what was sent. */
static int put(struct stream *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct state_part *p = &t->s->parts[i];

        if (p->save == NULL && t->pieces[i].to != p->data && p->bytes > 0) {
            memcpy(p->data, t->pieces[i].to, p->bytes);
        }
    }
    for (uint32_t i = 0; i < t->s->n; i++) {
        const struct state_part *p = &t->s->parts[i];
        int rc = p->load != NULL ? p->load(p->arg, t->pieces[i].to, t->pieces[i].bytes) : MU_OK;

        if (rc != MU_OK) {
            return run_fail(rc, "state %s: load gave %d: %s", p->name, rc, mu_strerror(rc));
        }
    }
    return MU_OK;
}

/* ---- memory ---- */

/* Every rank has room for what any of them may send: they all come to the same numbers. */
static void count_chunks(struct stream *t, uint64_t *packed_bytes_out)
{
    uint64_t packed_bytes = 0;
    struct batch b;

    memset(t->hashed, 0, t->ranks_n * sizeof(*t->hashed));
    for (uint32_t at = 0; next_batch(t, at, &b); at = b.end) {
        for (uint32_t r = 0; r < t->ranks_n; r++) {
            uint64_t lo, hi;

            comm_share_part(b.bytes, t->holds, t->ranks_n, r, &lo, &hi);
            t->hashed[r] += (hi - lo + CHUNK - 1) / CHUNK;
        }
        packed_bytes = b.end - b.first > 1 ? MAX(packed_bytes, b.bytes) : packed_bytes;
    }
    t->chunks_n = 0;
    for (uint32_t r = 0; r < t->ranks_n; r++) {
        t->chunks_n = MAX(t->chunks_n, t->hashed[r]);
        t->hashed[r] = 0;
    }
    *packed_bytes_out = packed_bytes;
}

static int place_pieces(struct stream *t)
{
    uint64_t bytes = 0;

    for (int pass = 0; pass < 2; pass++) {
        uint64_t at = 0;

        for (uint32_t i = 0; i < t->s->n; i++) {
            if (t->whole || t->s->parts[i].save != NULL) {
                t->pieces[i].to = pass == 1 ? t->arena + at : NULL;
                at += (t->pieces[i].bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
            } else {
                t->pieces[i].to = t->s->parts[i].data;
            }
        }
        bytes = at;
        if (pass == 0 && (t->arena = malloc(MAX(bytes, 1))) == NULL) {
            return run_fail(MU_ENOMEM, "no memory for %" PRIu64 " bytes of state that come", bytes);
        }
    }
    return MU_OK;
}

static int prepare(struct stream *t)
{
    uint64_t packed_bytes;
    int rc = take_head(t);

    if (rc != MU_OK) {
        return rc;
    }
    count_chunks(t, &packed_bytes);
    t->packed = malloc(MAX(packed_bytes, 1));
    t->mine = calloc(MAX(t->chunks_n, 1), SUM_BYTES);
    t->theirs = calloc(MAX(t->chunks_n * t->ranks_n, 1), SUM_BYTES);
    t->came = calloc(MAX(t->chunks_n * t->ranks_n, 1), SUM_BYTES);
    if (t->packed == NULL || t->mine == NULL || t->theirs == NULL || t->came == NULL) {
        return run_fail(MU_ENOMEM, "no memory to %s the state", t->gives ? "give" : "get");
    }
    return t->gives ? MU_OK : place_pieces(t);
}

static int open_stream(struct stream *t)
{
    uint32_t calls_n = 0;

    for (uint32_t i = 0; i < t->s->n; i++) {
        calls_n += t->s->parts[i].save != NULL;
    }
    for (uint32_t r = t->ranks_n; r-- > 0;) {
        t->lacking_n += !t->holds[r];
        t->giver = t->holds[r] ? r : t->giver;
    }
    t->head_bytes = 8 * (size_t)(HEAD_N + calls_n);
    t->pieces = calloc(MAX(t->s->n, 1), sizeof(*t->pieces));
    t->head = calloc(1, t->head_bytes);
    t->said = calloc(1, t->head_bytes);
    t->ready = calloc(t->ranks_n, 8);
    t->hashed = calloc(t->ranks_n, sizeof(*t->hashed));
    if (t->pieces == NULL || t->head == NULL || t->said == NULL || t->ready == NULL ||
        t->hashed == NULL) {
        return run_fail(MU_ENOMEM, "no memory to %s the state", t->gives ? "give" : "get");
    }
    return MU_OK;
}

static void close_stream(struct stream *t)
{
    free(t->pieces);
    free(t->head);
    free(t->said);
    free(t->ready);
    free(t->hashed);
    free(t->arena);
    free(t->packed);
    free(t->mine);
    free(t->theirs);
    free(t->came);
}

/* ---- all of it ---- */

static int run(struct stream *t, const struct state_mark *mark)
{
    const int status = collect(t);
    struct batch b;
    int rc;

    fill_head(t, status, mark);
    memcpy(t->said, t->head, t->head_bytes);
    rc = make(t, (struct comm_call){.op = COMM_BROADCAST,
                                    .in = t->head,
                                    .out = t->me == t->giver ? NULL : t->said,
                                    .count = t->head_bytes,
                                    .root = t->giver});
    if (rc == MU_OK) {
        rc = all_ready(t, status != MU_OK ? status : prepare(t));
    }
    for (uint32_t at = 0; rc == MU_OK && next_batch(t, at, &b); at = b.end) {
        rc = share(t, &b);
    }
    if (rc == MU_OK) {
        rc = check_hashes(t);
    }
    return rc == MU_OK && !t->gives ? put(t) : rc;
}

int state_stream(struct state *s, struct comm *c, const uint8_t *holds, bool whole,
                 struct state_mark *mark, wid *lost_out)
{
    struct stream t = {.s = s,
                       .c = c,
                       .holds = holds,
                       .whole = whole,
                       .ranks_n = comm_size(c),
                       .me = comm_rank(c),
                       .lost_out = lost_out};
    int rc;

    mu_assert(t.me < t.ranks_n && memchr(holds, 1, t.ranks_n) != NULL);
    t.gives = holds[t.me] != 0;
    if (lost_out != NULL) {
        *lost_out = 0;
    }
    rc = open_stream(&t);
    if (rc == MU_OK && t.lacking_n > 0) {
        rc = run(&t, mark);
        if (rc == MU_OK && !t.gives) {
            mark->step = get_u64(t.said + 8 * HEAD_STEP);
            mark->samples = get_u64(t.said + 8 * HEAD_SAMPLES);
            mark->offset = get_u64(t.said + 8 * HEAD_OFFSET);
        }
    }
    close_stream(&t);
    return rc;
}
