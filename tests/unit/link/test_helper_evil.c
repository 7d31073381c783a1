/* Peers that say what they should not, or nothing: their connection ends, and nothing else. */
#include "unit/link/helper_kit.h"

#include "link/helper_head.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STRANGER 0x7700000001u

static struct kit_worker worker, friend_;

static int open_both(void **state)
{
    kit_open(&worker, 0, (struct kit_config){0});
    kit_open(&friend_, 1, (struct kit_config){0});
    kit_meet(&friend_, &worker);
    return 0;
}

static int close_both(void **state)
{
    kit_close(&friend_);
    kit_close(&worker);
    return 0;
}

/* Somebody else is served as before, over the connection that there was. */
static void check_others(void)
{
    uint8_t in[8];

    assert_int_equal(kit_ask(&friend_, &worker, KIT_ECHO, "friend", 6, in, 8, KIT_LONG_MS), MU_OK);
    assert_memory_equal(in, "friend", 6);
    assert_int_equal(kit_stats(&friend_).linked_n, 1);
}

static void say(int fd, struct helper_head head, const void *body)
{
    uint8_t bytes[HELPER_HEAD_BYTES];

    helper_head_encode(&head, bytes);
    assert_int_equal(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL), sizeof(bytes));
    if (body != NULL) {
        assert_int_equal(send(fd, body, head.bytes, MSG_NOSIGNAL), head.bytes);
    }
}

static void hear(int fd, struct helper_head *head)
{
    uint8_t bytes[HELPER_HEAD_BYTES];

    assert_int_equal(recv(fd, bytes, sizeof(bytes), MSG_WAITALL), sizeof(bytes));
    assert_int_equal(helper_head_decode(bytes, head), MU_OK);
}

