#include "unit/comm/shm_kit.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static struct kit_worker pair[2];

static int open_pair(void **state)
{
    kit_pair(pair);
    return 0;
}

static int close_pair(void **state)
{
    kit_unpair(pair);
    return 0;
}

static struct link *link_of(int i)
{
    return pair[i].links[!i];
}

static int post(int from, const struct note *note, const void *data, bool copy)
{
    return link_of(from)->ops->send(link_of(from), note, data, copy);
}

static int head(int at, struct note *note_out)
{
    return link_of(at)->ops->head(link_of(at), note_out);
}

static int body(int at, const void **data_out)
{
    return link_of(at)->ops->body(link_of(at), NULL, data_out);
}

static int done(int at)
{
    return link_of(at)->ops->done(link_of(at));
}

static void hear(int at)
{
    shm_link_hear(link_of(at));
}

static void notes_come_in_order_both_ways_with_their_bytes(void **state)
{
    for (uint64_t i = 0; i < 1000; i++) {
        for (int from = 0; from < 2; from++) {
            char text[64];
            const size_t n = i % 3 == 0 ? 0 : 1 + i % 60;
            struct note note = kit_note(i, n), got;
            const void *data;

            memset(text, (int)(i + (uint64_t)from), sizeof(text));
            assert_int_equal(head(!from, &got), MU_EAGAIN);
            assert_int_equal(post(from, &note, text, true), MU_OK);
            memset(text, 0, sizeof(text));
            assert_int_equal(head(!from, &got), MU_OK);
            assert_memory_equal(&got, &note, sizeof(note));
            assert_int_equal(body(!from, &data), MU_OK);
            memset(text, (int)(i + (uint64_t)from), sizeof(text));
            assert_memory_equal(data, text, n);
            assert_int_equal(head(!from, &got), MU_OK);
            assert_int_equal(got.count, i);
            assert_int_equal(link_of(from)->ops->taken(link_of(from)), i);
            assert_int_equal(done(!from), MU_OK);
            assert_int_equal(link_of(from)->ops->taken(link_of(from)), i + 1);
            assert_int_equal(link_of(from)->sent_n, i + 1);
        }
    }
}

static void a_full_ring_waits_until_a_note_is_done_with(void **state)
{
    uint64_t sent = 0, got = 0;

    for (int turn = 0; turn < 5; turn++) {
        struct note note = kit_note(sent, 0), in;

        while (post(0, &note, NULL, true) == MU_OK) {
            note.count = ++sent;
        }
        assert_int_equal(sent - got, BOARD_RING);
        assert_int_equal(post(0, &note, NULL, true), MU_EAGAIN);
        assert_int_equal(head(1, &in), MU_OK);
        assert_int_equal(in.count, got);
        assert_int_equal(post(0, &note, NULL, true), MU_EAGAIN);
        assert_int_equal(done(1), MU_OK);
        got++;
        assert_int_equal(post(0, &note, NULL, true), MU_OK);
        sent++;
        for (int i = 0; i < 1 + turn; i++, got++) {
            assert_int_equal(head(1, &in), MU_OK);
            assert_int_equal(in.count, got);
            assert_int_equal(done(1), MU_OK);
        }
    }
}

static void bytes_of_a_segment_are_read_where_they_are(void **state)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *memory = kit_alloc(&pair[0], 4 * page);
    struct note note = kit_note(1, 3 * page), got;
    struct segment_ref ref;
    const void *data;
    void *at;

    memset(memory + page, 5, 3 * page);
    assert_int_equal(post(0, &note, memory + page, false), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_EAGAIN); /* The socket was not heard yet. */
    hear(1);
    assert_int_equal(body(1, &data), MU_OK);
    assert_memory_equal(data, memory + page, 3 * page);
    memory[page] = 6;
    assert_int_equal(*(const uint8_t *)data, 6);
    assert_true(shm_body_ref(link_of(1), &ref));
    assert_int_equal(ref.id, 1);
    assert_int_equal(ref.offset, page);

    at = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(shm_map_at(link_of(1), ref.id, ref.offset, 3 * page, at), MU_OK);
    assert_memory_equal(at, memory + page, 3 * page);
    assert_int_equal(shm_map_at(link_of(1), ref.id, ref.offset, 3 * page + 1, at), MU_EINVAL);
    assert_int_equal(shm_map_at(link_of(1), ref.id, 1, page, at), MU_EINVAL);
    assert_int_equal(shm_map_at(link_of(1), 2, 0, page, at), MU_EAGAIN);
    assert_int_equal(done(1), MU_OK);
    munmap(at, 3 * page);
    assert_false(shm_body_ref(link_of(1), &ref));
}

