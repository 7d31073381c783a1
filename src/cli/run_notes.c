/* What `muster run` says about flags that it takes for torchrun's sake. */
#include "cli/run_flags.h"

#include <stdio.h>

struct notes {
    void (*note)(void *data, const char *text);
    void *data;
    uint32_t n;
};

static void say(struct notes *notes, const char *text)
{
    notes->note(notes->data, text);
    notes->n++;
}

static void ignored(struct notes *notes, const char *flag, const char *value, const char *why)
{
    char text[RUN_NOTE_MAX];

    if (value != NULL) {
        snprintf(text, sizeof(text), "--%s %.60s is ignored: %s", flag, value, why);
        say(notes, text);
    }
}

static void flag_ignored(struct notes *notes, const char *flag, bool given, const char *why)
{
    char text[RUN_NOTE_MAX];

    if (given) {
        snprintf(text, sizeof(text), "--%s is ignored: %s", flag, why);
        say(notes, text);
    }
}

static void hints(const struct run_flags *f, struct notes *notes)
{
    char text[RUN_NOTE_MAX];

    if (f->node.master_addr != NULL && !f->where.given && !f->node.standalone) {
        snprintf(text, sizeof(text),
                 "--master-addr sets MASTER_ADDR only; if the orchestrator is there too, say "
                 "--rdzv-endpoint %.60s:5556",
                 f->node.master_addr);
        say(notes, text);
    }
    if (f->node.standalone && f->nnodes.max > 1) {
        say(notes, "--standalone is a job of one node: --nnodes counts as 1");
    }
    if (f->node.standalone && f->where.given) {
        say(notes, "--rdzv-endpoint is ignored: --standalone has an orchestrator inside");
    }
    if (f->slots_cut) {
        snprintf(text, sizeof(text), "--nproc-per-node: %d workers, the most that a node may have",
                 SLOTS_MAX);
        say(notes, text);
    }
}

uint32_t run_flags_notes(const struct run_flags *f, void (*note)(void *data, const char *text),
                         void *data)
{
    const struct run_ignored *ig = &f->ignored;
    struct notes notes = {.note = note, .data = data};

    ignored(&notes, "rdzv-backend", ig->rdzv_backend, "the orchestrator is the only one");
    ignored(&notes, "rdzv-conf", ig->rdzv_conf, "\"muster serve\" has the times of a rendezvous");
    ignored(&notes, "start-method", ig->start_method, "workers are programs of their own");
    ignored(&notes, "node-rank", ig->node_rank, "nodes are ranked in the order they join");
    ignored(&notes, "local-ranks-filter", ig->local_ranks_filter,
            "use --redirects to keep a slot off the console");
    ignored(&notes, "event-log-handler", ig->event_log_handler, "\"muster events\" shows them");
    ignored(&notes, "logs-specs", ig->logs_specs, "use --log-dir, --redirects and --tee");
    ignored(&notes, "signals-to-handle", ig->signals_to_handle,
            "SIGTERM, SIGINT, SIGHUP and SIGUSR1 are");
    ignored(&notes, "numa-binding", ig->numa_binding, "start the script under numactl instead");
    flag_ignored(&notes, "use-env", ig->use_env, "LOCAL_RANK is always in the environment");
    flag_ignored(&notes, "virtual-local-rank", ig->virtual_local_rank,
                 "LOCAL_RANK is the number of the slot");
    hints(f, &notes);
    return notes.n;
}
