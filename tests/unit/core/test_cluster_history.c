/* Histories drawn at random: whatever happened, the journal and a snapshot rebuild what is there,
 * and a few things hold after every event. A failing seed is printed. */
#include "unit/core/cluster_kit.h"

#include "base/prng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES_N 7
#define EVENTS_N 120

static struct prng rng;
static uint64_t newest[2];

static uint64_t below(uint64_t n)
{
    return prng_below(&rng, n);
}

/* Nodes a to d are of one job, e to g of another. */
static const char *some_node(void)
{
    static char name[2];

    name[0] = (char)('a' + below(NODES_N));
    return name;
}

static void choose_job(const char *name)
{
    bool first = name[0] < 'e';

    f.job = first ? "job" : "other";
    f.slots = first ? 2 : 1;
    shape(first ? 1 : 2, 3);
    f.mode = first ? MODE_INPROCESS : MODE_RESTART;
    at(name);
}

static bool all_exited(const struct stub *s)
{
    bool all = true;

    for (uint32_t i = 0; i < s->slots; i++) {
        all &= s->reports[i].phase == PHASE_EXITED;
    }
    return all;
}

static void worker_event(const char *name)
{
    uint32_t slot = (uint32_t)below(at(name)->slots);

    switch (below(8)) {
    case 0:
    case 1:
        warm(name);
        break;
    case 2:
    case 3:
        enter(name);
        break;
    case 4:
        exits(name, slot, below(2) == 0 ? 137 : 1);
        break;
    case 5:
        next_life(name, slot);
        break;
    case 6:
        at(name)->reports[slot].checkpoint += below(3);
        at(name)->reports[slot].step += below(5);
        resend(name);
        break;
    default:
        report(name, slot, below(20) == 0 ? PHASE_FINISHED : PHASE_LOST, at(name)->held, 0);
        break;
    }
}

static void node_event(const char *name)
{
    const struct stub *s = at(name);

    if (s->conn == 0 || s->refused != 0 || s->ended) {
        at(name)->ended = false;
        if (s->conn != 0) {
            closed(name);
        }
        if (below(3) == 0) {
            rejoin(name);
        } else {
            hello(name);
        }
    } else if ((all_exited(s) || below(20) == 0) && below(2) == 0) {
        bye(name);
        closed(name);
    } else if (below(8) == 0) {
        closed(name);
    } else if (s->node != 0) {
        worker_event(name);
    }
}

static void people_event(const char *name)
{
    struct job_view v;

    if (cluster_job(f.c, f.job, &v) != MU_OK) {
        return;
    }
    switch (below(6)) {
    case 0:
        want((uint32_t)below(4));
        break;
    case 1:
        paused(below(2) == 0);
        break;
    case 2:
        want_nodes(name);
        break;
    case 3:
        admin(ADMIN_DRAIN, name);
        break;
    case 4:
        admin(below(8) == 0 ? ADMIN_SHUTDOWN : ADMIN_TAKEOVER, "");
        break;
    default:
        suspect(name, name[0] < 'e' ? "a" : "e");
        break;
    }
}

static void disk_event(void)
{
    switch (below(4)) {
    case 0:
        hold();
        break;
    case 1:
        if (f.synced_n < f.journal_n) {
            sync_one();
        }
        break;
    case 2:
        if (f.synced_n < f.journal_n) {
            fail_all();
        }
        break;
    default:
        sync_all();
        break;
    }
}

static void some_event(void)
{
    const char *name = some_node();

    choose_job(name);
    switch (below(24)) {
    case 0:
        people_event(name);
        break;
    case 1:
    case 2:
        disk_event();
        break;
    case 3:
        if (below(4) == 0) {
            restart();
        } else if (below(4) == 0 && f.synced_n == f.journal_n) {
            restart_from_snapshot();
        }
        break;
    case 4:
        jump(below(LEASE_MS));
        break;
    case 5:
    case 6:
    case 7:
        pass(below(LEASE_MS));
        break;
    case 8:
    case 9:
        if (!f.hold) {
            settle();
        }
        break;
    default:
        node_event(name);
        break;
    }
}

static uint32_t membership_waiting(const char *name)
{
    uint32_t n = 0;

    for (uint32_t i = f.synced_n; i < f.journal_n; i++) {
        const struct record *r = &f.journal[i];

        n += r->kind == RECORD_GENERATION && strcmp(r->u.generation.job, name) == 0;
        n += r->kind == RECORD_ACTIVE && strcmp(r->u.active.job, name) == 0;
    }
    return n;
}

static void check(void)
{
    static const char *const JOBS[] = {"job", "other"};

    for (size_t i = 0; i < ARRAY_LEN(JOBS); i++) {
        struct job_view v;

        if (cluster_job(f.c, JOBS[i], &v) == MU_OK) {
            assert_true(v.generation >= newest[i]);
            assert_true(v.active <= v.generation);
            newest[i] = v.generation;
        }
        assert_true(membership_waiting(JOBS[i]) <= 1);
    }
    assert_true(cluster_deadline(f.c) > f.now_ms);
    expect_replays();
}

static void any_history_can_be_rebuilt_from_its_journal_and_from_a_snapshot(void **state)
{
    uint64_t seeds_n = getenv("MUSTER_TEST_FULL") != NULL ? 2000 : 60;
    const char *only = getenv("SEED");

    for (uint64_t seed = only != NULL ? strtoull(only, NULL, 10) : 1; seed <= seeds_n; seed++) {
        print_message("# seed %llu\n", (unsigned long long)seed);
        prng_init(&rng, seed);
        memset(newest, 0, sizeof(newest));
        f.max_restarts = (uint32_t)below(4) * 10;
        kit_open();
        for (int i = 0; i < EVENTS_N; i++) {
            some_event();
            check();
        }
        if (only != NULL) {
            break;
        }
    }
    f.replay_differs = true; /* All has been compared. */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(any_history_can_be_rebuilt_from_its_journal_and_from_a_snapshot),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
