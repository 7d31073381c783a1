/* One step and the next: READY, commit, orphans, fences, ends. */
#include "unit/core/step_kit.h"

#include <string.h>

#define ORPHANED (CREW_ORPHAN_MS + 1)

/* ---- the first generation ---- */

/* Nobody counts before it has the state. */
static void those_who_could_read_the_base_hand_it_to_the_others(void **state)
{
    struct generation *g = generation(1, GENERATION_FRESH, 0, 0, "0 1 2");

    g->base_step = 40;
    tell_all(g);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_LOADING);
        move(i);
        assert_int_equal(next(i), STEP_BASE);
        assert_int_equal(step_entered(worker(i)), 0);
    }
    for (uint32_t i = 0; i < 3; i++) {
        base(i, 40, "02");
        assert_int_equal(step_entered(worker(i)), i == 1 ? 0 : 1);
        assert_memory_equal(step_holders(worker(i)), ((uint8_t[]){1, 0, 1}), 3);
        assert_int_equal(next(i), STEP_STREAM);
    }
    stream(1, 40);
    assert_int_equal(step_entered(worker(1)), 1);
    assert_int_equal(committed(1), 40);
    assert_int_equal(step_phase(worker(3)), STEP_OUT);
    assert_int_equal(next(3), STEP_WAIT);
}

static void a_base_that_all_could_read_is_handed_to_nobody(void **state)
{
    tell_all(generation(1, GENERATION_FRESH, 0, 0, "0 1"));
    move_all();
    for (uint32_t i = 0; i < 2; i++) {
        base(i, 0, "01");
        assert_int_equal(next(i), STEP_GIVE);
    }
}

static void commit_waits_for_the_generation_to_be_active(void **state)
{
    tell_all(generation(1, GENERATION_FRESH, 0, 0, "0 1 2"));
    flow(1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_HELD);
        assert_int_equal(crew.men[i].readies_n, 1);
        assert_int_equal(crew.men[i].commits_n, 0);
        assert_false(step_confirmed(worker(i)));
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
    assert_int_equal(committed(0), 2);
    assert_int_equal(committed(1), 2);
    reduce(2);
    assert_int_equal(committed(2), 3); /* It has heard the others. */
    assert_int_equal(committed(0), 2);
    deliver();
    assert_int_equal(committed(0), 3);
    assert_int_equal(committed(1), 3);
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
    assert_int_equal(committed(1), 2);
}

static void nothing_is_computed_before_the_update_is_made(void **state)
{
    trained(2, 1);
    compute(0);
    compute(1);
    reduce(0);
    reduce(1);
    deliver();
    assert_int_equal(committed(0), 2);
    assert_int_equal(next(0), STEP_SHOW);
    show(0);
    assert_int_equal(next(0), STEP_HEAR); /* Weights have not moved yet. */
    apply(0);
    assert_int_equal(next(0), STEP_GIVE);
    compute(0);
    assert_int_equal(slices_count(&crew.men[0].computed), CREW_SLICES / 2);
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
    assert_int_equal(step_phase(worker(0)),
                     STEP_HELD); /* It works, and keeps the result to itself. */
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
    assert_int_equal(committed(0), 1);
    assert_int_equal(committed(1), 1);
    lease(1);
    assert_int_equal(committed(0), 1);
    assert_int_equal(committed(1), 2);
    lease(0);
    assert_int_equal(committed(0), 2);
}

static void a_lease_counts_from_when_it_was_asked_for(void **state)
{
    struct step_event e = {.kind = STEP_ON_LEASE, .time_ms = crew.now_ms};

    later(ORPHANED);
    event(0, e); /* an old one comes late */
    assert_true(step_orphaned(worker(0)));
    lease(0);
    assert_false(step_orphaned(worker(0)));
    assert_int_equal(step_lease_ms(worker(0)), crew.now_ms);
    e.time_ms = 1;
    event(0, e); /* and an older one takes nothing back */
    assert_false(step_orphaned(worker(0)));
}

/* ---- fences ---- */

/* 0 holds step 4, and a READY from 1 is all that it needs. */
static struct letter ready_for_0(void)
{
    struct letter l;

    trained(2, 3);
    hold(2);
    l = crew.letters[1];
    assert_int_equal(l.from, 1);
    lose_letters();
    return l;
}

