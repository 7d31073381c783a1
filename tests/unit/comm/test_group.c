/* The group: from generation to generation, with links that last. */
#include "unit/comm/group_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct {
    unsigned paths;
    bool apart;
} ways[] = {{COMM_SHM, false}, {COMM_TCP, false}, {0, false}, {0, true}};

/* ---- entering ---- */

static void groups_of_any_size_form_by_every_path(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        for (uint32_t n = 1; n <= 5; n++) {
            const unsigned all = (1u << n) - 1;
            const bool shm = ways[w].paths != COMM_TCP && !ways[w].apart;
            struct kit kit;

            kit_open_all(&kit, n, ways[w].paths, ways[w].apart);
            assert_int_equal(comm_rank(kit.comms[0]), COMM_NOBODY);
            assert_int_equal(comm_size(kit.comms[0]), 0);
            kit_enter(&kit, 7, all);
            for (uint32_t i = 0; i < n; i++) {
                struct comm_stats stats;

                comm_stats(kit.comms[i], &stats);
                assert_int_equal(comm_generation(kit.comms[i]), 7);
                assert_int_equal(comm_rank(kit.comms[i]), i);
                assert_int_equal(comm_size(kit.comms[i]), n);
                assert_int_equal(stats.shm_links, shm ? n - 1 : 0);
                assert_int_equal(stats.tcp_links, shm ? 0 : n - 1);
                assert_int_equal(stats.lost_n, 0);
            }
            kit_barrier(&kit, all);
            kit_close(&kit);
        }
    }
}

/* Two on one host, one on another. */
static void paths_may_differ_within_a_group(void **state)
{
    struct kit kit = {0};

    kit_open(&kit, 0, 0, false);
    kit_open(&kit, 1, 0, false);
    kit_open(&kit, 2, 0, true);
    kit_enter(&kit, 1, 7);
    assert_int_equal(kit_link(&kit, 0, 1)->path, COMM_SHM);
    assert_int_equal(kit_link(&kit, 0, 2)->path, COMM_TCP);
    assert_int_equal(kit_link(&kit, 2, 1)->path, COMM_TCP);
    kit_barrier(&kit, 7);
    kit_close(&kit);
}

/* ---- moving on ---- */

static void growth_shrinking_and_replacement_keep_every_link_between_those_who_stay(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct comm_stats stats;
        struct kit kit;

        kit_open_all(&kit, 5, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        struct link *first = kit_link(&kit, 0, 1), *back = kit_link(&kit, 1, 0);

        kit_enter(&kit, 2, 0xf); /* grows */
        struct link *to_2 = kit_link(&kit, 0, 2);

        kit_enter(&kit, 3, 0x7);  /* shrinks */
        kit_enter(&kit, 4, 0x17); /* … and another comes */
        kit_enter(&kit, 5, 0x13); /* one for another */
        assert_ptr_equal(kit_link(&kit, 0, 1), first);
        assert_ptr_equal(kit_link(&kit, 1, 0), back);
        assert_ptr_not_equal(to_2, NULL);
        assert_int_equal(comm_rank(kit.comms[4]), 2);
        comm_stats(kit.comms[0], &stats);
        assert_int_equal(stats.linked_n, 4);           /* one with each of the others, ever */
        assert_int_equal(stats.kept_n, 1 + 2 + 2 + 2); /* at each move */
        assert_int_equal(stats.shm_links + stats.tcp_links, 2);
        kit_barrier(&kit, 0x13);
        kit_close(&kit);
    }
}

/* Ranks change with every generation; a link knows which it is now. */
static void ranks_follow_the_generation(void **state)
{
    struct kit kit;

    kit_open_all(&kit, 3, 0, false);
    kit_enter(&kit, 1, 0x7);
    assert_int_equal(kit_link(&kit, 1, 2)->rank, 2);
    kit_enter(&kit, 2, 0x6);
    assert_int_equal(kit_link(&kit, 1, 2)->rank, 1);
    assert_int_equal(comm_rank(kit.comms[1]), 0);
    assert_null(kit_link(&kit, 1, 0));
    kit_barrier(&kit, 0x6);
    kit_close(&kit);
}

