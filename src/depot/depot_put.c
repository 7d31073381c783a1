/* A state is put there. Every try begins with the question what is there already: if those are the
 * first chunks of this state, it goes on behind them. Two chunks are on their way while the next is
 * compressed. */
#include "ckpt/sum.h"
#include "depot/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS_AHEAD 2u

_Static_assert(CKPT_SUM_BYTES == DEPOT_SUM_BYTES, "sums go as they are");

struct put {
    struct depot *d;
    const struct depot_copy *copy;
    struct ckpt_manifest m; /* its chunks are known up to packed_n */
    uint32_t packed_n;
    struct ckpt_packer *packer;
    struct sum_state *sum;
    char *text; /* the manifest's, when all chunks are there; NULL: not yet */
    size_t text_n;
    bool committed; /* it was said; whether it was heard is not known before it is answered */
};

/* ---- chunks ---- */

/* As it is stored; its place in the manifest is filled in. */
static int pack(struct put *p, uint32_t chunk, const uint8_t **stored_out, struct ckpt_why *why)
{
    const struct depot_copy *copy = p->copy;
    struct ckpt_chunk *k = &p->m.chunks[chunk];
    int rc = talk_cancelled(p->d, why);

    if (rc != MU_OK) {
        return rc;
    }
    mu_assert(chunk <= p->packed_n);
    rc = ckpt_pack(&p->packer, copy->data + chunk * CKPT_CHUNK,
                   (size_t)ckpt_chunk_bytes(copy->bytes, chunk), copy->zstd, stored_out, &k->stored,
                   k->sum);
    if (rc != MU_OK) {
        return ckpt_say(why, rc, "no memory to put a checkpoint");
    }
    k->at = chunk > 0 ? k[-1].at + k[-1].stored : 0;
    p->packed_n = MAX(p->packed_n, chunk + 1);
    return MU_OK;
}

static int say_chunk(struct put *p, uint32_t chunk, const uint8_t *stored, uint64_t request,
                     struct ckpt_why *why)
{
    const struct ckpt_chunk *k = &p->m.chunks[chunk];
    struct msg_depot m = {.op = DEPOT_PUT, .item = chunk};
    int rc = talk_name(&m, p->m.mark.job, p->m.mark.step, why);

    memcpy(m.sum, k->sum, sizeof(m.sum));
    return rc == MU_OK ? talk_say_all(p->d, &m, stored, k->stored, request, why) : rc;
}

static int await_chunk(struct put *p, uint32_t chunk, uint64_t request, struct ckpt_why *why)
{
    const struct msg_depot_says *m;
    int rc = talk_answer(p->d, DEPOT_PUT, request, TALK_ANSWER_MS, &m, why);

    if (rc == MU_OK && m->item != chunk) {
        rc = talk_fault(p->d, why, "chunk %" PRIu32 " was put, not %" PRIu32, m->item, chunk);
    }
    if (rc == MU_OK) {
        talk_progress(p->d);
    }
    return rc;
}

static int put_chunks(struct put *p, uint32_t first, struct ckpt_why *why)
{
    uint64_t requests[CHUNKS_AHEAD];
    uint32_t done = first; /* those before it are answered */
    int rc = MU_OK;

    for (uint32_t i = first; rc == MU_OK && i < p->m.chunks_n; i++) {
        const uint8_t *stored;

        rc = pack(p, i, &stored, why);
        if (rc == MU_OK && i - done == CHUNKS_AHEAD) {
            rc = await_chunk(p, done, requests[done % CHUNKS_AHEAD], why);
            done++;
        }
        if (rc == MU_OK) {
            requests[i % CHUNKS_AHEAD] = talk_number(p->d);
            rc = say_chunk(p, i, stored, requests[i % CHUNKS_AHEAD], why);
        }
    }
    for (; rc == MU_OK && done < p->m.chunks_n; done++) {
        rc = await_chunk(p, done, requests[done % CHUNKS_AHEAD], why);
    }
    return rc;
}

/* ---- what is there ---- */

/* Are the first n chunks of this state those that are there? */
static int compare(struct put *p, uint32_t n, const uint8_t sum[DEPOT_SUM_BYTES], bool *same_out,
                   struct ckpt_why *why)
{
    uint8_t own[CKPT_SUM_BYTES];

    while (p->packed_n < n) {
        const uint8_t *stored;
        int rc = pack(p, p->packed_n, &stored, why);

        if (rc != MU_OK) {
            return rc;
        }
    }
    sum_begin(p->sum);
    for (uint32_t i = 0; i < n; i++) {
        sum_add(p->sum, p->m.chunks[i].sum, CKPT_SUM_BYTES);
    }
    sum_end(p->sum, own);
    *same_out = memcmp(own, sum, sizeof(own)) == 0;
    return MU_OK;
}

