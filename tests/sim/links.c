/* Links between workers: frames in order, none lost while a link lives; links that break, are
 * dialed again by themselves, or are cut for longer than TCP waits. */
#include "sim/trainer.h"

#include <stdlib.h>
#include <string.h>

#define DIAL_MIN_US 300
#define DIAL_MAX_US 20000
#define SEEN_MIN_US 50
#define SEEN_MAX_US 500
#define SILENCE_US 600000 /* nothing comes through for so long: the link is lost */
#define STALL_US 5000
#define FLAP_MAX_US 15000

static struct inbox *inbox_of(struct world *w, uint32_t to, uint32_t from)
{
    return &w->inboxes[to * WORKERS_N + from];
}

static struct sim_link *link_of(struct world *w, uint32_t a, uint32_t b)
{
    return &w->links[MIN(a, b)][MAX(a, b)];
}

uint32_t links_worker(struct world *w, wid id)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        if (trainer_at(w, i)->self == id && trainer_at(w, i)->running) {
            return i;
        }
    }
    return WORKERS_N;
}

void links_reset(struct world *w)
{
    memset(w->links, 0, sizeof(w->links));
    for (uint32_t i = 0; i < WORKERS_N * WORKERS_N; i++) {
        w->inboxes[i].n = 0;
    }
}

static bool is_cut(const struct world *w, uint32_t a, uint32_t b)
{
    const uint32_t m = a / SLOTS_N, n = b / SLOTS_N;

    return m != n && (w->cut[m][n] || w->cut[n][m]);
}

/* ---- breaking ---- */

static void forget(struct world *w, uint32_t worker, uint32_t peer)
{
    struct trainer *t = trainer_at(w, worker);

    t->link[peer] = 0;
    t->claim[peer] = t->claimed[peer] = 0;
    t->lost |= 1u << peer;
    t->links_changed = true;
    inbox_of(w, worker, peer)->n = 0;
}

static void tell_broken(struct world *w, uint32_t worker, uint32_t peer)
{
    struct trainer *t = trainer_at(w, worker);
    struct sim_event *e;

    if (t->running && t->link[peer] != 0) {
        e = world_after(w, world_between(w, SEEN_MIN_US, SEEN_MAX_US), SIM_BROKEN, worker, t->life);
        e->a = peer;
        e->b = t->link[peer];
    }
}

void links_break(struct world *w, uint32_t a, uint32_t b)
{
    struct sim_link *l = link_of(w, a, b);

    if (l->up) {
        l->up = false;
        l->epoch++;
        tell_broken(w, a, b);
        tell_broken(w, b, a);
    }
}

void links_break_machine(struct world *w, uint32_t m)
{
    for (uint32_t s = 0; s < SLOTS_N; s++) {
        for (uint32_t i = 0; i < WORKERS_N; i++) {
            if (i / SLOTS_N != m) {
                links_break(w, m * SLOTS_N + s, i);
            }
        }
    }
}

/* A machine that has lost its power says nothing: its peers notice by its silence. */
void links_drop(struct world *w, uint32_t worker, bool seen)
{
    for (uint32_t i = 0; i < WORKERS_N; i++) {
        struct sim_link *l = i != worker ? link_of(w, worker, i) : NULL;

        if (l == NULL) {
            continue;
        }
        forget(w, worker, i);
        if (seen && !is_cut(w, worker, i)) {
            links_break(w, worker, i);
        }
    }
}

static void on_broken(struct world *w, uint32_t worker, const struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    const uint32_t peer = (uint32_t)f->a;

    if (t->link[peer] == f->b) {
        forget(w, worker, peer);
        world_after(w, world_between(w, DIAL_MIN_US, DIAL_MAX_US), SIM_DIAL, worker, t->life)->a =
            peer;
        trainer_drive(w, worker);
    }
}

/* ---- dialing ---- */

static bool names(const struct generation *g, wid id)
{
    for (uint32_t i = 0; g != NULL && i < g->members_n; i++) {
        if (g->members[i].worker == id) {
            return true;
        }
    }
    return false;
}

static const struct generation *group_of(const struct trainer *t)
{
    const struct membership *m = step_group(&t->step);

    return m != NULL ? &m->g : NULL;
}