static void moving_to_the_same_generation_again_changes_nothing(void **state)
{
    struct kit kit;

    kit_open_all(&kit, 3, 0, true);
    kit_enter(&kit, 1, 0x7);
    kit_barrier(&kit, 0x7);
    struct link *l = kit_link(&kit, 2, 0);

    kit_enter(&kit, 1, 0x7);
    assert_ptr_equal(kit_link(&kit, 2, 0), l);
    assert_int_equal(kit.comms[0]->group.call, 1);
    kit_barrier(&kit, 0x7);
    kit_close(&kit);
}

static void many_moves_in_a_row_leave_nobody_behind(void **state)
{
    struct kit kit;

    kit_open_all(&kit, 4, 0, false);
    for (uint64_t number = 1; number <= 60; number++) {
        const unsigned who = 1u | (unsigned)(number * 2654435761u >> 20 & 0xe);

        kit_enter(&kit, number, who);
        kit_barrier(&kit, who);
    }
    kit_close(&kit);
}

/* ---- who does not come ---- */

static void a_member_that_does_not_come_is_named(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 3, 0, false);
    kit_move(&kit, kit_generation(&kit, 1, 0x7, &room), 0x5, 100, &moved);
    assert_int_equal(moved.rc[0], MU_ETIMEDOUT);
    assert_int_equal(moved.missing[0], kit.members[1].worker);
    assert_int_equal(moved.rc[2], MU_ETIMEDOUT);
    assert_int_equal(moved.missing[2], kit.members[1].worker);
    /* The group is that generation, and who was missing can still come. */
    assert_int_equal(comm_generation(kit.comms[0]), 1);
    kit_enter(&kit, 1, 0x7);
    kit_barrier(&kit, 0x7);
    kit_close(&kit);
}

static void without_the_key_nobody_gets_in(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct kit_moved moved;
        struct kit_room room, wrong;
        struct comm_stats stats;
        struct kit kit;

        kit_open_all(&kit, 3, ways[w].paths, ways[w].apart);
        kit_generation(&kit, 1, 0x7, &room);
        kit_generation(&kit, 1, 0x7, &wrong);
        memset(wrong.generation.key, 'x', KEY_BYTES);
        const struct generation *const each[KIT_MAX] = {&room.generation, &wrong.generation,
                                                        &room.generation};

        int tries = 0;
        do { /* Until those who have it are linked, and it has tried. */
            assert_true(tries++ < 1000);
            kit_move_each(&kit, each, 50, &moved);
            assert_int_equal(moved.rc[0], MU_ETIMEDOUT);
            assert_int_equal(moved.rc[1], MU_ETIMEDOUT);
            assert_int_equal(moved.rc[2], MU_ETIMEDOUT);
            comm_stats(kit.comms[0], &stats);
        } while (moved.missing[0] != kit.members[1].worker ||
                 moved.missing[2] != kit.members[1].worker || stats.refused_n == 0);
        /* The others go on without it. */
        kit_enter(&kit, 2, 0x5);
        kit_barrier(&kit, 0x5);
        kit_close(&kit);
    }
}

/* One that was left out and does not know it, in its old generation. */
static void a_stale_generation_is_refused_and_changes_nothing(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct comm_stats before, after;
        struct kit_moved moved;
        struct kit_room room;
        struct kit kit;

        kit_open_all(&kit, 3, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x7);
        kit_enter(&kit, 2, 0x3);
        comm_stats(kit.comms[0], &before);
        int tries = 0;
        do { /* Until it has noticed, it is still in that generation. */
            assert_true(tries++ < 1000);
            kit_move(&kit, kit_generation(&kit, 1, 0x7, &room), 0x4, 50, &moved);
            comm_stats(kit.comms[0], &after);
        } while (moved.rc[2] == MU_OK || after.refused_n == before.refused_n);
        assert_int_equal(moved.rc[2], MU_ETIMEDOUT);
        assert_int_equal(comm_generation(kit.comms[0]), 2);
        kit_barrier(&kit, 0x3);
        /* With a newer one it comes back. */
        kit_enter(&kit, 3, 0x7);
        kit_barrier(&kit, 0x7);
        kit_close(&kit);
    }
}

