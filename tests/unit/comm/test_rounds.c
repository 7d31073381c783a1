/* Rounds: a group whose links broke goes on in the next round of the same generation. */
#include "unit/comm/group_kit.h"
#include "unit/unit.h"

#include <string.h>
#include <sys/socket.h>

static const struct {
    unsigned paths;
    bool apart;
} ways[] = {{COMM_SHM, false}, {COMM_TCP, false}, {0, true}};

static const struct comm_call barrier = {.op = COMM_BARRIER, .timeout_ms = -1};
static const struct comm_call brief = {.op = COMM_BARRIER, .timeout_ms = 20};
static const struct comm_call agreed = {.op = COMM_BARRIER, .flags = COMM_AGREE, .timeout_ms = -1};

/* As a switch or a firewall on the way would. */
static void reset_link(struct kit *kit, uint32_t i, uint32_t j)
{
    (void)shutdown(kit_link(kit, i, j)->fd, SHUT_RDWR);
}

/* Worker i alone moves to that round of generation 1, which nobody else comes to. */
static void go_ahead(struct kit *kit, uint32_t i, uint32_t round, unsigned who)
{
    struct kit_moved moved;
    struct kit_room room;

    kit->round = round;
    kit_move(kit, kit_generation(kit, 1, who, &room), 1u << i, 0, &moved);
    assert_int_equal(moved.rc[i], MU_ETIMEDOUT);
}

/* ---- links ---- */

static void a_link_that_was_reset_is_made_anew_in_the_next_round(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct kit kit;

        kit_open_all(&kit, 3, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x7);
        kit_barrier(&kit, 0x7);
        for (kit.round = 1; kit.round <= 3; kit.round++) {
            const struct link *kept = kit_link(&kit, 0, 2);

            reset_link(&kit, 0, 1);
            assert_int_equal(comm_run(kit.comms[0], &brief, NULL), MU_EPEER);
            assert_int_equal(comm_run(kit.comms[1], &brief, NULL), MU_EPEER);
            kit_enter(&kit, 1, 0x7);
            assert_ptr_equal(kit_link(&kit, 0, 2), kept);
            assert_int_equal(comm_generation(kit.comms[0]), 1);
            kit_barrier(&kit, 0x7);
            kit_barrier(&kit, 0x7);
        }
        kit_close(&kit);
    }
}

/* All of them at once, and nobody calls anything before it moves. */
static void all_links_may_be_reset_at_once(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct kit kit;

        kit_open_all(&kit, 4, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0xf);
        for (uint32_t i = 0; i < 4; i++) {
            for (uint32_t j = 0; j < i; j++) {
                reset_link(&kit, i, j);
            }
        }
        kit.round = 1;
        kit_enter(&kit, 1, 0xf);
        kit_barrier(&kit, 0xf);
        kit_close(&kit);
    }
}

static void an_older_round_than_the_groups_is_stale(void **state)
{
    struct kit_moved moved;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 2, 0, false);
    kit.round = 2;
    kit_enter(&kit, 1, 0x3);
    kit.round = 1;
    kit_move(&kit, kit_generation(&kit, 1, 0x3, &room), 0x3, KIT_LONG_MS, &moved);
    assert_int_equal(moved.rc[0], MU_ESTALE);
    assert_int_equal(moved.rc[1], MU_ESTALE);
    kit_barrier(&kit, 0x3);
    kit.round = 0;
    kit_enter(&kit, 2, 0x3); /* A further generation is newer than any round. */
    kit_barrier(&kit, 0x3);
    kit_close(&kit);
}

/* ---- one that has gone ahead ---- */

/* A peer's call has failed, and it says so also to one who has the result. Behind that word comes
 * the proof that the peer is in the next round. */
static void one_that_listens_hears_of_a_round_behind_a_call_that_failed(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        const struct note abort = {
            .generation = term_make(1, 0), .call = 1, .kind = NOTE_ABORT, .op = COMM_BARRIER};
        uint8_t frame[64];
        struct link *l;
        struct kit kit;
        uint32_t rank;
        size_t n;

        kit_open_all(&kit, 2, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        kit_barrier(&kit, 0x3);
        l = kit_link(&kit, 0, 1);
        assert_int_equal(l->ops->send(l, &abort, NULL, true), MU_OK);
        go_ahead(&kit, 0, 1, 0x3);
        assert_int_equal(comm_hear(kit.comms[1], 10000, frame, sizeof(frame), &n, &rank), MU_EPEER);
        assert_int_equal(comm_claim(kit.comms[1]), term_make(1, 1));
        kit_close(&kit);
    }
}

