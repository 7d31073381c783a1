#include "base/hook.h"
#include "base/prng.h"
#include "comm/state.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PARTS_MAX 64
#define SAVE_STATUS (-7001)
#define LOAD_STATUS (-7002)
#define UNTOUCHED 0x5a

/* A part and where it lies. One by calls: save gives `data`, load takes to `loaded`. */
struct part {
    struct model *m;
    uint32_t index;
    bool calls, shared;
    uint8_t *data;
    size_t bytes;
    uint8_t *loaded;
    size_t loaded_bytes;
    uint32_t saves_n, loads_n;
};

struct model {
    struct rank *r;
    const struct state_case *c;
    bool holds;
    struct part parts[PARTS_MAX];
    uint32_t parts_n;
    uint64_t bytes;
    struct state state;
};

/* ---- bytes that are known ---- */

static uint64_t word_of(const struct part *p, size_t at)
{
    return prng_mix(p->m->c->seed + 1000 * p->index + at / 8);
}

static void fill(const struct part *p)
{
    for (size_t at = 0; at < p->bytes; at += 8) {
        const uint64_t word = word_of(p, at);

        memcpy(p->data + at, &word, MIN(p->bytes - at, 8));
    }
}

static void check_bytes(const struct part *p, const uint8_t *data, size_t bytes, const char *when)
{
    rank_check(p->m->r, bytes == p->bytes, "%s: part %u has %zu bytes, not %zu", when, p->index,
               bytes, p->bytes);
    for (size_t at = 0; at < bytes; at += 8) {
        const uint64_t word = word_of(p, at);

        rank_check(p->m->r, memcmp(data + at, &word, MIN(bytes - at, 8)) == 0,
                   "%s: part %u is wrong at byte %zu of %zu", when, p->index, at, bytes);
    }
}

static void check_untouched(const struct part *p)
{
    rank_check(p->m->r, p->loads_n == 0, "part %u was loaded, and the rest did not come", p->index);
    for (size_t at = 0; !p->calls && at < p->bytes; at++) {
        rank_check(p->m->r, p->data[at] == UNTOUCHED, "part %u was changed at byte %zu of %zu",
                   p->index, at, p->bytes);
    }
}

/* ---- the model ---- */

static int save(void *arg, const void **data_out, size_t *n_out)
{
    struct part *p = arg;
    const struct state_case *c = p->m->c;

    p->saves_n++;
    if (c->fault == STATE_SAVE_FAILS && p->m->r->index == c->odd) {
        return SAVE_STATUS;
    }
    *data_out = p->data;
    *n_out = p->bytes;
    if (c->fault == STATE_LENGTH_DIFFERS && p->m->r->index == c->odd && p->bytes > 0) {
        *n_out -= 1;
    }
    return MU_OK;
}

static int load(void *arg, const void *data, size_t n)
{
    struct part *p = arg;

    if (p->m->c->fault == STATE_LOAD_FAILS && p->m->r->index == p->m->c->odd) {
        return LOAD_STATUS;
    }
    free(p->loaded);
    p->loaded = malloc(MAX(n, 1));
    rank_check(p->m->r, p->loaded != NULL, "no memory");
    memcpy(p->loaded, data, n);
    p->loaded_bytes = n;
    p->loads_n++;
    return MU_OK;
}

static void add(struct model *m, const char *name, bool calls, size_t bytes)
{
    struct part *p = &m->parts[m->parts_n];
    struct state_part as = {.bytes = bytes};
    int rc;

    *p = (struct part){.m = m, .index = m->parts_n++, .calls = calls, .bytes = bytes};
    p->shared = (p->index + m->r->index + m->c->seed) % 2 == 0;
    p->data = p->shared ? comm_alloc(m->r->comm, bytes + 1) : malloc(bytes + 1);
    rank_check(m->r, p->data != NULL, "no memory");
    memset(p->data, UNTOUCHED, bytes);
    if (m->holds) {
        fill(p);
    }
    m->bytes += bytes;
    snprintf(as.name, sizeof(as.name), "%s%u", name, p->index);
    if (calls) {
        as = (struct state_part){.save = save, .load = load, .arg = p};
        snprintf(as.name, sizeof(as.name), "%s%u", name, p->index);
    } else {
        as.data = p->data;
    }
    rc = state_add(&m->state, &as);
    rank_check(m->r, rc == MU_OK, "adding part %u: %s: %s", p->index, mu_strerror(rc), mu_error());
}

