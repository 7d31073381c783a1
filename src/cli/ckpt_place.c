/* Where checkpoints are: in a folder, or with the orchestrator. */
#include "cli/ckpt_cmd.h"

#include "cli/cli.h"

#include <string.h>

bool ckpt_place_is_depot(const char *dir)
{
    return strcmp(dir, "orchestrator:") == 0;
}

int ckpt_place_list(const struct ckpt_call *c, const char *job, struct ckpt_found *found_out,
                    struct ckpt_why *why)
{
    return c->depot != NULL ? depot_list(c->depot, job, &found_out->entries, &found_out->n, why)
                            : ckpt_list(c->dir, job, &found_out->entries, &found_out->n, why);
}

int ckpt_place_jobs(const struct ckpt_call *c, char **names_out, struct ckpt_why *why)
{
    return c->depot != NULL ? depot_jobs(c->depot, names_out, why)
                            : ckpt_jobs(c->dir, names_out, why);
}

int ckpt_place_open(const struct ckpt_call *c, const char *job, uint64_t step,
                    struct ckpt **open_out, struct ckpt_why *why)
{
    return c->depot != NULL ? depot_get(c->depot, job, step, open_out, why)
                            : ckpt_open(c->dir, job, step, open_out, why);
}

int ckpt_place_remove(const struct ckpt_call *c, uint64_t step, struct ckpt_why *why)
{
    return c->depot != NULL ? depot_remove(c->depot, c->job, step, why)
                            : ckpt_remove(c->dir, c->job, step, why);
}
