/* One is read: its manifest first, then its chunks, each in pieces of which several are on their
 * way. While one chunk is verified the first pieces of the next come. */
#include "depot/talk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX 8u

/* ---- the manifest ---- */

struct text {
    char *bytes;
    size_t n, cap;
};

/* Memory follows what has come, not what was promised. */
static int text_add(struct text *t, const struct msg_depot_says *m, struct ckpt_why *why)
{
    if (m->data_n > t->cap - t->n) {
        const size_t cap = MIN(MAX(2 * t->cap, t->n + m->data_n), (size_t)m->total);
        char *bytes = realloc(t->bytes, cap);

        if (bytes == NULL) {
            return talk_why(why, MU_ENOMEM, "no memory for a manifest");
        }
        t->bytes = bytes;
        t->cap = cap;
    }
    memcpy(t->bytes + t->n, m->data, m->data_n);
    t->n += m->data_n;
    return MU_OK;
}

static int take_text(struct depot *d, struct text *t, const struct msg_depot_says *m,
                     uint64_t *total, struct ckpt_why *why)
{
    if (t->n == 0) {
        *total = m->total;
    }
    if (m->total == 0 || m->total > CKPT_MANIFEST_MAX) {
        return talk_why(why, MU_ECORRUPT, "the manifest can't have %" PRIu64 " bytes", m->total);
    }
    if (m->total != *total) {
        return talk_fault(d, why, "a manifest has changed while it was read");
    }
    if (m->at != t->n || m->data_n != MIN(*total - t->n, DEPOT_DATA_MAX)) {
        return talk_fault(d, why,
                          "%" PRIu32 " bytes of a manifest at %" PRIu64 ", not those at %zu",
                          m->data_n, m->at, t->n);
    }
    return text_add(t, m, why);
}

int depot_manifest(struct depot *d, const char *job, uint64_t step, char **text_out, size_t *n_out,
                   struct ckpt_why *why)
{
    struct msg_depot ask = {.op = DEPOT_READ, .item = DEPOT_MANIFEST, .total = DEPOT_DATA_MAX};
    struct text t = {0};
    uint64_t total = UINT64_MAX;
    int rc = talk_name(&ask, job, step, why);

    while (rc == MU_OK && t.n < total) {
        const struct msg_depot_says *m;

        ask.at = t.n;
        rc = talk_ask(d, &ask, TALK_ANSWER_MS, &m, why);
        rc = rc == MU_OK ? take_text(d, &t, m, &total, why) : rc;
    }
    if (rc != MU_OK) {
        free(t.bytes);
        return rc;
    }
    *text_out = t.bytes;
    *n_out = t.n;
    return MU_OK;
}

/* ---- chunks ---- */

struct piece {
    uint32_t chunk;
    uint32_t at, n; /* of the chunk as it is stored */
    uint64_t request;
};

struct get {
    struct depot *d;
    struct msg_depot m;             /* what names the checkpoint */
    const struct ckpt_manifest *of; /* once it is open */
    uint64_t life;                  /* of the line over which the pieces were asked for … */
    struct piece ahead[READS_MAX];  /* … in their order, which is the answers' too: a ring */
    uint32_t first, ahead_n;
    uint32_t ask_chunk, ask_at; /* what is asked for next */
    uint32_t chunk, got;        /* what is being read, and how much of it has come … */
    uint8_t *to;                /* … here */
    char *text;                 /* the manifest's, until it is open */
    size_t text_n;
};

static uint64_t shard_bytes(const struct ckpt_manifest *m, uint32_t shard)
{
    uint32_t first, end;

    ckpt_shard_chunks(m->chunks_n, m->shards_n, shard, &first, &end);
    return first < end ? m->chunks[end - 1].at + m->chunks[end - 1].stored : 0;
}

static int ask_piece(struct get *g, struct ckpt_why *why)
{
    const struct ckpt_chunk *k = &g->of->chunks[g->ask_chunk];
    struct piece *p = &g->ahead[(g->first + g->ahead_n) % READS_MAX];
    int rc;

    *p = (struct piece){.chunk = g->ask_chunk,
                        .at = g->ask_at,
                        .n = MIN(k->stored - g->ask_at, DEPOT_DATA_MAX),
                        .request = talk_number(g->d)};
    g->m.item = k->shard;
    g->m.at = k->at + p->at;
    g->m.total = p->n;
    rc = talk_say(g->d, &g->m, p->request, why);
    if (rc != MU_OK) {
        return rc;
    }
    g->ahead_n++;
    g->ask_at += p->n;
    if (g->ask_at == k->stored) {
        g->ask_chunk++;
        g->ask_at = 0;
    }
    return MU_OK;
}

static int ask_ahead(struct get *g, struct ckpt_why *why)
{
    int rc = MU_OK;

    while (rc == MU_OK && g->ahead_n < READS_MAX && g->ask_chunk < g->of->chunks_n) {
        rc = ask_piece(g, why);
    }
    return rc;
}

static int next_answer(struct get *g, struct piece *p_out, const struct msg_depot_says **m_out,
                       struct ckpt_why *why)
{
    const struct piece p = g->ahead[g->first];

