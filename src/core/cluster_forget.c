/* Places of jobs that are over, and of nodes that are gone, are given to others when there is need.
 *
 * Nothing is forgotten before its record is durable: whoever needs the place is refused for now and
 * comes again. Of a job a few bytes are kept: which run was the last, whether it was done, and
 * when. They are in a ring, so that the oldest makes room. */
#include "core/cluster_state.h"
#include "core/mutation.h"

#include <string.h>

/* ---- what is remembered of a job ---- */

const struct memory *memory_find(const struct cluster *c, const char *job)
{
    uint64_t name = job_hash(job);

    for (uint32_t i = 0; i < c->config.memories_max; i++) {
        if (c->memories[i].run != 0 && c->memories[i].name == name &&
            !MUTATED(FORGOTTEN_IS_KNOWN)) {
            return &c->memories[i];
        }
    }
    return NULL;
}

void memory_drop(struct cluster *c, const char *job)
{
    const struct memory *m = memory_find(c, job);

    if (m != NULL) {
        /* The older ones move up: what is free is taken first, as in a ring without holes. */
        const uint32_t max = c->config.memories_max;
        uint32_t i = (uint32_t)(m - c->memories);

        for (; i != c->memories_at; i = (i + max - 1) % max) {
            c->memories[i] = c->memories[(i + max - 1) % max];
        }
        c->memories[i] = (struct memory){0};
    }
}

static void remember(struct cluster *c, const struct rec_forgotten *r, uint64_t over_ms)
{
    c->memories[c->memories_at] = (struct memory){.name = r->name,
                                                  .run = r->run,
                                                  .generation = r->generation,
                                                  .step = r->step,
                                                  .done = r->done != 0,
                                                  .ended_ms = r->at_ms,
                                                  .over_ms = over_ms};
    c->memories_at = (c->memories_at + 1) % c->config.memories_max;
}

void dump_memory(const struct cluster *c, uint32_t i, struct sink *to)
{
    const struct memory *m = &c->memories[(c->memories_at + i) % c->config.memories_max];
    struct record r = {.kind = RECORD_FORGOTTEN,
                       .u.forgotten = {.name = m->name,
                                       .run = m->run,
                                       .generation = m->generation,
                                       .step = m->step,
                                       .done = m->done,
                                       .at_ms = m->ended_ms,
                                       .nodes_floor = c->nodes_floor}};

    if (m->run != 0) {
        to->put(to, &r);
    }
}

/* ---- jobs ---- */

/* Nobody is in it, and nothing of it is on its way. */
static bool is_left(const struct job *j)
{
    return j->used && j->run != 0 && j->nodes_n == 0 && j->coming_n == 0 && !j->creating &&
           !j->deciding && !j->pending && !j->finishing && !j->saving;
}

/* Those that have ended go before those that were only left. */
static bool goes_before(const struct job *a, const struct job *b)
{
    if (a->ended != b->ended) {
        return a->ended;
    }
    return a->ended ? a->ended_ms < b->ended_ms : a->left_ms < b->left_ms;
}

bool forget_job(struct cluster *c, struct effects *fx)
{
    struct record r = {.kind = RECORD_FORGOTTEN};
    struct job *oldest = NULL;

    for (uint32_t i = 0; i < c->config.jobs_max; i++) {
        struct job *j = &c->jobs[i];

        if (j->forgetting) {
            return true;
        }
        if (is_left(j) && c->now_ms >= j->retry_ms && (oldest == NULL || goes_before(j, oldest))) {
            oldest = j;
        }
    }
    if (oldest == NULL) {
        return false;
    }
    strcpy(r.u.forgotten.job, oldest->name);
    r.u.forgotten.name = job_hash(oldest->name);
    r.u.forgotten.run = oldest->run;
    r.u.forgotten.generation = oldest->number;
    r.u.forgotten.step = oldest->finished_step;
    r.u.forgotten.done = oldest->ended && !oldest->failed;
    r.u.forgotten.at_ms = oldest->ended_ms;
    r.u.forgotten.nodes_floor = c->next_node;
    oldest->forgetting = true;
    say_record(fx, &r, false);
    return true;
}

int apply_forgotten(struct cluster *c, const struct rec_forgotten *r)
{
    struct job *j = job_find(c, r->job);

    if (r->run == 0 || r->nodes_floor > NUMBER_MAX ||
        (r->job[0] != '\0' && (j == NULL || j->nodes_n > 0))) {
        return MU_ECORRUPT;
    }
    numbers_given(c, r->nodes_floor);
    uint64_t over_ms = j != NULL ? j->over_ms : r->at_ms;

    if (j != NULL) {
        job_free(c, j);
    }
    remember(c, r, over_ms);
    return MU_OK;
}

/* ---- nodes ---- */

/* A record that is on its way does away with it: its own, another run's, its job's, or that of
 * another node of its name. */
static bool is_going(struct cluster *c, const struct node *n)
{
    const struct job *j = &c->jobs[n->job];

    return n->going || j->creating || j->forgetting || node_by_name(c, n->job, n->name) != n;
}

bool forget_node(struct cluster *c, uint32_t slots, struct effects *fx)
{
    bool any = nodes_full(c); /* Otherwise only one with as many slots helps. */
    struct node *oldest = NULL;
    bool soon = false;

    for (uint32_t i = 0; i < c->config.nodes_max; i++) {
        struct node *n = &c->nodes[i];

        if (n->state != NODE_GONE || n->senior || (!any && n->slots != slots)) {
            continue;
        }
        if (is_going(c, n)) {
            soon = true;
        } else if (oldest == NULL || n->number < oldest->number) {
            oldest = n;
        }
    }
    if (oldest != NULL) {
        oldest->going = true;
        say_record(fx,
                   &(struct record){.kind = RECORD_GONE,
                                    .u.gone = {.node = oldest->number, .forgotten = 1}},
                   false);
    }
    return oldest != NULL || soon;
}
