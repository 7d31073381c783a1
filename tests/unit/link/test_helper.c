/* Requests and answers between two workers: what arrives, in which time, and what a call ends with.
 */
#include "unit/link/helper_kit.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kit_config kinds[] = {
    {.paths = LINK_UNIX | LINK_TCP}, {.paths = LINK_TCP}, {.paths = LINK_TCP, .tls = true}};

static void fill(uint8_t *bytes, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 13);
    }
}

static void bodies_of_all_sizes_come_back(void **state)
{
    static const size_t sizes[] = {0,     1,     31,    4096,   4097,    16383,
                                   16384, 16385, 65536, 262144, 1048577, 5000001};

    for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
        struct kit_worker a, b;

        kit_open(&a, 0, kinds[k]);
        kit_open(&b, 1, kinds[k]);
        kit_meet(&a, &b);
        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
            uint8_t *out = malloc(sizes[i] + 1), *in = calloc(1, sizes[i] + 1);

            fill(out, sizes[i], (uint32_t)i);
            assert_int_equal(kit_ask(&a, &b, KIT_ECHO, out, sizes[i], in, sizes[i], KIT_LONG_MS),
                             MU_OK);
            assert_memory_equal(in, out, sizes[i]);
            free(out);
            free(in);
        }
        assert_int_equal(kit_stats(&a).linked_n, 1);
        assert_int_equal(b.dropped_n, 0);
        kit_close(&a);
        kit_until(b.sent_n == ARRAY_LEN(sizes)); /* Its memory is its own again. */
        kit_close(&b);
    }
}

static void parts_are_sent_one_after_the_other(void **state)
{
    struct kit_worker a, b;
    uint8_t bytes[40000], in[40000];
    struct iovec parts[9];
    size_t at = 0;

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    fill(bytes, sizeof(bytes), 1);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        const size_t n = i == 8 ? sizeof(bytes) - at : i % 3 == 0 ? 0 : 1000 * i;

        parts[i] = (struct iovec){bytes + at, n};
        at += n;
    }
    struct helper_call call = {.peer = b.member.worker,
                               .kind = KIT_ECHO,
                               .timeout_ms = KIT_LONG_MS,
                               .parts = parts,
                               .parts_n = ARRAY_LEN(parts),
                               .answer = in,
                               .room = sizeof(in)};
    struct helper_call *calls[] = {&call};

    assert_int_equal(helper_ask(a.helper, calls, 1), MU_OK);
    assert_int_equal(call.status, MU_OK);
    assert_int_equal(call.bytes, sizeof(in));
    assert_memory_equal(in, bytes, sizeof(in));
    kit_close(&a);
    kit_close(&b);
}

/* ---- many ---- */

struct many {
    struct helper_call call;
    uint64_t number, answer;
    struct iovec part;
};

static _Atomic uint32_t ended_n;

static void count_end(struct helper_call *call)
{
    atomic_fetch_add(&ended_n, 1);
}

/* More than the window holds, to eight workers: each call ends once, with its own answer. */
static void many_calls_to_many_peers_are_under_way_at_once(void **state)
{
    enum { N = 20000, PEERS = 8 };
    struct kit_worker *w = calloc(PEERS + 1, sizeof(*w));
    struct many *all = calloc(N, sizeof(*all));
    struct helper_call **calls = calloc(N, sizeof(*calls));
    struct member members[PEERS];

    for (uint32_t i = 0; i <= PEERS; i++) {
        kit_open(&w[i], i, kinds[i % 2]);
    }
    for (uint32_t i = 0; i < PEERS; i++) {
        members[i] = w[i + 1].member;
    }
    assert_int_equal(helper_peers(w[0].helper, members, PEERS), MU_OK);
    for (uint32_t i = 0; i < N; i++) {
        all[i].number = i;
        all[i].part = (struct iovec){&all[i].number, sizeof(uint64_t)};
        all[i].call = (struct helper_call){.peer = members[i % PEERS].worker,
                                           .kind = KIT_ECHO,
                                           .timeout_ms = KIT_LONG_MS,
                                           .parts = &all[i].part,
                                           .parts_n = 1,
                                           .answer = &all[i].answer,
                                           .room = sizeof(uint64_t)};
        calls[i] = &all[i].call;
    }
    assert_int_equal(helper_ask(w[0].helper, calls, N), MU_OK);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(all[i].call.status, MU_OK);
        assert_int_equal(all[i].answer, i);
    }
    /* They left together. */
    assert_true(kit_stats(w[0].helper != NULL ? &w[0] : NULL).writes_n < N / 4);
    for (uint32_t i = 0; i <= PEERS; i++) {
        kit_close(&w[i]);
    }
    free(calls);
    free(all);
    free(w);
}

