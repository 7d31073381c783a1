/* A rank that trains: core/step decides, the data plane carries. Its gradients depend on the
 * weights, so a step that was lost, made twice or made from other slices would show in all that
 * follow. */
#include "comm/step.h"

#include "base/crc32c.h"
#include "base/hook.h"
#include "comm/reference.h"
#include "core/step.h"
#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURN_MS 5
#define FRAME_MAX 8192

struct trainer {
    struct step_effects fx; /* first */
    struct rank *r;
    struct step_shared *shared;
    struct step step;
    struct generation newest; /* that it has moved to */
    struct member members[RANKS_MAX];
    uint64_t reported, told_active;

    float weights[STEP_WEIGHTS];
    float want[STEP_STEPS + 1][STEP_WEIGHTS]; /* as one process has them */
    float gradients[STEP_SLICES][STEP_WEIGHTS];
    uint64_t gradient_step[STEP_SLICES];
    float sum[STEP_WEIGHTS], result[STEP_WEIGHTS];
    float parts[STEP_SLICES][STEP_WEIGHTS];

    bool base_due, reduce_due, apply_due;
    uint64_t base_step, reduce_step, apply_step;
    struct slices compute;
    uint64_t compute_step;
    uint64_t digest_step, check_step; /* asked for; 0 */
    uint32_t check_slice;
};

/* ---- the model ---- */

static void gradient(const float *weights, uint64_t step, uint32_t slice, float *out)
{
    reference_fill(DTYPE_F32, 1, step * STEP_SLICES + slice, out, STEP_WEIGHTS);
    for (uint32_t i = 0; i < STEP_WEIGHTS; i++) {
        out[i] += 0.25f * weights[i];
    }
}

static void update(float *weights, const float *mean)
{
    for (uint32_t i = 0; i < STEP_WEIGHTS; i++) {
        weights[i] -= 0.125f * mean[i];
    }
}

/* One undisturbed process. */
static void train_alone(struct trainer *t)
{
    static float slices[STEP_SLICES][STEP_WEIGHTS], mean[STEP_WEIGHTS];
    const void *in[STEP_SLICES];

    for (uint64_t step = 1; step <= STEP_STEPS; step++) {
        for (uint32_t s = 0; s < STEP_SLICES; s++) {
            gradient(t->want[step - 1], step, s, slices[s]);
            in[s] = slices[s];
        }
        reference_fold(DTYPE_F32, REDUCE_MEAN, STEP_SLICES, mean, in, STEP_SLICES, 0, STEP_WEIGHTS);
        memcpy(t->want[step], t->want[step - 1], sizeof(mean));
        update(t->want[step], mean);
    }
}

/* ---- effects ---- */

static void mail(struct trainer *t, uint64_t generation, uint32_t to, enum wire_type type,
                 const void *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t n;

    rank_check(t->r, wire_encode(type, msg, generation, 0, frame, sizeof(frame), &n) == MU_OK,
               "a frame that can't be encoded");
    if (generation == comm_generation(t->r->comm)) {
        (void)comm_mail(t->r->comm, to, frame, n); /* Lost: the next generation says so. */
    }
}

static void stream(struct trainer *t)
{
    const struct group *g = &t->step.group;
    struct msg_state m = {.from = t->r->self,
                          .step = t->step.committed,
                          .total = sizeof(t->weights),
                          .data_n = sizeof(t->weights),
                          .data = (uint8_t *)t->weights};

    for (uint32_t i = 0; i < g->n; i++) {
        if (i != g->me && !g->caught_up[i]) {
            mail(t, g->number, i, WIRE_STATE, &m);
        }
    }
}

