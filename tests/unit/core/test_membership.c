/* The one copy of a generation that several parts of a process look at. */
#include "unit/unit.h"

#include "core/membership.h"

#include <pthread.h>
#include <string.h>

#define THREADS_N 4
#define TURNS_N 20000

static const struct member MEMBERS[] = {{.worker = 11, .flags = MEMBER_CAUGHT_UP, .addr = "a:1"},
                                        {.worker = 12, .flags = MEMBER_CAUGHT_UP, .addr = "b:2"},
                                        {.worker = 13, .addr = "c:3"}};

static struct membership *open_n(uint32_t members_n)
{
    struct member members[ARRAY_LEN(MEMBERS)];
    struct generation g = {.number = 7, .from = 6, .members = members, .members_n = members_n};
    struct membership *m;

    memcpy(members, MEMBERS, sizeof(members));
    memset(g.key, 5, sizeof(g.key));
    assert_int_equal(membership_open(&g, &m), MU_OK);
    memset(members, 0, sizeof(members));
    memset(&g, 0, sizeof(g));
    return m;
}

static void it_is_a_copy_that_what_it_was_made_of_does_not_change(void **state)
{
    struct membership *m = open_n(3);

    assert_int_equal(m->g.number, 7);
    assert_int_equal(m->g.from, 6);
    assert_int_equal(m->g.key[KEY_BYTES - 1], 5);
    assert_ptr_equal(m->g.members, m->members);
    assert_memory_equal(m->members, MEMBERS, sizeof(MEMBERS));
    membership_close(m);
}

static void a_rank_is_the_place_in_the_list(void **state)
{
    struct membership *m = open_n(3);

    assert_int_equal(membership_rank(m, 11), 0);
    assert_int_equal(membership_rank(m, 13), 2);
    assert_int_equal(membership_rank(m, 14), NO_RANK);
    assert_int_equal(membership_rank(m, 0), NO_RANK);
    membership_close(m);
}

static void newcomers_are_those_who_are_not_caught_up(void **state)
{
    struct membership *with = open_n(3), *without = open_n(2);

    assert_true(membership_has_newcomers(with));
    assert_false(membership_has_newcomers(without));
    membership_close(with);
    membership_close(without);
}

static void one_without_members_is_fine(void **state)
{
    struct membership *m = open_n(0);

    assert_int_equal(m->g.members_n, 0);
    assert_int_equal(membership_rank(m, 11), NO_RANK);
    assert_false(membership_has_newcomers(m));
    membership_close(m);
}

static void it_is_there_until_the_last_reference_is_closed(void **state)
{
    struct membership *m = open_n(3);

    assert_ptr_equal(membership_keep(m), m);
    assert_ptr_equal(membership_keep(m), m);
    assert_int_equal(m->refs, 3);
    membership_close(m);
    membership_close(m);
    assert_int_equal(m->refs, 1);
    assert_int_equal(membership_rank(m, 12), 1);
    membership_close(m); /* Leaks, and what is used too late, are left to the sanitizers. */
}

static void nothing_can_be_kept_and_closed(void **state)
{
    assert_null(membership_keep(NULL));
    membership_close(NULL);
}

static void *keep_and_close(void *m)
{
    for (int i = 0; i < TURNS_N; i++) {
        membership_close(membership_keep(m));
    }
    return NULL;
}

static void references_are_counted_right_in_several_threads(void **state)
{
    struct membership *m = open_n(3);
    pthread_t threads[THREADS_N];

    for (int i = 0; i < THREADS_N; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, keep_and_close, m), 0);
    }
    for (int i = 0; i < THREADS_N; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(m->refs, 1);
    membership_close(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_a_copy_that_what_it_was_made_of_does_not_change),
        cmocka_unit_test(a_rank_is_the_place_in_the_list),
        cmocka_unit_test(newcomers_are_those_who_are_not_caught_up),
        cmocka_unit_test(one_without_members_is_fine),
        cmocka_unit_test(it_is_there_until_the_last_reference_is_closed),
        cmocka_unit_test(nothing_can_be_kept_and_closed),
        cmocka_unit_test(references_are_counted_right_in_several_threads),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
