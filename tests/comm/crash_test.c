/* One of three ranks dies, or stops and wakes up too late, at any of its sends, receives and
 * stores: the survivors all return, agree on which call counts, go on, and get the right bits; a
 * zombie changes nothing. MUSTER_TEST_FULL=1: at each of them, otherwise a sample by seed. */
#include "base/prng.h"
#include "comm/crash.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define SMALL 50
#define LARGE 25000 /* 100 KB: in several pieces */
/* Who does nothing for so long is taken for stopped: longer than a busy machine keeps anybody
 * waiting. */
#define STOPPED_MS 2500

/* What the test has heard so far. */
struct story {
    struct ranks s;
    struct crash c;
    bool hit, passed, published;
    unsigned long points; /* passed: how many there were */
    uint32_t returned_n, settled_n, holds_n, failed_n, blamed_n, entered_n;
    char blames[128]; /* for a failure's text */
    struct ranks_event settled[CRASH_RANKS];
    bool woken, zombie;
};

static void publish(struct story *t)
{
    if (!t->published && t->c.named && t->returned_n == CRASH_RANKS - 1 && t->failed_n > 0 &&
        t->blamed_n == 0) {
        ranks_fail(&t->s, "nobody names the victim, but %s", t->blames);
    }
    if (!t->published && t->hit && (!t->c.named || t->returned_n == CRASH_RANKS - 1)) {
        ranks_publish_without(&t->s, t->c.victim);
        t->published = true;
        t->entered_n = 0;
        for (uint32_t i = 0; i < CRASH_RANKS; i++) {
            ranks_word(&t->s, i, CRASH_REGROUP); /* for those that ask */
        }
    }
}

/* Both have said how their last call stands: the same call, and the same of it; or one was a call
 * ahead, and what the other was in counts. */
static void check_settled(struct story *t)
{
    const struct ranks_event *a = &t->settled[0], *b = &t->settled[1];

    if (a->value > b->value) {
        a = &t->settled[1];
        b = &t->settled[0];
    }
    if (a->value == b->value ? a->value2 != b->value2
                             : b->value - a->value != 1 || a->value2 == 0 || b->value2 != 0) {
        ranks_fail(&t->s, "rank %u settled call %llu as %llu, rank %u call %llu as %llu", a->who,
                   (unsigned long long)a->value, (unsigned long long)a->value2, b->who,
                   (unsigned long long)b->value, (unsigned long long)b->value2);
    }
}

/* Awake again while the others work, or only when they have come to rest. */
static void wake(struct story *t, bool at_rest)
{
    if (t->c.stop && t->hit && !t->woken && at_rest == (t->c.k / 2 % 2 == 0)) {
        t->woken = true;
        ranks_signal(&t->s, t->c.victim, SIGCONT);
    }
}

/* A generation is active when all members have entered it. */
static void on_entered(struct story *t, uint64_t generation)
{
    struct crash_shared *shared = (struct crash_shared *)(void *)t->s.shared;

    t->entered_n += generation == t->s.generation;
    if (t->entered_n == (t->published ? CRASH_RANKS - 1 : CRASH_RANKS)) {
        atomic_store(&shared->active, generation);
    }
}

static void on_said(struct story *t, const struct ranks_event *e)
{
    switch (e->said) {
    case CRASH_ENTERED:
        on_entered(t, e->value);
        break;
    case CRASH_RETURNED:
        t->returned_n++;
        t->failed_n += e->value2 != CRASH_WENT_WELL;
        snprintf(t->blames + strlen(t->blames), sizeof(t->blames) - strlen(t->blames),
                 "%u%s%d in call %u; ", e->who,
                 e->value2 == CRASH_WENT_WELL ? " is well " : " blames ", (int)(e->value >> 32),
                 (unsigned)e->value);
        t->blamed_n += e->value2 == CRASH_BLAMED;
        break;
    case CRASH_PASSED:
        t->passed = true;
        t->points = e->value;
        for (uint32_t i = 0; i < CRASH_RANKS && t->c.asks && !t->hit; i++) {
            ranks_word(&t->s, i, CRASH_GO_ON);
        }
        break;
    case CRASH_SETTLED:
        t->settled[t->settled_n++] = *e;
        if (t->settled_n == CRASH_RANKS - 1) {
            check_settled(t);
            wake(t, false);
        }
        break;
    case CRASH_HOLDS:
        t->holds_n++;
        if (t->holds_n == CRASH_RANKS - 1) {
            wake(t, true);
        }
        break;
    default:
        t->zombie = true;
        break;
    }
}