static void emit(struct step_effects *fx, const struct step_effect *e)
{
    struct trainer *t = (struct trainer *)fx;

    switch (e->kind) {
    case STEP_REPORT:
        if (t->step.entered > t->reported) {
            t->reported = t->step.entered;
            rank_say(t->r, STEP_ENTERED, t->reported, t->step.committed);
        }
        break;
    case STEP_BASE:
        t->base_due = true;
        t->base_step = e->step;
        break;
    case STEP_COMPUTE:
        t->compute = *e->slices;
        t->compute_step = e->step;
        break;
    case STEP_CHECK:
        t->check_step = e->step;
        t->check_slice = e->slice;
        break;
    case STEP_DIGEST:
        t->digest_step = e->step;
        break;
    case STEP_REDUCE:
        t->reduce_due = true;
        t->reduce_step = e->step;
        break;
    case STEP_CANCEL:
        t->reduce_due = false;
        break;
    case STEP_COMMIT:
        t->shared->settled_n += t->step.phase == STEP_SETTLING;
        memcpy(t->result, t->sum, sizeof(t->result));
        t->apply_due = true;
        t->apply_step = e->step;
        break;
    case STEP_STREAM:
        stream(t);
        break;
    case STEP_SEND_READY:
        mail(t, e->group->number, COMM_NOBODY, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        mail(t, e->group->number, COMM_NOBODY, WIRE_SETTLE, e->settle);
        break;
    default:
        rank_fail(t->r, "effect %d is not of this test", e->kind);
    }
}

static void happen(struct trainer *t, struct step_event e)
{
    e.now_ms = ranks_now_ns() / 1000000;
    step_event(&t->step, &e, &t->fx);
}

/* ---- what is due ---- */

static void compute(struct trainer *t)
{
    for (uint32_t s = 0; s < STEP_SLICES; s++) {
        if (slices_has(&t->compute, s) && t->compute_step == t->step.committed + 1) {
            slices_remove(&t->compute, s);
            t->shared->redone_n += t->gradient_step[s] == t->compute_step;
            gradient(t->weights, t->compute_step, s, t->gradients[s]);
            t->gradient_step[s] = t->compute_step;
            happen(t, (struct step_event){
                          .kind = STEP_ON_COMPUTED, .step = t->compute_step, .slice = s});
        }
    }
}

static void vouch(struct trainer *t, struct step_event e, const float *values)
{
    uint8_t hash[HASH_BYTES] = {1};
    uint32_t crc = crc32c(0, values, STEP_WEIGHTS * sizeof(*values));

    memcpy(hash + 1, &crc, sizeof(crc));
    e.u.hash = hash;
    happen(t, e);
}

static void check(struct trainer *t)
{
    struct step_event e = {.kind = STEP_ON_CHECKED, .step = t->check_step, .slice = t->check_slice};
    float values[STEP_WEIGHTS];

    t->check_step = 0;
    if (e.step == t->step.committed + 1) {
        gradient(t->weights, e.step, e.slice, values);
        vouch(t, e, values);
    }
}

static void digest(struct trainer *t)
{
    struct step_event e = {.kind = STEP_ON_DIGEST, .step = t->digest_step};

    t->digest_step = 0;
    vouch(t, e, t->weights);
}

/* The sum of each of this rank's subtrees. */
static uint32_t fold_own(struct trainer *t, struct comm_part parts[STEP_SLICES])
{
    struct subtree tree;
    uint32_t n = 0;

    for (uint32_t from = 0; plan_next_subtree(&t->step.plan, t->step.group.me, from, &tree);
         from = tree.lo + tree.width) {
        const void *in[STEP_SLICES];

        for (uint32_t i = 0; i < tree.width; i++) {
            in[i] = t->gradients[tree.lo + i];
        }
        reduce_fold(NULL, DTYPE_F32, REDUCE_SUM, 1, t->parts[n], NULL, in, NULL, tree.width,
                    STEP_WEIGHTS);
        parts[n] = (struct comm_part){tree.lo, tree.width, t->parts[n]};
        n++;
    }
    return n;
}

static void reduce(struct trainer *t)
{
    struct comm_part parts[STEP_SLICES];
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .out = t->sum,
                             .count = STEP_WEIGHTS,
                             .dtype = DTYPE_F32,
                             .reduce = REDUCE_MEAN,
                             .timeout_ms = -1,
                             .slices_n = STEP_SLICES,
                             .owners = t->step.plan.owner,
                             .parts = parts};

    t->reduce_due = false;
    call.parts_n = fold_own(t, parts);
    if (comm_run(t->r->comm, &call, NULL) == MU_OK) {
        happen(t, (struct step_event){.kind = STEP_ON_REDUCED,
                                      .generation = t->step.group.number,
                                      .step = t->reduce_step});
    }
}

static void apply(struct trainer *t)
{
    t->apply_due = false;
    update(t->weights, t->result);
    rank_check(t->r, memcmp(t->weights, t->want[t->apply_step], sizeof(t->weights)) == 0,
               "after step %llu the weights are not what one process has",
               (unsigned long long)t->apply_step);
#ifdef MUSTER_HOOKS
    const struct step_case *c = t->r->arg;
    char order[32];

    if (c->k != 0 && t->r->index == c->victim && t->apply_step == STEP_ARMED) {
        snprintf(order, sizeof(order), "kill:%lu", c->k);
        hook_arm(order);
    }
#endif
    happen(t, (struct step_event){.kind = STEP_ON_APPLIED, .step = t->apply_step});
}