static void build(struct model *m)
{
    add(m, "weights", false, m->c->large);
    add(m, "tiny", false, 17);
    add(m, "empty", false, 0);
    add(m, "optimizer", true, 3000 + m->c->seed % 5000);
    add(m, "nothing", true, 0);
    add(m, "large-calls", true, ((size_t)2 << 20) + 77 + m->c->seed % 1000);
    add(m, "momentum", false, (size_t)1 << 20);
    for (uint32_t i = 0; i < m->c->small_n; i++) {
        add(m, "small", false, 900001 - 1000 * i);
    }
    add(m, "last", false, 1);
}

static void take_down(struct model *m)
{
    state_close(&m->state);
    for (uint32_t i = 0; i < m->parts_n; i++) {
        struct part *p = &m->parts[i];

        p->shared ? comm_free(m->r->comm, p->data) : free(p->data);
        free(p->loaded);
    }
}

/* ---- a byte that flips ---- */

static const struct model *flips; /* NULL: none does */

int __real_comm_start(struct comm *c, const struct comm_call *call,
                      struct comm_started **started_out);
int __wrap_comm_start(struct comm *c, const struct comm_call *call,
                      struct comm_started **started_out);
int __real_comm_finish(struct comm_started *started, int64_t timeout_ms,
                       struct comm_result *result_out);
int __wrap_comm_finish(struct comm_started *started, int64_t timeout_ms,
                       struct comm_result *result_out);

static struct comm_started *flying;
static uint8_t *flying_to;

int __wrap_comm_start(struct comm *c, const struct comm_call *call,
                      struct comm_started **started_out)
{
    int rc = __real_comm_start(c, call, started_out);

    if (rc == MU_OK && flips != NULL && flying == NULL) {
        flying = *started_out;
        flying_to = (uint8_t *)call->out + call->count / 2;
    }
    return rc;
}

int __wrap_comm_finish(struct comm_started *started, int64_t timeout_ms,
                       struct comm_result *result_out)
{
    int rc = __real_comm_finish(started, timeout_ms, result_out);

    if (rc == MU_OK && flips != NULL && started == flying) {
        *flying_to ^= 4;
        flips = NULL;
    }
    return rc;
}

/* ---- streaming ---- */

static void check_after(struct model *m, int rc)
{
    for (uint32_t i = 0; i < m->parts_n; i++) {
        const struct part *p = &m->parts[i];

        if (m->holds) {
            check_bytes(p, p->data, p->bytes, "what a holder had");
            rank_check(m->r, p->loads_n == 0, "a holder's part %u was loaded", i);
        } else if (rc == MU_OK) {
            check_bytes(p, p->calls ? p->loaded : p->data, p->calls ? p->loaded_bytes : p->bytes,
                        "what came");
            rank_check(m->r, p->saves_n == 0, "a newcomer's part %u was saved", i);
        } else if (m->c->whole && rc != LOAD_STATUS) {
            check_untouched(p);
        } else if (rc != LOAD_STATUS) {
            rank_check(m->r, p->loads_n == 0, "part %u was loaded, and the rest did not come", i);
        }
    }
}

static int stream(struct model *m, const uint8_t *holds, wid *lost_out)
{
    const struct state_mark told = {m->c->seed, 2 * m->c->seed + 1, 77};
    struct state_mark mark = {1, 2, 3};
    int rc;

    if (m->holds) {
        mark = told;
    }
    if (m->c->fault == STATE_MARK_DIFFERS && m->r->index == m->c->odd) {
        mark.samples++;
    }
    rc = state_stream(&m->state, m->r->comm, holds, m->c->whole, &mark, lost_out);
    if (rc == MU_OK && m->c->fault == STATE_WELL) {
        rank_check(m->r,
                   mark.step == told.step && mark.samples == told.samples &&
                       mark.offset == told.offset,
                   "the mark is step %" PRIu64 ", %" PRIu64 " samples", mark.step, mark.samples);
    }
    check_after(m, rc);
    return rc;
}