static void on_end(struct story *t, const struct ranks_event *e)
{
    if (e->who == t->c.victim && WIFSIGNALED(e->status) && WTERMSIG(e->status) == SIGKILL) {
        t->hit = true;
    } else if (!WIFEXITED(e->status) || WEXITSTATUS(e->status) != 0) {
        ranks_fail(&t->s, "rank %u ended with status %x", e->who, (unsigned)e->status);
    }
}

/* Survivors that hold may look at their memory: everybody has done what it will. */
static bool is_over(const struct story *t)
{
    return t->holds_n == CRASH_RANKS - 1 && t->hit && (!t->c.stop || t->zombie);
}

static void run_story(struct story *t)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    bool told = false;

    while (t->s.alive_n > 0) {
        struct ranks_event e;

        if (ranks_now_ns() > end_ns) {
            ranks_fail(&t->s, "%s, %s, %u returned, %u settled, %u hold, %u alive",
                       t->hit ? "hit" : "not hit", t->published ? "published" : "not published",
                       t->returned_n, t->settled_n, t->holds_n, t->s.alive_n);
        }
        if (!ranks_next(&t->s, 1000, &e)) {
            continue;
        }
        if (e.kind == RANKS_SAID) {
            on_said(t, &e);
        } else if (e.kind == RANKS_STOPPED) {
            t->hit = true;
        } else {
            on_end(t, &e);
        }
        publish(t);
        if (!told && t->passed && !t->hit) {
            /* Nobody was hit, so what follows holds nothing new: enough of it. */
            ranks_close(&t->s);
            return;
        }
        if (!told && is_over(t)) {
            told = true;
            for (uint32_t i = 0; i < CRASH_RANKS; i++) {
                ranks_word(&t->s, i, CRASH_GO_ON);
            }
        }
    }
    ranks_close(&t->s);
}

/* Returns whether the victim was hit; else *points_out, how many points it came to. */
static bool run_crash(const struct crash *c, unsigned long *points_out)
{
    static struct story t;
    struct ranks_config config = {.n = CRASH_RANKS,
                                  .body = crash_body,
                                  .arg = c,
                                  .shared_bytes = sizeof(struct crash_shared)};

    memset(&t, 0, sizeof(t));
    t.c = *c;
    ranks_lay_out(&config, c->layout);
    ranks_open(&t.s, &config);
    snprintf(t.s.what, sizeof(t.s.what), "%s, victim %u, %s:%lu, %llu elements%s%s%s%s",
             ranks_layout_name(c->layout), c->victim, c->stop ? "stop" : "kill", c->k,
             (unsigned long long)c->count, c->asks ? ", asks" : "",
             c->scribbles ? ", scribbles" : "", c->view ? ", a view" : "",
             c->named ? ", named" : "");
    ranks_publish_all(&t.s);
    run_story(&t);
    if (!t.hit && points_out != NULL) {
        *points_out = t.points;
    }
    return t.hit;
}

/* Whether somebody has to find out who it was, before anything else tells. */
static void set_named(struct crash *c, bool named)
{
    c->named = named;
    c->timeout_ms = c->stop && named ? STOPPED_MS : RANKS_LIMIT_MS / 2;
}

static struct crash make_crash(enum ranks_layout layout, uint32_t victim, bool stop, uint64_t count,
                               unsigned long k)
{
    struct crash c = {.layout = layout,
                      .victim = victim,
                      .stop = stop,
                      .k = k,
                      .count = count,
                      .calls_n = stop ? 12 : 5,
                      .scribbles = k % 3 == 1,
                      .view = k % 5 == 4};

    c.asks = (k + victim) % 2 == 0;
    c.armed_n = c.asks ? 1 : 2;
    set_named(&c, k / 3 % 2 == 0);
    return c;
}