/* *first_out: the chunk to go on with. */
static int begin(struct put *p, uint32_t *first_out, struct ckpt_why *why)
{
    struct msg_depot ask = {.op = DEPOT_BEGIN,
                            .total = p->copy->bytes,
                            .keep = p->copy->keep,
                            .keep_every = p->copy->keep_every};
    const struct msg_depot_says *m;
    uint8_t sum[DEPOT_SUM_BYTES];
    uint32_t n = 0;
    bool same = false;
    int rc = talk_name(&ask, p->m.mark.job, p->m.mark.step, why);

    rc = rc == MU_OK ? talk_ask(p->d, &ask, TALK_LONG_MS, &m, why) : rc;
    if (rc == MU_OK) {
        n = m->item;
        memcpy(sum, m->sum, sizeof(sum));
    }
    if (rc == MU_OK && n <= p->m.chunks_n) {
        rc = compare(p, n, sum, &same, why);
    }
    if (rc == MU_OK) {
        *first_out = same ? n : 0; /* Whatever else is there goes when the first one comes. */
    }
    return rc;
}

/* ---- the manifest ---- */

static int write_text(struct put *p, struct ckpt_why *why)
{
    int rc = p->text == NULL ? ckpt_manifest_write(&p->m, &p->text, &p->text_n) : MU_OK;

    return rc == MU_OK
               ? MU_OK
               : ckpt_say(why, rc, "can't write the manifest: %s",
                          rc == MU_ENOMEM ? "no memory" : "its parts and chunks don't add up");
}

static int commit(struct put *p, struct ckpt_why *why)
{
    struct msg_depot m = {
        .op = DEPOT_COMMIT, .keep = p->copy->keep, .keep_every = p->copy->keep_every};
    const uint64_t request = talk_number(p->d);
    const struct msg_depot_says *says;
    int rc = talk_name(&m, p->m.mark.job, p->m.mark.step, why);

    p->committed = true;
    rc = rc == MU_OK ? talk_say_all(p->d, &m, p->text, p->text_n, request, why) : rc;
    return rc == MU_OK ? talk_answer(p->d, DEPOT_COMMIT, request, TALK_LONG_MS, &says, why) : rc;
}

/* The line broke before the answer came: what was to be committed may be there. */
static int is_there(struct put *p, bool *there_out, struct ckpt_why *why)
{
    char *text = NULL;
    size_t n = 0;
    int rc = depot_manifest(p->d, p->m.mark.job, p->m.mark.step, &text, &n, why);

    if (rc == MU_OK) {
        *there_out = n == p->text_n && memcmp(text, p->text, n) == 0;
        free(text);
        return MU_OK;
    }
    return rc == MU_ENOENT || rc == MU_ECORRUPT ? MU_OK : rc;
}

/* ---- all of it ---- */

static int try_put(void *arg, struct ckpt_why *why)
{
    struct put *p = arg;
    bool there = false;
    uint32_t first;
    int rc = p->committed ? is_there(p, &there, why) : MU_OK;

    if (rc != MU_OK || there) {
        return rc;
    }
    rc = begin(p, &first, why);
    rc = rc == MU_OK ? put_chunks(p, first, why) : rc;
    rc = rc == MU_OK ? write_text(p, why) : rc;
    return rc == MU_OK ? commit(p, why) : rc;
}

static int put_open(struct put *p, struct ckpt_why *why)
{
    const struct depot_copy *copy = p->copy;

    p->m.mark = *copy->mark;
    p->m.zstd = copy->zstd;
    p->m.parts_n = copy->parts_n;
    p->m.bytes = copy->bytes;
    p->m.shards_n = 1;
    p->m.chunks_n = ckpt_chunks(copy->bytes);
    if (copy->parts_n > CKPT_PARTS_MAX || p->m.chunks_n > CKPT_CHUNKS_MAX) {
        return ckpt_say(why, MU_EINVAL,
                        "%" PRIu64 " bytes in %" PRIu32 " parts are too many for a checkpoint",
                        copy->bytes, copy->parts_n);
    }
    snprintf(p->m.version, sizeof(p->m.version), "%s", mu_version());
    p->m.chunks = calloc(MAX(p->m.chunks_n, 1), sizeof(*p->m.chunks));
    p->m.parts = calloc(MAX(copy->parts_n, 1), sizeof(*p->m.parts));
    p->sum = sum_open();
    if (p->m.chunks == NULL || p->m.parts == NULL || p->sum == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to put a checkpoint");
    }
    if (copy->parts_n > 0) {
        memcpy(p->m.parts, copy->parts, copy->parts_n * sizeof(*copy->parts));
    }
    return MU_OK;
}

static void put_close(struct put *p)
{
    ckpt_manifest_free(&p->m);
    ckpt_pack_free(p->packer);
    if (p->sum != NULL) {
        sum_close(p->sum);
    }
    free(p->text);
}

int depot_put(struct depot *d, const struct depot_copy *copy, struct ckpt_why *why)
{
    struct put p = {.d = d, .copy = copy};
    int rc = put_open(&p, why);

    rc = rc == MU_OK ? talk_run(d, &p, try_put, &p, why) : rc;
    put_close(&p);
    return rc;
}
