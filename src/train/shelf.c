/* A place where checkpoints are kept: a folder, or the orchestrator. */
#include "train/train.h"

int shelf_open(struct shelf *f, const struct saver *s, uint32_t patience_ms)
{
    struct depot_line hooks;
    int rc;

    f->s = s;
    f->depot = NULL;
    f->why.text[0] = '\0';
    if (!s->config.depot) {
        return MU_OK;
    }
    agent_line_init(&f->line, &s->t->crew.run->place);
    hooks = agent_line_hooks(&f->line, patience_ms);
    rc = depot_open(&hooks, &f->depot);
    return rc == MU_OK ? rc : ckpt_say(&f->why, rc, "no memory for a line to the orchestrator");
}

void shelf_close(struct shelf *f)
{
    if (f->depot != NULL) {
        depot_close(f->depot);
        agent_line_close(&f->line);
    }
}

int shelf_list(struct shelf *f, struct ckpt_entry **entries_out, uint32_t *n_out)
{
    return f->depot != NULL ? depot_list(f->depot, f->s->job, entries_out, n_out, &f->why)
                            : ckpt_list(f->s->config.dir, f->s->job, entries_out, n_out, &f->why);
}

int shelf_get(struct shelf *f, uint64_t step, struct ckpt **c_out)
{
    return f->depot != NULL ? depot_get(f->depot, f->s->job, step, c_out, &f->why)
                            : ckpt_open(f->s->config.dir, f->s->job, step, c_out, &f->why);
}

int shelf_remove(struct shelf *f, uint64_t step)
{
    return f->depot != NULL ? depot_remove(f->depot, f->s->job, step, &f->why)
                            : ckpt_remove(f->s->config.dir, f->s->job, step, &f->why);
}