static bool wants(struct world *w, uint32_t worker, uint32_t peer)
{
    const struct trainer *t = trainer_at(w, worker);
    const wid id = trainer_at(w, peer)->self;

    return peer != worker && t->running && (names(&t->known, id) || names(group_of(t), id));
}

static bool answers(const struct world *w, const struct trainer *t, uint32_t worker)
{
    return t->running && t->stopped_until_us <= w->now_us &&
           w->machines[worker / SLOTS_N].stopped_until_us <= w->now_us;
}

static void come_up(struct world *w, uint32_t worker, uint32_t peer, uint32_t epoch)
{
    struct trainer *t = trainer_at(w, worker);

    if (t->link[peer] != 0) {
        forget(w, worker, peer); /* The other one has lost it, and has dialed again. */
    }
    t->link[peer] = epoch;
    t->claim[peer] = t->claimed[peer] = 0;
    t->links_changed = true;
    inbox_of(w, worker, peer)->n = 0;
}

/* Some links break as soon as they are there, again and again. */
static void flap(struct world *w, uint32_t worker, uint32_t peer)
{
    const uint32_t m = worker / SLOTS_N, n = peer / SLOTS_N;
    struct sim_event *e;

    if (m != n && (w->flaps[m][n] || w->flaps[n][m])) {
        e = world_after(w, world_between(w, 1, FLAP_MAX_US), SIM_FLAP, worker,
                        trainer_at(w, worker)->life);
        e->a = peer;
        e->b = link_of(w, worker, peer)->epoch;
    }
}

static void dial(struct world *w, uint32_t worker, uint32_t peer)
{
    struct sim_link *l = link_of(w, worker, peer);
    struct trainer *t = trainer_at(w, worker);

    if (t->link[peer] != 0 || !wants(w, worker, peer) || is_cut(w, worker, peer) ||
        !answers(w, trainer_at(w, peer), peer)) {
        return;
    }
    *l = (struct sim_link){.epoch = l->epoch + 1, .up = true};
    come_up(w, worker, peer, l->epoch);
    come_up(w, peer, worker, l->epoch);
    flap(w, worker, peer);
    trainer_drive(w, worker);
    trainer_drive(w, peer);
}

/* TCP gives up when nothing has come through for too long. */
static void check_cut(struct world *w, uint32_t worker, uint32_t peer)
{
    struct sim_link *l = link_of(w, worker, peer);
    const struct trainer *t = trainer_at(w, worker), *other = trainer_at(w, peer);
    const bool dead = !other->running || other->link[worker] != t->link[peer];

    if (t->link[peer] == 0) {
        return;
    }
    if (!is_cut(w, worker, peer) && !dead) {
        l->cut_us = 0;
    } else if (l->cut_us == 0) {
        l->cut_us = w->now_us;
    } else if (w->now_us - l->cut_us > SILENCE_US) {
        l->cut_us = 0;
        if (l->up) {
            links_break(w, worker, peer);
        } else {
            tell_broken(w, worker, peer);
        }
    }
}

void links_tick(struct world *w, uint32_t worker)
{
    const struct trainer *t = trainer_at(w, worker);

    for (uint32_t i = 0; i < WORKERS_N; i++) {
        check_cut(w, worker, i);
        if (t->link[i] == 0 && wants(w, worker, i)) {
            world_after(w, world_between(w, DIAL_MIN_US, DIAL_MAX_US), SIM_DIAL, worker, t->life)
                ->a = i;
        }
    }
}

bool links_are_there(struct world *w, uint32_t worker, const struct generation *g)
{
    const struct trainer *t = trainer_at(w, worker);

    for (uint32_t i = 0; i < g->members_n; i++) {
        const uint32_t peer = links_worker(w, g->members[i].worker);

        if (g->members[i].worker != t->self && (peer == WORKERS_N || t->link[peer] == 0)) {
            return false;
        }
    }
    return true;
}

static uint32_t add_missing(struct world *w, const struct trainer *t, const struct generation *g,
                            wid *missing, uint32_t n)
{
    for (uint32_t i = 0; g != NULL && i < g->members_n; i++) {
        const wid id = g->members[i].worker;
        const uint32_t peer = links_worker(w, id);

        if (id != t->self && (peer == WORKERS_N || t->link[peer] == 0)) {
            missing[n++] = id;
        }
    }
    return n;
}