/* Every point, until a few runs in a row have passed without coming to it. */
static void sweep(enum ranks_layout layout, uint32_t victim, bool stop, uint64_t count)
{
    unsigned passed = 0, hits = 0;

    for (unsigned long k = 1; passed < 4; k++) {
        struct crash c = make_crash(layout, victim, stop, count, k);
        bool hit = run_crash(&c, NULL);

        passed = hit ? 0 : passed + 1;
        hits += hit;
    }
    print_message("# %s, victim %u, %llu elements: %s at %u points\n", ranks_layout_name(layout),
                  victim, (unsigned long long)count, stop ? "stopped" : "killed", hits);
}

static void sample(enum ranks_layout layout, uint32_t victim, bool stop, uint64_t count, unsigned n)
{
    struct crash c = make_crash(layout, victim, stop, count, 0);
    unsigned long points = 0;
    struct prng p;

    prng_init(&p, prng_mix(ranks_seed()) + 64 * layout + 16 * victim + 2 * count + stop);
    c.asks = false;
    c.armed_n = 2;
    set_named(&c, false);
    run_crash(&c, &points);
    for (unsigned i = 0; i < n; i++) {
        c = make_crash(layout, victim, stop, count, prng_between(&p, 1, points));
        if (stop) { /* It takes its time: one of each layout. */
            set_named(&c, count == SMALL && victim == (uint32_t)layout);
        }
        run_crash(&c, NULL);
    }
}

static void all_victims(enum ranks_layout layout, bool stop)
{
    for (uint32_t victim = 0; victim < CRASH_RANKS; victim++) {
        if (ranks_full()) {
            sweep(layout, victim, stop, SMALL);
            sweep(layout, victim, stop, LARGE);
        } else {
            sample(layout, victim, stop, SMALL, stop ? 1 : 3);
            sample(layout, victim, stop, LARGE, 1);
        }
    }
}

static void a_death_by_shared_memory_is_survived(void **state)
{
    all_victims(RANKS_SHM, false);
}

static void a_death_by_tcp_is_survived(void **state)
{
    all_victims(RANKS_TCP, false);
}

static void a_death_by_both_is_survived(void **state)
{
    all_victims(RANKS_MIXED, false);
}

static void a_zombie_in_shared_memory_changes_nothing(void **state)
{
    all_victims(RANKS_SHM, true);
}

static void a_zombie_by_tcp_changes_nothing(void **state)
{
    all_victims(RANKS_TCP, true);
}

static void a_zombie_by_both_changes_nothing(void **state)
{
    all_victims(RANKS_MIXED, true);
}

/* As a failure has it: "mixed, victim 2, kill:7, 50 elements, …, named" is "mixed 2 kill 7 50
 * named". */
static char **only_args;

static void only_this_one(void **state)
{
    int layout = 0;
    struct crash c;

    while (layout < RANKS_LAYOUTS - 1 &&
           strcmp(only_args[0], ranks_layout_name((enum ranks_layout)layout)) != 0) {
        layout++;
    }
    c = make_crash((enum ranks_layout)layout, (uint32_t)atoi(only_args[1]),
                   strcmp(only_args[2], "stop") == 0, strtoull(only_args[4], NULL, 10),
                   strtoul(only_args[3], NULL, 10));
    set_named(&c, only_args[5] != NULL);
    print_message("# the victim was %s\n", run_crash(&c, NULL) ? "hit" : "not hit");
}

/* ---- what was given up is not read ---- */

/* The victim sleeps until the others have given up and written over their inputs. */
static bool run_raw(enum ranks_layout layout, uint32_t victim, unsigned long k)
{
    struct crash c = {
        .layout = layout, .victim = victim, .k = k, .count = LARGE, .timeout_ms = 150};
    struct ranks_config config = {.n = CRASH_RANKS,
                                  .body = crash_raw_body,
                                  .arg = &c,
                                  .shared_bytes = sizeof(struct crash_shared)};
    uint32_t returned_n = 0;
    struct ranks_event e;
    bool hit = false;
    struct ranks s;

    ranks_lay_out(&config, layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "not agreed, %s, victim %u, stop:%lu",
             ranks_layout_name(layout), victim, k);
    ranks_publish_all(&s);
    while (returned_n < CRASH_RANKS) {
        if (!ranks_next(&s, RANKS_LIMIT_MS, &e) || e.kind == RANKS_DIED) {
            ranks_fail(&s, "%u have returned", returned_n);
        }
        hit |= e.kind == RANKS_STOPPED;
        returned_n += e.kind == RANKS_SAID;
        if (hit && returned_n == CRASH_RANKS - 1) {
            ranks_signal(&s, victim, SIGCONT);
        }
    }
    ranks_close(&s);
    return hit;
}