static void a_segment_that_is_gone_is_unmapped_when_nobody_reads_it(void **state)
{
    struct note note = kit_note(1, 100), got;
    const void *data;
    uint8_t vector;

    for (int i = 0; i < 20; i++) {
        uint8_t *memory = kit_alloc(&pair[0], 100);

        memory[99] = 9;
        assert_int_equal(post(0, &note, memory, false), MU_OK);
        hear(1);
        assert_int_equal(head(1, &got), MU_OK);
        assert_int_equal(body(1, &data), MU_OK);
        segment_free(pair[0].c.segments, memory);
        shm_link_tell_gone(link_of(0), (uint32_t)i + 1);
        hear(1);
        assert_int_equal(head(1, &got), MU_OK);
        assert_int_equal(((const uint8_t *)data)[99], 9);
        assert_int_equal(done(1), MU_OK);
        assert_int_equal(head(1, &got), MU_EAGAIN);
        assert_int_equal(shm_of(link_of(1))->peer.n, 0);
        assert_int_equal(mincore((void *)(uintptr_t)data, 1, &vector), -1);
    }
}

static void dropped_bytes_do_not_count_copied_or_not(void **state)
{
    uint8_t *memory = kit_alloc(&pair[0], 100);
    struct note with = kit_note(1, 10), without = kit_note(2, 0), got;
    const void *data;

    hear(1);
    assert_int_equal(post(0, &with, memory, false), MU_OK);
    assert_int_equal(post(0, &with, "0123456789", true), MU_OK);
    assert_int_equal(post(0, &without, NULL, true), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_OK);
    link_of(0)->ops->drop(link_of(0));
    memory[0] = 1;
    assert_int_equal(done(1), MU_EPEER);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(done(1), MU_EPEER);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(done(1), MU_OK);
    /* What is sent after it does. */
    assert_int_equal(post(0, &with, memory, false), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_OK);
    assert_int_equal(done(1), MU_OK);
    assert_int_equal(link_of(1)->lost, MU_OK);
}

static void memory_that_was_freed_after_a_drop_harms_nobody(void **state)
{
    uint8_t *memory = kit_alloc(&pair[0], 100);
    struct note note = kit_note(1, 100), got;
    const void *data;

    assert_int_equal(post(0, &note, memory, false), MU_OK);
    link_of(0)->ops->drop(link_of(0));
    segment_free(pair[0].c.segments, memory);
    shm_link_tell_gone(link_of(0), 1);
    hear(1);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_EPEER);
    assert_int_equal(done(1), MU_EPEER);
    assert_int_equal(link_of(1)->lost, MU_OK);
}

static void notes_of_other_generations_are_passed_over_or_kept(void **state)
{
    struct note old = kit_note(1, 3), now = kit_note(2, 3), next = kit_note(3, 3), got;

    pair[1].c.group.number = 2;
    now.generation = 2;
    next.generation = 3;
    assert_int_equal(post(0, &old, "abc", true), MU_OK);
    assert_int_equal(post(0, &now, "abc", true), MU_OK);
    assert_int_equal(post(0, &next, "abc", true), MU_OK);
    assert_int_equal(head(1, &got), MU_EAGAIN); /* It has not proved to be in 2. */
    link_of(1)->proved = 2;
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(got.count, 2);
    assert_int_equal(done(1), MU_OK);
    assert_int_equal(head(1, &got), MU_EAGAIN);
    pair[1].c.group.number = link_of(1)->proved = 3;
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(got.count, 3);
    /* … and one that is held when the group moves is none of the new group's. */
    pair[1].c.group.number = link_of(1)->proved = 4;
    assert_int_equal(head(1, &got), MU_EAGAIN);
    assert_int_equal(link_of(0)->ops->taken(link_of(0)), 3);
}

static void a_claim_comes_with_its_proof(void **state)
{
    uint8_t proof[HELLO_PROOF_BYTES];

    memset(proof, 3, sizeof(proof));
    assert_int_equal(link_of(0)->ops->prove(link_of(0), 17, proof), MU_OK);
    hear(1);
    assert_int_equal(pair[1].claim, 17);
    assert_memory_equal(pair[1].proof, proof, sizeof(proof));
}

