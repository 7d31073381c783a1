/* What core/step wants: remembered here, done by train_drive.c; what is small is said at once. */
#include "base/hook.h"
#include "base/log.h"
#include "run/train.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define AREA "run"
#define FRAME_MAX 4096

/* Lost: then the peer is, and the next generation says so. */
static void mail(struct train *t, uint64_t generation, enum wire_type type, const void *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t n;

    if (generation != t->moved || t->broken) {
        return;
    }
    mu_assert(wire_encode(type, msg, generation, 0, frame, sizeof(frame), &n) == MU_OK);
    (void)comm_mail(t->run->data.comm, COMM_NOBODY, frame, n);
}

/* How it stands, for the agent. */
static void publish(struct train *t)
{
    struct mu_run *run = t->run;

    pthread_mutex_lock(&run->lock);
    const bool news = t->entered != t->step.entered;

    t->entered = t->step.entered;
    t->agreed = t->step.agreed;
    t->told.step = run->step = t->step.committed;
    if (!run->alone && news) {
        told_again(run);
    } else if (!run->alone && !run->step_due) {
        run->step_due = true; /* Another step alone can wait a little. */
        control_wake(run);
    }
    pthread_mutex_unlock(&run->lock);
}

static void on_commit(struct train *t, uint64_t step, bool save)
{
    t->apply_due = true;
    t->save_due = save;
    t->apply_step = step;
    audit_commit(t, step);
    blocks_clear(&t->blocks);
    t->samples_all += t->result_samples;
    if (t->sharded) {
        shard_advance(&t->shard, (uint32_t)t->result_samples);
        if (t->shard.offset >= t->shard.elements_n) {
            t->step.config.steps_n = step; /* Nothing is left. */
        }
    }
}

/* What it is, and what it mostly comes from if not from hardware. */
static const char *tell_difference(enum step_difference what)
{
    switch (what) {
    case STEP_STATES:
        return "the states of the workers differ (does one change its own in another way?)";
    case STEP_GRADIENTS:
        return "workers computed the same slice and got different gradients (have all the same "
               "data, and is all that is random in it seeded?)";
    default:
        return "a worker found that they differ";
    }
}

/* The difference is told to whoever looks, and mu_next() ends with it. */
static void on_diverged(struct train *t, const struct step_effect *e)
{
    char who[WHO_MAX];
    size_t at = 0;

    t->diverged = true;
    at += (size_t)snprintf(t->why, sizeof(t->why), "step %" PRIu64 " is not committed: %s", e->step,
                           tell_difference(e->difference));
    for (uint32_t i = 0; i < e->odd_n && at < sizeof(t->why) - WHO_MAX - 16; i++) {
        at += (size_t)snprintf(t->why + at, sizeof(t->why) - at, "%s %s (rank %" PRIu32 ")",
                               i > 0     ? ","
                               : e->most ? "; not like the others:"
                                         : "; who is right can't be told:",
                               run_who(e->group->ids[e->odd[i]], who), e->odd[i]);
    }
    for (uint32_t i = 0; e->most && i < e->odd_n; i++) {
        t->odd_one |= e->odd[i] == e->group->me;
    }
    log_error(AREA, "%s", t->why);
    t->diverged_ms = run_now_ms();
    pthread_mutex_lock(&t->run->lock);
    t->fault = e->difference == STEP_GRADIENTS ? FAULT_GRADIENTS : FAULT_STATES;
    t->odd = e->most ? e->group->ids[e->odd[0]] : 0;
    t->agreed = t->step.agreed;
    told_again(t->run);
    pthread_mutex_unlock(&t->run->lock);
}

void train_emit(struct step_effects *fx, const struct step_effect *e)
{
    struct train *t = (struct train *)fx;

    HOOK();
    switch (e->kind) {
    case STEP_REPORT:
        if (t->step.phase == STEP_LOADING || t->step.phase == STEP_OUT) {
            blocks_clear(&t->blocks); /* It starts from what others have. */
        }
        if (t->diverged && !t->step.diverged) {
            train_heal_clear(t);
        }
        publish(t);
        break;
    case STEP_LINK:
        pthread_mutex_lock(&t->run->lock);
        t->run->data.link = t->step.next.number;
        pthread_cond_broadcast(&t->run->changed); /* The prober does it. */
        pthread_mutex_unlock(&t->run->lock);
        break;
    case STEP_BASE:
        t->base_due = true;
        break;
    case STEP_COMPUTE:
        if (slices_count(&t->step.have) == 0) {
            blocks_clear(&t->blocks); /* What is there is of an older plan, and counts no more. */
        }
        t->todo = *e->slices;
        t->todo_step = e->step;
        t->todo_generation = t->step.group.number;
        break;
    case STEP_CHECK:
        t->check_due = true;
        t->check_step = e->step;
        t->check_slice = e->slice;
        break;
    case STEP_DIGEST:
        t->digest_due = true;
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
        on_commit(t, e->step, e->save);
        break;
    case STEP_STREAM:
        t->stream_due = true;
        break;
    case STEP_SEND_READY:
        mail(t, e->group->number, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        t->settle = *e->settle; /* Said when the data plane is there. */
        t->settle_due = true;
        if (t->step.config.keeps_none) {
            blocks_clear(&t->blocks);
        }
        break;
    case STEP_DIVERGED:
        on_diverged(t, e);
        break;
    case STEP_FORGET:
        t->forget_due = true;
        break;
    }
}

void train_say_settle(struct train *t)
{
    t->settle_due = false;
    mail(t, t->moved, WIRE_SETTLE, &t->settle);
}
