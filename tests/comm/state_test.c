/* A state comes to those who lack it, whole and exact; whoever dies meanwhile, holders keep theirs
 * and the rest can go on. MUSTER_TEST_FULL=1: a death at each point, otherwise a sample by seed. */
#include "base/prng.h"
#include "comm/state.h"
#include "unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define MIB ((size_t)1 << 20)

static void tell_all(struct ranks *s, const struct state_case *c, uint64_t word)
{
    for (uint32_t i = 0; i < c->n; i++) {
        ranks_word(s, i, word);
    }
}

/* Until every survivor has returned, and the victim has passed or died. */
static bool await_all(struct ranks *s, const struct state_case *c, unsigned long *points_out)
{
    uint32_t returned_n = 0;
    bool died = false;

    while (returned_n + died < c->n) {
        struct ranks_event e;

        if (!ranks_next(s, RANKS_LIMIT_MS, &e)) {
            ranks_fail(s, "%u have returned", returned_n);
        }
        if (e.kind == RANKS_DIED) {
            if (e.who != c->victim || !WIFSIGNALED(e.status) || WTERMSIG(e.status) != SIGKILL) {
                ranks_fail(s, "rank %u ended with status %x", e.who, (unsigned)e.status);
            }
            died = true;
        } else if (e.said == STATE_RETURNED) {
            returned_n++;
        } else if (points_out != NULL) {
            *points_out = e.value;
        }
    }
    return died;
}

/* Returns whether the victim was hit; else *points_out (may be NULL): how many points it came to.
 */
static bool run_case(const struct state_case *c, unsigned long *points_out)
{
    struct ranks_config config = {
        .n = c->n, .body = state_body, .arg = c, .shared_bytes = sizeof(struct state_shared)};
    struct ranks s;
    bool died;

    ranks_lay_out(&config, c->layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%u ranks, %s, holders %x%s, fault %d at %u, victim %u at %lu",
             c->n, ranks_layout_name(c->layout), c->holders, c->whole ? ", whole" : "", c->fault,
             c->odd, c->victim, c->k);
    ranks_publish_all(&s);
    died = await_all(&s, c, points_out);
    if (died) {
        ranks_publish_without(&s, c->victim);
        tell_all(&s, c, STATE_REGROUP);
        for (uint32_t i = 0; i < c->n; i++) {
            if (i != c->victim) {
                ranks_await(&s, i, STATE_WENT_ON, NULL);
            }
        }
    }
    tell_all(&s, c, STATE_END);
    ranks_finish(&s);
    return died;
}

static struct state_case make_case(enum ranks_layout layout, uint32_t n, uint32_t holders,
                                   bool whole)
{
    return (struct state_case){.layout = layout,
                               .n = n,
                               .holders = holders,
                               .large = 5 * MIB + 123,
                               .small_n = 3,
                               .whole = whole,
                               .seed = ranks_seed() + 10 * holders + n,
                               .victim = STATE_VICTIM_NONE};
}

static void on_layouts(uint32_t n, uint32_t holders)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        for (int whole = 0; whole < 2; whole++) {
            const struct state_case c =
                make_case((enum ranks_layout)layout, n, holders, whole == 1);

            if (ranks_full() || whole == (layout + (int)holders) % 2) {
                run_case(&c, NULL);
            }
        }
    }
}

static void one_holder_gives_it_to_all(void **state)
{
    on_layouts(2, 1);
    on_layouts(4, 1);
    on_layouts(4, 4);
}

static void several_holders_give_a_part_each(void **state)
{
    on_layouts(4, 7);
    on_layouts(4, 13);
    on_layouts(5, 10);
}

static void a_state_of_parts_of_all_sizes_comes_whole(void **state)
{
    for (int layout = 0; layout <= RANKS_TCP; layout++) {
        struct state_case c = make_case((enum ranks_layout)layout, 3, 5, layout == RANKS_TCP);

        c.large = (ranks_full() ? 64 : 20) * MIB;
        c.small_n = 40; /* more than one batch */
        run_case(&c, NULL);
    }
}

