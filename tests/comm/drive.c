#include "comm/drive.h"

#include "wire/wire.h"

#include <string.h>
#include <time.h>

#define TURN_MS 5
#define MOVE_MS 100
#define FRAME_MAX 4096

/* ---- what it says ---- */

/* If it is lost the link is, and all settle anew. */
static void mail(struct drive *d, uint64_t term, enum wire_type type, const void *msg)
{
    uint8_t frame[FRAME_MAX];
    size_t n;

    rank_check(d->r, wire_encode(type, msg, term, 0, frame, sizeof(frame), &n) == MU_OK,
               "a frame that can't be encoded");
    (void)comm_mail(d->r->comm, COMM_NOBODY, frame, n);
}

static void emit(struct step_effects *fx, const struct step_effect *e)
{
    struct drive *d = (struct drive *)fx;

    switch (e->kind) {
    case STEP_REPORT:
        if (step_entered(&d->step) > d->entered) {
            d->entered = step_entered(&d->step);
            rank_say(d->r, d->entered_says, d->entered, 0);
        }
        break;
    case STEP_SEND_READY:
        mail(d, e->term, WIRE_READY, e->ready);
        break;
    case STEP_SEND_SETTLE:
        mail(d, e->term, WIRE_SETTLE, e->settle);
        break;
    default:
        d->effect(d, e);
        break;
    }
}

void drive_open(struct drive *d, const struct step_config *config)
{
    d->fx.emit = emit;
    rank_check(d->r, step_init(&d->step, config) == MU_OK, "no memory");
}

void drive_close(struct drive *d)
{
    step_close(&d->step);
}

void drive_event(struct drive *d, struct step_event e)
{
    e.now_ms = ranks_now_ns() / 1000000;
    step_event(&d->step, &e, &d->fx);
}

/* What ends the term: of those who make calls, what went well in it is told first. */
static void leave_term(struct drive *d, struct step_event e)
{
    struct step_event call = {0};
    struct step_todo todo;
    uint64_t done_n;
    bool held;

    step_next(&d->step, &todo);
    if (todo.what == STEP_OPEN) {
        done_n = comm_halt(d->r->comm, todo.term, &held);
        call.term = todo.term;
        for (uint64_t i = 0; i < done_n + held; i++) {
            call.kind = i < done_n ? STEP_ON_AGREED : STEP_ON_REDUCED;
            call.step = step_committed(&d->step) + 1;
            drive_event(d, call);
        }
    }
    drive_event(d, e);
}

/* ---- news ---- */

static uint64_t newest(struct drive *d)
{
    uint64_t number;

    pthread_mutex_lock(&d->r->lock);
    number = d->r->generations_n > 0 ? d->r->generations[d->r->generations_n - 1].number : 0;
    pthread_mutex_unlock(&d->r->lock);
    return number;
}

static void tell_generation(struct drive *d)
{
    struct generation g = *rank_await(d->r, d->generation);
    struct member members[RANKS_MAX];
    struct membership *m;

    memcpy(members, g.members, g.members_n * sizeof(*members));
    g.members = members;
    for (uint32_t i = 0; i < g.members_n; i++) {
        members[i].flags = g.kind == GENERATION_FAILURE ? MEMBER_CAUGHT_UP : 0;
    }
    rank_check(d->r, membership_open(&g, &m) == MU_OK, "no memory");
    d->generation = g.number;
    leave_term(d, (struct step_event){.kind = STEP_ON_GENERATION, .u.membership = m});
    membership_close(m);
}

static void tell_links(struct drive *d)
{
    const struct membership *m = step_group(&d->step);
    const uint32_t changes = comm_changes(d->r->comm);
    wid missing[RANKS_MAX];
    struct step_event e = {.kind = STEP_ON_LINKS, .u.missing = missing};

    if (m == NULL || (changes == d->changes && d->links_term == step_term(&d->step))) {
        return;
    }
    d->changes = changes;
    d->links_term = step_term(&d->step);
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        if (m->members[i].worker != d->r->self &&
            !comm_has_link(d->r->comm, m->members[i].worker)) {
            missing[e.missing_n++] = m->members[i].worker;
        }
    }
    drive_event(d, e);
}

