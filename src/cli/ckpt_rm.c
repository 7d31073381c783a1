/* `muster ckpt rm`: takes checkpoints away, but not the last that a run could go on from. */
#include "cli/ckpt_cmd.h"
#include "cli/ckpt_text.h"
#include "core/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Those of the command line; each counts once. Nothing is removed unless all are there. */
static int mark_all(const struct ckpt_call *c, const struct ckpt_found *f, bool *marked)
{
    for (uint32_t i = 0; i < c->steps_n; i++) {
        uint64_t step;
        uint32_t at;
        int status;

        mu_assert(ckpt_text_step(c->steps[i], &step));
        status = ckpt_cmd_place(c, f, step, &at);
        if (status != EXIT_SUCCESS) {
            return status;
        }
        marked[at] = true;
    }
    return EXIT_SUCCESS;
}

static bool opens(const struct ckpt_call *c, uint64_t step)
{
    struct ckpt_why why;
    struct ckpt *open;

    if (ckpt_place_open(c, c->job, step, &open, &why) != MU_OK) {
        return false;
    }
    ckpt_close(open);
    return true;
}

/* One that stays can be opened; or none that goes can, so that it makes no difference. */
static int check_rest(const struct ckpt_call *c, const struct ckpt_found *f, const bool *marked)
{
    uint32_t stay_n = 0, lost_n = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        stay_n += !marked[i];
        if (!marked[i] && opens(c, f->entries[i].step)) {
            return EXIT_SUCCESS;
        }
    }
    for (uint32_t i = 0; i < f->n; i++) {
        lost_n += marked[i] && opens(c, f->entries[i].step);
    }
    if (stay_n > 0 && lost_n == 0) {
        return EXIT_SUCCESS;
    }
    return ckpt_cmd_say(EXIT_FAILURE,
                        stay_n == 0 ? "job %s would have no checkpoint left; --force removes the "
                                      "last one too"
                                    : "job %s would have damaged checkpoints left, and no other; "
                                      "--force does it all the same",
                        c->job);
}

static int remove_marked(const struct ckpt_call *c, const struct ckpt_found *f, const bool *marked)
{
    char size[TEXT_BYTES_MAX];

    for (uint32_t i = f->n;
         i-- > 0;) { /* The oldest first: whatever stops this, newer ones stay. */
        struct ckpt_why why = {.text = ""};
        int rc;

        if (!marked[i]) {
            continue;
        }
        rc = ckpt_place_remove(c, f->entries[i].step, &why);
        if (rc != MU_OK) {
            return ckpt_cmd_failed(c, f, i, rc, &why);
        }
        text_bytes(f->entries[i].bytes, size);
        printf("step %" PRIu64 " of job %s is removed (%s)\n", f->entries[i].step, c->job, size);
    }
    return EXIT_SUCCESS;
}

int ckpt_cmd_rm(const struct ckpt_call *c)
{
    struct ckpt_found f;
    bool *marked;
    int status = ckpt_cmd_find(c, &f);

    if (status != EXIT_SUCCESS) {
        return status;
    }
    marked = calloc(f.n, sizeof(*marked));
    if (marked == NULL) {
        status = ckpt_cmd_say(EXIT_FAILURE, "out of memory");
        goto err_found;
    }
    status = mark_all(c, &f, marked);
    if (status == EXIT_SUCCESS && !c->force) {
        status = check_rest(c, &f, marked);
    }
    if (status == EXIT_SUCCESS) {
        status = remove_marked(c, &f, marked);
    }
    free(marked);
err_found:
    free(f.entries);
    return status;
}
