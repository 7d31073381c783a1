/* Four ranks train; one dies at any of its sends, receives and stores. The others settle, share out
 * its slices, and end with the bits of one undisturbed process, every step counted once; nobody is
 * started again. MUSTER_TEST_FULL=1: at each point of two steps, otherwise a sample by seed. */
#include "comm/step.h"

#include "base/prng.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

struct counts {
    uint64_t runs_n, deaths_n, settled_n, redone_n;
};

static void on_event(struct ranks *s, struct step_shared *shared, const struct step_case *c,
                     const struct ranks_event *e, uint32_t *members_n, uint32_t *entered_n,
                     uint32_t *ended_n)
{
    if (e->kind == RANKS_DIED) {
        if (e->who != c->victim || !WIFSIGNALED(e->status) || WTERMSIG(e->status) != SIGKILL) {
            ranks_fail(s, "rank %u ended with status %x", e->who, (unsigned)e->status);
        }
        --*members_n;
        *entered_n = 0;
        ranks_publish_without(s, c->victim);
    } else if (e->kind == RANKS_SAID && e->said == STEP_ENTERED && e->value == s->generation) {
        if (++*entered_n == *members_n) {
            atomic_store(&shared->active, s->generation);
        }
    } else if (e->kind == RANKS_SAID && e->said == STEP_ENDED) {
        ++*ended_n;
    }
}

/* How many points the victim came to, if it lived. */
static uint64_t train(enum ranks_layout layout, const struct step_case *c, struct counts *counts)
{
    struct ranks_config config = {
        .n = STEP_RANKS, .body = step_body, .arg = c, .shared_bytes = sizeof(struct step_shared)};
    uint32_t members_n = STEP_RANKS, entered_n = 0, ended_n = 0;
    struct step_shared *shared;
    struct ranks_event e;
    struct ranks s;
    uint64_t points;

    ranks_lay_out(&config, layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%s, rank %u dies at point %lu", ranks_layout_name(layout),
             c->victim, c->k);
    shared = (struct step_shared *)(void *)s.shared;
    ranks_publish_all(&s);
    while (ended_n < members_n) {
        if (!ranks_next(&s, RANKS_LIMIT_MS, &e)) {
            ranks_fail(&s, "training stands still");
        }
        on_event(&s, shared, c, &e, &members_n, &entered_n, &ended_n);
    }
    points = atomic_load(&shared->points);
    counts->runs_n++;
    counts->deaths_n += members_n < STEP_RANKS;
    counts->settled_n += atomic_load(&shared->settled_n);
    counts->redone_n += atomic_load(&shared->redone_n);
    for (uint32_t i = 0; i < STEP_RANKS; i++) {
        ranks_word(&s, i, 1);
    }
    ranks_finish(&s);
    return points;
}

/* Points that a rank comes to in two steps. */
static unsigned long points_of_two(enum ranks_layout layout, uint32_t victim, struct counts *counts)
{
    const struct step_case lives = {victim, 1000000};

    return 2 * train(layout, &lives, counts) / (STEP_STEPS - STEP_ARMED);
}

static void sweep(enum ranks_layout layout)
{
    struct counts counts = {0};
    struct prng random;

    prng_init(&random, ranks_seed() + layout);
    for (uint32_t victim = 0; victim < STEP_RANKS; victim++) {
        unsigned long points_n = points_of_two(layout, victim, &counts);
        unsigned long tries_n = ranks_full() ? points_n : 3;

        assert_true(points_n > 10);
        for (unsigned long i = 0; i < tries_n; i++) {
            struct step_case c = {victim, 1 + (ranks_full() ? i : prng_below(&random, points_n))};
            train(layout, &c, &counts);
        }
    }
    print_message("# %s: %llu runs, %llu deaths, %llu commits while settling, %llu slices computed "
                  "twice\n",
                  ranks_layout_name(layout), (unsigned long long)counts.runs_n,
                  (unsigned long long)counts.deaths_n, (unsigned long long)counts.settled_n,
                  (unsigned long long)counts.redone_n);
    assert_int_equal(counts.deaths_n, counts.runs_n - STEP_RANKS);
    assert_int_equal(counts.redone_n, 0); /* Gradients are kept. */
}

static void training_by_shared_memory_survives_a_death_anywhere(void **state)
{
    sweep(RANKS_SHM);
}

static void training_by_tcp_survives_a_death_anywhere(void **state)
{
    sweep(RANKS_TCP);
}

static void training_by_both_survives_a_death_anywhere(void **state)
{
    sweep(RANKS_MIXED);
}

static void undisturbed_training_has_the_bits_of_one_process(void **state)
{
    struct counts counts = {0};
    const struct step_case c = {STEP_RANKS, 0};

    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        train((enum ranks_layout)layout, &c, &counts);
    }
    assert_int_equal(counts.deaths_n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(undisturbed_training_has_the_bits_of_one_process),
        cmocka_unit_test(training_by_shared_memory_survives_a_death_anywhere),
        cmocka_unit_test(training_by_tcp_survives_a_death_anywhere),
        cmocka_unit_test(training_by_both_survives_a_death_anywhere),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
