/* What simulated workers do together, all members at a time: move to a term, reduce, agree on a
 * base, hand on the state. Over links that may break at any moment: then it comes to nothing, and
 * the core hears so. */
#include "sim/trainer.h"

#include <string.h>

#define MOVE_US 100000 /* so long it tries, before it looks around */
#define BASE_MIN_US 1000
#define BASE_MAX_US 20000

static const struct generation *group_of(const struct trainer *t)
{
    return &step_group(&t->step)->g;
}

static uint32_t peer_of(struct world *w, const struct trainer *t, uint32_t rank)
{
    return links_worker(w, group_of(t)->members[rank].worker);
}

bool collect_is_on(const struct trainer *t)
{
    return t->caller.calls || t->doing.what == STEP_MOVE || t->doing.what == STEP_BASE ||
           t->doing.what == STEP_STREAM || t->doing.what == STEP_REDUCE;
}

/* It is over: the core hears of it, and says what is next. */
static void end(struct world *w, uint32_t worker, struct step_event e)
{
    struct trainer *t = trainer_at(w, worker);

    e.term = e.term != 0 ? e.term : t->doing.term;
    t->op++;
    t->doing.what = STEP_WAIT;
    trainer_step(w, worker, &e);
}

/* ---- what ends it early ---- */

/* The newest term that a member has proved to be in, if that is past this one. */
static uint64_t newer_claim(struct world *w, const struct trainer *t)
{
    uint64_t claim = 0;

    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        const uint32_t peer = peer_of(w, t, i);

        if (peer < WORKERS_N && group_of(t)->members[i].worker != t->self) {
            claim = MAX(claim, t->claim[peer]);
        }
    }
    return claim > t->at ? claim : 0;
}

static wid lost_peer(struct world *w, const struct trainer *t)
{
    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        const wid id = group_of(t)->members[i].worker;
        const uint32_t peer = peer_of(w, t, i);

        if (id != t->self && (peer == WORKERS_N || (t->lost >> peer & 1) != 0)) {
            return id;
        }
    }
    return 0;
}

/* True: it has ended. */
static bool is_broken_off(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const uint64_t claim = newer_claim(w, t);
    const wid lost = lost_peer(w, t);

    if (claim != 0 && term_generation(claim) == term_generation(t->at)) {
        end(w, worker, (struct step_event){.kind = STEP_ON_CLAIM, .term = claim});
    } else if (lost != 0 || claim != 0) {
        end(w, worker, (struct step_event){.kind = STEP_ON_BROKEN, .peer = lost});
    } else {
        return false;
    }
    return true;
}

/* ---- moving ---- */

static void move_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const uint64_t claim = newer_claim(w, t);
    bool all = true;

    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        const uint32_t peer = peer_of(w, t, i);

        if (group_of(t)->members[i].worker == t->self) {
            continue;
        }
        if (peer < WORKERS_N && t->link[peer] != 0 && t->claimed[peer] != t->at) {
            t->claimed[peer] = t->at;
            links_send(w, worker, peer, FRAME_CLAIM, t->at, NULL, 0);
        }
        if (peer < WORKERS_N) {
            (void)links_head(w, worker, peer);
        }
        all &= peer < WORKERS_N && t->link[peer] != 0 && t->claim[peer] == t->at;
    }
    if (all) {
        t->lost = 0;
        end(w, worker, (struct step_event){.kind = STEP_ON_MOVED});
    } else if (claim != 0) {
        struct step_event e = {.kind = STEP_ON_CLAIM, .term = claim};

        trainer_step(w, worker, &e);
        if (step_term(&t->step) != t->at) { /* Else its agent will say what to do. */
            t->op++;
            t->doing.what = STEP_WAIT;
        }
    }
}

/* ---- words of all ---- */

static bool have_words(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    const struct generation *g = group_of(t);

    for (uint32_t i = 0; i < g->members_n; i++) {
        const uint32_t peer = peer_of(w, t, i);
        struct sim_frame *f;

        if (g->members[i].worker == t->self || peer == WORKERS_N || (t->words >> i & 1) != 0) {
            continue;
        }
        f = links_head(w, worker, peer);
        if (f != NULL && f->type == FRAME_WORD) {
            t->words |= 1u << i;
            if (i == 0) {
                memcpy(&t->base_step, f->bytes, sizeof(t->base_step));
            }
            links_done(w, worker, peer);
        }
    }
    return t->words == (1u << g->members_n) - 1;
}

