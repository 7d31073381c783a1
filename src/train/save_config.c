/* What is saved where, and how often: the environment, which `muster run` sets, and the caller. */
#include "base/env.h"
#include "core/text.h"
#include "train/train.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVERY_MS ((uint64_t)600000)
#define KEEP 3

int env_number(const char *name, uint64_t least, uint64_t most, uint64_t *n_out)
{
    const char *text = env_text(name);

    if (text == NULL || text_number(text, strlen(text), least, most, n_out)) {
        return MU_OK;
    }
    return run_fail(MU_EINVAL, "%s is '%.60s'; it is a number, from %" PRIu64 " on", name, text,
                    least);
}

static int take_every(struct save_config *c)
{
    const char *text = env_text("MUSTER_CKPT_EVERY");

    c->every = (struct ckpt_every){.ms = EVERY_MS};
    if (text == NULL || ckpt_every_read(text, &c->every)) {
        return MU_OK;
    }
    return run_fail(MU_EINVAL,
                    "MUSTER_CKPT_EVERY is '%.60s'; it is a number of steps, or a time like 90s, "
                    "10m or 1h",
                    text);
}

static int take_dir(struct save_config *c, const char *dir)
{
    char here[CKPT_PATH_MAX] = "";

    if (dir == NULL) {
        return MU_OK;
    }
    if (strncmp(dir, SAVE_DEPOT, strlen(SAVE_DEPOT)) == 0) {
        /* The orchestrator keeps them. It knows the job by its name: there is nothing more to say.
         * One worker writes; the others need not see it. */
        strcpy(c->dir, SAVE_DEPOT);
        c->depot = true;
        c->shared = false;
        return strcmp(dir, SAVE_DEPOT) == 0
                   ? MU_OK
                   : run_fail(MU_EINVAL,
                              "the place for checkpoints, '%.200s', is not known; '" SAVE_DEPOT
                              "', and no more, is what the orchestrator keeps",
                              dir);
    }
    if (dir[0] != '/' && getcwd(here, sizeof(here)) == NULL) {
        return run_fail(MU_EINVAL, "the folder for checkpoints, '%.200s', can't be found from here",
                        dir);
    }
    if ((size_t)snprintf(c->dir, sizeof(c->dir), "%s%s%s", here, here[0] != '\0' ? "/" : "", dir) >=
        sizeof(c->dir) - 256) { /* what is below it has names, too */
        return run_fail(MU_EINVAL, "the folder for checkpoints, '%.200s…', has too long a name",
                        dir);
    }
    return MU_OK;
}

int save_config_memory(struct save_config *c)
{
    *c = (struct save_config){.every.steps = 1, .keep = 2, .memory = true};
    return take_dir(c, env_text("MUSTER_CKPT_MEMORY"));
}

int save_config_read(struct save_config *c, const char *dir, uint64_t steps, int64_t ms)
{
    uint64_t keep = KEEP;
    int rc;

    *c = (struct save_config){.shared = env_is_on("MUSTER_CKPT_SHARED"),
                              .zstd = env_is_on("MUSTER_CKPT_ZSTD")};
    rc = take_dir(c, dir != NULL ? dir : env_text("MUSTER_CKPT_DIR"));
    if (rc != MU_OK || c->dir[0] == '\0') {
        return rc;
    }
    if (steps > 0 || ms >= 0) {
        c->every = (struct ckpt_every){steps, ms > 0 ? (uint64_t)ms : 0};
    } else {
        rc = take_every(c);
    }
    if (rc == MU_OK && (rc = env_number("MUSTER_CKPT_KEEP", 1, UINT32_MAX, &keep)) == MU_OK) {
        rc = env_number("MUSTER_CKPT_KEEP_EVERY", 0, UINT64_MAX, &c->keep_every);
    }
    c->keep = (uint32_t)keep;
    return rc;
}
