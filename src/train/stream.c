/* How those who lack the state get it. All members make the same calls, in this order:
 *
 *   the first holder says where the run stands, and how long the parts are that save has made
 *   everyone says whether it can go on: nobody waits for one that can't
 *   the bytes (batches.c)
 *   the hashes of all chunks, by those who have sent them
 *
 * Holders are only read. What a newcomer must be able to take back, and what load takes, comes
 * into an arena first. */
#include "train/state.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_ALIGN ((uint64_t)64)

/* The first holder's words: these, then a length for each part by calls. */
enum { HEAD_STATUS, HEAD_STEP, HEAD_SAMPLES, HEAD_OFFSET, HEAD_N };

/* ---- calls ---- */

static int blame(struct stream *t, wid worker)
{
    if (t->lost_out != NULL) {
        *t->lost_out = worker;
    }
    return MU_EPEER;
}

int stream_fail(struct stream *t, int rc, const struct comm_result *result)
{
    if (rc == MU_EPEER) {
        blame(t, result->worker);
    }
    return run_fail(rc, "the state could not be %s: %s", t->gives ? "given" : "got", result->error);
}

int stream_make(struct stream *t, struct comm_call call)
{
    struct comm_result result;
    int rc;

    call.dtype = DTYPE_U8;
    call.timeout_ms = -1; /* A generation of failure ends it. */
    rc = comm_run(t->c, &call, &result);
    return rc == MU_OK ? rc : stream_fail(t, rc, &result);
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
    rc = stream_make(t,
                     (struct comm_call){
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

/* ---- what is done last ---- */

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
    int rc = take_head(t);

    if (rc == MU_OK && batches_open(t) != MU_OK) {
        rc = run_fail(MU_ENOMEM, "no memory to %s the state", t->gives ? "give" : "get");
    }
    return rc == MU_OK && !t->gives ? place_pieces(t) : rc;
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
    if (t->pieces == NULL || t->head == NULL || t->said == NULL || t->ready == NULL) {
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
    free(t->arena);
    batches_close(t);
}

/* ---- all of it ---- */

static int run(struct stream *t, const struct state_mark *mark)
{
    const int status = collect(t);
    int rc;

    fill_head(t, status, mark);
    memcpy(t->said, t->head, t->head_bytes);
    rc = stream_make(t, (struct comm_call){.op = COMM_BROADCAST,
                                           .in = t->head,
                                           .out = t->me == t->giver ? NULL : t->said,
                                           .count = t->head_bytes,
                                           .root = t->giver});
    if (rc == MU_OK) {
        rc = all_ready(t, status != MU_OK ? status : prepare(t));
    }
    if (rc == MU_OK) {
        rc = batches_share(t);
    }
    if (rc == MU_OK) {
        rc = batches_check(t);
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
