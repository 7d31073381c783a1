/* mu_serve and mu_roster: those who help, and who there is. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)MU_WORKER == ROLE_WORKER && (int)MU_CHIEF == ROLE_CHIEF &&
                   (int)MU_PS == ROLE_PS && (int)MU_EVALUATOR == ROLE_EVALUATOR,
               "the public roles are the protocol's");

bool roster_helps(const struct mu_run *run)
{
    const uint8_t mode = run->life.mode == MODE_RESTART ? MODE_RESTART : MODE_INPROCESS;

    return run->serves || (mode == MODE_INPROCESS && duty_of(run->life.role, mode) == DUTY_HELPS);
}

/* ---- serving ---- */

static int begin_serving(struct mu_run *run)
{
    int rc = call_state(run);

    if (rc != MU_OK || run->serves) {
        return rc;
    }
    if (run->alone) {
        return run_fail(MU_EDONE, "this is a job of one: there is nobody to serve");
    }
    if (run->life.mode == MODE_RESTART) {
        return run_fail(MU_EINVAL, "job '%s' runs in restart mode: workers serve in-process only",
                        run->life.job);
    }
    if (run->warm || run->trains || run->train != NULL || run->crew != NULL) {
        return run_fail(MU_EINVAL, "this worker trains with others: one that serves does not");
    }
    run->serves = true;
    told_again(run);
    return MU_OK;
}

int mu_serve(mu_run *run, int64_t timeout_ms)
{
    const uint64_t due_ms = run_due_ms(timeout_ms);
    int rc = call_enter(run);
    bool in_time = timeout_ms != 0;

    if (rc != MU_OK) {
        return rc;
    }
    rc = begin_serving(run);
    while (rc == MU_OK && in_time) {
        in_time = call_wait(run, due_ms);
        rc = call_state(run);
    }
    if (rc == MU_EDONE && run->ended && run->end.left) {
        rc = run_fail(MU_ELEFT, "this worker is to leave; the job goes on");
    }
    return call_exit(run, rc);
}

/* ---- what is told ---- */

static bool is_same(const struct msg_roster *a, const struct msg_roster *b)
{
    bool same = a->helpers_n == b->helpers_n;

    for (uint32_t i = 0; i < a->helpers_n && same; i++) {
        const struct roster_entry *x = &a->helpers[i], *y = &b->helpers[i];

        same = x->worker == y->worker && x->phase == y->phase && x->number == y->number &&
               strcmp(x->addr, y->addr) == 0;
    }
    return same;
}

/* An orchestrator that has restarted says it again: that is no change. */
void roster_told(struct mu_run *run, const struct msg_roster *m)
{
    struct msg_roster *r = &run->roster;
    struct roster_entry *helpers;

    if (run->roster_version != 0 && is_same(r, m)) {
        return;
    }
    helpers = malloc((m->helpers_n + (size_t)1) * sizeof(*helpers));
    if (helpers == NULL) {
        control_lost(run, MU_ENOMEM, "out of memory for a roster of %" PRIu32 " helpers",
                     m->helpers_n);
        return;
    }
    if (m->helpers_n > 0) {
        memcpy(helpers, m->helpers, m->helpers_n * sizeof(*helpers));
    }
    free(r->helpers);
    *r = *m;
    r->helpers = helpers;
    run->roster_version++;
}

void roster_members(struct mu_run *run)
{
    if (run->roster_version != 0) {
        run->roster_version++;
    }
}

void roster_close(struct mu_run *run)
{
    free(run->roster.helpers);
    run->roster = (struct msg_roster){0};
}

/* ---- giving it ---- */

static int by_place(const void *a, const void *b)
{
    const mu_peer *x = a, *y = b;

    if (x->role != y->role) {
        return x->role < y->role ? -1 : 1;
    }
    if (x->number != y->number) {
        return x->number < y->number ? -1 : 1;
    }
    return x->id < y->id ? -1 : x->id > y->id;
}

static size_t addresses_bytes(const struct generation *g, const struct msg_roster *r)
{
    size_t n = 0;

    for (uint32_t i = 0; i < g->members_n; i++) {
        n += strlen(g->members[i].addr) + 1;
    }
    for (uint32_t i = 0; i < r->helpers_n; i++) {
        n += strlen(r->helpers[i].addr) + 1;
    }
    return n;
}

static mu_peer helper_peer(const struct roster_entry *h)
{
    return (mu_peer){.id = h->worker,
                     .role = (enum mu_role)h->role,
                     .standing = h->phase == PHASE_SERVING ? MU_SERVING : MU_WARMING,
                     .number = h->role == ROLE_WORKER ? -1 : (int)h->number};
}

/* Before the job's mode is known a generation may name some that help. */
static bool is_helper(const struct msg_roster *r, wid worker)
{
    bool is = false;

    for (uint32_t i = 0; i < r->helpers_n && !is; i++) {
        is = r->helpers[i].worker == worker;
    }
    return is;
}

/* One block: the peers, then their addresses. */
static int copy_out(const struct mu_run *run, mu_roster_info *out)
{
    static const struct generation none;
    const struct generation *g = run->newest != NULL ? &run->newest->g : &none;
    const struct msg_roster *r = &run->roster;
    const size_t peers_max = g->members_n + (size_t)r->helpers_n;
    mu_peer *peers = malloc((peers_max + 1) * sizeof(*peers) + addresses_bytes(g, r));
    size_t n = 0, members_n;
    char *text;

    if (peers == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for a roster of %zu", peers_max);
    }
    text = (char *)(peers + peers_max);
    for (uint32_t i = 0; i < g->members_n; i++) {
        const struct member *m = &g->members[i];

        if (!is_helper(r, m->worker)) {
            peers[n] = (mu_peer){.id = m->worker,
                                 .role = (enum mu_role)m->role,
                                 .standing = MU_MEMBER,
                                 .number = (int)i};
            peers[n++].address = text;
            text = stpcpy(text, m->addr) + 1;
        }
    }
    members_n = n;
    for (uint32_t i = 0; i < r->helpers_n; i++) {
        peers[n] = helper_peer(&r->helpers[i]);
        peers[n++].address = text;
        text = stpcpy(text, r->helpers[i].addr) + 1;
    }
    qsort(peers + members_n, n - members_n, sizeof(*peers), by_place);
    *out = (mu_roster_info){.version = run->roster_version, .n = n, .items = peers};
    return MU_OK;
}

int mu_roster(mu_run *run, uint64_t after, int64_t timeout_ms, mu_roster_info *roster_out)
{
    const uint64_t due_ms = run_due_ms(timeout_ms);
    bool in_time = true;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    if (run->alone) {
        run->roster_version = 1;
    } else if (!run->now.asks) {
        run->now.asks = 1;
        told_again(run);
    }
    while ((rc = call_state(run)) == MU_OK && in_time &&
           (run->roster_version == 0 || run->roster_version <= after)) {
        in_time = call_wait(run, due_ms);
    }
    if (rc == MU_OK && run->roster_version == 0) {
        rc = run_fail(MU_ETIMEDOUT, "the orchestrator has not said yet who helps");
    } else if (rc == MU_OK && run->roster_version <= after) {
        rc = run_fail(MU_ETIMEDOUT, "the roster has not changed after version %" PRIu64, after);
    }
    if (rc == MU_OK) {
        rc = copy_out(run, roster_out);
    }
    return call_exit(run, rc);
}

void mu_roster_free(mu_roster_info *roster)
{
    if (roster != NULL) {
        free(roster->items);
        *roster = (mu_roster_info){0};
    }
}
