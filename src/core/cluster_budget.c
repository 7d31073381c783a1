/* Restart budgets: whose fault it was that a script ended, and what that costs.
 *
 * A script that ends with 1 to 127 failed by itself, and its slot is charged. But when one member
 * is lost the scripts of the others fail too, and their word may be here first. So the first to
 * fail is only blamed for a moment (reconnect_ms), in which the loss of another excuses it. */
#include "core/cluster_state.h"

#include <string.h>

#define FUTILE_MS 60000

/* ---- the budget ---- */

bool budget_spent(struct cluster *c, const struct job *j, const struct node *n)
{
    for (uint32_t s = 0; s < n->slots; s++) {
        if (node_worker(c, n, s)->spent > j->max_restarts) {
            return true;
        }
    }
    return false;
}

/* Scripts that fail by themselves again and again are no loss that other machines could make up
 * for: with fewer than min left the run has failed, instead of waiting for ever. A helper that is
 * lost for good is for the others to miss; but a chief is why they are there, where nobody trains.
 */
void budget_refuse(struct cluster *c, struct job *j, struct node *n, uint32_t conn,
                   struct effects *fx)
{
    uint32_t left_n = 0;

    if (conn != 0) {
        say_refused(fx, conn, MU_ELIMIT,
                    "node '%s' has used up its %u restarts in this run (--max-restarts)", n->name,
                    j->max_restarts);
    }
    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        const struct node *other = &c->nodes[i];

        left_n += other->state == NODE_UP && &c->jobs[other->job] == j && node_alive(other) &&
                  !other->draining && other->duty == DUTY_TRAINS && !budget_spent(c, j, other);
    }
    if (left_n < job_min(j) && (!node_serves(c, n) || n->role == ROLE_CHIEF)) {
        record_failed(c, j, fx,
                      "node '%s' has used up its %u restarts (--max-restarts); %u of the %u nodes "
                      "that --nnodes wants are left",
                      n->name, j->max_restarts, left_n, job_min(j));
    }
}

/* A node that fails again and again is left out once its budget is used up, and the others go on.
 * But when now this node fails and now that one, and none gets far, it is the script: then the run
 * has failed, before each node in turn has used up its own. */
static void count_futile(struct cluster *c, struct job *j, const struct node *n, uint32_t code,
                         struct effects *fx)
{
    if (j->futile_n == 0 || c->now_ms >= j->published_ms + FUTILE_MS) {
        j->futile_n = 0;
        j->futile_node = n->number;
        j->futile_mixed = false;
    }
    j->futile_n++;
    j->futile_mixed |= j->futile_node != n->number;
    if (j->mode != MODE_INPROCESS && j->futile_mixed && j->futile_n > j->max_restarts) {
        record_failed(c, j, fx,
                      "the script failed %u times in a row, soon after its start, on several nodes "
                      "(the last: exit code %u on node '%s'); see its output",
                      j->futile_n, code, n->name);
    }
}

/* A script that failed by itself (1–127) is charged to its slot, once per life. */
static void charge(struct cluster *c, struct node *n, uint32_t slot, uint32_t incarnation,
                   uint32_t code, struct effects *fx)
{
    struct worker *w = node_worker(c, n, slot);
    const struct job *j = &c->jobs[n->job];
    struct record r = {.kind = RECORD_SPENT,
                       .u.spent = {.slot = slot,
                                   .count = w->charged + 1,
                                   .worker = wid_make(n->number, slot, incarnation)}};

    if (w->charged_inc >= incarnation || n->state != NODE_UP) {
        return;
    }
    w->charged_inc = incarnation;
    w->charged++;
    count_futile(c, &c->jobs[n->job], n, code, fx);
    strcpy(r.u.spent.job, j->name);
    strcpy(r.u.spent.name, n->name);
    say_record(fx, &r, false);
}

/* ---- whose fault ---- */

/* Not its own fault: another member of its generation was lost before, or its connection is gone;
 * or the script had been started for a generation that is not the newest any more. */
static bool collateral(struct cluster *c, const struct job *j, const struct report *r)
{
    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        if (n->state == NODE_UP && n->closed_ms != NEVER) {
            return true;
        }
    }
    return j->tally.lost_n > 0 || (j->mode == MODE_RESTART && r->entered < j->number);
}

void blame(struct cluster *c, struct node *n, const struct report *r, struct effects *fx)
{
    struct job *j = &c->jobs[n->job];

    if (j->mode == MODE_INPROCESS) { /* Workers do not die of their peers' deaths. */
        charge(c, n, r->slot, r->incarnation, r->exit_code, fx);
    } else if (j->blame.until_ms != 0 || collateral(c, j, r)) {
        return; /* Not the first. */
    } else if (j->members_n == 1) {
        charge(c, n, r->slot, r->incarnation, r->exit_code, fx);
    } else {
        j->blame = (struct blame){.until_ms = c->now_ms + c->config.reconnect_ms,
                                  .node = n->number,
                                  .slot = r->slot,
                                  .incarnation = r->incarnation,
                                  .code = r->exit_code};
        job_touch(c, j);
    }
}

static struct node *blamed(struct cluster *c, const struct job *j)
{
    return j->blame.until_ms == 0 ? NULL : node_by_number(c, j->blame.node);
}

void blame_excuse(struct cluster *c, struct job *j, const struct node *n, uint32_t slot)
{
    struct node *who = blamed(c, j);

    if (who != NULL && (who != n || (slot != NONE && slot != j->blame.slot))) {
        node_worker(c, who, j->blame.slot)->charged_inc = j->blame.incarnation;
        j->blame.until_ms = 0;
        job_touch(c, j);
    }
}

static void settle(struct cluster *c, struct job *j, struct effects *fx)
{
    struct node *who = blamed(c, j);
    struct blame b = j->blame;

    j->blame.until_ms = 0;
    if (who != NULL) {
        charge(c, who, b.slot, b.incarnation, b.code, fx);
    }
}

/* A node leaves, or its keeper says that it was killed. */
void blame_left(struct cluster *c, const struct node *n, struct effects *fx)
{
    struct job *j = &c->jobs[n->job];

    if (blamed(c, j) == n) {
        settle(c, j, fx); /* It can't run away from it. */
    } else if (n->senior) {
        blame_excuse(c, j, n, NONE);
    }
}

void blame_settle(struct cluster *c, struct job *j, struct effects *fx)
{
    if (j->blame.until_ms == 0) {
        return;
    }
    if (c->now_ms < j->blame.until_ms) {
        job_due(c, j, j->blame.until_ms);
    } else {
        settle(c, j, fx);
        j->dirty = true;
    }
}