/* True: something was. */
static bool do_due(struct trainer *t)
{
    if (t->base_due) {
        t->base_due = false;
        happen(t, (struct step_event){.kind = STEP_ON_LOADED,
                                      .generation = t->step.group.number,
                                      .step = t->base_step});
    } else if (t->apply_due) {
        apply(t);
    } else if (t->digest_step != 0) {
        digest(t);
    } else if (t->check_step != 0) {
        check(t);
    } else if (slices_next(&t->compute, 0) < STEP_SLICES) {
        compute(t);
        slices_clear(&t->compute);
    } else if (t->reduce_due) {
        reduce(t);
    } else {
        return false;
    }
    return true;
}

/* ---- what it hears ---- */

static void on_frame(struct trainer *t, const uint8_t *frame, size_t n)
{
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    struct step_event e = {.key = t->newest.key};

    rank_check(t->r, wire_frame_decode(frame, n, &h, &msg, &none, NULL) == MU_OK, "a bad frame");
    if (!step_fence(&t->step, h.generation, t->newest.key)) {
        return;
    }
    e.generation = h.generation;
    switch (h.type) {
    case WIRE_READY:
        e.kind = STEP_ON_READY;
        e.u.ready = &msg.ready;
        break;
    case WIRE_SETTLE:
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &msg.settle;
        break;
    default:
        rank_check(t->r, h.type == WIRE_STATE && msg.state.data_n == sizeof(t->weights),
                   "mail of type %u", h.type);
        memcpy(t->weights, msg.state.data, sizeof(t->weights));
        e.kind = STEP_ON_LOADED;
        e.step = msg.state.step;
        break;
    }
    happen(t, e);
}

/* The newest generation, if it is newer than the one it has moved to. */
static bool find_newer(struct trainer *t)
{
    struct rank *r = t->r;
    bool found = false;

    pthread_mutex_lock(&r->lock);
    if (r->generations_n > 0 && r->generations[r->generations_n - 1].number > t->newest.number) {
        t->newest = r->generations[r->generations_n - 1];
        memcpy(t->members, t->newest.members, t->newest.members_n * sizeof(struct member));
        t->newest.members = t->members;
        found = true;
    }
    pthread_mutex_unlock(&r->lock);
    for (uint32_t i = 0; found && i < t->newest.members_n; i++) {
        t->members[i].flags = t->newest.kind == GENERATION_FAILURE ? MEMBER_CAUGHT_UP : 0;
    }
    return found;
}

static void move(struct trainer *t)
{
    int rc = comm_move(t->r->comm, &t->newest, RANKS_LIMIT_MS / 4, NULL);

    if (rc == MU_OK) {
        happen(t, (struct step_event){.kind = STEP_ON_GENERATION, .u.generation = &t->newest});
    } else {
        rank_check(t->r, rc == MU_EPEER, "moving to generation %llu: %s",
                   (unsigned long long)t->newest.number, mu_strerror(rc));
    }
}

static void listen(struct trainer *t)
{
    uint64_t active = atomic_load(&t->shared->active);
    uint8_t frame[FRAME_MAX];
    char error[COMM_ERROR_MAX];
    uint32_t rank;
    size_t n;

    if (active > t->told_active) {
        t->told_active = active;
        happen(t, (struct step_event){.kind = STEP_ON_ACTIVE, .generation = active});
    } else if (comm_hear(t->r->comm, TURN_MS, frame, sizeof(frame), &n, &rank, error) == MU_OK) {
        on_frame(t, frame, n);
    }
}

void step_rank(struct rank *r)
{
    struct trainer *t = calloc(1, sizeof(*t));
    const struct step_config config = {.self = r->self,
                                       .slices_n = STEP_SLICES,
                                       .members_max = RANKS_MAX,
                                       .steps_n = STEP_STEPS,
                                       .orphan_ms = 10 * RANKS_LIMIT_MS,
                                       .digest_every = 1,
                                       .check_every = 2};

    rank_check(r, t != NULL && step_init(&t->step, &config) == MU_OK, "no memory");
    t->fx.emit = emit;
    t->r = r;
    t->shared = (struct step_shared *)(void *)r->shared;
    train_alone(t);
    while (t->step.phase != STEP_FINISHED) {
        if (find_newer(t)) {
            move(t);
        }
        happen(t, (struct step_event){.kind = STEP_ON_LEASE, .time_ms = ranks_now_ns() / 1000000});
        if (!do_due(t)) {
            listen(t);
        }
    }
    rank_check(r, t->step.committed == STEP_STEPS, "it finished after step %llu",
               (unsigned long long)t->step.committed);
#ifdef MUSTER_HOOKS
    if (((const struct step_case *)r->arg)->victim == r->index) {
        atomic_store(&t->shared->points, hook_count());
    }
#endif
    rank_say(r, STEP_ENDED, t->step.committed, 0);
    (void)rank_word(r); /* Those who are behind may still need what it has said. */
    step_close(&t->step);
    free(t);
}
