/* One step and the next: READY, commit, orphans, fences, ends. */
#include "unit/core/step_kit.h"

#include <string.h>

#define ORPHANED (CREW_ORPHAN_MS + 1)

/* ---- the first generation ---- */

static void rank_0_loads_the_base_and_hands_it_to_all(void **state)
{
    struct generation *g = generation(1, GENERATION_FRESH, 0, 0, "0 1 2");

    g->base_step = 40;
    tell_all(g);
    assert_true(crew.men[0].base);
    assert_false(crew.men[1].base);
    assert_int_equal(worker(1)->phase, STEP_LOADING);
    assert_int_equal(worker(0)->entered, 0); /* nobody counts before it has the state */
    load(0, 40);
    assert_int_equal(worker(0)->entered, 1);
    assert_int_equal(crew.men[0].streams_n, 1);
    load(1, 40);
    assert_int_equal(worker(1)->entered, 1);
    assert_int_equal(worker(1)->committed, 40);
    assert_int_equal(worker(2)->entered, 0);
    assert_int_equal(worker(3)->phase, STEP_OUT);
}

static void commit_waits_for_the_generation_to_be_active(void **state)
{
    tell_all(generation(1, GENERATION_FRESH, 0, 0, "0 1 2"));
    flow(1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(worker(i)->phase, STEP_HELD);
        assert_int_equal(crew.men[i].readies_n, 1);
        assert_int_equal(crew.men[i].commits_n, 0);
    }
    tell_active(1, 1);
    assert_int_equal(crew.men[1].commits_n, 1);
    assert_int_equal(crew.men[0].commits_n, 0);
    tell_active_all(1);
    assert_int_equal(crew.men[0].commits_n, 1);
    assert_int_equal(crew.men[2].commits_n, 1);
}

static void every_slice_is_computed_once_by_one_worker(void **state)
{
    struct slices all;
    uint32_t n = 0;

    trained(3, 5);
    slices_clear(&all);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
        n += slices_count(&crew.men[i].computed);
        for (uint32_t s = 0; s < CREW_SLICES; s++) {
            if (slices_has(&crew.men[i].computed, s)) {
                slices_add(&all, s);
            }
        }
    }
    assert_int_equal(n, CREW_SLICES);
    assert_int_equal(slices_count(&all), CREW_SLICES);
}

/* ---- READY ---- */

static void ready_needs_all(void **state)
{
    trained(3, 2);
    crew.stop_at = 3;
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0);
    reduce(1);
    deliver();
    assert_int_equal(worker(0)->committed, 2);
    assert_int_equal(worker(1)->committed, 2);
    reduce(2);
    assert_int_equal(worker(2)->committed, 3); /* It has heard the others. */
    assert_int_equal(worker(0)->committed, 2);
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(1)->committed, 3);
}

static void a_ready_of_the_step_before_does_not_count(void **state)
{
    struct letter old;

    trained(2, 1);
    compute(0);
    compute(1);
    reduce(0);
    reduce(1);
    old = crew.letters[0]; /* 0's READY for step 2 */
    assert_int_equal(old.ready.step, 2);
    deliver();
    flow(2);
    compute(0);
    compute(1);
    reduce(1);
    lose_letters();
    crew.letters[crew.letters_n++] = old;
    deliver();
    assert_int_equal(worker(1)->committed, 2);
}

static void a_lost_ready_is_said_again(void **state)
{
    trained(2, 2);
    crew.stop_at = 3;
    compute(0);
    compute(1);
    reduce(0);
    reduce(1);
    lose_letters();
    assert_int_equal(worker(0)->committed, 2);
    say_again(0);
    say_again(1);
    deliver();
    assert_int_equal(worker(0)->committed, 3);
    assert_int_equal(worker(1)->committed, 3);
    say_again(0); /* The one that has moved on says it, too: 1 may have missed it. */
    assert_int_equal(crew.letters[0].ready.step, 3);
}

static void nothing_is_reduced_before_the_update_is_made(void **state)
{
    trained(2, 1);
    compute(0);
    compute(1);
    reduce(0);
    reduce(1);
    deliver();
    assert_int_equal(worker(0)->committed, 2);
    assert_int_equal(slices_count(&crew.men[0].asked), 0); /* Weights have not moved yet. */
    apply(0);
    assert_int_equal(slices_count(&crew.men[0].asked), CREW_SLICES / 2);
}

/* ---- orphans ---- */