static void say_word(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    t->words |= 1u << step_rank(&t->step);
    links_send_all(w, worker, FRAME_WORD, &t->base_step, sizeof(t->base_step));
}

/* Rank 0 looks what there is, and reads it. */
static void base_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_BASE};
    uint8_t holds[WORKERS_N] = {1};

    if (step_rank(&t->step) == 0 && !t->said) {
        if (w->now_us < t->due_us) {
            return;
        }
        t->base_step = heal_load(w, worker, group_of(t)->number, group_of(t)->base_step);
    }
    if (!t->said) {
        t->said = true;
        say_word(w, worker);
    }
    if (have_words(w, worker)) {
        e.step = t->base_step;
        e.u.holds = holds;
        end(w, worker, e);
    }
}

/* ---- the state ---- */

static uint32_t first_holder(const struct trainer *t)
{
    const uint8_t *holds = step_holders(&t->step);
    uint32_t rank = 0;

    while (holds[rank] == 0) {
        rank++;
    }
    return rank;
}

static void give_state(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct state_frame s = {.step = step_committed(&t->step)};

    memcpy(s.weights, t->weights, sizeof(s.weights));
    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        if (!step_holders(&t->step)[i]) {
            links_send(w, worker, peer_of(w, t, i), FRAME_STATE, t->at, &s, sizeof(s));
        }
    }
}

static void stream_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {.kind = STEP_ON_STREAMED};
    const uint32_t giver = first_holder(t);
    const bool lacks = step_holders(&t->step)[step_rank(&t->step)] == 0;
    struct sim_frame *f;

    if (!t->said) {
        t->said = true;
        say_word(w, worker);
    }
    if (!have_words(w, worker)) {
        return;
    }
    if (giver == step_rank(&t->step)) {
        give_state(w, worker);
    } else if (lacks) {
        struct state_frame s;

        f = links_head(w, worker, peer_of(w, t, giver));
        if (f == NULL || f->type != FRAME_STATE) {
            return;
        }
        memcpy(&s, f->bytes, sizeof(s));
        links_done(w, worker, peer_of(w, t, giver));
        memcpy(t->weights, s.weights, sizeof(t->weights));
        e.step = s.step;
    }
    end(w, worker, e);
}

/* ---- the reduce ----
 *
 * Part p of the vector belongs to rank p mod n. Everyone sends the owner its subtrees of that part;
 * the owner adds them in tree order and hands the sum round. */

static uint32_t owner(const struct trainer *t, uint32_t part)
{
    return part % group_of(t)->members_n;
}

static struct value fold(const struct trainer *t, struct subtree root, uint32_t part)
{
    struct value stack[PLAN_TREE_DEPTH];
    struct plan_tree tree;
    uint32_t n = 0;

    plan_tree_init(&tree, root);
    while (plan_tree_next(&tree, NULL)) {
        if (tree.add) {
            n--;
            stack[n - 1] = model_add(stack[n - 1], stack[n]);
        } else {
            stack[n++] = t->gradient[tree.node.lo][part];
        }
    }
    return stack[0];
}

static struct value add_parts(const struct trainer *t, uint32_t part)
{
    struct value stack[PLAN_TREE_DEPTH];
    struct plan_tree tree;
    uint32_t n = 0;

    plan_tree_init(&tree, (struct subtree){0, SLICES_N});
    while (plan_tree_next(&tree, step_plan(&t->step))) {
        if (tree.add) {
            n--;
            stack[n - 1] = model_add(stack[n - 1], stack[n]);
        } else {
            stack[n++] = t->got[tree.node.lo][part];
        }
    }
    return stack[0];
}

static void check_slices(struct world *w, const struct trainer *t)
{
    struct slices mine;

    plan_slices(step_plan(&t->step), step_rank(&t->step), &mine);
    for (uint32_t s = 0; s < SLICES_N; s++) {
        if (slices_has(&mine, s) && t->gradient_step[s] != t->doing.step) {
            world_fail(w, "%s contributes slice %u of step %" PRIu64 " to step %" PRIu64,
                       trace_worker(w, t->self), s, t->gradient_step[s], t->doing.step);
        }
    }
}