static void a_member_in_a_further_round_ends_the_calls_of_the_others(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct comm_started *started;
        struct comm_result result;
        struct kit kit;

        kit_open_all(&kit, 2, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_claim(kit.comms[0]), 0);
        assert_int_equal(comm_start(kit.comms[0], &barrier, &started), MU_OK);
        go_ahead(&kit, 1, 2, 0x3);
        assert_int_equal(comm_finish(started, KIT_LONG_MS, &result), MU_EPEER);
        assert_int_equal(result.rank, COMM_NOBODY); /* Nobody is to blame. */
        assert_true(comm_claim(kit.comms[0]) == term_make(1, 2));
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_claim(kit.comms[0]), 0);
        kit_barrier(&kit, 0x3);
        kit_close(&kit);
    }
}

/* … and so does it end their moves to lower ones. */
static void a_member_in_a_further_round_ends_a_move(void **state)
{
    struct kit_waiting waiting;
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 2, 0, true);
    kit_wait_begin(&waiting, kit.comms[0], kit_generation(&kit, 1, 0x3, &room));
    kit_until(comm_generation(kit.comms[0]) == 1);
    go_ahead(&kit, 1, 1, 0x3);
    for (int tries = 0; waiting.rc == MU_EAGAIN; tries++) { /* until there is a link */
        assert_true(tries < 10000);
        go_ahead(&kit, 1, 1, 0x3);
        kit_nap();
    }
    assert_int_equal(kit_wait_end(&waiting), MU_EPEER);
    assert_true(comm_claim(kit.comms[0]) == term_make(1, 1));
    kit_enter(&kit, 1, 0x3);
    kit_barrier(&kit, 0x3);
    kit_close(&kit);
}

static void a_member_in_a_further_round_ends_hearing(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        uint8_t frame[16];
        uint32_t rank = 99;
        struct kit kit;
        size_t n;

        kit_open_all(&kit, 2, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        go_ahead(&kit, 1, 1, 0x3);
        assert_int_equal(comm_hear(kit.comms[0], KIT_LONG_MS, frame, sizeof(frame), &n, &rank),
                         MU_EPEER);
        assert_true(comm_claim(kit.comms[0]) == term_make(1, 1));
        kit_close(&kit);
    }
}

/* What it said before can still be heard, and what the others say. */
static void a_member_in_a_further_generation_does_not_end_hearing(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct kit_moved moved;
        struct kit_room room;
        uint8_t frame[16];
        uint32_t rank;
        struct kit kit;
        size_t n;

        kit_open_all(&kit, 3, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x7);
        assert_int_equal(comm_mail(kit.comms[1], 0, "before", 6), MU_OK);
        kit_move(&kit, kit_generation(&kit, 2, 0x7, &room), 0x2, 0, &moved);
        kit_until(comm_claim(kit.comms[0]) == term_make(2, 0) ||
                  comm_hear(kit.comms[0], 1, frame, sizeof(frame), &n, &rank) == MU_OK);
        assert_int_equal(comm_mail(kit.comms[2], 0, "another", 7), MU_OK);
        do {
            assert_int_equal(comm_hear(kit.comms[0], KIT_LONG_MS, frame, sizeof(frame), &n, &rank),
                             MU_OK);
        } while (rank != 2);
        assert_memory_equal(frame, "another", 7);
        kit_close(&kit);
    }
}

/* ---- what is of a lower round ---- */

static void mail_of_a_lower_round_is_dropped(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        uint8_t frame[16];
        uint32_t rank;
        struct kit kit;
        size_t n;

        kit_open_all(&kit, 2, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_mail(kit.comms[1], 0, "old", 3), MU_OK);
        kit.round = 1;
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_mail(kit.comms[1], 0, "newer", 5), MU_OK);
        assert_int_equal(comm_hear(kit.comms[0], KIT_LONG_MS, frame, sizeof(frame), &n, &rank),
                         MU_OK);
        assert_int_equal(n, 5);
        assert_memory_equal(frame, "newer", 5);
        kit_close(&kit);
    }
}

/* A barrier that one had come to is not half of the next round's, whose number is the same. */
static void notes_of_a_lower_round_are_dropped(void **state)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct comm_started *started;
        struct kit kit;

        kit_open_all(&kit, 2, ways[w].paths, ways[w].apart);
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_run(kit.comms[1], &brief, NULL), MU_EPEER);
        kit.round = 1;
        kit_enter(&kit, 1, 0x3);
        assert_int_equal(comm_start(kit.comms[0], &barrier, &started), MU_OK);
        assert_int_equal(comm_finish(started, 50, NULL), MU_ETIMEDOUT);
        assert_int_equal(comm_run(kit.comms[1], &barrier, NULL), MU_OK);
        assert_int_equal(comm_finish(started, KIT_LONG_MS, NULL), MU_OK);
        kit_close(&kit);
    }
}