static void an_orphan_says_no_ready_until_it_has_a_lease(void **state)
{
    trained(2, 1);
    later(CREW_ORPHAN_MS);
    assert_false(step_orphaned(worker(0)));
    later(1);
    assert_true(step_orphaned(worker(0)));
    crew.men[0].readies_n = 0;
    compute(0);
    compute(1);
    reduce(0);
    assert_int_equal(worker(0)->phase, STEP_HELD); /* It works, and keeps the result to itself. */
    assert_int_equal(crew.men[0].readies_n, 0);
    lease(0);
    assert_int_equal(crew.men[0].readies_n, 1);
}

static void an_orphan_commits_nothing_until_it_has_a_lease(void **state)
{
    trained(2, 1);
    compute(0);
    compute(1);
    reduce(0);
    reduce(1);
    later(ORPHANED);
    deliver();
    assert_int_equal(worker(0)->committed, 1);
    assert_int_equal(worker(1)->committed, 1);
    lease(1);
    assert_int_equal(worker(0)->committed, 1);
    assert_int_equal(worker(1)->committed, 2);
    lease(0);
    assert_int_equal(worker(0)->committed, 2);
}

static void a_lease_counts_from_when_it_was_asked_for(void **state)
{
    struct step_event e = {.kind = STEP_ON_LEASE, .time_ms = crew.now_ms};
    struct step_effects none = {NULL};

    later(ORPHANED);
    e.now_ms = crew.now_ms;
    step_event(worker(0), &e, &none); /* an old one comes late */
    assert_true(step_orphaned(worker(0)));
    e.time_ms = crew.now_ms;
    step_event(worker(0), &e, &none);
    assert_false(step_orphaned(worker(0)));
    e.time_ms = 1;
    step_event(worker(0), &e, &none); /* and an older one takes nothing back */
    assert_false(step_orphaned(worker(0)));
}

/* ---- fences ---- */

static void frames_of_another_generation_or_key_change_nothing(void **state)
{
    uint8_t key[KEY_BYTES], other[KEY_BYTES];
    struct msg_ready ready = {.from = wid_make(2, 0, 1), .step = 9, .newest = 1};
    struct msg_settle settle = {.from = wid_make(2, 0, 1), .step = 9, .held = 1};
    struct step_event e = {.kind = STEP_ON_READY, .u.ready = &ready};
    struct step_effects none = {NULL};
    struct peer peers[CREW_N];

    trained(2, 3);
    memset(key, 1, sizeof(key));
    memset(other, 2, sizeof(other));
    memcpy(peers, worker(0)->peers, sizeof(peers));
    for (int i = 0; i < 8; i++) {
        e.now_ms = crew.now_ms;
        e.generation = (i & 1) != 0 ? 1 : (i & 4) != 0 ? 0 : 2;
        e.key = (i & 2) != 0 && e.generation == 1 ? other : key;
        if (e.generation == 1 && e.key == key) {
            continue; /* That one is right. */
        }
        assert_false(step_fence(worker(0), e.generation, e.key));
        e.kind = STEP_ON_READY;
        e.u.ready = &ready;
        step_event(worker(0), &e, &none);
        e.kind = STEP_ON_SETTLE;
        e.u.settle = &settle;
        step_event(worker(0), &e, &none);
    }
    assert_memory_equal(worker(0)->peers, peers, sizeof(peers));
    assert_true(step_fence(worker(0), 1, key));
    assert_false(step_fence(worker(3), 0, (const uint8_t[KEY_BYTES]){0})); /* It is in none. */
}

static void strangers_and_echoes_change_nothing(void **state)
{
    uint8_t key[KEY_BYTES];
    struct msg_ready ready = {.from = wid_make(9, 0, 1), .step = 4, .newest = 1};
    struct step_event e = {.kind = STEP_ON_READY, .generation = 1, .key = key, .u.ready = &ready};
    struct step_effects none = {NULL};
    struct peer peers[CREW_N];

    trained(2, 3);
    memset(key, 1, sizeof(key));
    memcpy(peers, worker(0)->peers, sizeof(peers));
    e.now_ms = crew.now_ms;
    step_event(worker(0), &e, &none);
    ready.from = wid_make(1, 0, 1); /* itself */
    step_event(worker(0), &e, &none);
    ready.from = wid_make(2, 0, 2); /* another life of its peer */
    step_event(worker(0), &e, &none);
    assert_memory_equal(worker(0)->peers, peers, sizeof(peers));
}