    g->first = (g->first + 1) % READS_MAX;
    g->ahead_n--;
    *p_out = p;
    return talk_answer(g->d, DEPOT_READ, p.request, TALK_ANSWER_MS, m_out, why);
}

static int take_piece(struct get *g, struct ckpt_why *why)
{
    const struct msg_depot_says *m;
    struct piece p;
    int rc = next_answer(g, &p, &m, why);

    if (rc != MU_OK) {
        return rc;
    }
    const struct ckpt_chunk *k = &g->of->chunks[p.chunk];
    const uint64_t bytes = shard_bytes(g->of, k->shard);

    mu_assert(p.chunk == g->chunk && p.at == g->got);
    if (m->total != bytes) {
        return talk_why(why, MU_ECORRUPT,
                        "shard %" PRIu32 " is damaged: it has %" PRIu64
                        " bytes and should have %" PRIu64,
                        k->shard, m->total, bytes);
    }
    if (m->at != k->at + p.at || m->data_n != p.n) {
        return talk_fault(
            g->d, why, "%" PRIu32 " bytes of a shard at %" PRIu64 ", not %" PRIu32 " at %" PRIu64,
            m->data_n, m->at, p.n, k->at + p.at);
    }
    memcpy(g->to + p.at, m->data, p.n);
    g->got += p.n;
    talk_progress(g->d);
    return MU_OK;
}

/* What was asked for ahead is not what is wanted. */
static int drop_ahead(struct get *g, struct ckpt_why *why)
{
    while (g->ahead_n > 0) {
        const struct msg_depot_says *m;
        struct piece p;
        int rc = next_answer(g, &p, &m, why);

        if (rc != MU_OK && !g->d->up) {
            return rc;
        }
    }
    return MU_OK;
}

/* So that the next answer is what is wanted next. */
static int turn_to(struct get *g, struct ckpt_why *why)
{
    const struct piece *p = &g->ahead[g->first];
    int rc = MU_OK;

    if (g->life != g->d->life) { /* Whatever was asked for is not answered any more. */
        g->life = g->d->life;
        g->ahead_n = 0;
    } else if (g->ahead_n > 0 && p->chunk == g->chunk && p->at == g->got) {
        return MU_OK;
    } else {
        rc = drop_ahead(g, why);
    }
    g->ask_chunk = g->chunk;
    g->ask_at = g->got;
    return rc;
}

static int try_read(void *arg, struct ckpt_why *why)
{
    struct get *g = arg;
    const uint32_t stored = g->of->chunks[g->chunk].stored;
    int rc = turn_to(g, why);

    while (rc == MU_OK && g->got < stored) {
        rc = ask_ahead(g, why);
        rc = rc == MU_OK ? take_piece(g, why) : rc;
    }
    if (rc == MU_OK) {
        (void)ask_ahead(g, why); /* This one is there: what fails is told when the next is read. */
    }
    return rc;
}

/* The chunk that begins there; they are in this order in the manifest. */
static uint32_t find_chunk(const struct ckpt_manifest *m, uint32_t shard, uint64_t at)
{
    uint32_t low = 0, high = m->chunks_n;

    while (low < high) {
        const uint32_t mid = low + (high - low) / 2;
        const struct ckpt_chunk *k = &m->chunks[mid];

        if (k->shard < shard || (k->shard == shard && k->at < at)) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

static int get_read(void *arg, uint32_t shard, uint64_t at, size_t n, uint8_t *to,
                    struct ckpt_why *why)
{
    struct get *g = arg;
    const struct ckpt_chunk *k;

    g->chunk = find_chunk(g->of, shard, at);
    mu_assert(g->chunk < g->of->chunks_n);
    k = &g->of->chunks[g->chunk];
    mu_assert(k->shard == shard && k->at == at && k->stored == n); /* read.c reads whole ones. */
    g->got = 0;
    g->to = to;
    return talk_run(g->d, g, try_read, g, why);
}

/* ---- opened and closed ---- */

static void get_close(void *arg)
{
    struct get *g = arg;

    if (g->d->who == g && g->d->unanswered > 0) {
        talk_hang_up(g->d);
    }
    free(g);
}

static int try_manifest(void *arg, struct ckpt_why *why)
{
    struct get *g = arg;

    return depot_manifest(g->d, g->m.job, g->m.step, &g->text, &g->text_n, why);
}

int depot_get(struct depot *d, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why)
{
    struct ckpt_source source = {.read = get_read, .close = get_close};
    struct get *g = calloc(1, sizeof(*g));
    struct ckpt *c;
    char *text;
    int rc;

    if (g == NULL) {
        return talk_why(why, MU_ENOMEM, "no memory to open a checkpoint");
    }
    g->d = d;
    g->m.op = DEPOT_READ;
    rc = talk_name(&g->m, job, step, why);
    rc = rc == MU_OK ? talk_run(d, g, try_manifest, g, why) : rc;
    if (rc != MU_OK) {
        free(g);
        return rc;
    }
    source.arg = g;
    text = g->text;
    snprintf(source.name, sizeof(source.name), "orchestrator:/%s/step-%012" PRIu64, job, step);
    rc = ckpt_open_source(text, g->text_n, job, step, &source, &c, why);
    free(text);
    if (rc == MU_OK) {
        g->of = ckpt_manifest(c);
        *c_out = c;
    }
    return rc;
}
