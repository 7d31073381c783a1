/* What core/step wants of those who train and of those who make calls. */
#include "run/crew.h"

#include "base/hook.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <string.h>

#define FRAME_MAX 4096

enum {
    NEWS_MS = 1000, /* it looks again after so long, whatever it has heard */
    MOVE_MS = 100   /* so long it tries one term before it looks whether there is a newer one */
};

void crew_group(struct crew *c, bool settled)
{
    const uint64_t term = step_term(&c->step);
    struct data *d = &c->run->data;

    d->group = term;
    d->group_as = step_self(&c->step);
    d->info = (mu_group_info){term_generation(term), (int)step_rank(&c->step),
                              (int)step_size(&c->step), settled};
    d->broken = MU_OK;
}

/* ---- effects ---- */

/* If it is lost the link is, and all settle anew. */
static void mail(struct crew *c, uint64_t term, enum wire_type type, const void *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t n;

    mu_assert(wire_encode(type, msg, term, 0, frame, sizeof(frame), &n) == MU_OK);
    (void)comm_mail(c->run->data.comm, COMM_NOBODY, frame, n);
}

/* How it stands, for the agent. */
static void publish(struct crew *c)
{
    struct mu_run *run = c->run;
    struct report *now = &run->now, was;

    pthread_mutex_lock(&run->lock);
    memcpy(&was, now, sizeof(was));
    step_report(&c->step, now);
    if (run->train == NULL) {
        now->step = was.step; /* Of calls, the caller says it. */
    }
    was.step = now->step;
    if (memcmp(&was, now, sizeof(was)) != 0) {
        told_again(run);
    } else {
        told_step(run);
    }
    pthread_mutex_unlock(&run->lock);
}

