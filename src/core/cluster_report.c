/* What agents say of their workers. Reports state levels: taking one twice, late or out of
 * order changes nothing that a newer one has said. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

static void note_worker(struct cluster *c, const struct node *n, uint32_t slot, enum note_kind kind,
                        uint64_t value, const char *reason, struct effects *fx)
{
    const struct job *j = &c->jobs[n->job];

    say_note(fx, &(struct note){.kind = kind,
                                .job = j->name,
                                .node = n->name,
                                .worker =
                                    wid_make(n->number, slot, node_worker(c, n, slot)->incarnation),
                                .generation = j->number,
                                .value = value,
                                .reason = reason});
}

/* One that has finished, or that is in no generation any more on a node that leaves, goes as it
 * should. */
static bool is_loss(struct cluster *c, const struct node *n, uint32_t slot, uint8_t was)
{
    const struct worker *w = node_worker(c, n, slot);
    bool member = w->current_inc == w->incarnation || w->active_inc == w->incarnation;

    return was != PHASE_FINISHED && !c->jobs[n->job].ended && (member || !n->draining);
}

static void note_change(struct cluster *c, const struct node *n, uint32_t slot, uint8_t was,
                        const struct report *r, struct effects *fx)
{
    if (r->phase == was) {
        return;
    }
    if (r->phase == PHASE_WARM) {
        note_worker(c, n, slot, NOTE_WARM, 0, NULL, fx);
    } else if (r->phase == PHASE_LOST) {
        note_worker(c, n, slot, NOTE_LOST, 0, "it stopped answering its agent", fx);
    } else if (r->phase == PHASE_EXITED) {
        if (is_loss(c, n, slot, was) && r->exit_code == 0 && !r->hung && !n->draining) {
            note_worker(c, n, slot, NOTE_DRAINED, 0, NULL, fx);
        } else if (is_loss(c, n, slot, was)) {
            note_worker(c, n, slot, NOTE_LOST, r->hung ? 0 : r->exit_code,
                        r->hung ? "it hung, and its agent ended it; another takes its place"
                                : "it exited",
                        fx);
        }
    } else if (was == PHASE_LOST) {
        note_worker(c, n, slot, NOTE_BACK, 0, NULL, fx);
    }
}

void take_checkpoint(struct job *j, const struct worker *w)
{
    if (w->active_inc == w->incarnation && w->entered >= j->active) {
        j->saved = MAX(j->saved, w->checkpoint);
    }
}

static void take_report(struct cluster *c, struct node *n, const struct report *r,
                        struct effects *fx)
{
    struct job *j = &c->jobs[n->job];
    struct worker *w;
    uint8_t was;

    if (r->slot >= n->slots || r->phase >= PHASE_N || r->phase == PHASE_NONE ||
        r->incarnation == 0) {
        return;
    }
    w = node_worker(c, n, r->slot);
    if (!RULE(STALE_INCARNATION, r->incarnation >= w->incarnation)) {
        return;
    }
    was = w->phase;
    if (r->incarnation != w->incarnation) {
        w->incarnation = r->incarnation;
        w->entered = 0;
        w->apart_n = 0;
        was = PHASE_NONE;
    } else if (was == PHASE_EXITED && r->phase != PHASE_EXITED) {
        return; /* The dead stay dead. */
    }
    w->phase = r->phase;
    w->asks = r->asks != 0;
    if (r->phase == PHASE_SERVING || r->phase == PHASE_WARM || r->phase == PHASE_IN) {
        w->serves = r->phase == PHASE_SERVING;
    }
    w->entered = MAX(w->entered, r->entered);
    w->step = r->step;
    w->reached = r->reached;
    w->unkept = r->unkept != 0;
    memcpy(w->addr, r->addr, sizeof(w->addr));
    if (w->port_used && w->port != r->port) {
        w->port_used = false;
        job_touch(c, j); /* A generation may have waited for this alone. */
    }
    w->port = r->port;
    job_stepped(c, j, r->step);
    w->checkpoint = r->checkpoint;
    take_checkpoint(j, w);
    note_change(c, n, r->slot, was, r, fx);
    take_apart(c, j, w, r);
    take_fault(c, j, n, w, r, fx);
    if (r->phase == PHASE_EXITED && was != PHASE_EXITED) {
        j->mend_ms = c->now_ms + c->config.reconnect_ms;
        w->exited = r->exit_code + 1;
    }
    if (r->phase == PHASE_EXITED && r->exit_code >= 128) {
        if (was != PHASE_EXITED) {
            blame_excuse(c, j, n, r->slot);
        }
    } else if (r->phase == PHASE_EXITED && r->exit_code >= 1) {
        blame(c, n, r, fx);
    }
}

void take_reports(struct cluster *c, struct node *n, uint64_t seq, const struct report *reports,
                  uint32_t reports_n, struct effects *fx)
{
    struct job *j = &c->jobs[n->job];

    if (!RULE(STALE_INCARNATION, seq >= n->reports_seq)) {
        return; /* Overtaken. */
    }
    n->reports_seq = seq;
    n->unheard = false;
    for (uint32_t i = 0; i < reports_n; i++) {
        take_report(c, n, &reports[i], fx);
    }
    node_refresh(c, n);
    if (j->saved > j->checkpoint) {
        job_touch(c, j);
    }
}

int on_reports(struct cluster *c, const struct event *e, struct effects *fx)
{
    const struct msg_reports *m = e->u.reports;
    struct node *n = node_by_conn(c, e->conn);
    struct msg_ack ack = {.reports = m->seq};

    if (n == NULL || n->state != NODE_UP || n->going) {
        say_refused(fx, e->conn, MU_ESTALE, "this node is not known here; say hello again");
        return MU_ESTALE;
    }
    node_heard(c, n);
    take_reports(c, n, m->seq, m->reports, m->reports_n, fx);
    say_ack(c, n, &ack, fx);
    roster_say(c, n, fx);
    return MU_OK;
}
