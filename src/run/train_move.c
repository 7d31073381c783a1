/* Generations: what the agent says of them is told to core/step, and the data plane follows. */
#include "base/log.h"
#include "run/train.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define AREA "run"

/* So long it tries one generation before it looks whether there is a newer one. */
enum { MOVE_MS = 100 };

/* ---- news ---- */

static void forget_life(struct train *t)
{
    t->forget_due = false;
    t->base_due = t->reduce_due = t->apply_due = t->stream_due = t->settle_due = false;
    t->check_due = t->digest_due = false;
    slices_clear(&t->todo);
    blocks_clear(&t->blocks);
    train_release(t);
    t->active = t->linked = 0;
    t->moved = t->base_known = 0;
    t->broken = t->diverged = t->odd_one = false;
}

/* The state is of no use any more: its agent is to give it another life. */
static void say_forget(struct train *t)
{
    struct mu_run *run = t->run;
    struct msg_forget m;

    forget_life(t);
    pthread_mutex_lock(&run->lock);
    m.worker = run->life.worker;
    t->entered = t->agreed = t->odd = 0;
    t->fault = FAULT_NONE;
    run->forgetting = true;
    if (control_say(run, WIRE_FORGET, &m) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a word to the agent");
    }
    pthread_mutex_unlock(&run->lock);
}

/* Its agent knows it by another name now, and nothing of what it was is left. Under the lock. */
static void take_life(struct train *t)
{
    if (t->step.config.self == t->run->life.worker || t->run->forgetting) {
        return;
    }
    forget_life(t);
    step_reset(&t->step, t->run->life.worker);
    t->entered = t->agreed = t->odd = 0;
    t->fault = FAULT_NONE;
    free(t->pending.members);
    free(t->group.members);
    t->pending = t->group = (struct generation){0};
}

struct news {
    struct generation newest; /* number 0: nothing new */
    uint64_t active, lease_ms, linked;
};

/* Under the lock. */
static int look(struct train *t, struct news *news)
{
    struct mu_run *run = t->run;

    *news = (struct news){.active = run->active, .lease_ms = run->lease_ms};
    news->linked = run->data.linked;
    if (run->data.named != run->life.worker && !run->alone) {
        return MU_EAGAIN; /* The data plane has yet to take the name. */
    }
    if (run->newest.number > t->pending.number && !run_newest(run, &news->newest)) {
        return run_fail(MU_ENOMEM, "out of memory for a generation");
    }
    return MU_OK;
}

/* core/step acts in the generation that it was told last: that one is kept as long as it does. */
static int take_group(struct train *t)
{
    struct member *members;

    if (t->group.number == t->step.group.number || t->pending.number != t->step.group.number) {
        return MU_OK;
    }
    members = malloc(t->pending.members_n * sizeof(*members));
    if (members == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for a generation");
    }
    memcpy(members, t->pending.members, t->pending.members_n * sizeof(*members));
    free(t->group.members);
    t->group = t->pending;
    t->group.members = members;
    return MU_OK;
}

/* The one before may be the one that it acts in by now, and the data plane has yet to follow. */
static int tell_generation(struct train *t, struct generation *g)
{
    int rc = take_group(t);

    if (rc != MU_OK) {
        free(g->members);
        return rc;
    }
    free(t->pending.members);
    t->pending = *g;
    if (g->kind == GENERATION_FAILURE) {
        for (int i = 0; i < SAVERS_N; i++) {
            atomic_store(&t->savers[i].alone, true);
        }
        train_pause_begin(t);
    }
    train_event(t, (struct step_event){.kind = STEP_ON_GENERATION, .u.generation = &t->pending});
    return MU_OK;
}