/* A member that enters an older generation late is not cut off: it comes again. */
static void a_late_member_keeps_its_links(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 3, COMM_SHM, false);
    kit_enter(&kit, 1, 0x7);
    struct link *l = kit_link(&kit, 0, 2);

    kit_move(&kit, kit_generation(&kit, 3, 0x7, &room), 0x3, 50, &moved);
    assert_int_equal(moved.rc[0], MU_ETIMEDOUT);
    kit_move(&kit, kit_generation(&kit, 2, 0x7, &room), 0x4, KIT_LONG_MS, &moved);
    assert_int_equal(moved.rc[2], MU_EPEER); /* At once: they will never be in 2. */
    kit_enter(&kit, 3, 0x7);
    assert_ptr_equal(kit_link(&kit, 0, 2), l);
    kit_barrier(&kit, 0x7);
    kit_close(&kit);
}

static void an_older_generation_than_the_groups_is_stale(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 1, 0, false);
    kit_enter(&kit, 5, 0x1);
    kit_move(&kit, kit_generation(&kit, 4, 0x1, &room), 0x1, 1000, &moved);
    assert_int_equal(moved.rc[0], MU_ESTALE);
    assert_int_equal(comm_generation(kit.comms[0]), 5);
    kit_generation(&kit, 6, 0x1, &room);
    room.members[0].worker++;
    kit_move(&kit, &room.generation, 0x1, 1000, &moved);
    assert_int_equal(moved.rc[0], MU_EINVAL); /* It is no member. */
    assert_int_equal(comm_generation(kit.comms[0]), 5);
    kit_close(&kit);
}

/* ---- being let out ---- */

static void a_newer_failure_generation_ends_a_move(void **state)
{
    struct kit_waiting waiting;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 2, 0, false);
    kit_generation(&kit, 1, 0x3, &room);
    kit_wait_begin(&waiting, kit.comms[0], &room.generation);
    kit_until(comm_generation(kit.comms[0]) == 1);
    assert_int_equal(waiting.rc, MU_EAGAIN);
    comm_fence(kit.comms[0], 2);
    assert_int_equal(kit_wait_end(&waiting), MU_EPEER);
    kit_enter(&kit, 2, 0x3);
    kit_close(&kit);
}

/* comm_move() in one thread gets a call of another out of the older generation. */
static void a_move_ends_calls_in_older_generations(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;
    const struct comm_call call = {.op = COMM_BARRIER, .timeout_ms = -1};
    struct comm_started *started;

    kit_open_all(&kit, 2, 0, false);
    kit_enter(&kit, 1, 0x3);
    assert_int_equal(comm_start(kit.comms[0], &call, &started), MU_OK);
    kit_move(&kit, kit_generation(&kit, 2, 0x1, &room), 0x1, KIT_LONG_MS, &moved);
    assert_int_equal(moved.rc[0], MU_OK);
    const int rc = comm_finish(started, KIT_LONG_MS, NULL);

    /* If it had not begun before the move, it is one of the newer generation. */
    assert_true(rc == MU_EPEER || rc == MU_OK);
    kit_close(&kit);
}

static void closing_ends_whatever_waits(void **state)
{
    struct kit_waiting moves;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 2, 0, false);
    kit_generation(&kit, 1, 0x3, &room);
    snprintf(room.members[1].addr, ADDR_MAX_LEN, "127.0.0.1:1"); /* where nobody is */
    assert_int_equal(comm_want(kit.comms[0], &room.generation), MU_OK);
    kit_wait_begin(&moves, kit.comms[0], &room.generation);
    kit_until(comm_generation(kit.comms[0]) == 1);
    comm_close(kit.comms[0]);
    kit.comms[0] = NULL;
    assert_int_equal(kit_wait_end(&moves), MU_EDONE);
    kit_close(&kit);
}