static void post(struct letter l)
{
    crew.letters[crew.letters_n++] = l;
    deliver();
}

static void frames_of_another_term_or_key_change_nothing(void **state)
{
    const uint64_t terms[] = {0, term_make(1, 1), term_make(0, 0), term_make(2, 0)};
    struct letter right = ready_for_0(), wrong;

    for (uint32_t i = 0; i < ARRAY_LEN(terms); i++) {
        wrong = right;
        wrong.term = terms[i];
        assert_false(step_fence(worker(0), wrong.term, wrong.key));
        post(wrong);
        memset(wrong.key, (int)term_generation(terms[i]), sizeof(wrong.key));
        assert_false(step_fence(worker(0), wrong.term, wrong.key));
        post(wrong);
    }
    wrong = right;
    wrong.key[0]++;
    assert_false(step_fence(worker(0), wrong.term, wrong.key));
    post(wrong);
    assert_int_equal(committed(0), 3);
    assert_false(step_fence(worker(3), 0, (const uint8_t[KEY_BYTES]){0})); /* It is in none. */
    assert_true(step_fence(worker(0), right.term, right.key));
    post(right);
    assert_int_equal(committed(0), 4);
}

static void strangers_and_echoes_change_nothing(void **state)
{
    const wid others[] = {wid_make(9, 0, 1), id_of(0), wid_make(2, 0, 2) /* another life of 1 */};
    struct letter right = ready_for_0(), wrong;

    for (uint32_t i = 0; i < ARRAY_LEN(others); i++) {
        wrong = right;
        wrong.ready.from = others[i];
        post(wrong);
    }
    assert_int_equal(committed(0), 3);
    post(right);
    assert_int_equal(committed(0), 4);
}

/* The same of SETTLE: 0 waits for that of 1, to drop what it holds. */
static void a_settle_under_another_term_or_key_or_name_changes_nothing(void **state)
{
    struct letter right, wrong;

    trained(3, 3);
    for (uint32_t i = 0; i < 3; i++) {
        compute(i);
    }
    reduce(0);
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    lose_letters();
    move_all();
    right = crew.letters[1];
    assert_true(right.settles && right.from == 1);
    lose_letters();
    for (int i = 0; i < 4; i++) {
        wrong = right;
        wrong.term = i == 0 ? term_make(1, 0) : i == 1 ? term_make(2, 1) : right.term;
        wrong.key[0] += i == 2;
        wrong.settle.from = i == 3 ? id_of(2) : right.settle.from;
        post(wrong);
        assert_int_equal(step_phase(worker(0)), STEP_SETTLING);
    }
    post(right);
    assert_int_equal(step_phase(worker(0)), STEP_COMPUTING);
}