uint64_t train_boot_ms(void)
{
    struct timespec ts;

    mu_assert(clock_gettime(CLOCK_BOOTTIME, &ts) == 0);
    return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

int train_news(struct train *t)
{
    struct mu_run *run = t->run;
    struct news news;
    int rc;

    if (t->forget_due) {
        say_forget(t);
    }
    pthread_mutex_lock(&run->lock);
    t->news = run->news; /* Whatever comes from here on is looked at again. */
    take_life(t);
    rc = run->forgetting ? MU_EAGAIN : look(t, &news);
    pthread_mutex_unlock(&run->lock);
    if (rc != MU_OK) {
        return rc;
    }
    if (run->alone) {
        news.lease_ms = train_boot_ms();
    }
    if (news.lease_ms > t->lease_ms) {
        t->lease_ms = news.lease_ms;
        train_event(t, (struct step_event){.kind = STEP_ON_LEASE, .time_ms = t->lease_ms});
    }
    if (news.newest.number != 0) {
        run_resolve(&news.newest);
        rc = tell_generation(t, &news.newest);
        if (rc != MU_OK) {
            return rc;
        }
    }
    if (news.active > t->active && t->step.entered != 0 && !t->forget_due) {
        t->active = news.active;
        train_event(t, (struct step_event){.kind = STEP_ON_ACTIVE, .generation = t->active});
    }
    if (news.linked > t->linked) {
        t->linked = news.linked;
        train_event(t, (struct step_event){.kind = STEP_ON_LINKED, .generation = t->linked});
    }
    return t->forget_due ? MU_EAGAIN : MU_OK;
}

/* ---- moving ---- */

/* For the caller's hook: addresses are mu_world()'s. Under the lock. */
static mu_world_info world_of(const struct train *t)
{
    const mu_group_info *g = &t->run->data.info;
    mu_world_info w = {.generation = g->generation,
                       .rank = t->run->data.group != 0 ? g->rank : -1,
                       .size = g->size,
                       .local_rank = -1};

    memcpy(w.job, t->run->life.job, sizeof(w.job));
    memcpy(w.node, t->run->life.node, sizeof(w.node));
    return w;
}

static void say_moved(struct train *t)
{
    struct mu_run *run = t->run;
    mu_world_info old, new;

    pthread_mutex_lock(&run->lock);
    old = world_of(t);
    run->data.reached = MAX(run->data.reached, t->moved);
    run->data.group = t->moved;
    run->data.group_as = run->life.worker;
    run->data.info = (mu_group_info){t->moved, (int)t->step.group.me, (int)t->step.group.n, 0};
    t->told.generations++;
    new = world_of(t);
    if (!run->alone) {
        told_again(run);
    }
    pthread_mutex_unlock(&run->lock);
    if (t->hooks.on_generation != NULL) {
        t->hooks.on_generation(t->hooks.arg, &old, &new);
    }
}

int train_follow(struct train *t)
{
    int rc = take_group(t);

    mu_assert(rc != MU_OK || t->group.number == t->step.group.number);
    return rc;
}

int train_move(struct train *t)
{
    int rc;

    if (t->moved == t->group.number) {
        return MU_OK;
    }
    rc = comm_move(t->run->data.comm, &t->group, MOVE_MS, NULL);
    if (rc == MU_OK) {
        t->moved = t->group.number;
        t->broken = false;
        say_moved(t);
        return MU_OK;
    }
    if (rc == MU_ENOMEM || rc == MU_EINVAL || rc == MU_EDONE) {
        return run_fail(rc, "the members of generation %" PRIu64 " can't be linked: %s",
                        t->group.number, mu_strerror(rc));
    }
    return MU_EAGAIN;
}

void train_break(struct train *t, wid blamed, bool silent)
{
    struct mu_run *run = t->run;
    struct msg_suspect m = {.by = run->life.worker,
                            .peer = blamed,
                            .generation = t->moved,
                            .idle_ms = silent ? (uint32_t)MIN(run->config.step_ms, INT32_MAX) : 0};

    t->broken = true;
    train_pause_begin(t);
    if (blamed == 0 || run->alone) {
        return;
    }
    pthread_mutex_lock(&run->lock);
    if (run->newest.number == t->moved && control_say(run, WIRE_SUSPECT, &m) != MU_OK) {
        control_lost(run, MU_ENOMEM, "out of memory for a word to the agent");
    }
    pthread_mutex_unlock(&run->lock);
}