static void send_parts(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct subtree sub = {0, 0};

    check_slices(w, t);
    while (plan_next_subtree(step_plan(&t->step), step_rank(&t->step), sub.lo + sub.width, &sub)) {
        for (uint32_t p = 0; p < PARTS_N; p++) {
            const struct part_frame m = {.step = t->doing.step,
                                         .lo = sub.lo,
                                         .width = sub.width,
                                         .part = p,
                                         .v = fold(t, sub, p)};

            if (owner(t, p) == step_rank(&t->step)) {
                t->got[sub.lo][p] = m.v;
                t->got_width[sub.lo][p] = sub.width;
            } else {
                links_send(w, worker, peer_of(w, t, owner(t, p)), FRAME_PART, t->at, &m, sizeof(m));
            }
        }
    }
}

static bool part_complete(const struct trainer *t, uint32_t part)
{
    struct subtree sub = {0, 0};

    while (plan_next_subtree_any(step_plan(&t->step), sub.lo + sub.width, &sub)) {
        if (t->got_width[sub.lo][part] != sub.width) {
            return false;
        }
    }
    return true;
}

static void take_part(struct trainer *t, const struct sim_frame *f)
{
    struct part_frame m;

    memcpy(&m, f->bytes, sizeof(m));
    if (m.step == t->doing.step && f->type == FRAME_PART) {
        t->got[m.lo][m.part] = m.v;
        t->got_width[m.lo][m.part] = m.width;
    } else if (m.step == t->doing.step) {
        t->sum[m.part] = m.v;
        t->has_sum[m.part] = true;
    }
}

static void take_parts(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    for (uint32_t i = 0; i < group_of(t)->members_n; i++) {
        const uint32_t peer = peer_of(w, t, i);
        struct sim_frame *f;

        while (peer < WORKERS_N && peer != worker && (f = links_head(w, worker, peer)) != NULL &&
               (f->type == FRAME_PART || f->type == FRAME_SUM)) {
            take_part(t, f);
            links_done(w, worker, peer);
        }
    }
}

static void reduce_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    uint32_t sums_n = 0;

    if (!t->said) {
        t->said = true;
        send_parts(w, worker);
    }
    take_parts(w, worker);
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (owner(t, p) == step_rank(&t->step) && !t->has_sum[p] && part_complete(t, p)) {
            const struct part_frame m = {
                .step = t->doing.step, .part = p, .v = t->sum[p] = add_parts(t, p)};

            t->has_sum[p] = true;
            links_send_all(w, worker, FRAME_SUM, &m, sizeof(m));
        }
        sums_n += t->has_sum[p];
    }
    if (sums_n == PARTS_N) {
        t->made_in = t->at;
        end(w, worker, (struct step_event){.kind = STEP_ON_REDUCED, .step = t->doing.step});
        fate_reduced(w, worker);
    }
}

/* ---- all of them ---- */

void collect_go_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    (void)links_mail(w, worker); /* Put aside, wherever it is in the way. */
    if (t->caller.calls) {
        calls_go_on(w, worker);
        return;
    }
    if (t->doing.what == STEP_MOVE) {
        move_on(w, worker);
        return;
    }
    switch (t->doing.what) {
    case STEP_BASE:
        base_on(w, worker);
        break;
    case STEP_STREAM:
        stream_on(w, worker);
        break;
    default:
        reduce_on(w, worker);
        break;
    }
    if (collect_is_on(t)) {
        (void)is_broken_off(w, worker); /* What has come before counts. */
    }
}

void collect_begin(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    t->said = false;
    t->words = 0;
    memset(t->got_width, 0, sizeof(t->got_width));
    memset(t->has_sum, 0, sizeof(t->has_sum));
    if (t->doing.what == STEP_MOVE) {
        t->at = t->doing.term;
        calls_move(w, worker);
        world_after(w, MOVE_US, SIM_OP, worker, t->life)->a = t->op;
    } else if (t->doing.what == STEP_BASE && step_rank(&t->step) == 0) {
        t->due_us = w->now_us + world_between(w, BASE_MIN_US, BASE_MAX_US);
        world_after(w, t->due_us - w->now_us, SIM_OP, worker, t->life)->a = t->op;
    }
    collect_go_on(w, worker);
}