/* A small call does not wait for the large one before it. */
static void a_small_call_passes_a_large_one(void **state)
{
    struct kit_worker a, b;
    uint8_t *large = calloc(1, KIT_BIG_BYTES), small[8] = "small", in[8];
    const struct iovec parts[] = {{large, KIT_BIG_BYTES}, {small, sizeof(small)}};
    struct helper_call calls[2] = {{0}};

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    ended_n = 0;
    for (int i = 0; i < 2; i++) {
        struct helper_call *call = &calls[i];

        *call = (struct helper_call){.peer = b.member.worker,
                                     .kind = i == 0 ? KIT_LENGTH : KIT_ECHO,
                                     .timeout_ms = KIT_LONG_MS,
                                     .parts = &parts[i],
                                     .parts_n = 1,
                                     .answer = in,
                                     .room = sizeof(in),
                                     .done = count_end};
        assert_int_equal(helper_call(a.helper, &call, 1), MU_OK);
    }
    kit_until(b.taken_n >= 1);
    kit_until(ended_n == 2);
    assert_int_equal(calls[0].status, MU_OK);
    assert_int_equal(calls[1].status, MU_OK);
    kit_close(&a);
    kit_close(&b);
    free(large);
}

/* ---- how calls end ---- */

static void who_answers_says_what_it_ends_with(void **state)
{
    struct kit_worker a, b;
    uint8_t *large = calloc(1, KIT_BIG_BYTES), in[8];

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    assert_int_equal(kit_ask(&a, &b, KIT_FAIL, "x", 1, in, 8, KIT_LONG_MS), MU_ENOENT);
    /* No room: here, and there; what is left of the request is not sent. */
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "123456789", 9, in, 8, KIT_LONG_MS), MU_ELIMIT);
    assert_int_equal(kit_ask(&a, &b, KIT_REFUSE, large, KIT_BIG_BYTES, in, 8, KIT_LONG_MS),
                     MU_ELIMIT);
    assert_int_equal(kit_ask(&a, &b, KIT_BIG, "x", 1, in, 8, KIT_LONG_MS), MU_ELIMIT);
    assert_int_equal(kit_ask(&a, &b, KIT_LENGTH, large, KIT_BIG_BYTES, in, 8, KIT_LONG_MS), MU_OK);
    assert_int_equal(kit_stats(&a).linked_n, 1);
    kit_until(b.sent_n + b.unsent_n == 2);
    kit_close(&a);
    kit_close(&b);
    free(large);
}

static void what_cannot_be_asked_is_refused_at_once(void **state)
{
    struct kit_worker a, b;
    struct helper_call call = {.peer = 99, .timeout_ms = 1}, *calls[] = {&call, &call};

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    assert_int_equal(helper_call(a.helper, calls, 1), MU_ENOENT);
    call.peer = b.member.worker;
    call.timeout_ms = 0;
    assert_int_equal(helper_call(a.helper, calls, 1), MU_EINVAL);
    call.timeout_ms = 1;
    call.peer = a.member.worker;
    assert_int_equal(helper_call(a.helper, calls, 2), MU_ENOENT);
    kit_close(&a);
    kit_close(&b);
}

/* A peer that is not there, one that does not answer, and one that stands still in a body. */
static void a_call_ends_in_its_time(void **state)
{
    struct kit_worker a, b;
    uint8_t *large = calloc(1, KIT_BIG_BYTES), in[8];
    struct kit_worker nobody;

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_open(&nobody, 2, kinds[0]);
    kit_meet(&a, &nobody);
    kit_close(&nobody);
    assert_int_equal(kit_ask(&a, &nobody, KIT_ECHO, "x", 1, in, 8, 100), MU_ETIMEDOUT);
    kit_meet(&a, &b);
    assert_int_equal(kit_ask(&a, &b, KIT_KEEP, "x", 1, in, 8, 100), MU_ETIMEDOUT);
    /* The same connection goes on. The answer comes late, and is thrown away. */
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, KIT_LONG_MS), MU_OK);
    assert_int_equal(kit_answer_kept(&b), 1);
    kit_until(b.sent_n + b.unsent_n == 2);
    assert_int_equal(kit_ask(&a, &b, KIT_LENGTH, large, KIT_BIG_BYTES, in, 8, 1), MU_ETIMEDOUT);
    assert_int_equal(kit_ask(&a, &b, KIT_LENGTH, large, KIT_BIG_BYTES, in, 8, KIT_LONG_MS), MU_OK);
    kit_until(b.placed_n == b.dropped_n + 1 || b.placed_n == 1);
    kit_close(&a);
    kit_close(&b);
    free(large);
}