static void older_generations_are_not_entered(void **state)
{
    trained(2, 3);
    crew.men[1].gone = true;
    tell(0, generation(3, GENERATION_FAILURE, 1, 0, "0"));
    assert_int_equal(in_generation(0), 3);
    tell(0, generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(in_generation(0), 3);
    tell(0, generation(3, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_int_equal(step_size(worker(0)), 1);
}

static void results_and_states_of_another_step_or_term_are_not_taken(void **state)
{
    struct step_event e = {.kind = STEP_ON_STREAMED, .term = term_make(1, 0), .step = 77};
    const uint8_t none[CREW_N] = {0};

    trained(2, 3);
    reduced(0, term_make(1, 0), 4); /* Not all of its own slices are there. */
    assert_false(step_holds(worker(0)));
    compute(0);
    assert_int_equal(next(0), STEP_REDUCE);
    reduced(0, term_make(1, 0), 3);
    reduced(0, term_make(1, 0), 5);
    reduced(0, term_make(1, 1), 4);
    reduced(0, term_make(2, 0), 4);
    assert_false(step_holds(worker(0)));
    event(0, e);
    e = (struct step_event){
        .kind = STEP_ON_BASE, .term = term_make(1, 0), .step = 77, .u.holds = none};
    event(0, e);
    assert_int_equal(committed(0), 3);
    reduced(0, term_make(1, 0), 4);
    assert_true(step_holds(worker(0)));
}

/* ---- gradients ---- */

static void a_gradient_is_kept_only_if_it_is_of_use(void **state)
{
    assert_false(computed(0, 0, 1, 0)); /* It has no state yet. */
    trained(2, 3);
    assert_false(computed(0, 1, 3, 0)); /* That step is over … */
    assert_false(computed(0, 1, 5, 0)); /* … and that one has not begun. */
    assert_false(computed(0, 1, 4, CREW_SLICES));
    assert_true(computed(0, 1, 4, 0));
    assert_false(computed(0, 1, 4, 0)); /* It is here. */
    assert_true(
        computed(0, 1, 4, CREW_SLICES - 1)); /* 1's, so far: after a loss it may be its own. */
}

static void a_gradient_counts_also_in_the_generation_after_the_one_that_wanted_it(void **state)
{
    trained(3, 3);
    crew.men[2].gone = true;
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0 1"));
    assert_true(computed(0, 1, 4, 0));
}

static void after_the_end_of_its_life_no_gradient_counts(void **state)
{
    trained(2, 3);
    tell_all(generation(2, GENERATION_FAILURE, 1, 0, "0"));
    tell_active(1, 2);
    assert_int_equal(next(1), STEP_FORGET);
    assert_false(computed(1, 1, 4, 0));
}

/* ---- the end ---- */

static void a_worker_is_finished_after_the_last_step(void **state)
{
    crew_config((struct step_config){.steps_n = 4});
    trained(2, 4);
    flow(100);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(step_phase(worker(i)), STEP_FINISHED);
        assert_int_equal(committed(i), 4);
        assert_int_equal(step_entered(worker(i)), 1);
        assert_int_equal(next(i), STEP_FINISH);
    }
}

static void there_may_be_no_more_to_train_on(void **state)
{
    trained(2, 3);
    step_end_at(worker(0), 5);
    step_end_at(worker(1), 5);
    assert_int_equal(step_steps_n(worker(0)), 5);
    flow(100);
    assert_int_equal(step_phase(worker(0)), STEP_FINISHED);
    assert_int_equal(committed(1), 5);
}

static void a_worker_waits_for_its_peers_only_when_it_can_do_nothing_itself(void **state)
{
    trained(2, 3);
    assert_int_equal(next(0), STEP_GIVE);
    compute(0);
    assert_int_equal(next(0), STEP_REDUCE);
    compute(1);
    reduce(0);
    assert_int_equal(next(0), STEP_HEAR); /* READYs */
    reduce(1);
    deliver();
    assert_int_equal(next(0), STEP_SHOW);
    assert_int_equal(next(5), STEP_WAIT);
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
    assert_int_equal(committed(0), 8);
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
        CREW_CASE(those_who_could_read_the_base_hand_it_to_the_others),
        CREW_CASE(a_base_that_all_could_read_is_handed_to_nobody),
        CREW_CASE(commit_waits_for_the_generation_to_be_active),
        CREW_CASE(every_slice_is_computed_once_by_one_worker),
        CREW_CASE(ready_needs_all),
        CREW_CASE(a_ready_of_the_step_before_does_not_count),
        CREW_CASE(nothing_is_computed_before_the_update_is_made),
        CREW_CASE(an_orphan_says_no_ready_until_it_has_a_lease),
        CREW_CASE(an_orphan_commits_nothing_until_it_has_a_lease),
        CREW_CASE(a_lease_counts_from_when_it_was_asked_for),
        CREW_CASE(frames_of_another_term_or_key_change_nothing),
        CREW_CASE(strangers_and_echoes_change_nothing),
        CREW_CASE(a_settle_under_another_term_or_key_or_name_changes_nothing),
        CREW_CASE(older_generations_are_not_entered),
        CREW_CASE(results_and_states_of_another_step_or_term_are_not_taken),
        CREW_CASE(a_gradient_is_kept_only_if_it_is_of_use),
        CREW_CASE(a_gradient_counts_also_in_the_generation_after_the_one_that_wanted_it),
        CREW_CASE(after_the_end_of_its_life_no_gradient_counts),
        CREW_CASE(a_worker_is_finished_after_the_last_step),
        CREW_CASE(there_may_be_no_more_to_train_on),
        CREW_CASE(a_worker_waits_for_its_peers_only_when_it_can_do_nothing_itself),
        CREW_CASE(what_one_wants_to_be_saved_all_save_once),
        CREW_CASE(a_wish_to_save_outlives_a_loss),
        CREW_CASE(configurations_that_make_no_sense_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