static void where_nobody_lacks_it_nothing_is_sent(void **state)
{
    const struct state_case c = make_case(RANKS_SHM, 3, 7, false);

    run_case(&c, NULL);
}

static void one_that_can_not_go_on_keeps_nobody_waiting(void **state)
{
    static const struct {
        enum state_fault fault;
        uint32_t odd;
    } FAULTS[] = {{STATE_SAVE_FAILS, 0},   {STATE_SAVE_FAILS, 1},     {STATE_LOAD_FAILS, 2},
                  {STATE_MARK_DIFFERS, 1}, {STATE_LENGTH_DIFFERS, 1}, {STATE_LOAD_FAILS, 3}};

    for (size_t i = 0; i < ARRAY_LEN(FAULTS); i++) {
        struct state_case c =
            make_case(i % 2 == 0 ? RANKS_SHM : RANKS_TCP, 4, 3, i % 4 < 2 /* whole */);

        c.fault = FAULTS[i].fault;
        c.odd = FAULTS[i].odd;
        run_case(&c, NULL);
    }
}

static void a_byte_that_flips_on_the_way_is_found(void **state)
{
    for (int whole = 0; whole < 2; whole++) {
        struct state_case c = make_case(RANKS_SHM, 3, 3, whole == 1);

        c.fault = STATE_BYTE_FLIPS;
        c.odd = 2;
        run_case(&c, NULL);
    }
}

/* ---- deaths ---- */

static void kill_somewhere(enum ranks_layout layout, uint32_t holders, uint32_t victim,
                           unsigned samples_n)
{
    struct state_case c = make_case(layout, 3, holders, false);
    unsigned long points = 0, fewer = 0, hits = 0, tries = 0;
    struct prng p;

    prng_init(&p, prng_mix(ranks_seed()) + 64 * layout + 8 * holders + victim);
    c.victim = victim;
    run_case(&c, &points);
    assert_true(points > 0);
    for (unsigned long i = 0; ranks_full() && i < points; i++) {
        c.k = i + 1;
        c.whole = i % 2 == 0;
        hits += run_case(&c, NULL);
    }
    /* How many there are depends on how often it has to wait: one that outlives its run says how
     * many there were this time. */
    while (!ranks_full() && hits < samples_n && tries++ < 20) {
        c.k = prng_between(&p, 1, points);
        c.whole = (hits + layout + victim) % 2 == 0;
        if (run_case(&c, &fewer)) {
            hits++;
        } else {
            points = MAX(MIN(points, fewer), 1);
        }
    }
    assert_true(hits >= (ranks_full() ? 1 : samples_n));
    print_message("# %s, holders %x, victim %u: %lu deaths at %lu points\n",
                  ranks_layout_name(layout), holders, victim, hits, points);
}

static void a_holder_that_dies_is_one_less(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        kill_somewhere((enum ranks_layout)layout, 1, 0, 1);
        kill_somewhere((enum ranks_layout)layout, 6, 1, 2);
        kill_somewhere((enum ranks_layout)layout, 6, 2, 2);
    }
}

static void a_newcomer_that_dies_leaves_holders_as_they_were(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        kill_somewhere((enum ranks_layout)layout, 1, 2, 2);
        kill_somewhere((enum ranks_layout)layout, 6, 0, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_holder_gives_it_to_all),
        cmocka_unit_test(several_holders_give_a_part_each),
        cmocka_unit_test(a_state_of_parts_of_all_sizes_comes_whole),
        cmocka_unit_test(where_nobody_lacks_it_nothing_is_sent),
        cmocka_unit_test(one_that_can_not_go_on_keeps_nobody_waiting),
        cmocka_unit_test(a_byte_that_flips_on_the_way_is_found),
        cmocka_unit_test(a_holder_that_dies_is_one_less),
        cmocka_unit_test(a_newcomer_that_dies_leaves_holders_as_they_were),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