static void check_counts(struct model *m)
{
    struct state_shared *shared = (struct state_shared *)(void *)m->r->shared;
    const uint32_t lacking_n = m->c->n - (uint32_t)__builtin_popcount(m->c->holders);

    rank_check(m->r, (m->holds ? m->state.got : m->state.sent) == 0, "it got what it gave");
    rank_check(m->r, m->holds || m->state.got == m->bytes, "%" PRIu64 " bytes came, not %" PRIu64,
               m->state.got, m->bytes);
    atomic_fetch_add(&shared->sent, m->state.sent);
    rank_meet(m->r, &shared->come_n);
    rank_check(m->r, atomic_load(&shared->sent) == m->bytes * lacking_n,
               "%" PRIu64 " bytes were given, not %" PRIu64, atomic_load(&shared->sent),
               m->bytes * lacking_n);
}

static int expected(const struct model *m, uint32_t odd)
{
    const bool is_odd = m->r->index == odd;

    switch (m->c->fault) {
    case STATE_SAVE_FAILS:
        return is_odd ? SAVE_STATUS : MU_EPEER;
    case STATE_MARK_DIFFERS:
    case STATE_LENGTH_DIFFERS:
        return is_odd ? MU_ECORRUPT : MU_EPEER;
    case STATE_LOAD_FAILS:
        return is_odd ? LOAD_STATUS : MU_OK;
    case STATE_BYTE_FLIPS:
        return is_odd ? MU_ECORRUPT : MU_OK;
    default:
        return MU_OK;
    }
}

/* The first time, in which something may go wrong. */
static void stream_first(struct model *m, const uint8_t *holds)
{
    const struct state_case *c = m->c;
    const bool is_victim = m->r->index == c->victim;
    char order[32];
    wid lost = 99;
    int rc;

    snprintf(order, sizeof(order), "kill:%lu", c->k);
    flips = c->fault == STATE_BYTE_FLIPS && m->r->index == c->odd ? m : NULL;
    hook_arm(is_victim ? order : NULL);
    rc = stream(m, holds, &lost);
    if (c->k == 0) {
        rank_check(m->r, rc == expected(m, c->odd), "%d (%s): %s", rc, mu_strerror(rc), mu_error());
        rank_check(m->r, lost == (rc == MU_EPEER ? ranks_wid(c->odd) : 0), "it blames %" PRIx64,
                   lost);
    } else {
        rank_check(m->r, rc == MU_OK || rc == MU_EPEER, "%d (%s): %s", rc, mu_strerror(rc),
                   mu_error());
        rank_check(m->r, lost == 0 || lost == ranks_wid(c->victim), "it blames %" PRIx64, lost);
    }
    rank_check(m->r, rc == MU_OK || strstr(mu_error(), "state") != NULL, "it says: %s", mu_error());
    if (c->fault == STATE_BYTE_FLIPS && rc != MU_OK) {
        rank_check(m->r, strstr(mu_error(), "weights0: chunk ") != NULL, "it says: %s", mu_error());
    }
    if (is_victim) {
        rank_say(m->r, STATE_PASSED, hook_count(), 0);
    }
    hook_arm(NULL);
    rank_say(m->r, STATE_RETURNED, (uint64_t)-rc, 0);
    if (c->k == 0 && c->fault == STATE_WELL) {
        check_counts(m);
    }
}

/* Those who are left, with the same holders; false: there is none. */
static bool holders_left(struct model *m, const struct generation *g, uint8_t *holds)
{
    bool any = false;

    for (uint32_t rank = 0; rank < g->members_n; rank++) {
        holds[rank] = m->c->holders >> (wid_node(g->members[rank].worker) - 1) & 1;
        any |= holds[rank];
    }
    return any;
}

void state_body(struct rank *r)
{
    const struct state_case *c = r->arg;
    static struct model m;
    uint8_t holds[RANKS_MAX];
    const struct generation *g;

    m = (struct model){.r = r, .c = c, .holds = c->holders >> r->index & 1};
    build(&m);
    g = rank_enter(r, 0);
    ranks_check_links(r, c->layout);
    rank_meet(r, &((struct state_shared *)(void *)r->shared)->come_n);
    holders_left(&m, g, holds);
    stream_first(&m, holds);
    if (rank_word(r) == STATE_REGROUP) {
        wid lost = 0;

        g = rank_enter(r, 1);
        if (holders_left(&m, g, holds)) {
            int rc = stream(&m, holds, &lost);

            rank_check(r, rc == MU_OK, "again, without the victim: %s: %s", mu_strerror(rc),
                       mu_error());
        }
        rank_say(r, STATE_WENT_ON, 0, 0);
        rank_word(r); /* The others may still be on their way to this generation. */
    }
    take_down(&m);
}
