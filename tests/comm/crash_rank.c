#include "comm/crash.h"

#include "base/hook.h"
#include "comm/drive.h"
#include "comm/reference.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct life {
    struct drive d; /* first */
    struct rank *r;
    const struct crash *c;
    struct crash_shared *shared;
    bool is_victim;
    float *in, *out;
    float *want[2]; /* by all, by the survivors: of call `wanted` */
    float *theirs[CRASH_RANKS];
};

static void fill(const struct life *l, uint32_t who, uint32_t call, float *to)
{
    reference_fill(DTYPE_F32, 1, 1000 * call + who, to, l->c->count);
}

static void prepare(struct life *l, uint32_t call)
{
    const void *all[CRASH_RANKS], *rest[CRASH_RANKS];
    uint32_t rest_n = 0;

    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        fill(l, i, call, l->theirs[i]);
        all[i] = l->theirs[i];
        if (i != l->c->victim) {
            rest[rest_n++] = l->theirs[i];
        }
    }
    reference_fold(DTYPE_F32, REDUCE_SUM, 1, l->want[0], all, CRASH_RANKS, 0, l->c->count);
    reference_fold(DTYPE_F32, REDUCE_SUM, 1, l->want[1], rest, rest_n, 0, l->c->count);
    fill(l, l->r->index, call, l->in);
}

static void check_input(const struct life *l, uint32_t call, const char *when)
{
    rank_check(l->r, memcmp(l->in, l->theirs[l->r->index], 4 * l->c->count) == 0,
               "call %u: its input was changed %s", call, when);
}

/* The call went well: as the others', and with the bits of those it says. */
static void check_result(struct life *l, uint32_t call, const struct comm_result *result)
{
    const float *got = l->c->view ? result->view : l->out;
    const bool all = result->generation == 1;
    uint64_t none = 0;

    rank_check(l->r, result->members_n == (all ? CRASH_RANKS : CRASH_RANKS - 1),
               "call %u: %u members of generation %llu", call, result->members_n,
               (unsigned long long)result->generation);
    rank_check(l->r, got != NULL && memcmp(got, l->want[!all], 4 * l->c->count) == 0,
               "call %u: wrong bits from generation %llu", call,
               (unsigned long long)result->generation);
    if (!atomic_compare_exchange_strong(&l->shared->generation[call], &none, result->generation)) {
        rank_check(l->r, none == result->generation,
                   "call %u: counts in generation %llu here, in %llu elsewhere", call,
                   (unsigned long long)result->generation, (unsigned long long)none);
    }
    if (l->is_victim) {
        atomic_store(&l->shared->victim_ok[call], 1);
    }
    check_input(l, call, "by a call that went well");
    if (l->c->view) {
        comm_release(l->r->comm, result->view);
    }
}

/* ---- the group ---- */

/* An agreed call that had failed here counts after all. */
static void on_effect(struct drive *d, const struct step_effect *e)
{
    if (e->kind == STEP_COMMIT && e->settled) {
        (void)comm_settled(d->r->comm, true);
    }
}

/* Until calls can be made, and its generation is active: then they can be agreed on. */
static void await_open(struct life *l)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS / 2 * UINT64_C(1000000);
    struct step_todo todo;

    for (;;) {
        drive_next(&l->d, &todo);
        if (todo.what == STEP_OPEN && step_confirmed(&l->d.step)) {
            return;
        }
        if (todo.what == STEP_OPEN) {
            todo.what = STEP_WAIT;
        }
        drive_do(&l->d, &todo);
        rank_check(l->r, ranks_now_ns() < end_ns, "no group is open: %d is next in generation %llu",
                   todo.what, (unsigned long long)term_generation(todo.term));
    }
}

static void open_group(struct life *l)
{
    const struct step_config config = {.self = l->r->self,
                                       .slices_n = 1,
                                       .members_max = RANKS_MAX,
                                       .calls = true,
                                       .orphan_ms = UINT64_MAX};

    l->d = (struct drive){.r = l->r,
                          .active = &l->shared->active,
                          .entered_says = CRASH_ENTERED,
                          .effect = on_effect};
    drive_open(&l->d, &config);
    await_open(l);
}

/* ---- calls ---- */

static int run(struct life *l, uint32_t number, struct comm_result *result)
{
    const uint64_t term = step_term(&l->d.step);
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = l->in,
                             .out = l->c->view ? NULL : l->out,
                             .count = l->c->count,
                             .dtype = DTYPE_F32,
                             .reduce = REDUCE_SUM,
                             .flags = COMM_AGREE | (l->c->view ? COMM_VIEW : 0),
                             .timeout_ms = comm_generation(l->r->comm) == 1 ? l->c->timeout_ms
                                                                            : RANKS_LIMIT_MS / 2};
    int rc;

    memset(result, 0, sizeof(*result));
    memset(l->out, 0xdd, 4 * l->c->count);
    rc = comm_run(l->r->comm, &call, result);
    if (rc == MU_OK) {
        check_result(l, number, result);
    } else if (rc == MU_EPEER) {
        drive_failed(&l->d, term, result->worker);
    }
    return rc;
}

