/* Going back: the members' states differed, and the generation that follows starts from a
 * checkpoint whose state all of them had. What was saved after it may be of a state that not all
 * had: it is taken away, so that nobody ever starts from it. */
#include "base/log.h"
#include "train/state.h"

#include <inttypes.h>
#include <stdlib.h>

#define AREA "checkpoint"

/* One on each host, or one for all. */
static bool takes_away(const struct train *t, const struct save_config *c)
{
    const struct generation *g = &step_group(&t->crew.step)->g;
    const uint32_t me = step_rank(&t->crew.step);

    for (uint32_t r = 0; r < me; r++) {
        if (c->shared || c->depot || g->members[r].host == g->members[me].host) {
            return false;
        }
    }
    return true;
}

static int forget_files(const struct saver *s, uint64_t limit, struct ckpt_why *why)
{
    struct ckpt_entry *entries = NULL;
    uint32_t n = 0;
    int rc = ckpt_list(s->config.dir, s->job, &entries, &n, why);

    for (uint32_t i = 0; rc == MU_OK && i < n; i++) {
        if (entries[i].step > limit) {
            rc = ckpt_remove(s->config.dir, s->job, entries[i].step, why);
            rc = rc == MU_ENOENT ? MU_OK : rc;
            log_write(s->config.memory ? LOG_DEBUG : LOG_WARN, AREA,
                      "step %" PRIu64 " is taken away: the states of the workers differed",
                      entries[i].step);
        }
    }
    free(entries);
    return rc;
}

/* What is being written is wanted if it may be gone back to, and if it needs nobody else. */
static void finish_saving(struct saver *s, uint64_t limit)
{
    if (s->open && !s->config.depot && s->copy.mark.step <= limit) {
        saver_take(s);
    } else {
        saver_drop(s);
    }
}

int train_heal(struct train *t)
{
    const uint64_t limit = step_group(&t->crew.step)->g.base_step;
    struct mu_run *run = t->crew.run;
    int rc = MU_OK;

    for (int i = 0; rc == MU_OK && i < SAVES_N; i++) {
        struct saver *s = &t->savers[i];
        struct ckpt_why why = {.text = ""};

        finish_saving(s, limit);
        if (!s->open || !takes_away(t, &s->config)) {
            continue;
        }
        rc = s->config.depot ? train_depot_forget(s, limit) : forget_files(s, limit, &why);
        if (rc != MU_OK && !s->config.depot) {
            rc = run_fail(rc,
                          "checkpoints of states that not all workers had can't be taken away: %s. "
                          "Remove those after step %" PRIu64 " before the job is started again",
                          why.text, limit);
        }
    }
    pthread_mutex_lock(&run->lock);
    t->told.checkpoint = t->told.checkpoint <= limit ? t->told.checkpoint : 0;
    pthread_mutex_unlock(&run->lock);
    return rc;
}