static void older_generations_are_not_entered(void **state)
{
    trained(2, 3);
    crew.men[1].gone = true;
    tell(0, generation(3, GENERATION_FAILURE, 1, 0, "0"));
    assert_int_equal(worker(0)->group.number, 3);
    tell(0, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(worker(0)->group.number, 3);
    tell(0, generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(worker(0)->group.n, 1);
}

static void results_and_gradients_of_another_step_are_not_taken(void **state)
{
    struct step_effects none = {NULL};
    struct step_event e = {.kind = STEP_ON_COMPUTED, .step = 2, .slice = 0};

    trained(2, 3);
    e.now_ms = crew.now_ms;
    step_event(worker(0), &e, &none);
    assert_int_equal(slices_count(&worker(0)->have), 0);
    compute(0);
    assert_int_equal(crew.men[0].reduce_step, 4);
    e = (struct step_event){
        .kind = STEP_ON_REDUCED, .now_ms = crew.now_ms, .step = 3, .generation = 1};
    step_event(worker(0), &e, &none);
    e.step = 4;
    e.generation = 2;
    step_event(worker(0), &e, &none);
    assert_false(worker(0)->holds);
    e = (struct step_event){
        .kind = STEP_ON_LOADED, .now_ms = crew.now_ms, .step = 77, .generation = 1};
    step_event(worker(0), &e, &none);
    assert_int_equal(worker(0)->committed, 3);
}

/* ---- the end ---- */

static void a_worker_is_finished_after_the_last_step(void **state)
{
    for (uint32_t i = 0; i < 2; i++) {
        worker(i)->config.steps_n = 4;
    }
    trained(2, 4);
    flow(100);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(worker(i)->phase, STEP_FINISHED);
        assert_int_equal(worker(i)->committed, 4);
        assert_int_equal(worker(i)->entered, 1);
        assert_false(step_waits(worker(i)));
    }
}

static void a_worker_waits_for_its_peers_only_when_it_can_do_nothing_itself(void **state)
{
    trained(2, 3);
    assert_false(step_waits(worker(0)));
    compute(0);
    assert_true(step_waits(worker(0))); /* in the reduce */
    compute(1);
    reduce(0);
    assert_true(step_waits(worker(0))); /* for READYs */
    reduce(1);
    deliver();
    assert_false(step_waits(worker(0)));
    assert_false(step_waits(worker(5)));
}

static void what_one_wants_to_be_saved_all_save_once(void **state)
{
    trained(3, 2);
    want_save(1);
    flow(6);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(crew.men[i].save_step, 3);
    }
}

/* The step that it was said for was not committed. */
static void a_wish_to_save_outlives_a_loss(void **state)
{
    trained(3, 2);
    want_save(0);
    crew.stop_at = 3;
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0); /* The others do not come to it. */
    lose_letters();
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    tell_active_all(2);
    flow(8);
    assert_int_equal(worker(0)->committed, 8);
    assert_true(crew.men[0].save_step >= 3);
    assert_int_equal(crew.men[1].save_step, crew.men[0].save_step);
}

static void configurations_that_make_no_sense_are_refused(void **state)
{
    struct step s;

    assert_int_equal(step_init(&s, &(struct step_config){.slices_n = 3, .members_max = 1}),
                     MU_EINVAL);
    assert_int_equal(step_init(&s, &(struct step_config){.slices_n = 2048, .members_max = 1}),
                     MU_EINVAL);
    assert_int_equal(step_init(&s, &(struct step_config){.slices_n = 8}), MU_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CREW_CASE(rank_0_loads_the_base_and_hands_it_to_all),
        CREW_CASE(commit_waits_for_the_generation_to_be_active),
        CREW_CASE(every_slice_is_computed_once_by_one_worker),
        CREW_CASE(ready_needs_all),
        CREW_CASE(a_ready_of_the_step_before_does_not_count),
        CREW_CASE(a_lost_ready_is_said_again),
        CREW_CASE(nothing_is_reduced_before_the_update_is_made),
        CREW_CASE(an_orphan_says_no_ready_until_it_has_a_lease),
        CREW_CASE(an_orphan_commits_nothing_until_it_has_a_lease),
        CREW_CASE(a_lease_counts_from_when_it_was_asked_for),
        CREW_CASE(frames_of_another_generation_or_key_change_nothing),
        CREW_CASE(strangers_and_echoes_change_nothing),
        CREW_CASE(older_generations_are_not_entered),
        CREW_CASE(results_and_gradients_of_another_step_are_not_taken),
        CREW_CASE(a_worker_is_finished_after_the_last_step),
        CREW_CASE(a_worker_waits_for_its_peers_only_when_it_can_do_nothing_itself),
        CREW_CASE(what_one_wants_to_be_saved_all_save_once),
        CREW_CASE(a_wish_to_save_outlives_a_loss),
        CREW_CASE(configurations_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