static void a_cancelled_call_ends_and_the_rest_goes_on(void **state)
{
    struct kit_worker a, b;
    uint8_t *large = calloc(1, KIT_BIG_BYTES), in[8];
    const struct iovec parts[] = {{large, KIT_BIG_BYTES}, {large, 1}};
    struct helper_call calls[2], *each;

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    for (int round = 0; round < 20; round++) {
        ended_n = 0;
        for (int i = 0; i < 2; i++) {
            calls[i] = (struct helper_call){.peer = b.member.worker,
                                            .kind = i == 0 ? KIT_LENGTH : KIT_KEEP,
                                            .timeout_ms = KIT_LONG_MS,
                                            .parts = &parts[i],
                                            .parts_n = 1,
                                            .answer = in,
                                            .room = sizeof(in),
                                            .done = count_end};
            each = &calls[i];
            assert_int_equal(helper_call(a.helper, &each, 1), MU_OK);
        }
        for (int i = 0; i < round % 7; i++) {
            kit_nap();
        }
        helper_cancel(a.helper, &calls[0]);
        helper_cancel(a.helper, &calls[1]);
        helper_cancel(a.helper, &calls[1]);
        kit_until(ended_n == 2);
        memset(large, round, KIT_BIG_BYTES); /* Nobody reads it any more. */
        assert_true(calls[0].status == MU_EDONE || calls[0].status == MU_OK);
        assert_int_equal(calls[1].status, MU_EDONE);
        kit_answer_kept(&b);
    }
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, KIT_LONG_MS), MU_OK);
    assert_int_equal(kit_stats(&a).linked_n, 1);
    kit_close(&a);
    kit_close(&b);
    free(large);
}

/* ---- how connections end ---- */

static void all_calls_to_one_who_goes_end_at_once(void **state)
{
    for (int how = 0; how < 3; how++) {
        struct kit_worker a, b;
        struct many all[40];
        uint8_t *large = calloc(1, KIT_BIG_BYTES);

        kit_open(&a, 0, kinds[how % 2]);
        kit_open(&b, 1, kinds[how % 2]);
        kit_meet(&a, &b);
        ended_n = 0;
        for (uint32_t i = 0; i < 40; i++) {
            struct helper_call *call = &all[i].call;

            all[i].part = (struct iovec){large, i % 2 ? KIT_BIG_BYTES : 8};
            *call = (struct helper_call){.peer = b.member.worker,
                                         .kind = KIT_KEEP,
                                         .timeout_ms = KIT_LONG_MS,
                                         .parts = &all[i].part,
                                         .parts_n = 1,
                                         .done = count_end};
            assert_int_equal(helper_call(a.helper, &call, 1), MU_OK);
        }
        kit_until(b.taken_n > 0);
        if (how == 0) {
            kit_close(&b);
        } else if (how == 1) {
            assert_int_equal(helper_peers(a.helper, NULL, 0), MU_OK);
        } else {
            helper_close(a.helper);
            a.helper = NULL;
        }
        kit_until(ended_n == 40);
        for (uint32_t i = 0; i < 40; i++) {
            assert_int_equal(all[i].call.status, how == 2 ? MU_EDONE : MU_EPEER);
        }
        memset(large, 1, KIT_BIG_BYTES);
        if (how > 0) {
            kit_close(&b); /* What was half here has been dropped. */
        }
        kit_close(&a);
        free(large);
    }
}

static void one_that_comes_back_is_asked_again(void **state)
{
    struct kit_worker a, b;
    char in[8];

    kit_open(&a, 0, kinds[0]);
    for (uint32_t i = 0; i < 5; i++) {
        kit_open(&b, 1, kinds[i % 2]);
        kit_meet(&a, &b);
        assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, KIT_LONG_MS), MU_OK);
        kit_close(&b);
        kit_until(kit_stats(&a).lost_n == i + 1);
    }
    kit_close(&a);
}

static void another_name_ends_what_was_linked_under_the_old_one(void **state)
{
    struct kit_worker a, b;
    char in[8];

    kit_open(&a, 0, kinds[0]);
    kit_open(&b, 1, kinds[0]);
    kit_meet(&a, &b);
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, KIT_LONG_MS), MU_OK);
    tender_rename(b.tender, wid_make(2, 0, 2));
    kit_until(kit_stats(&a).lost_n == 1);
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, 100), MU_ETIMEDOUT);
    b.member.worker = wid_make(2, 0, 2);
    kit_meet(&a, &b);
    assert_int_equal(kit_ask(&a, &b, KIT_ECHO, "x", 1, in, 8, KIT_LONG_MS), MU_OK);
    kit_close(&a);
    kit_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_of_all_sizes_come_back),
        cmocka_unit_test(parts_are_sent_one_after_the_other),
        cmocka_unit_test(many_calls_to_many_peers_are_under_way_at_once),
        cmocka_unit_test(a_small_call_passes_a_large_one),
        cmocka_unit_test(who_answers_says_what_it_ends_with),
        cmocka_unit_test(what_cannot_be_asked_is_refused_at_once),
        cmocka_unit_test(a_call_ends_in_its_time),
        cmocka_unit_test(a_cancelled_call_ends_and_the_rest_goes_on),
        cmocka_unit_test(all_calls_to_one_who_goes_end_at_once),
        cmocka_unit_test(one_that_comes_back_is_asked_again),
        cmocka_unit_test(another_name_ends_what_was_linked_under_the_old_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