/* The survivor's way on: the group moves, settles, and the call can be made again. */
static void regroup(struct life *l, uint32_t call, bool had_it)
{
    struct rank *r = l->r;
    bool committed;

    check_input(l, call, "by one that failed");
    if (l->c->scribbles) {
        memset(l->in, 0xee, 4 * l->c->count);
    }
    rank_await(r, 1);
    await_open(l);
    rank_check(r, comm_generation(r->comm) == 2, "call %u: generation %llu is open", call,
               (unsigned long long)comm_generation(r->comm));
    fill(l, r->index, call, l->in);
    committed = comm_settled(r->comm, false);
    committed |= had_it; /* What it says then is about the next one: that nobody has made it. */
    rank_check(r, committed || atomic_load(&l->shared->victim_ok[call]) == 0,
               "call %u: taken back after the victim had returned it", call);
    rank_say(r, CRASH_SETTLED, call, committed);
}

/* Whoever finds that a peer has done nothing for long can't always tell who kept that one from it:
 * the test sees to it that somebody names the right one. */
static void check_blame(struct life *l, uint32_t call, int rc, const struct comm_result *result)
{
    const bool right = result->rank == l->c->victim && result->worker == ranks_wid(l->c->victim);
    const bool open = result->rank == COMM_NOBODY && !l->c->named;
    const bool guess = l->c->stop && l->c->named && result->rank < CRASH_RANKS;

    rank_check(l->r, rc == MU_EPEER, "call %u: %s: %s", call, mu_strerror(rc), result->error);
    rank_check(l->r, right || open || guess, "call %u: it blames rank %u, not %u: %s", call,
               result->rank, l->c->victim, result->error);
    rank_say(l->r, CRASH_RETURNED, (uint64_t)result->rank << 32 | call,
             right ? CRASH_BLAMED : CRASH_FAILED);
}

/* Makes one call until it has its result. */
static void call_through(struct life *l, uint32_t call)
{
    struct comm_result result;
    int rc;

    prepare(l, call);
    rc = run(l, call, &result);
    if (rc != MU_OK && l->is_victim) { /* It has been away, and the others went on. */
        check_input(l, call, "by a zombie's call");
        rank_say(l->r, CRASH_ZOMBIE, call, (uint64_t)-rc);
        rank_check(l->r, rc == MU_EPEER, "the zombie's call %u: %s: %s", call, mu_strerror(rc),
                   result.error);
        return;
    }
    if (rc != MU_OK) {
        rank_check(l->r, comm_generation(l->r->comm) == 1, "call %u: %s in generation %llu: %s",
                   call, mu_strerror(rc), (unsigned long long)comm_generation(l->r->comm),
                   result.error);
        check_blame(l, call, rc, &result);
        regroup(l, call, false);
        rc = run(l, call, &result);
        rank_check(l->r, rc == MU_OK, "call %u again: %s: %s", call, mu_strerror(rc), result.error);
    } else if (call == 0 && l->c->asks && !l->is_victim) {
        rank_say(l->r, CRASH_RETURNED, call, CRASH_WENT_WELL);
        if (rank_word(l->r) == CRASH_REGROUP) {
            regroup(l, call, true);
        }
    }
}

static void live(struct life *l)
{
    const struct crash *c = l->c;
    char order[32];

    snprintf(order, sizeof(order), "%s:%lu", c->stop ? "stop" : "kill", c->k);
    if (l->is_victim) {
        hook_arm(order);
    }
    for (uint32_t call = 0; call < c->calls_n; call++) {
        call_through(l, call);
        if (l->is_victim && atomic_load(&l->shared->victim_ok[call]) == 0) {
            return; /* a zombie */
        }
        if (l->is_victim && call + 1 == c->armed_n) {
            unsigned long n = hook_count();

            hook_arm(NULL);
            rank_say(l->r, CRASH_PASSED, n, 0);
        }
    }
    if (!l->is_victim) {
        uint64_t before[2] = {reference_hash(l->in, 4 * c->count),
                              reference_hash(l->out, 4 * c->count)};

        rank_say(l->r, CRASH_HOLDS, 0, 0);
        while (rank_word(l->r) != CRASH_GO_ON) { /* It had no need to ask before. */
        }
        rank_check(l->r,
                   reference_hash(l->in, 4 * c->count) == before[0] &&
                       reference_hash(l->out, 4 * c->count) == before[1],
                   "its memory was changed while it did nothing");
        call_through(l, c->calls_n); /* The others are there, and no one else. */
        call_through(l, c->calls_n + 1);
    }
}