uint32_t links_missing(struct world *w, uint32_t worker, wid *missing)
{
    const struct trainer *t = trainer_at(w, worker);
    uint32_t n = add_missing(w, t, group_of(t), missing, 0);

    return add_missing(w, t, &t->known, missing, n);
}

/* ---- frames ---- */

/* By type; mail has two names of its own. */
const char *const links_names[] = {[FRAME_CLAIM] = "CLAIM",
                                   [FRAME_MAIL] = "MAIL",
                                   [FRAME_PART] = "PART",
                                   [FRAME_SUM] = "SUM",
                                   [FRAME_WORD] = "WORD",
                                   [FRAME_CALL] = "CALL",
                                   [FRAME_HOLDS] = "HOLDS",
                                   [FRAME_STATE] = "STATE",
                                   "READY",
                                   "SETTLE",
                                   NULL};

static const char *name_of(const struct sim_event *f)
{
    struct wire_header h;

    if (f->conn == FRAME_MAIL && wire_header_decode(f->bytes, &h, NULL) == MU_OK) {
        return h.type == WIRE_READY ? "READY" : "SETTLE";
    }
    return links_names[f->conn];
}

static bool is_held_up(const struct world *w, uint32_t from, uint32_t to, const char *name)
{
    for (uint32_t i = 0; i < w->vanish_n; i++) {
        if (strcmp(w->vanish[i].name, name) == 0 && w->vanish[i].from == from / SLOTS_N &&
            w->vanish[i].to == to / SLOTS_N) {
            return true;
        }
    }
    return false;
}

/* e->conn: its type; a: from whom; b: epoch and number; from: the term. */
static void post(struct world *w, uint32_t worker, uint32_t to, enum frame_type type, uint64_t term,
                 const void *bytes, uint32_t n)
{
    struct sim_link *l = link_of(w, worker, to);
    const int way = worker < to;
    uint64_t at_us = w->now_us + world_between(w, w->fortune.delay_min_us, w->fortune.delay_max_us);
    struct sim_event *e;

    at_us = MAX(at_us, l->last_us[way] + 1);
    l->last_us[way] = at_us;
    e = world_after(w, at_us - w->now_us, SIM_DATA, to, trainer_at(w, to)->life);
    e->conn = type;
    e->a = worker;
    e->b = (uint64_t)l->epoch << 32 | l->sent[way]++;
    e->from = term;
    e->n = n;
    if (n > 0) {
        memcpy(e->bytes, bytes, n);
    }
    memset(e->key, 0, sizeof(e->key));
    if (group_of(trainer_at(w, worker)) != NULL) {
        memcpy(e->key, group_of(trainer_at(w, worker))->key, KEY_BYTES);
    }
}

/* Somebody who knows everything but the key, and lies. */
static void forge(struct world *w, uint32_t to, uint64_t term, const void *bytes, uint32_t n)
{
    struct sim_event *e = world_after(w, 100, SIM_DATA, to, trainer_at(w, to)->life);
    struct wire_scratch none = {0};
    struct wire_header h;
    union wire_any lie;
    size_t lie_n;

    mu_assert(wire_frame_decode(bytes, n, &h, &lie, &none, NULL) == MU_OK);
    if (h.type == WIRE_READY) {
        lie.ready.step++;
    } else {
        lie.settle.held ^= 1;
    }
    mu_assert(wire_encode(h.type, &lie, term, 0, e->bytes, sizeof(e->bytes), &lie_n) == MU_OK);
    e->conn = FRAME_MAIL;
    e->a = to;
    e->from = term;
    e->n = (uint32_t)lie_n;
    memset(e->key, 0x5a, sizeof(e->key));
}

void links_send(struct world *w, uint32_t worker, uint32_t to, enum frame_type type, uint64_t term,
                const void *bytes, uint32_t n)
{
    const struct trainer *t = trainer_at(w, worker);

    if (to == WORKERS_N || t->link[to] == 0 || t->link[to] != link_of(w, worker, to)->epoch) {
        return; /* It is lost, and this worker will see that. */
    }
    if (type == FRAME_MAIL && world_chance(w, w->fortune.forge_ppm)) {
        forge(w, to, term, bytes, n);
    }
    if (world_chance(w, w->fortune.break_ppm)) {
        links_break(w, worker, to);
        return;
    }
    post(w, worker, to, type, term, bytes, n);
}

