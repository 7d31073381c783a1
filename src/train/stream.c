/* How those who lack the state get it. All members make the same calls, in this order:
 *
 *   the first holder says where the run stands, and how long the parts are that save has made
 *   everyone says whether it can go on: nobody waits for one that can't
 *   the bytes (batches.c)
 *   the hashes of all chunks, by those who have sent them
 *
 * Holders are only read. What a newcomer must be able to take back, and what load takes, comes
 * into memory of its own first. Numbers travel as they are in memory, as gradients do. */
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The first holder's words: these, then a length for each part by calls. */
enum { HEAD_STATUS, HEAD_STEP, HEAD_SAMPLES, HEAD_OFFSET, HEAD_N };

/* ---- calls ---- */

int stream_fail(struct stream *t, int rc, const struct comm_result *result)
{
    if (rc == MU_EPEER) {
        *t->lost_out = result->worker;
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
        if (t->s->parts[i].save != NULL) {
            t->pieces[i].bytes = t->said[at++];
            if (t->pieces[i].bytes > STATE_PART_BYTES_MAX) {
                return run_fail(MU_ECORRUPT, "state %s: %" PRIu64 " bytes are said to come",
                                t->s->parts[i].name, t->pieces[i].bytes);
            }
        }
    }
    return MU_OK;
}

/* Nobody has begun: whoever can't says so, and all go back. */
static int all_ready(struct stream *t, int32_t status)
{
    char who[WHO_MAX];
    int rc = stream_make(
        t, (struct comm_call){
               .op = COMM_ALLGATHER, .in = &status, .out = t->ready, .count = sizeof(status)});

    if (rc != MU_OK || status != MU_OK) {
        return rc != MU_OK ? rc : status;
    }
    for (uint32_t r = 0; r < t->ranks_n; r++) {
        if (t->ready[r] != MU_OK) {
            *t->lost_out = comm_worker(t->c, r);
            return run_fail(MU_EPEER, "%s can't %s the state: %s", run_who(*t->lost_out, who),
                            t->holds[r] ? "give" : "take", mu_strerror(t->ready[r]));
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
        int rc = p->load != NULL ? state_load(p, t->pieces[i].to, t->pieces[i].bytes) : MU_OK;

        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

/* ---- memory ---- */

static int place_pieces(struct stream *t)
{
    for (uint32_t i = 0; i < t->s->n; i++) {
        struct piece *p = &t->pieces[i];

        p->to = t->whole || t->s->parts[i].save != NULL ? malloc(MAX(p->bytes, 1))
                                                        : t->s->parts[i].data;
        if (p->to == NULL) {
            return run_fail(MU_ENOMEM, "no memory for %" PRIu64 " bytes of state that come",
                            p->bytes);
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
    t->head_n = HEAD_N + calls_n;
    t->pieces = calloc(MAX(t->s->n, 1), sizeof(*t->pieces));
    t->head = calloc(t->head_n, sizeof(*t->head));
    t->said = calloc(t->head_n, sizeof(*t->said));
    t->ready = calloc(t->ranks_n, sizeof(*t->ready));
    if (t->pieces == NULL || t->head == NULL || t->said == NULL || t->ready == NULL) {
        return run_fail(MU_ENOMEM, "no memory to %s the state", t->gives ? "give" : "get");
    }
    return MU_OK;
}

static void close_stream(struct stream *t)
{
    for (uint32_t i = 0; t->pieces != NULL && i < t->s->n; i++) {
        if (t->pieces[i].to != t->s->parts[i].data) {
            free(t->pieces[i].to);
        }
    }
    free(t->pieces);
    free(t->head);
    free(t->said);
    free(t->ready);
    batches_close(t);
}

/* ---- all of it ---- */

static int run(struct stream *t, const struct state_mark *mark)
{
    const int status = collect(t);
    int rc;

    fill_head(t, status, mark);
    memcpy(t->said, t->head, t->head_n * sizeof(*t->head));
    rc = stream_make(t, (struct comm_call){.op = COMM_BROADCAST,
                                           .in = t->head,
                                           .out = t->me == t->giver ? NULL : t->said,
                                           .count = t->head_n * sizeof(*t->head),
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
    *lost_out = 0;
    rc = open_stream(&t);
    if (rc == MU_OK && t.lacking_n > 0) {
        rc = run(&t, mark);
        if (rc == MU_OK && !t.gives) {
            *mark =
                (struct state_mark){t.said[HEAD_STEP], t.said[HEAD_SAMPLES], t.said[HEAD_OFFSET]};
        }
    }
    close_stream(&t);
    return rc;
}