static void what_was_given_up_is_not_used(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        for (uint32_t victim = 0; victim < CRASH_RANKS; victim++) {
            unsigned passed = 0;

            for (unsigned long k = 1; passed < 2; k++) {
                if (ranks_full() || (layout != RANKS_TCP && k % CRASH_RANKS == victim)) {
                    passed = run_raw((enum ranks_layout)layout, victim, k) ? 0 : passed + 1;
                } else if (k > 12) {
                    break;
                }
            }
        }
    }
}

/* ---- how soon ---- */

static uint64_t measure(enum ranks_layout layout, uint32_t victim)
{
    struct crash c = {.layout = layout, .victim = victim};
    struct ranks_config config = {.n = CRASH_RANKS,
                                  .body = crash_latency_body,
                                  .arg = &c,
                                  .shared_bytes = sizeof(struct crash_shared)};
    struct crash_shared *shared;
    uint64_t killed_ns, worst_ns = 0;
    struct ranks_event e;
    struct ranks s;

    ranks_lay_out(&config, layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%s, victim %u", ranks_layout_name(layout), victim);
    shared = (struct crash_shared *)(void *)s.shared;
    ranks_publish_all(&s);
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        ranks_await(&s, i, CRASH_PASSED, NULL);
    }
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* They sleep in the call by now. */
    killed_ns = ranks_now_ns();
    ranks_signal(&s, victim, SIGKILL);
    for (uint32_t n = 0; n < CRASH_RANKS - 1;) {
        if (!ranks_next(&s, RANKS_LIMIT_MS, &e)) {
            ranks_fail(&s, "a survivor did not return");
        }
        n += e.kind == RANKS_SAID && e.said == CRASH_RETURNED;
    }
    for (uint32_t i = 0; i < CRASH_RANKS; i++) {
        if (i != victim) {
            worst_ns = MAX(worst_ns, atomic_load(&shared->returned_ns[i]) - killed_ns);
        }
    }
    ranks_close(&s);
    return worst_ns;
}

/* Without a word about it they would find out, too, but only when they look: some of them would
 * take seconds each time. How long it takes a busy machine to run them is not its fault. */
static void survivors_hear_of_a_death_soon(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        uint64_t worst_ns = 0, best_ns = UINT64_MAX, sum_ns = 0;
        const uint32_t n = ranks_full() ? 30 : 3;

        for (uint32_t i = 0; i < n; i++) {
            uint64_t ns = measure((enum ranks_layout)layout, i % CRASH_RANKS);

            worst_ns = MAX(worst_ns, ns);
            best_ns = MIN(best_ns, ns);
            sum_ns += ns;
        }
        print_message("# %s: from kill -9 to the survivors' MU_EPEER: %.2f ms, at worst %.2f\n",
                      ranks_layout_name((enum ranks_layout)layout), (double)sum_ns / n / 1e6,
                      (double)worst_ns / 1e6);
        assert_true(best_ns < UINT64_C(1000000000));
    }
}

/* usage: comm_crash_test [LAYOUT VICTIM kill|stop K COUNT [named]] */
int main(int argc, char **argv)
{
    const struct CMUnitTest only[] = {cmocka_unit_test(only_this_one)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_by_shared_memory_is_survived),
        cmocka_unit_test(a_death_by_tcp_is_survived),
        cmocka_unit_test(a_death_by_both_is_survived),
        cmocka_unit_test(a_zombie_in_shared_memory_changes_nothing),
        cmocka_unit_test(a_zombie_by_tcp_changes_nothing),
        cmocka_unit_test(a_zombie_by_both_changes_nothing),
        cmocka_unit_test(what_was_given_up_is_not_used),
        cmocka_unit_test(survivors_hear_of_a_death_soon),
    };

    if (argc >= 6) {
        only_args = argv + 1;
        return cmocka_run_group_tests(only, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