static float *room(struct life *l, bool shared)
{
    float *p = shared ? comm_alloc(l->r->comm, 4 * l->c->count) : malloc(4 * l->c->count);

    rank_check(l->r, p != NULL, "no memory");
    return p;
}

void crash_body(struct rank *r)
{
    const struct crash *c = r->arg;
    struct life l = {.r = r,
                     .c = c,
                     .shared = (struct crash_shared *)(void *)r->shared,
                     .is_victim = r->index == c->victim};
    const bool shared_in = (c->k + r->index) % 2 == 0, shared_out = (c->k / 2 + r->index) % 2 == 0;

    l.in = room(&l, shared_in);
    l.out = room(&l, shared_out);
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        l.theirs[i] = room(&l, false);
    }
    l.want[0] = room(&l, false);
    l.want[1] = room(&l, false);
    open_group(&l);
    rank_meet(r, &l.shared->come_n); /* Nobody is hit before all are in. */
    live(&l);
    drive_close(&l.d);
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        free(l.theirs[i]);
    }
    free(l.want[0]);
    free(l.want[1]);
    shared_in ? comm_free(r->comm, l.in) : free(l.in);
    shared_out ? comm_free(r->comm, l.out) : free(l.out);
}

/* ---- a call that nobody agrees on ---- */

/* Reads where the others' inputs were, long after they have given up and written there. */
void crash_raw_body(struct rank *r)
{
    const struct crash *c = r->arg;
    struct life l = {.r = r, .c = c};
    const size_t n = CRASH_RANKS * c->count;
    float *want = malloc(4 * n), *all[CRASH_RANKS];
    const void *leaves[CRASH_RANKS];
    struct comm_call call = {.op = COMM_REDUCE_SCATTER,
                             .count = c->count,
                             .dtype = DTYPE_F32,
                             .timeout_ms = c->timeout_ms};
    struct comm_result result;
    char order[32];
    int rc;

    call.in = l.in = comm_alloc(r->comm, 4 * n);
    call.out = l.out = malloc(4 * c->count);
    rank_check(r, want != NULL && l.in != NULL && l.out != NULL, "no memory");
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        leaves[i] = all[i] = malloc(4 * n);
        reference_fill(DTYPE_F32, 1, i, all[i], n);
    }
    memcpy(l.in, all[r->index], 4 * n);
    reference_fold(DTYPE_F32, REDUCE_SUM, 1, want, leaves, CRASH_RANKS, 0, n);
    snprintf(order, sizeof(order), "stop:%lu", c->k);
    rank_enter(r, 0);
    rank_meet(r, &((struct crash_shared *)(void *)r->shared)->come_n);
    hook_arm(r->index == c->victim ? order : NULL);
    rc = comm_run(r->comm, &call, &result);
    hook_arm(NULL);
    rank_check(r, rc == MU_OK || rc == MU_EPEER, "%s: %s", mu_strerror(rc), result.error);
    rank_check(r, rc != MU_OK || memcmp(l.out, want + r->index * c->count, 4 * c->count) == 0,
               "it went well, with wrong bits");
    memset(l.in, 0xee, 4 * n);
    rank_say(r, CRASH_RETURNED, 0, 0);
    rank_word(r);
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        free(all[i]);
    }
    free(want);
    free(l.out);
    comm_free(r->comm, l.in);
}

/* ---- how long until a survivor knows ---- */

void crash_latency_body(struct rank *r)
{
    const struct crash *c = r->arg;
    struct crash_shared *shared = (struct crash_shared *)(void *)r->shared;
    float in[16] = {0}, out[16];
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = in,
                             .out = out,
                             .count = ARRAY_LEN(in),
                             .dtype = DTYPE_F32,
                             .timeout_ms = -1};
    struct comm_result result = {0};
    int rc;

    rank_enter(r, 0);
    rc = comm_run(r->comm, &call, &result);
    rank_check(r, rc == MU_OK, "all there: %s: %s", mu_strerror(rc), result.error);
    rank_say(r, CRASH_PASSED, 0, 0);
    if (r->index == c->victim) {
        rank_word(r); /* never */
    }
    rc = comm_run(r->comm, &call, &result);
    atomic_store(&shared->returned_ns[r->index], ranks_now_ns());
    rank_check(r, rc == MU_EPEER && result.rank == c->victim, "%s: it blames rank %u: %s",
               mu_strerror(rc), result.rank, result.error);
    rank_say(r, CRASH_RETURNED, 0, CRASH_BLAMED);
}