static void emit(struct step_effects *fx, const struct step_effect *e)
{
    struct crew *c = (struct crew *)fx;

    HOOK();
    switch (e->kind) {
    case STEP_REPORT:
        publish(c);
        break;
    case STEP_SEND_READY:
        mail(c, e->term, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        mail(c, e->term, WIRE_SETTLE, e->settle);
        break;
    default:
        c->effect(c, e);
        break;
    }
}

int crew_open(struct crew *c, struct mu_run *run, const struct step_config *config)
{
    int rc = step_init(&c->step, config);

    if (rc == MU_OK) {
        c->fx.emit = emit;
        c->run = run;
        pthread_mutex_init(&c->lock, NULL);
        run->crew = c;
        told_clear(run);
    }
    return rc;
}

void crew_close(struct crew *c)
{
    c->run->crew = NULL;
    step_close(&c->step);
    pthread_mutex_destroy(&c->lock);
}

void crew_event(struct crew *c, struct step_event e)
{
    HOOK();
    e.now_ms = clock_boot_ms();
    pthread_mutex_lock(&c->lock);
    step_event(&c->step, &e, &c->fx);
    pthread_mutex_unlock(&c->lock);
}

/* The same for what ends `term` (0: whichever it is in). How calls stand is told first: what went
 * well in it, or is held, also where nobody has asked for the result yet; and after that nothing
 * goes well in it. */
static void leave_term(struct crew *c, uint64_t term, struct step_event e)
{
    struct step_event call = {.now_ms = clock_boot_ms()};
    struct step_todo todo;
    uint64_t done_n;
    bool held;

    pthread_mutex_lock(&c->lock);
    step_next(&c->step, &todo);
    if (todo.what == STEP_OPEN && (term == 0 || term == todo.term)) {
        call.term = todo.term;
        call.generation = term_generation(todo.term);
        done_n = comm_halt(c->run->data.comm, todo.term, &held);
        pthread_mutex_lock(&c->run->lock);
        const bool active = c->run->active == call.generation;

        pthread_mutex_unlock(&c->run->lock);
        /* It may have given its part of a call that it does not hold: it is no newcomer then. */
        if (active) {
            call.kind = STEP_ON_ACTIVE;
            step_event(&c->step, &call, &c->fx);
        }
        for (uint64_t i = 0; i < done_n + held; i++) {
            call.kind = i < done_n ? STEP_ON_AGREED : STEP_ON_REDUCED;
            call.step = step_committed(&c->step) + 1;
            step_event(&c->step, &call, &c->fx);
        }
    }
    e.now_ms = clock_boot_ms();
    step_event(&c->step, &e, &c->fx);
    pthread_mutex_unlock(&c->lock);
}

void crew_regroup(struct crew *c)
{
    pthread_mutex_lock(&c->lock);
    const bool moves = step_newest(&c->step) > term_generation(step_term(&c->step));

    pthread_mutex_unlock(&c->lock);
    if (moves) {
        leave_term(c, 0, (struct step_event){.kind = STEP_ON_REGROUP});
    }
}

void crew_next(struct crew *c, struct step_todo *todo_out)
{
    pthread_mutex_lock(&c->lock);
    step_next(&c->step, todo_out);
    pthread_mutex_unlock(&c->lock);
}

/* ---- news ---- */

/* Its agent knows it by another name now. */
static void take_life(struct crew *c, wid self)
{
    pthread_mutex_lock(&c->lock);
    step_reset(&c->step, self);
    pthread_mutex_unlock(&c->lock);
    c->generation = c->active = c->links_term = 0;
    if (c->reset != NULL) {
        c->reset(c);
    }
}

/* Who of the group, and of the newest generation, can't be reached now. */
static void tell_links(struct crew *c, struct membership *newest)
{
    struct membership *groups[] = {step_group(&c->step), newest};
    const uint32_t changes = comm_changes(c->run->data.comm);
    wid missing[ARRAY_LEN(groups) * MEMBERS_MAX];
    struct step_event e = {.kind = STEP_ON_LINKS, .u.missing = missing};

    if (changes == c->changes && step_term(&c->step) == c->links_term) {
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        for (uint32_t r = 0; groups[i] != NULL && r < groups[i]->g.members_n; r++) {
            const wid worker = groups[i]->members[r].worker;

            if (worker != step_self(&c->step) && !comm_has_link(c->run->data.comm, worker)) {
                missing[e.missing_n++] = worker;
            }
        }
    }
    c->changes = changes;
    c->links_term = step_term(&c->step);
    crew_event(c, e);
}

int crew_news(struct crew *c)
{
    struct mu_run *run = c->run;
    struct membership *newest;

    pthread_mutex_lock(&run->lock);
    c->news = run->news; /* Whatever comes from here on is looked at again. */
    const wid self = run->life.worker;
    const uint64_t active = run->active, lease_ms = run->alone ? clock_boot_ms() : run->lease_ms;
    /* The data plane may have yet to take the name. */
    const bool named = !run->forgetting && (run->alone || data_is_named(run));

    newest = named ? membership_keep(run->newest) : NULL;
    pthread_mutex_unlock(&run->lock);
    if (!named) {
        return MU_EAGAIN;
    }
    if (step_self(&c->step) != self) {
        take_life(c, self);
    }
    crew_event(c, (struct step_event){.kind = STEP_ON_TICK});
    if (lease_ms > step_lease_ms(&c->step)) {
        crew_event(c, (struct step_event){.kind = STEP_ON_LEASE, .time_ms = lease_ms});
    }
    if (newest != NULL && newest->g.number > c->generation) {
        const struct step_event e = {.kind = STEP_ON_GENERATION, .u.membership = newest};

        c->generation = newest->g.number;
        if (newest->g.kind == GENERATION_BOUNDARY) {
            crew_event(c, e);
        } else {
            leave_term(c, 0, e);
        }
    }
    if (active > c->active && step_entered(&c->step) != 0) {
        c->active = active;
        crew_event(c, (struct step_event){.kind = STEP_ON_ACTIVE, .generation = active});
    }
    if (!run->alone) {
        tell_links(c, newest);
    }
    membership_close(newest);
    return MU_OK;
}

/* How long it is until then, but no longer than `most`. */
static uint64_t left_ms(uint64_t due_ms, uint64_t most)
{
    const uint64_t now_ms = clock_boot_ms();

    return MIN(due_ms - MIN(due_ms, now_ms), most);
}

void crew_wait(struct crew *c, uint64_t due_ms)
{
    struct mu_run *run = c->run;
    const uint64_t until_ms = clock_ms() + left_ms(due_ms, NEWS_MS);
    bool in_time = true;

    pthread_mutex_lock(&run->lock);
    while (in_time && run->news == c->news && call_state(run) == MU_OK) {
        in_time = call_wait(run, until_ms);
    }
    pthread_mutex_unlock(&run->lock);
}

void crew_wake(struct crew *c)
{
    pthread_mutex_lock(&c->run->lock);
    call_news(c->run);
    pthread_mutex_unlock(&c->run->lock);
}

/* ---- the data plane ---- */

/* A newer generation that is not planned ends whatever is done in an older one. */
static bool is_fenced(struct crew *c)
{
    struct mu_run *run = c->run;

    pthread_mutex_lock(&run->lock);
    const bool fenced = run_newest(run) > c->generation;

    pthread_mutex_unlock(&run->lock);
    return fenced;
}

void crew_failed(struct crew *c, uint64_t term, wid peer, uint64_t idle_ms)
{
    const uint64_t claim = comm_claim(c->run->data.comm);
    struct step_event e = {.kind = STEP_ON_BROKEN, .term = term, .peer = peer, .idle_ms = idle_ms};

    if (is_fenced(c)) {
        return; /* Its news says what is next. */
    }
    if (claim != 0 && term_generation(claim) == term_generation(term)) {
        e = (struct step_event){.kind = STEP_ON_CLAIM, .term = claim};
    }
    leave_term(c, term, e);
}

static int move(struct crew *c, const struct step_todo *todo)
{
    struct comm *comm = c->run->data.comm;
    struct membership *m = step_group(&c->step);
    const int64_t for_ms = (int64_t)MAX(left_ms(todo->due_ms, MOVE_MS), 1);
    int rc;

    c->missing = 0;
    rc = comm_move(comm, m, term_round(todo->term), for_ms, &c->missing);
    if (rc == MU_OK) {
        crew_event(c, (struct step_event){.kind = STEP_ON_MOVED, .term = todo->term});
        if (c->moved != NULL) {
            c->moved(c);
        }
        return MU_OK;
    }
    if (rc == MU_ENOMEM || rc == MU_EINVAL) {
        return run_fail(rc, "the members of generation %" PRIu64 " can't be linked: %s",
                        m->g.number, mu_strerror(rc));
    }
    if (rc == MU_EPEER && !is_fenced(c)) {
        crew_event(c, (struct step_event){.kind = STEP_ON_CLAIM, .term = comm_claim(comm)});
        if (step_term(&c->step) == todo->term) {
            crew_wait(c, clock_boot_ms() + MOVE_MS); /* The agent will say what that one knows. */
        }
    }
    return MU_OK;
}

/* Takes what is said next, as comm_hear() gives it. */
static int hear_one(struct crew *c, int64_t for_ms, uint32_t *rank_out)
{
    const uint8_t *key = step_group(&c->step)->g.key;
    struct step_event e = {.key = key};
    uint8_t frame[FRAME_MAX];
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    size_t n;
    int rc = comm_hear(c->run->data.comm, for_ms, frame, sizeof(frame), &n, rank_out);

    if (rc != MU_OK || wire_frame_decode(frame, n, &h, &msg, &none, NULL) != MU_OK ||
        !step_fence(&c->step, h.generation, key)) {
        return rc;
    }
    e.term = h.generation;
    if (h.type == WIRE_READY) {
        e.kind = STEP_ON_READY;
        e.u.ready = &msg.ready;
    } else {
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &msg.settle;
    }
    if (h.type == WIRE_READY || h.type == WIRE_SETTLE) {
        crew_event(c, e);
    }
    return MU_OK;
}

void crew_listen(struct crew *c)
{
    uint32_t rank;

    while (hear_one(c, 0, &rank) == MU_OK) { /* If a link broke, whatever is next will find out. */
    }
}

int crew_hear(struct crew *c, const struct step_todo *todo)
{
    struct comm *comm = c->run->data.comm;
    const int64_t for_ms = (int64_t)MAX(left_ms(todo->due_ms, NEWS_MS), 1);
    const uint32_t nudges = comm_nudges(comm);
    uint32_t rank;
    int rc;

    if (nudges != c->nudges) {
        c->nudges = nudges;
        crew_event(c, (struct step_event){.kind = STEP_ON_NUDGED});
    }
    rc = hear_one(c, for_ms, &rank);
    if (rc == MU_EPEER) {
        crew_failed(c, todo->term, comm_worker(comm, rank), 0);
    } else if (rc != MU_OK && rc != MU_ETIMEDOUT && rc != MU_EAGAIN && rc != MU_EDONE) {
        return run_fail(rc, "the data plane failed: %s", mu_strerror(rc));
    }
    return MU_OK;
}

int crew_do(struct crew *c, const struct step_todo *todo)
{
    switch (todo->what) {
    case STEP_MOVE:
        return move(c, todo);
    case STEP_HEAR:
        return crew_hear(c, todo);
    case STEP_FORGET:
        pthread_mutex_lock(&c->run->lock);
        told_forget(c->run);
        pthread_mutex_unlock(&c->run->lock);
        return MU_OK;
    default:
        crew_wait(c, todo->due_ms);
        return MU_OK;
    }
}