void links_send_all(struct world *w, uint32_t worker, enum frame_type type, const void *bytes,
                    uint32_t n)
{
    const struct trainer *t = trainer_at(w, worker);
    const struct generation *g = group_of(t);

    for (uint32_t i = 0; i < g->members_n; i++) {
        if (g->members[i].worker != t->self) {
            links_send(w, worker, links_worker(w, g->members[i].worker), type, t->at, bytes, n);
        }
    }
}

static void put(struct world *w, struct inbox *box, const struct sim_event *f)
{
    struct sim_frame *frame = &box->frames[(box->first + box->n) % INBOX_N];

    if (box->n == INBOX_N || f->n > sizeof(frame->bytes)) {
        world_fail(w, "more frames than there is room for");
        return;
    }
    box->n++;
    frame->type = (uint8_t)f->conn;
    frame->term = f->from;
    frame->n = f->n;
    memcpy(frame->key, f->key, KEY_BYTES);
    memcpy(frame->bytes, f->bytes, f->n);
}

static void on_data(struct world *w, uint32_t worker, struct sim_event *f)
{
    struct trainer *t = trainer_at(w, worker);
    const uint32_t from = (uint32_t)f->a;
    struct sim_link *l = link_of(w, worker, from);
    const int way = from < worker;
    struct sim_event *again;

    if (from == worker && inbox_of(w, worker, worker)->n == INBOX_N) {
        return; /* forged, and there is more to read than there is room for */
    } else if (from == worker) {
        put(w, inbox_of(w, worker, worker), f);
    } else if (f->b >> 32 != t->link[from] || t->link[from] != l->epoch) {
        return;
    } else if (is_cut(w, worker, from) || (uint32_t)f->b != l->got[way] ||
               is_held_up(w, from, worker, name_of(f))) {
        again = world_after(w, STALL_US, SIM_DATA, worker, f->life);
        again->conn = f->conn;
        again->a = f->a;
        again->b = f->b;
        again->from = f->from;
        again->n = f->n;
        memcpy(again->key, f->key, KEY_BYTES);
        memcpy(again->bytes, f->bytes, f->n);
        return;
    } else {
        l->got[way]++;
        put(w, inbox_of(w, worker, from), f);
    }
    trainer_drive(w, worker);
}

void links_event(struct world *w, struct sim_event *f)
{
    if (f->kind == SIM_DATA) {
        on_data(w, f->to, f);
    } else if (f->kind == SIM_BROKEN) {
        on_broken(w, f->to, f);
    } else if (f->kind == SIM_FLAP) {
        if (link_of(w, f->to, (uint32_t)f->a)->epoch == f->b) {
            links_break(w, f->to, (uint32_t)f->a);
        }
    } else {
        dial(w, f->to, (uint32_t)f->a);
    }
}

/* ---- what has come ---- */

static void pop(struct inbox *box)
{
    box->first = (box->first + 1) % INBOX_N;
    box->n--;
}

struct sim_frame *links_head(struct world *w, uint32_t worker, uint32_t from)
{
    struct trainer *t = trainer_at(w, worker);
    struct inbox *box = inbox_of(w, worker, from);

    while (box->n > 0) {
        struct sim_frame *f = &box->frames[box->first];

        if (f->type == FRAME_CLAIM) {
            t->claim[from] = MAX(t->claim[from], f->term);
        } else if (f->term >= t->at || MUTATED(GENERATION_FENCE)) {
            return f->term == t->at || MUTATED(GENERATION_FENCE) ? f : NULL;
        }
        pop(box);
    }
    return NULL;
}

void links_done(struct world *w, uint32_t worker, uint32_t from)
{
    pop(inbox_of(w, worker, from));
}

struct sim_frame *links_mail(struct world *w, uint32_t worker)
{
    struct inbox *aside = inbox_of(w, worker, worker);

    for (uint32_t i = 0; i < WORKERS_N; i++) {
        struct sim_frame *f;

        while (i != worker && aside->n < INBOX_N && (f = links_head(w, worker, i)) != NULL &&
               f->type == FRAME_MAIL) {
            aside->frames[(aside->first + aside->n++) % INBOX_N] = *f;
            links_done(w, worker, i);
        }
    }
    return aside->n > 0 ? &aside->frames[aside->first] : NULL;
}

void links_mail_done(struct world *w, uint32_t worker)
{
    pop(inbox_of(w, worker, worker));
}
