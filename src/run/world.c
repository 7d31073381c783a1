/* mu_world and mu_wait: where this worker stands. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(MU_NAME_MAX == NAME_MAX_LEN && MU_ADDRESS_MAX == ADDR_MAX_LEN &&
                   MU_TAG_MAX == SYNC_TAG_MAX && MU_VALUE_MAX == SYNC_DATA_MAX &&
                   MU_KEY_MAX == CONFIG_KEY_MAX && MU_VALUE_MAX == CONFIG_VALUE_MAX &&
                   MU_ANY == CONFIG_ANY,
               "the public limits are the protocol's");

/* One block: the pointers, then what they point to. */
static const char *const *copy_addresses(const struct generation *g)
{
    size_t n = 1;
    const char **list;
    char *text;

    for (uint32_t i = 0; i < g->members_n; i++) {
        n += strlen(g->members[i].addr) + 1;
    }
    list = malloc((g->members_n + (size_t)1) * sizeof(list[0]) + n);
    if (list == NULL) {
        return NULL;
    }
    text = (char *)(list + g->members_n + 1);
    for (uint32_t i = 0; i < g->members_n; i++) {
        list[i] = text;
        text = stpcpy(text, g->members[i].addr) + 1;
    }
    list[g->members_n] = NULL;
    return list;
}

int mu_world(mu_run *run, mu_world_info *world_out)
{
    static const struct generation none;
    const struct generation *g = &none;
    mu_world_info w = {.local_rank = -1};
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    if (run->newest != NULL) {
        g = &run->newest->g;
    }
    w.generation = g->number;
    w.rank = run_rank(run);
    w.size = (int)g->members_n;
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (wid_node(g->members[i].worker) == wid_node(run->life.worker)) {
            w.local_rank = (int)i == w.rank ? w.local_size : w.local_rank;
            w.local_size++;
        }
    }
    w.ended = run->ended || run->leaving;
    w.failed = run->ended && run->end.failed;
    memcpy(w.job, run->life.job, sizeof(w.job));
    memcpy(w.node, run->life.node, sizeof(w.node));
    w.addresses = copy_addresses(g);
    (void)call_exit(run, MU_OK);
    if (w.addresses == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for the addresses of %d workers", w.size);
    }
    *world_out = w;
    return MU_OK;
}

void mu_world_free(mu_world_info *world)
{
    if (world != NULL) {
        free((void *)(uintptr_t)world->addresses);
        *world = (mu_world_info){0};
    }
}

int mu_wait(mu_run *run, uint64_t generation, int64_t timeout_ms)
{
    uint64_t due_ms = run_due_ms(timeout_ms);
    bool in_time = true;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = told_warm(run);
    if (rc != MU_OK) {
        return call_exit(run, rc);
    }
    while ((rc = call_state(run)) == MU_OK && in_time &&
           (run_rank(run) < 0 || run_newest(run) <= generation)) {
        in_time = call_wait(run, due_ms);
    }
    if (rc == MU_OK && (run_rank(run) < 0 || run_newest(run) <= generation)) {
        rc = run_fail(MU_ETIMEDOUT,
                      "no generation after %" PRIu64
                      " has this worker in it; the newest is %" PRIu64 " of job %s",
                      generation, run_newest(run), run->life.job);
    }
    return call_exit(run, rc);
}
