/* Three workers train; one dies at any of the points at which it sends, receives, stores or decides
 * something. The others go on and end with the bits of one worker by itself; nobody is started
 * again. MUSTER_TEST_FULL=1: at each point; otherwise a sample by seed (MUSTER_COMM_SEED).
 *
 *   sweep_test                            the test
 *   sweep_test shm stepping 1 17 [RULE [LIMIT_MS]]
 *                                         one case; with a rule of the protocol taken out, and so
 *                                         long until it is said to stand still */
#include "run/sweep.h"

#include "base/prng.h"
#include "core/mutation.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLE_N = 2, SAMPLE_TRIES = 12 };

struct counts {
    uint64_t runs_n, deaths_n, generations_n;
};

static bool is_full(void)
{
    const char *text = getenv("MUSTER_TEST_FULL");

    return text != NULL && text[0] != '\0';
}

static uint64_t seed(void)
{
    const char *text = getenv("MUSTER_COMM_SEED");

    return text != NULL ? strtoull(text, NULL, 10) : 1;
}

static void must_go_well(const struct sweep_case *c, struct counts *counts,
                         struct sweep_result *result)
{
    char name[64];

    sweep_run(c, false, result);
    counts->runs_n++;
    counts->deaths_n += result->died;
    counts->generations_n += result->generations;
    if (!result->well) {
        fail_msg("%s: %s; again: run_sweep_test %s", sweep_name(c, name), result->why,
                 sweep_name(c, name));
    }
}

/* How many points a worker comes to depends on how often it had to wait: a machine that was busy in
 * the first run shows more of them than there are later. One that outlives its run says how many
 * there were this time, and the next is chosen among those. */
static void sample(struct sweep_case *c, unsigned long points_n, struct prng *random,
                   struct counts *counts)
{
    struct sweep_result result;

    for (int deaths = 0, tries = 0; deaths < SAMPLE_N && tries < SAMPLE_TRIES; tries++) {
        c->k = 1 + prng_below(random, points_n);
        must_go_well(c, counts, &result);
        if (result.died) {
            deaths++;
        } else if (result.points > 0 && result.points < points_n) {
            points_n = result.points;
        }
    }
}

static void sweep(enum sweep_layout layout, enum sweep_story story)
{
    const uint32_t victims_n = story == SWEEP_JOINING ? SWEEP_MAX : SWEEP_FIRST;
    struct counts counts = {0};
    struct sweep_result result;
    struct prng random;

    prng_init(&random, seed() + layout * SWEEP_STORIES + story);
    for (uint32_t victim = 0; victim < victims_n; victim++) {
        struct sweep_case c = {.layout = layout, .story = story, .victim = victim};
        unsigned long points_n;

        must_go_well(&c, &counts, &result);
        points_n = result.points;
        assert_true(points_n > 10);
        if (!is_full()) {
            sample(&c, points_n, &random, &counts);
            continue;
        }
        for (c.k = 1; c.k <= points_n; c.k++) {
            must_go_well(&c, &counts, &result);
        }
    }
    print_message("# %s, %s: %llu runs, %llu deaths, %llu generations\n", sweep_layout_name(layout),
                  sweep_story_name(story), (unsigned long long)counts.runs_n,
                  (unsigned long long)counts.deaths_n, (unsigned long long)counts.generations_n);
    assert_true(counts.deaths_n >= (uint64_t)victims_n * SAMPLE_N / 2);
}

static void nobody_dies(void **state)
{
    for (int layout = 0; layout < SWEEP_LAYOUTS; layout++) {
        for (int story = 0; story < SWEEP_STORIES; story++) {
            struct sweep_case c = {.layout = (enum sweep_layout)layout,
                                   .story = (enum sweep_story)story,
                                   .victim = SWEEP_NOBODY};
            struct counts counts = {0};
            struct sweep_result result;

            must_go_well(&c, &counts, &result);
            assert_int_equal(result.generations, story == SWEEP_JOINING ? 2 : 1);
        }
    }
}

#define SWEEP_TEST(layout, LAYOUT, story, STORY)                                    \
    static void by_##layout##_a_death_while_##story##_changes_nothing(void **state) \
    {                                                                               \
        sweep(SWEEP_##LAYOUT, SWEEP_##STORY);                                       \
    }
SWEEP_TEST(shm, SHM, stepping, STEPPING)
SWEEP_TEST(tcp, TCP, stepping, STEPPING)
SWEEP_TEST(both, MIXED, stepping, STEPPING)
SWEEP_TEST(shm, SHM, joining, JOINING)
SWEEP_TEST(tcp, TCP, joining, JOINING)
SWEEP_TEST(both, MIXED, joining, JOINING)
SWEEP_TEST(shm, SHM, beginning_or_ending, WHOLE)
SWEEP_TEST(both, MIXED, beginning_or_ending, WHOLE)

/* ---- one case ---- */

static bool take_out(const char *rule)
{
#ifdef MUSTER_MUTATIONS
    static const char *const names[] = {"NONE",
#define X(name, text) #name,
                                        MUTATION_MAP(X)
#undef X
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(names[i], rule) == 0) {
            core_mutation = (enum mutation)i;
            return true;
        }
    }
#endif
    fprintf(stderr, "there is no rule %s that this program can take out\n", rule);
    return false;
}

static int one(int argc, char **argv)
{
    struct sweep_case c = {.victim = (uint32_t)strtoul(argv[3], NULL, 10),
                           .k = strtoul(argv[4], NULL, 10)};
    struct sweep_result result;

    while (c.layout < SWEEP_LAYOUTS && strcmp(sweep_layout_name(c.layout), argv[1]) != 0) {
        c.layout++;
    }
    while (c.story < SWEEP_STORIES && strcmp(sweep_story_name(c.story), argv[2]) != 0) {
        c.story++;
    }
    if (c.layout == SWEEP_LAYOUTS || c.story == SWEEP_STORIES || c.victim >= SWEEP_MAX ||
        (argc > 5 && !take_out(argv[5]))) {
        return 2;
    }
    if (argc > 6) {
        sweep_limit_ms = strtoull(argv[6], NULL, 10);
    }
    sweep_run(&c, true, &result);
    printf("well=%d died=%d points=%lu generations=%llu suspicions=%llu%s%s\n", result.well,
           result.died, result.points, (unsigned long long)result.generations,
           (unsigned long long)result.suspicions, result.well ? "" : " why=", result.why);
    return result.well ? 0 : 1;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_dies),
        cmocka_unit_test(by_shm_a_death_while_stepping_changes_nothing),
        cmocka_unit_test(by_tcp_a_death_while_stepping_changes_nothing),
        cmocka_unit_test(by_both_a_death_while_stepping_changes_nothing),
        cmocka_unit_test(by_shm_a_death_while_joining_changes_nothing),
        cmocka_unit_test(by_tcp_a_death_while_joining_changes_nothing),
        cmocka_unit_test(by_both_a_death_while_joining_changes_nothing),
        cmocka_unit_test(by_shm_a_death_while_beginning_or_ending_changes_nothing),
        cmocka_unit_test(by_both_a_death_while_beginning_or_ending_changes_nothing),
    };

    if (argc > 4) {
        return one(argc, argv);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