/* ---- agreed calls ---- */

/* Two agreed calls go well; of a third worker 0 holds the result, and worker 1 has said no READY.
 */
static void hold_one(struct kit *kit)
{
    struct comm_started *started;
    bool held;

    kit_open_all(kit, 2, 0, false);
    kit_enter(kit, 1, 0x3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(comm_start(kit->comms[0], &agreed, &started), MU_OK);
        assert_int_equal(comm_run(kit->comms[1], i < 2 ? &agreed : &barrier, NULL), MU_OK);
        if (i < 2) {
            assert_int_equal(comm_finish(started, KIT_LONG_MS, NULL), MU_OK);
        }
    }
    assert_int_equal(comm_halt(kit->comms[0], term_make(1, 0), &held), 2);
    assert_true(held);
    assert_int_equal(comm_finish(started, KIT_LONG_MS, NULL), MU_EPEER);
    assert_int_equal(comm_run(kit->comms[0], &barrier, NULL), MU_EPEER); /* That term is over. */
    kit->round = 1;
    kit_enter(kit, 1, 0x3);
    assert_int_equal(comm_run(kit->comms[0], &agreed, NULL), MU_EORDER); /* It is not settled. */
    kit->round = 2;
    kit_enter(kit, 1, 0x3);
    assert_int_equal(comm_halt(kit->comms[0], term_make(1, 1), &held), 0);
    assert_true(held);
}

static void what_is_held_and_counts_is_given_at_once(void **state)
{
    struct comm_result result;
    struct kit kit;
    bool held;

    hold_one(&kit);
    assert_true(comm_settled(kit.comms[0], true));
    assert_true(comm_settled(kit.comms[0], false)); /* What counts is not taken back. */
    assert_int_equal(comm_run(kit.comms[0], &agreed, &result), MU_OK);
    assert_true(result.generation == 1 && result.members_n == 2);
    kit_barrier(&kit, 0x3);
    assert_int_equal(comm_halt(kit.comms[0], term_make(1, 2), &held), 0); /* It is counted. */
    assert_false(held);
    kit_close(&kit);
}

static void what_is_held_and_does_not_count_is_made_anew(void **state)
{
    struct comm_started *started;
    struct kit kit;
    bool held;

    hold_one(&kit);
    assert_false(comm_settled(kit.comms[0], false));
    assert_int_equal(comm_start(kit.comms[0], &agreed, &started), MU_OK);
    assert_int_equal(comm_run(kit.comms[1], &agreed, NULL), MU_OK);
    assert_int_equal(comm_finish(started, KIT_LONG_MS, NULL), MU_OK);
    assert_int_equal(comm_halt(kit.comms[0], term_make(1, 2), &held), 1);
    assert_false(held);
    kit_close(&kit);
}

/* One that was meant for a term is not made in the next. */
static void a_call_is_made_in_its_term_or_not_at_all(void **state)
{
    struct comm_call call = barrier;
    struct kit kit;

    kit_open_all(&kit, 1, 0, false);
    kit_enter(&kit, 1, 0x1);
    call.term = term_make(1, 0);
    assert_int_equal(comm_run(kit.comms[0], &call, NULL), MU_OK);
    kit.round = 1;
    kit_enter(&kit, 1, 0x1);
    assert_int_equal(comm_run(kit.comms[0], &call, NULL), MU_EPEER);
    call.term = term_make(1, 1);
    assert_int_equal(comm_run(kit.comms[0], &call, NULL), MU_OK);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_link_that_was_reset_is_made_anew_in_the_next_round),
        cmocka_unit_test(all_links_may_be_reset_at_once),
        cmocka_unit_test(an_older_round_than_the_groups_is_stale),
        cmocka_unit_test(one_that_listens_hears_of_a_round_behind_a_call_that_failed),
        cmocka_unit_test(a_member_in_a_further_round_ends_the_calls_of_the_others),
        cmocka_unit_test(a_member_in_a_further_round_ends_a_move),
        cmocka_unit_test(a_member_in_a_further_round_ends_hearing),
        cmocka_unit_test(a_member_in_a_further_generation_does_not_end_hearing),
        cmocka_unit_test(mail_of_a_lower_round_is_dropped),
        cmocka_unit_test(notes_of_a_lower_round_are_dropped),
        cmocka_unit_test(what_is_held_and_counts_is_given_at_once),
        cmocka_unit_test(what_is_held_and_does_not_count_is_made_anew),
        cmocka_unit_test(a_call_is_made_in_its_term_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
