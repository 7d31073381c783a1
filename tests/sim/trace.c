/* The run as prose: who does what, when. */
#include "sim/sim.h"

#include <stdarg.h>
#include <string.h>

static struct trace_sink *sink;

void trace_to(struct trace_sink *to)
{
    sink = to;
}

void trace(struct world *w, const char *who, const char *fmt, ...)
{
    char text[600];
    va_list args;

    if (!w->traced) {
        return;
    }
    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    if (sink != NULL) {
        sink->line(sink, w, who, text);
    } else {
        printf("%8.3f  %-13s %s\n", (double)w->now_us / 1e6, who, text);
    }
}

void trace_commit(struct world *w, uint32_t worker, uint64_t step, bool settled)
{
    const struct trainer *t = trainer_at(w, worker);

    if (sink != NULL && w->traced) {
        sink->commit(sink, w, worker, step, settled);
    } else {
        trace(w, trace_worker(w, t->self), "commits step %" PRIu64 " in generation %" PRIu64 "%s",
              step, trainer_generation(t), settled ? " (settled)" : "");
    }
}

/* "b.1", whatever number the orchestrator has given to machine b. */
const char *trace_worker(struct world *w, wid id)
{
    static char text[4][32];
    static unsigned turn;
    char *s = text[turn++ % 4];

    for (uint32_t m = 0; m < NODES_N; m++) {
        if (w->machines[m].agent.node == wid_node(id) && wid_node(id) != 0) {
            snprintf(s, sizeof(text[0]), "%s.%u", w->machines[m].name, wid_slot(id));
            return s;
        }
    }
    snprintf(s, sizeof(text[0]), "n%u.%u", wid_node(id), wid_slot(id));
    return s;
}

static void trace_generation(struct world *w, const struct note *n)
{
    const struct era *era = &w->check.eras[n->generation % GENERATIONS_N];
    char list[256] = "";
    size_t at = 0;
    struct generation g;

    if (cluster_generation(w->orch.mind.cluster, n->job, &g) != MU_OK) {
        return;
    }
    for (uint32_t i = 0; i < g.members_n && at < sizeof(list) - 16; i++) {
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s%s", i == 0 ? "" : " ",
                               trace_worker(w, g.members[i].worker),
                               (g.members[i].flags & MEMBER_CAUGHT_UP) != 0 ? "" : "*");
    }
    (void)era;
    trace(w, "orchestrator", "generation %" PRIu64 " (%s%s): %s", n->generation, n->reason,
          (g.flags & GENERATION_HOLD) != 0 ? ", on hold" : "", list);
}

void trace_note(struct world *w, const struct note *n)
{
    const char *node = n->node != NULL ? n->node : "";
    const char *who = n->worker != 0 ? trace_worker(w, n->worker) : node;

    if (!w->traced) {
        return;
    }
    switch (n->kind) {
    case NOTE_GENERATION:
        trace_generation(w, n);
        break;
    case NOTE_ACTIVE:
        trace(w, "orchestrator", "generation %" PRIu64 " is active", n->generation);
        break;
    case NOTE_JOINED:
        trace(w, "orchestrator", "%s joins", who);
        break;
    case NOTE_WARM:
        trace(w, "orchestrator", "%s is warm", who);
        break;
    case NOTE_LOST:
        trace(w, "orchestrator", "%s is lost: %s", who, n->reason);
        break;
    case NOTE_BACK:
        trace(w, "orchestrator", "%s is back", who);
        break;
    case NOTE_DRAINING:
        trace(w, "orchestrator", "%s drains", who);
        break;
    case NOTE_GONE:
    case NOTE_DRAINED:
        trace(w, "orchestrator", "%s is gone", who);
        break;
    case NOTE_REFUSED:
        trace(w, "orchestrator", "refuses: %s", n->reason);
        break;
    case NOTE_TAKEOVER:
        trace(w, "orchestrator", "starts over from step %" PRIu64 ": %s", n->value, n->reason);
        break;
    case NOTE_FINISHED:
        trace(w, "orchestrator", "step %" PRIu64 " was the last one", n->value);
        break;
    case NOTE_ENDED:
        trace(w, "orchestrator", "the run has ended%s%s", n->reason != NULL ? ": " : "",
              n->reason != NULL ? n->reason : "");
        break;
    case NOTE_LEFT_OUT:
        trace(w, "orchestrator", "leaves %s out", who);
        break;
    case NOTE_HEALED:
        trace(w, "orchestrator", "all go back to step %" PRIu64 ": %s", n->value, n->reason);
        break;
    case NOTE_METRICS:
    case NOTE_SAVED:
    case NOTE_RESIZED: /* The people who want it have said so. */
    case NOTE_RESTARTED:
    case NOTE_N:
        break;
    }
}
