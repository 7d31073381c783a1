/* The reduce of a part that is complete begins while the caller computes the others.
 *
 * Nothing is decided between mu_next() and mu_put(): so the last slice of a step that is out will
 * count, its place among the blocks is known, and the plan stays what it is until the calls have
 * been waited for, which is the first thing that the next mu_next() does. */
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

static bool can_fly(const struct train *t)
{
    const struct step *s = &t->crew.step;

    return step_size(s) > 1 && !t->lent.todo.hash && t->lent.todo.term == step_term(s) &&
           step_is_last(s, t->lent.todo.slice);
}

/* The first part of this step that is complete. */
static int prepare(struct train *t)
{
    struct flights *f = &t->flights;
    const struct plan *plan = step_plan(&t->crew.step);
    const uint32_t slices_n = plan->slices_n;

    if (f->owners == NULL) {
        f->owners = malloc(slices_n * sizeof(*f->owners));
    }
    for (uint32_t p = 0; p < t->what.parts_n; p++) {
        if (f->items[p].trees == NULL) {
            f->items[p].trees = malloc(slices_n * sizeof(*f->items[p].trees));
        }
        if (f->items[p].trees == NULL || f->owners == NULL) {
            return MU_ENOMEM;
        }
    }
    memcpy(f->owners, plan->owner, slices_n * sizeof(*f->owners));
    t->result.samples = train_step_samples(t, t->lent.todo.step);
    blocks_leaf(&t->blocks, t->lent.samples_n, t->lent.buffer);
    blocks_put_begin(&t->blocks, t->lent.todo.slice, t->lent.buffer);
    return MU_OK;
}

static int start(struct train *t, uint32_t part)
{
    struct part_call *f = &t->flights.items[part];
    struct comm_call call;

    blocks_put_part(&t->blocks, part);
    call = train_reduce_call(t, part, f->trees);
    call.owners = t->flights.owners;
    return comm_start(t->crew.run->data.comm, &call, &f->started);
}

/* The last part is for the end of the step: until this worker is there nobody can have all of it.
 */
void train_part(struct train *t, uint32_t part)
{
    struct flights *f = &t->flights;

    f->ready |= 1u << part;
    if (t->what.parts_n == 1 || (f->ready & 1u) == 0 || !can_fly(t) ||
        (f->n == 0 && prepare(t) != MU_OK)) {
        return;
    }
    while (f->n + 1 < t->what.parts_n && (f->ready & 1u << f->n) != 0) {
        if (start(t, f->n) != MU_OK) {
            f->items[f->n].started = NULL;
        }
        f->n++;
    }
}

int train_land(struct train *t, uint32_t part, struct comm_result *result)
{
    struct part_call *f = &t->flights.items[part];
    int rc = MU_ENOMEM;

    if (f->started != NULL) {
        rc = comm_finish(f->started, MU_FOREVER, result);
    } else {
        *result = (struct comm_result){.rank = COMM_NOBODY, .error = "no memory for a call"};
    }
    f->started = NULL;
    if (part + 1 == t->flights.n) {
        t->flights.n = 0;
    }
    return rc;
}

void train_abandon(struct train *t)
{
    for (uint32_t p = 0; p < t->flights.n; p++) {
        if (t->flights.items[p].started != NULL) {
            comm_abandon(t->flights.items[p].started);
            t->flights.items[p].started = NULL;
        }
    }
    t->flights.n = 0;
    t->flights.ready = 0;
}
