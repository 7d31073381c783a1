/* One is read: its manifest first, then its chunks, each in pieces of which several are on their
 * way. While one chunk is verified the first pieces of the next come. */
#include "depot/talk.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define READS_MAX 8u

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
    uint64_t life;                  /* of the line over which the pieces were asked for */
    struct piece ahead[READS_MAX];  /* pieces in the order of their questions, which is that of the
                                       answers: a ring */
    uint32_t first, ahead_n;
    uint32_t ask_chunk, ask_at; /* what is asked for next */
    uint32_t chunk, got;        /* what is being read, and how much of it has come */
    uint8_t *to;                /* where its bytes go */
    char *text;                 /* the manifest's, until it is open */
    size_t text_n;
    uint32_t looked_n; /* shards that are as long as they should be */
    char name[256];    /* for people */
};

static uint64_t shard_bytes(const struct ckpt_manifest *m, uint32_t shard)
{
    uint32_t first, end;

    ckpt_shard_chunks(m->chunks_n, m->shards_n, shard, &first, &end);
    return first < end ? m->chunks[end - 1].at + m->chunks[end - 1].stored : 0;
}

static int wrong_length(const struct get *g, uint32_t shard, uint64_t has, uint64_t should,
                        struct ckpt_why *why)
{
    return ckpt_say(why, MU_ECORRUPT,
                    "%s/shard-%04" PRIu32 " is damaged: it has %" PRIu64
                    " bytes and should have %" PRIu64,
                    g->name, shard, has, should);
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
        return wrong_length(g, k->shard, m->total, bytes, why);
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

/* It is in the list, but has no manifest: that was lost. */
static int try_is_listed(struct get *g, bool *listed_out, struct ckpt_why *why)
{
    struct msg_depot ask = {.op = DEPOT_LIST, .at = g->m.step + 1};
    const struct msg_depot_says *m;
    int rc = talk_name(&ask, g->m.job, 0, why);

    rc = rc == MU_OK ? talk_ask(g->d, &ask, TALK_ANSWER_MS, &m, why) : rc;
    if (rc == MU_OK) {
        *listed_out = m->data_n >= 8 && get_u64(m->data) == g->m.step;
    }
    return rc;
}

static int try_manifest(void *arg, struct ckpt_why *why)
{
    struct get *g = arg;
    struct ckpt_why own = {{0}};
    bool listed = false;
    int rc = depot_manifest(g->d, g->m.job, g->m.step, &g->text, &g->text_n, &own);

    if (rc != MU_ENOENT) {
        return rc == MU_OK ? MU_OK : ckpt_say(why, rc, "%s", own.text);
    }
    rc = try_is_listed(g, &listed, why);
    if (rc != MU_OK) {
        return rc;
    }
    return listed ? ckpt_say(why, MU_ECORRUPT, "%s/manifest is missing", g->name)
                  : ckpt_say(why, MU_ENOENT, "%s", own.text);
}

/* Each shard is there, and as long as it should be. */
static int try_shards(void *arg, struct ckpt_why *why)
{
    struct get *g = arg;

    for (; g->looked_n < g->of->shards_n; g->looked_n++) {
        const uint64_t bytes = shard_bytes(g->of, g->looked_n);
        const struct msg_depot_says *m;
        int rc;

        if (bytes == 0) {
            continue;
        }
        g->m.item = g->looked_n;
        g->m.at = 0;
        g->m.total = 1;
        rc = talk_ask(g->d, &g->m, TALK_ANSWER_MS, &m, why);
        if (rc == MU_ENOENT) {
            return ckpt_say(why, MU_ECORRUPT, "%s/shard-%04" PRIu32 " is missing", g->name,
                            g->looked_n);
        }
        if (rc == MU_OK && m->total != bytes) {
            rc = wrong_length(g, g->looked_n, m->total, bytes, why);
        }
        if (rc == MU_OK && (m->at != 0 || m->data_n != 1)) {
            rc = talk_fault(g->d, why, "%" PRIu32 " bytes of a shard at %" PRIu64 ", not 1 at 0",
                            m->data_n, m->at);
        }
        if (rc != MU_OK) {
            return rc;
        }
        talk_progress(g->d);
    }
    return MU_OK;
}

static int get_open(struct depot *d, const char *job, uint64_t step, struct get **g_out,
                    struct ckpt_why *why)
{
    struct get *g = calloc(1, sizeof(*g));
    int rc;

    if (g == NULL) {
        return ckpt_say(why, MU_ENOMEM, "no memory to open a checkpoint");
    }
    g->d = d;
    g->m.op = DEPOT_READ;
    snprintf(g->name, sizeof(g->name), "orchestrator:/%s/step-%012" PRIu64, job, step);
    rc = talk_name(&g->m, job, step, why);
    rc = rc == MU_OK ? talk_run(d, g, try_manifest, g, why) : rc;
    if (rc != MU_OK) {
        free(g);
        return rc;
    }
    *g_out = g;
    return MU_OK;
}

int depot_get(struct depot *d, const char *job, uint64_t step, struct ckpt **c_out,
              struct ckpt_why *why)
{
    struct ckpt_source source = {.read = get_read, .close = get_close};
    struct ckpt *c;
    struct get *g = NULL;
    char *text;
    int rc = get_open(d, job, step, &g, why);

    if (rc != MU_OK) {
        return rc;
    }
    text = g->text;
    source.arg = g;
    memcpy(source.name, g->name, sizeof(source.name));
    rc = ckpt_open_source(text, g->text_n, job, step, &source, &c, why);
    free(text);
    if (rc != MU_OK) {
        return rc;
    }
    g->of = ckpt_manifest(c);
    rc = talk_run(d, g, try_shards, g, why);
    if (rc != MU_OK) {
        ckpt_close(c);
        return rc;
    }
    *c_out = c;
    return MU_OK;
}