static void after_a_stop_nothing_begins(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 1, 0, false);
    comm_stop(kit.comms[0]);
    comm_stop(kit.comms[0]);
    kit_move(&kit, kit_generation(&kit, 1, 0x1, &room), 0x1, 1000, &moved);
    assert_int_equal(moved.rc[0], MU_EDONE);
    assert_int_equal(comm_want(kit.comms[0], &room.generation), MU_EDONE);
    kit_close(&kit);
}

/* ---- another life ---- */

static void under_a_new_name_a_worker_starts_without_links(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct comm_stats stats;
        struct kit kit;

        kit_open_all(&kit, 3, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x7);
        kit.members[1].worker = wid_make(2, 0, 2);
        comm_rename(kit.comms[1], kit.members[1].worker);
        assert_int_equal(comm_generation(kit.comms[1]), 0);
        assert_int_equal(comm_rank(kit.comms[1]), COMM_NOBODY);
        comm_stats(kit.comms[1], &stats);
        assert_int_equal(stats.shm_links + stats.tcp_links, 0);
        kit_enter(&kit, 2, 0x5);
        kit_enter(&kit, 3, 0x7);
        assert_int_equal(kit_link(&kit, 0, 1)->session.peer, wid_make(2, 0, 2));
        kit_barrier(&kit, 0x7);
        kit_close(&kit);
    }
}

/* What the old one held when it was left out may have come to count without it. */
static void under_a_new_name_a_worker_holds_nothing(void **state)
{
    const struct comm_call agreed = {.op = COMM_BARRIER, .flags = COMM_AGREE, .timeout_ms = -1};
    const struct comm_call plain = {.op = COMM_BARRIER, .timeout_ms = -1};
    struct comm_started *started;
    struct kit kit;
    bool held;

    kit_open_all(&kit, 2, 0, false);
    kit_enter(&kit, 1, 0x3);
    assert_int_equal(comm_start(kit.comms[0], &agreed, &started), MU_OK);
    assert_int_equal(comm_run(kit.comms[1], &plain, NULL), MU_OK); /* and says no READY */
    comm_fence(kit.comms[0], 2);
    assert_int_equal(comm_finish(started, KIT_LONG_MS, NULL), MU_EPEER);
    assert_int_equal(comm_halt(kit.comms[0], term_make(1, 0), &held), 0);
    assert_true(held);
    kit_enter(&kit, 2, 0x2);
    kit.members[0].worker = wid_make(1, 0, 2);
    comm_rename(kit.comms[0], kit.members[0].worker);
    kit_enter(&kit, 3, 0x3);
    assert_int_equal(comm_halt(kit.comms[0], term_make(3, 0), &held), 0);
    assert_false(held || comm_settled(kit.comms[0], true));
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_any_size_form_by_every_path),
        cmocka_unit_test(paths_may_differ_within_a_group),
        cmocka_unit_test(growth_shrinking_and_replacement_keep_every_link_between_those_who_stay),
        cmocka_unit_test(ranks_follow_the_generation),
        cmocka_unit_test(moving_to_the_same_generation_again_changes_nothing),
        cmocka_unit_test(many_moves_in_a_row_leave_nobody_behind),
        cmocka_unit_test(a_member_that_does_not_come_is_named),
        cmocka_unit_test(without_the_key_nobody_gets_in),
        cmocka_unit_test(a_stale_generation_is_refused_and_changes_nothing),
        cmocka_unit_test(a_late_member_keeps_its_links),
        cmocka_unit_test(an_older_generation_than_the_groups_is_stale),
        cmocka_unit_test(a_newer_failure_generation_ends_a_move),
        cmocka_unit_test(a_move_ends_calls_in_older_generations),
        cmocka_unit_test(closing_ends_whatever_waits),
        cmocka_unit_test(after_a_stop_nothing_begins),
        cmocka_unit_test(under_a_new_name_a_worker_starts_without_links),
        cmocka_unit_test(under_a_new_name_a_worker_holds_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