static void expect_end(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    uint8_t bytes[4096];
    ssize_t n;

    do {
        assert_true(poll(&p, 1, KIT_LONG_MS) == 1);
        n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (n > 0);
    close(fd);
}

static void without_the_key_or_for_another_class_nobody_is_let_in(void **state)
{
    const int cut = socket(AF_INET, SOCK_STREAM, 0);
    struct address to;

    assert_int_equal(kit_stranger(&worker, STRANGER, LINK_HELPER, 9), -1);
    assert_int_equal(kit_stranger(&worker, STRANGER, LINK_GROUP, 0), -1);
    assert_int_equal(addr_parse(worker.member.addr, &to), MU_OK);
    assert_int_equal(connect(cut, &to.sa, to.n), 0);
    assert_int_equal(send(cut, "1uhm", 4, MSG_NOSIGNAL), 4);
    close(cut);
    check_others();
    assert_int_equal(kit_stats(&worker).linked_n, 1);
}

/* After a request (slot 1, number 5, ten bytes of 20000, which is never completed). */
static void bytes_that_break_the_protocol_end_their_connection_alone(void **state)
{
    static const struct helper_head evil[] = {
        {.what = 0, .slot = 2, .number = 6},
        {.what = 9, .slot = 2, .number = 6},
        {.what = 0x16, .slot = 0x301, .number = 6}, /* TLS */
        {.what = HELPER_REQUEST, .slot = 2, .number = 0, .value = 1},
        {.what = HELPER_REQUEST, .slot = 2, .number = 6, .value = 0},
        {.what = HELPER_REQUEST, .slot = 2, .number = 6, .value = -1},
        {.what = HELPER_REQUEST, .slot = HELPER_WINDOW, .number = 6, .value = 1},
        {.what = HELPER_REQUEST,
         .slot = 2,
         .number = 6,
         .value = 1,
         .total = UINT64_MAX,
         .bytes = 1},
        {.what = HELPER_REQUEST, .slot = 2, .number = 6, .value = 1, .total = 1, .bytes = 2},
        {.what = HELPER_REQUEST, .slot = 2, .number = 6, .value = 1, .total = 2, .bytes = 0},
        {.what = HELPER_REQUEST, .slot = 2, .number = 5, .value = 1}, /* replayed */
        {.what = HELPER_REQUEST, .slot = 2, .number = 4, .value = 1},
        {.what = HELPER_REQUEST, .slot = 1, .number = 6, .value = 1}, /* in use */
        {.what = HELPER_ANSWER, .slot = 1, .number = 5},
        {.what = HELPER_MORE, .slot = 2, .number = 5, .bytes = 1},
        {.what = HELPER_MORE, .slot = 1, .number = 6, .bytes = 1},
        {.what = HELPER_MORE, .slot = 1, .number = 5, .bytes = 0},
        {.what = HELPER_MORE, .slot = 1, .number = 5, .bytes = 19991}, /* one too many */
        {.what = HELPER_END, .slot = 1, .number = 5},
        {.what = HELPER_END, .slot = 2, .number = 5},
        {.what = HELPER_CUT, .slot = 1, .number = 6},
        {.what = HELPER_CUT, .slot = 1, .number = 5, .value = 1},
    };

    check_others();
    for (uint32_t i = 0; i < ARRAY_LEN(evil); i++) {
        const uint64_t broken_n = kit_stats(&worker).broken_n;
        const int fd = kit_stranger(&worker, STRANGER + i, LINK_HELPER, 0);

        assert_true(fd >= 0);
        say(fd,
            (struct helper_head){.what = HELPER_REQUEST,
                                 .kind = KIT_ECHO,
                                 .slot = 1,
                                 .number = 5,
                                 .value = KIT_LONG_MS,
                                 .total = 20000,
                                 .bytes = 10},
            "0123456789");
        say(fd, evil[i], NULL);
        expect_end(fd);
        kit_until(kit_stats(&worker).broken_n == broken_n + 1);
        check_others();
    }
    kit_until(worker.dropped_n == worker.placed_n);
}

static void one_that_dies_in_a_body_leaves_nothing_behind(void **state)
{
    for (int i = 0; i < 3; i++) {
        const int fd = kit_stranger(&worker, STRANGER, LINK_HELPER, 0);

        assert_true(fd >= 0);
        say(fd,
            (struct helper_head){.what = HELPER_REQUEST,
                                 .kind = KIT_LENGTH,
                                 .slot = 1,
                                 .number = 5,
                                 .value = KIT_LONG_MS,
                                 .total = 1 << 20,
                                 .bytes = 1 << 20},
            NULL);
        if (i > 0) {
            assert_int_equal(send(fd, "0123456789", 10, MSG_NOSIGNAL), 10);
        }
        kit_until(worker.placed_n == worker.dropped_n + 1);
        close(fd);
        kit_until(worker.placed_n == worker.dropped_n);
    }
    check_others();
}

/* Byte by byte, or not at all: its memory is held for its time and no longer. */
static void who_is_too_slow_loses_his_request(void **state)
{
    const int fd = kit_stranger(&worker, STRANGER, LINK_HELPER, 0);
    const uint32_t dropped_n = worker.dropped_n;
    struct helper_head head;

    assert_true(fd >= 0);
    say(fd,
        (struct helper_head){.what = HELPER_REQUEST,
                             .kind = KIT_LENGTH,
                             .slot = 1,
                             .number = 5,
                             .value = 20,
                             .total = 20000,
                             .bytes = 20000},
        NULL);
    for (int i = 0; worker.dropped_n == dropped_n; i++) {
        assert_true(i < 15000);
        assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
        kit_nap();
    }
    hear(fd, &head);
    assert_true(head.what == HELPER_CUT && head.number == 5 && head.value == MU_ETIMEDOUT);
    close(fd);
    check_others();
}

/* ---- the other way: one who answers wrongly ---- */

/* Lets in one who has dialed. */
static int be_dialed(int listener, wid self)
{
    const struct hello_config config = {
        .job = "test", .run = 1, .self = self, .classes = 1u << LINK_HELPER};
    uint8_t nonce[HELLO_NONCE_BYTES] = {1}, in[HELLO_BYTES], out[HELLO_BYTES];
    const int fd = accept(listener, NULL, NULL);
    struct hello h;
    size_t n;

    hello_listen(&h, &config, nonce);
    assert_int_equal(recv(fd, in, HELLO_BYTES, MSG_WAITALL), HELLO_BYTES);
    hello_take(&h, in, HELLO_BYTES, out, &n);
    assert_int_equal(send(fd, out, n, MSG_NOSIGNAL), HELLO_BYTES);
    assert_int_equal(recv(fd, in, HELLO_BYTES, MSG_WAITALL), HELLO_BYTES);
    hello_take(&h, in, HELLO_BYTES, out, &n);
    assert_int_equal(h.state, HELLO_DONE);
    return fd;
}

static _Atomic bool ended;

static void note_end(struct helper_call *call)
{
    atomic_store(&ended, true);
}

/* To a request in slot 0, number 1, with room for 100 bytes. */
static void an_answer_that_cannot_be_ends_the_connection(void **state)
{
    static const struct helper_head evil[][2] = {
        {{.what = HELPER_ANSWER, .slot = 0, .number = 2}},
        {{.what = HELPER_ANSWER, .slot = 1, .number = 1}},
        {{.what = HELPER_ANSWER, .slot = 0, .number = 1, .value = 1}},
        {{.what = HELPER_MORE, .slot = 0, .number = 1, .bytes = 1}},
        {{.what = HELPER_END, .slot = 0, .number = 1}},
        {{.what = HELPER_CUT, .slot = 0, .number = 2}},
        {{.what = HELPER_REQUEST, .slot = 1, .number = 1, .value = 1}},
        {{.what = HELPER_ANSWER, .slot = 0, .number = 1, .total = 100, .bytes = 1},
         {.what = HELPER_ANSWER, .slot = 0, .number = 1}},
        {{.what = HELPER_ANSWER, .slot = 0, .number = 1, .total = 100, .bytes = 1},
         {.what = HELPER_MORE, .slot = 0, .number = 1, .bytes = 100}},
    };
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    struct member m = {.worker = STRANGER, .host = 99};
    struct address at;
    uint8_t in[100];

    assert_int_equal(addr_parse("127.0.0.1:1", &at), MU_OK);
    at.v4.sin_port = 0;
    assert_int_equal(bind(listener, &at.sa, at.n), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, &at.sa, &at.n), 0);
    address_print(&at.sa, m.addr, sizeof(m.addr));
    assert_int_equal(helper_peers(worker.helper, &m, 1), MU_OK);
    for (uint32_t i = 0; i < ARRAY_LEN(evil); i++) {
        struct helper_call call = {.peer = STRANGER,
                                   .timeout_ms = KIT_LONG_MS,
                                   .answer = in,
                                   .room = sizeof(in),
                                   .done = note_end},
                           *calls[] = {&call};
        struct helper_head head;

        ended = false;
        assert_int_equal(helper_call(worker.helper, calls, 1), MU_OK);
        const int fd = be_dialed(listener, STRANGER);

        hear(fd, &head);
        assert_true(head.what == HELPER_REQUEST && head.slot == 0 && head.number == 1);
        say(fd, evil[i][0], evil[i][0].total > 0 ? "x" : NULL);
        if (evil[i][1].what != 0) {
            say(fd, evil[i][1], NULL);
        }
        expect_end(fd);
        kit_until(ended);
        assert_int_equal(call.status, MU_EPEER);
        check_others();
    }
    close(listener);
}

/* What this worker does not do it says at the first request. */
static void one_who_answers_nobody_refuses_requests(void **state)
{
    struct kit_worker mute;
    int fd;

    kit_open(&mute, 5, (struct kit_config){.mute = true});
    fd = kit_stranger(&mute, STRANGER, LINK_HELPER, 0);
    assert_true(fd >= 0);
    say(fd, (struct helper_head){.what = HELPER_REQUEST, .number = 1, .value = 1}, NULL);
    expect_end(fd);
    kit_close(&mute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_the_key_or_for_another_class_nobody_is_let_in,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(bytes_that_break_the_protocol_end_their_connection_alone,
                                        open_both, close_both),
        cmocka_unit_test_setup_teardown(one_that_dies_in_a_body_leaves_nothing_behind, open_both,
                                        close_both),
        cmocka_unit_test_setup_teardown(who_is_too_slow_loses_his_request, open_both, close_both),
        cmocka_unit_test_setup_teardown(an_answer_that_cannot_be_ends_the_connection, open_both,
                                        close_both),
        cmocka_unit_test(one_who_answers_nobody_refuses_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