static void what_was_said_before_the_end_is_still_heard(void **state)
{
    uint8_t *memory = kit_alloc(&pair[0], 100);
    struct note note = kit_note(1, 100), got;
    const void *data;

    memory[0] = 4;
    kit_alloc(&pair[1], 100); /* It leaves packets unread. */
    assert_int_equal(post(0, &note, memory, false), MU_OK);
    kit_close(&pair[0]);
    hear(1);
    assert_int_equal(link_of(1)->lost, MU_EPEER);
    assert_int_equal(link_of(1)->ops->flush(link_of(1)), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_OK);
    assert_int_equal(*(const uint8_t *)data, 4);
    assert_int_equal(done(1), MU_OK);
    assert_int_equal(head(1, &got), MU_EPEER);
    assert_int_equal(post(1, &note, NULL, true), MU_EPEER);
    kit_open(&pair[0], 0, 2, 2);
}

static void a_lane_that_is_used_again_voids_what_its_last_peer_still_holds(void **state)
{
    struct note note = kit_note(1, 3), got;
    const void *data;
    int fds[2];

    assert_int_equal(post(0, &note, "abc", true), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_OK);
    link_of(0)->ops->close(link_of(0));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    kit_link(&pair[0], 1, fds[0]);
    assert_int_equal(shm_of(link_of(0))->out_lane.index, 0);
    assert_int_equal(done(1), MU_EPEER);

    /* The new one begins where the lane is. */
    link_of(1)->ops->close(link_of(1));
    kit_link(&pair[1], 0, fds[1]);
    kit_meet(link_of(0));
    kit_meet(link_of(1));
    note.count = 2;
    assert_int_equal(head(1, &got), MU_EAGAIN);
    assert_int_equal(post(0, &note, "def", true), MU_OK);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(got.count, 2);
    assert_int_equal(done(1), MU_OK);
}

static void there_are_so_many_lanes_and_no_more(void **state)
{
    const struct hello_session session = {.peer = 2};
    static struct link *links[BOARD_LANES];
    struct link *more = NULL;
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    for (int i = 0; i < BOARD_LANES - 1; i++) {
        int fd = dup(fds[0]);

        assert_int_equal(shm_link_open(&pair[0].c, fd, &session, &links[i]), MU_OK);
    }
    assert_int_equal(shm_link_open(&pair[0].c, fds[0], &session, &more), MU_ELIMIT);
    assert_null(more);
    for (int i = 0; i < BOARD_LANES - 1; i++) {
        links[i]->ops->close(links[i]);
    }
    close(fds[0]);
    close(fds[1]);
}

/* More than the socket holds: what is left is due, and goes when the peer has heard. */
static void a_peer_that_does_not_hear_is_told_later(void **state)
{
    uint8_t *last = NULL;
    struct note note = kit_note(1, 5), got;
    const void *data;
    uint32_t n = 0;

    while (shm_link_events(link_of(0)) == POLLIN) {
        last = kit_alloc(&pair[0], 5);
        n++;
        assert_true(n < SEGMENTS_MAX);
    }
    memcpy(last, "later", 5);
    assert_int_equal(post(0, &note, last, false), MU_EAGAIN);
    segment_free(pair[0].c.segments, last);
    shm_link_tell_gone(link_of(0), n);
    last = kit_alloc(&pair[0], 5);
    memcpy(last, "later", 5);
    hear(1);
    for (int i = 0; i < 10 && shm_link_events(link_of(0)) != POLLIN; i++) {
        hear(0);
        hear(1);
    }
    assert_int_equal(post(0, &note, last, false), MU_OK);
    hear(1);
    assert_int_equal(head(1, &got), MU_OK);
    assert_int_equal(body(1, &data), MU_OK);
    assert_memory_equal(data, "later", 5);
    assert_int_equal(shm_of(link_of(1))->peer.n, n);
    assert_int_equal(done(1), MU_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(notes_come_in_order_both_ways_with_their_bytes),
        TEST(a_full_ring_waits_until_a_note_is_done_with),
        TEST(bytes_of_a_segment_are_read_where_they_are),
        TEST(a_segment_that_is_gone_is_unmapped_when_nobody_reads_it),
        TEST(dropped_bytes_do_not_count_copied_or_not),
        TEST(memory_that_was_freed_after_a_drop_harms_nobody),
        TEST(notes_of_other_generations_are_passed_over_or_kept),
        TEST(a_claim_comes_with_its_proof),
        TEST(what_was_said_before_the_end_is_still_heard),
        TEST(a_lane_that_is_used_again_voids_what_its_last_peer_still_holds),
        TEST(there_are_so_many_lanes_and_no_more),
        TEST(a_peer_that_does_not_hear_is_told_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