void drive_next(struct drive *d, struct step_todo *todo_out)
{
    const uint64_t active = atomic_load(d->active);

    drive_event(d, (struct step_event){.kind = STEP_ON_LEASE, .time_ms = ranks_now_ns() / 1000000});
    if (newest(d) > d->generation) {
        tell_generation(d);
    }
    if (active > d->confirmed && step_entered(&d->step) != 0) {
        d->confirmed = active;
        drive_event(d, (struct step_event){.kind = STEP_ON_ACTIVE, .generation = active});
    }
    tell_links(d);
    step_next(&d->step, todo_out);
}

/* ---- the data plane ---- */

void drive_failed(struct drive *d, uint64_t term, wid peer)
{
    const uint64_t claim = comm_claim(d->r->comm);
    struct step_event e = {.kind = STEP_ON_BROKEN, .term = term, .peer = peer};

    if (newest(d) > d->generation) {
        return; /* Its news says what is next. */
    }
    if (claim != 0 && term_generation(claim) == term_generation(term)) {
        e = (struct step_event){.kind = STEP_ON_CLAIM, .term = claim};
    }
    leave_term(d, e);
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void move(struct drive *d, const struct step_todo *todo)
{
    struct comm *comm = d->r->comm;
    int rc = comm_move(comm, step_group(&d->step), term_round(todo->term), MOVE_MS, NULL);

    if (rc == MU_OK) {
        drive_event(d, (struct step_event){.kind = STEP_ON_MOVED, .term = todo->term});
        return;
    }
    rank_check(d->r, rc == MU_ETIMEDOUT || rc == MU_EPEER, "moving to generation %llu: %s",
               (unsigned long long)term_generation(todo->term), mu_strerror(rc));
    if (rc == MU_EPEER && newest(d) == d->generation) {
        drive_event(d, (struct step_event){.kind = STEP_ON_CLAIM, .term = comm_claim(comm)});
        nap();
    }
}

static void take_frame(struct drive *d, const uint8_t *frame, size_t n)
{
    const uint8_t *key = step_group(&d->step)->g.key;
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any msg;
    struct step_event e = {.key = key};

    rank_check(d->r, wire_frame_decode(frame, n, &h, &msg, &none, NULL) == MU_OK, "a bad frame");
    if (!step_fence(&d->step, h.generation, key)) {
        return;
    }
    rank_check(d->r, h.type == WIRE_READY || h.type == WIRE_SETTLE, "mail of type %u", h.type);
    e.term = h.generation;
    e.kind = h.type == WIRE_READY ? STEP_ON_READY : STEP_ON_SETTLE;
    if (h.type == WIRE_READY) {
        e.u.ready = &msg.ready;
    } else {
        e.u.settle = &msg.settle;
    }
    drive_event(d, e);
}

static void hear(struct drive *d, const struct step_todo *todo)
{
    struct comm *comm = d->r->comm;
    uint8_t frame[FRAME_MAX];
    uint32_t rank;
    size_t n;
    int rc = comm_hear(comm, TURN_MS, frame, sizeof(frame), &n, &rank);

    if (rc == MU_OK) {
        take_frame(d, frame, n);
    } else if (rc == MU_EPEER) {
        drive_failed(d, todo->term, comm_worker(comm, rank));
    } else {
        rank_check(d->r, rc == MU_ETIMEDOUT, "hearing: %s", mu_strerror(rc));
    }
}

void drive_do(struct drive *d, const struct step_todo *todo)
{
    switch (todo->what) {
    case STEP_MOVE:
        move(d, todo);
        break;
    case STEP_HEAR:
    case STEP_FINISH:
        hear(d, todo);
        break;
    case STEP_WAIT:
        nap();
        break;
    default:
        rank_fail(d->r, "%d is next, after step %llu", todo->what,
                  (unsigned long long)step_committed(&d->step));
    }
}
