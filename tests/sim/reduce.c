/* The reduce of a simulated worker, over a network that promises nothing.
 *
 * Part p of the vector belongs to rank p mod n. Everyone sends the owner its subtrees of that part;
 * the owner adds them in tree order and hands the sum round. */
#include "sim/trainer.h"

#include <string.h>

static uint32_t owner(const struct trainer *t, uint32_t part)
{
    return part % t->step.group.n;
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

static void send_parts(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct subtree sub = {0, 0};

    while (plan_next_subtree(&t->step.plan, t->step.group.me, sub.lo + sub.width, &sub)) {
        for (uint32_t p = 0; p < PARTS_N; p++) {
            struct value v = fold(t, sub, p);
            struct msg_part m = {.from = t->self,
                                 .step = t->reduce_step,
                                 .lo = sub.lo,
                                 .width = sub.width,
                                 .offset = p,
                                 .data_n = sizeof(v),
                                 .data = (uint8_t *)&v};

            if (owner(t, p) == t->step.group.me) {
                t->got[sub.lo][p] = v;
                t->got_width[sub.lo][p] = sub.width;
            } else {
                trainer_send(w, worker, t->step.group.ids[owner(t, p)], &t->step.group, WIRE_PART,
                             &m);
            }
        }
    }
}

static bool part_complete(const struct trainer *t, uint32_t part)
{
    struct subtree sub = {0, 0};

    while (plan_next_subtree_any(&t->step.plan, sub.lo + sub.width, &sub)) {
        if (t->got_width[sub.lo][part] != sub.width) {
            return false;
        }
    }
    return true;
}

static struct value add_parts(const struct trainer *t, uint32_t part)
{
    struct value stack[PLAN_TREE_DEPTH];
    struct plan_tree tree;
    uint32_t n = 0;

    plan_tree_init(&tree, (struct subtree){0, SLICES_N});
    while (plan_tree_next(&tree, &t->step.plan)) {
        if (tree.add) {
            n--;
            stack[n - 1] = model_add(stack[n - 1], stack[n]);
        } else {
            stack[n++] = t->got[tree.node.lo][part];
        }
    }
    return stack[0];
}

static void send_sum(struct world *w, uint32_t worker, uint32_t part)
{
    struct trainer *t = trainer_at(w, worker);
    struct msg_sum m = {.from = t->self,
                        .step = t->reduce_step,
                        .offset = part,
                        .data_n = sizeof(t->sum[part]),
                        .data = (uint8_t *)&t->sum[part]};

    trainer_send_all(w, worker, &t->step.group, WIRE_SUM, &m);
}

/* Whatever can be done with what is here. */
void reduce_go_on(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);
    struct step_event e = {
        .kind = STEP_ON_REDUCED, .generation = t->reduce_generation, .step = t->reduce_step};

    if (!t->step.reducing || t->reduce_generation != t->step.group.number) {
        return;
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (owner(t, p) == t->step.group.me && !t->has_sum[p] && part_complete(t, p)) {
            t->sum[p] = add_parts(t, p);
            t->has_sum[p] = true;
            send_sum(w, worker, p);
        }
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if (!t->has_sum[p]) {
            return;
        }
    }
    trainer_step(w, worker, &e);
}

/* Frames of this step may come before we have begun it ourselves. */
static bool reduce_ready(struct trainer *t, uint64_t generation, uint64_t step)
{
    if (step != t->step.committed + 1 || t->step.holds ||
        (t->step.phase != STEP_COMPUTING && t->step.phase != STEP_HELD)) {
        return false;
    }
    if (t->reduce_generation != generation || t->reduce_step != step) {
        t->reduce_generation = generation;
        t->reduce_step = step;
        memset(t->got_width, 0, sizeof(t->got_width));
        memset(t->has_sum, 0, sizeof(t->has_sum));
    }
    return true;
}

void reduce_part(struct world *w, uint32_t worker, uint64_t generation, const struct msg_part *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->lo >= SLICES_N || m->offset >= PARTS_N || m->data_n != sizeof(struct value) ||
        !reduce_ready(t, MUTATED(GENERATION_FENCE) ? t->step.group.number : generation, m->step)) {
        return;
    }
    memcpy(&t->got[m->lo][m->offset], m->data, sizeof(struct value));
    t->got_width[m->lo][m->offset] = m->width;
    reduce_go_on(w, worker);
}

void reduce_sum(struct world *w, uint32_t worker, uint64_t generation, const struct msg_sum *m)
{
    struct trainer *t = trainer_at(w, worker);

    if (m->offset >= PARTS_N || m->data_n != sizeof(struct value) ||
        !reduce_ready(t, MUTATED(GENERATION_FENCE) ? t->step.group.number : generation, m->step)) {
        return;
    }
    memcpy(&t->sum[m->offset], m->data, sizeof(struct value));
    t->has_sum[m->offset] = true;
    reduce_go_on(w, worker);
}

void reduce_begin(struct world *w, uint32_t worker, uint64_t step)
{
    struct trainer *t = trainer_at(w, worker);
    struct slices mine;

    plan_slices(&t->step.plan, t->step.group.me, &mine);
    for (uint32_t s = 0; s < SLICES_N; s++) {
        if (slices_has(&mine, s) && t->gradient_step[s] != step) {
            world_fail(w, "%s contributes slice %u of step %" PRIu64 " to step %" PRIu64,
                       trace_worker(w, t->self), s, t->gradient_step[s], step);
        }
    }
    reduce_ready(t, t->step.group.number, step);
    send_parts(w, worker);
    /* The step's own event must end before it hears that the reduce has: by way of the tick. */
    world_after(w, 1, SIM_WORKER_TICK, worker, t->life)->a = 1;
}

/* Somebody may have missed what was sent. */
void reduce_resend(struct world *w, uint32_t worker)
{
    struct trainer *t = trainer_at(w, worker);

    if (t->step.reducing) {
        send_parts(w, worker);
    }
    for (uint32_t p = 0; p < PARTS_N; p++) {
        if ((t->step.reducing || t->step.holds) && t->has_sum[p] && t->step.group.n > 0 &&
            t->step.phase != STEP_PARKED && t->reduce_generation == t->step.group.number &&
            owner(t, p) == t->step.group.me) {
            send_sum(w, worker, p);
        }
    }
}
