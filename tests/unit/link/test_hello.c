#include "unit/unit.h"

#include "link/hello.h"

#include <string.h>

static const struct hello_config dialer_config = {
    .job = "mnist", .run = 3, .run_key = {1, 2, 3}, .self = 71};
static const struct hello_config listener_config = {
    .job = "mnist", .run = 3, .run_key = {1, 2, 3}, .self = 9, .classes = 1u << LINK_GROUP};

enum { HELLO, ANSWER, PROOF, MESSAGES_N };

/* Two sides, and the three messages as they went. */
struct talk {
    struct hello dialer, listener;
    uint8_t said[MESSAGES_N][HELLO_BYTES];
};

static void make_nonce(uint8_t seed, uint8_t nonce[HELLO_NONCE_BYTES])
{
    for (uint8_t i = 0; i < HELLO_NONCE_BYTES; i++) {
        nonce[i] = (uint8_t)(seed + 7 * i);
    }
}

static void begin(struct talk *t, const struct hello_config *dialer,
                  const struct hello_config *listener, wid to, uint8_t seed)
{
    uint8_t nonce[HELLO_NONCE_BYTES];

    memset(t, 0, sizeof(*t));
    make_nonce(seed, nonce);
    hello_dial(&t->dialer, dialer, LINK_GROUP, to, nonce, t->said[HELLO]);
    make_nonce((uint8_t)(seed + 1), nonce);
    hello_listen(&t->listener, listener, nonce);
}

/* All of it at once; the next message, if there is one, goes to *next. */
static size_t hear(struct hello *h, const uint8_t message[HELLO_BYTES], uint8_t *next)
{
    uint8_t out[HELLO_BYTES];
    size_t n = 0;

    hello_take(h, message, HELLO_BYTES, out, &n);
    assert_true(n == 0 || n == HELLO_BYTES);
    if (n > 0) {
        memcpy(next, out, n);
    }
    return n;
}

/* Each message with `flip` done to byte `at` of message `which`. */
static void go(struct talk *t, int which, size_t at, uint8_t flip)
{
    if (which == HELLO) {
        t->said[HELLO][at] ^= flip;
    }
    if (hear(&t->listener, t->said[HELLO], t->said[ANSWER]) == 0) {
        return;
    }
    if (which == ANSWER) {
        t->said[ANSWER][at] ^= flip;
    }
    if (hear(&t->dialer, t->said[ANSWER], t->said[PROOF]) == 0) {
        return;
    }
    if (which == PROOF) {
        t->said[PROOF][at] ^= flip;
    }
    assert_true(hear(&t->listener, t->said[PROOF], NULL) == 0);
}

static void those_of_one_run_come_together(void **state)
{
    struct talk t;

    begin(&t, &dialer_config, &listener_config, 9, 1);
    go(&t, MESSAGES_N, 0, 0);
    assert_int_equal(t.dialer.state, HELLO_DONE);
    assert_int_equal(t.listener.state, HELLO_DONE);
    assert_true(t.dialer.session.peer == 9 && t.dialer.session.dialed);
    assert_true(t.listener.session.peer == 71 && !t.listener.session.dialed);
    assert_memory_equal(t.dialer.session.id, t.listener.session.id, HELLO_NONCE_BYTES);
}

static void every_changed_bit_of_every_message_is_refused(void **state)
{
    for (int which = HELLO; which < MESSAGES_N; which++) {
        for (size_t bit = 0; bit < 8 * HELLO_BYTES; bit++) {
            struct talk t;

            begin(&t, &dialer_config, &listener_config, 9, 1);
            go(&t, which, bit / 8, (uint8_t)(1u << bit % 8));
            assert_true(t.dialer.state == HELLO_REFUSED || t.listener.state == HELLO_REFUSED);
            assert_true(t.listener.state != HELLO_DONE);
            /* The dialer is done only when it has seen the right ANSWER to its own HELLO. */
            assert_true(which == PROOF || t.dialer.state != HELLO_DONE);
            assert_non_null(t.dialer.state == HELLO_REFUSED ? t.dialer.why : t.listener.why);
        }
    }
}

static void any_split_gives_the_same(void **state)
{
    struct talk whole;

    begin(&whole, &dialer_config, &listener_config, 9, 1);
    go(&whole, MESSAGES_N, 0, 0);
    for (size_t step = 1; step <= HELLO_BYTES; step++) {
        struct talk t;
        struct hello *sides[] = {&t.listener, &t.dialer, &t.listener};

        begin(&t, &dialer_config, &listener_config, 9, 1);
        for (int i = 0; i < MESSAGES_N; i++) {
            uint8_t out[HELLO_BYTES];
            size_t out_n = 0;

            for (size_t at = 0; at < HELLO_BYTES;) {
                const size_t part = MIN(step, HELLO_BYTES - at);

                assert_true(out_n == 0 && sides[i]->state == HELLO_TALKS);
                assert_true(hello_take(sides[i], t.said[i] + at, part, out, &out_n) == part);
                at += part;
            }
            assert_true(out_n == (i < PROOF ? HELLO_BYTES : 0));
            if (i < PROOF) {
                memcpy(t.said[i + 1], out, HELLO_BYTES);
            }
        }
        assert_memory_equal(t.said, whole.said, sizeof(t.said));
        assert_int_equal(t.dialer.state, HELLO_DONE);
        assert_int_equal(t.listener.state, HELLO_DONE);
    }
}

static void bytes_after_the_handshake_are_not_taken(void **state)
{
    struct talk t;
    uint8_t stream[2 * HELLO_BYTES] = {0}, out[HELLO_BYTES];
    size_t out_n;

    begin(&t, &dialer_config, &listener_config, 9, 1);
    memcpy(stream, t.said[HELLO], HELLO_BYTES);
    assert_true(hello_take(&t.listener, stream, sizeof(stream), out, &out_n) == HELLO_BYTES);
    assert_true(out_n == HELLO_BYTES);
    memcpy(stream, out, HELLO_BYTES);
    assert_true(hello_take(&t.dialer, stream, sizeof(stream), out, &out_n) == HELLO_BYTES);
    assert_int_equal(t.dialer.state, HELLO_DONE);
    assert_true(hello_take(&t.dialer, stream, sizeof(stream), stream, &out_n) == 0 && out_n == 0);
    memcpy(stream, out, HELLO_BYTES);
    assert_true(hello_take(&t.listener, stream, sizeof(stream), out, &out_n) == HELLO_BYTES);
    assert_int_equal(t.listener.state, HELLO_DONE);
    assert_true(hello_take(&t.listener, stream, sizeof(stream), out, &out_n) == 0 && out_n == 0);
}

static void another_key_job_run_or_worker_is_refused(void **state)
{
    static const struct {
        wid to;
        const char *job;
        uint32_t run;
        uint8_t key;
        bool by_listener; /* or by the dialer, of the ANSWER */
    } cases[] = {
        {9, "mnist", 3, 2, false}, {9, "mnisu", 3, 1, false}, {9, "", 3, 1, false},
        {9, "mnist", 4, 1, true},  {8, "mnist", 3, 1, true},  {71, "mnist", 3, 1, true},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct hello_config config = dialer_config;
        struct talk t;

        strcpy(config.job, cases[i].job);
        config.run = cases[i].run;
        config.run_key[0] = cases[i].key;
        begin(&t, &config, &listener_config, cases[i].to, 1);
        go(&t, MESSAGES_N, 0, 0);
        assert_int_equal(cases[i].by_listener ? t.listener.state : t.dialer.state, HELLO_REFUSED);
        assert_true(t.listener.state != HELLO_DONE && t.dialer.state != HELLO_DONE);
    }
}

/* Both sides know what the connection is for, and nobody between them can change that. */
static void a_class_is_agreed_on_and_must_be_served(void **state)
{
    struct hello_config both = listener_config;
    uint8_t nonce[HELLO_NONCE_BYTES];
    struct talk t;

    both.classes = 1u << LINK_GROUP | 1u << LINK_HELPER;
    for (int serves = 0; serves < 2; serves++) {
        begin(&t, &dialer_config, serves ? &both : &listener_config, 9, 1);
        make_nonce(1, nonce);
        hello_dial(&t.dialer, &dialer_config, LINK_HELPER, 9, nonce, t.said[HELLO]);
        go(&t, MESSAGES_N, 0, 0);
        assert_int_equal(t.listener.state, serves ? HELLO_DONE : HELLO_REFUSED);
        assert_true(!serves || t.dialer.session.class == LINK_HELPER);
        assert_true(!serves || t.listener.session.class == LINK_HELPER);
    }
    for (int which = HELLO; which < MESSAGES_N; which++) {
        begin(&t, &dialer_config, &both, 9, 1);
        go(&t, which, 6, LINK_GROUP ^ LINK_HELPER);
        assert_true(t.listener.state != HELLO_DONE);
    }
}

static void a_worker_does_not_link_to_itself(void **state)
{
    struct talk t;

    begin(&t, &listener_config, &listener_config, 9, 1);
    go(&t, MESSAGES_N, 0, 0);
    assert_int_equal(t.listener.state, HELLO_REFUSED);
}

static void what_was_said_once_proves_nothing_later(void **state)
{
    struct talk old, t;

    begin(&old, &dialer_config, &listener_config, 9, 1);
    go(&old, MESSAGES_N, 0, 0);
    assert_int_equal(old.listener.state, HELLO_DONE);

    /* HELLO and PROOF of the past: the listener's nonce is a new one. */
    begin(&t, &dialer_config, &listener_config, 9, 50);
    hear(&t.listener, old.said[HELLO], t.said[ANSWER]);
    hear(&t.listener, old.said[PROOF], NULL);
    assert_int_equal(t.listener.state, HELLO_REFUSED);

    /* ANSWER of the past: the dialer's is. */
    hear(&t.dialer, old.said[ANSWER], NULL);
    assert_int_equal(t.dialer.state, HELLO_REFUSED);
}

/* A listener's own hash sent back to it does not pass for the dialer's. */
static void a_hash_sent_back_is_refused(void **state)
{
    struct talk t;

    begin(&t, &dialer_config, &listener_config, 9, 1);
    hear(&t.listener, t.said[HELLO], t.said[ANSWER]);
    memcpy(t.said[PROOF], t.said[HELLO], 8);
    t.said[PROOF][5] = 3;
    memcpy(t.said[PROOF] + 64, t.said[ANSWER] + 64, HELLO_PROOF_BYTES);
    hear(&t.listener, t.said[PROOF], NULL);
    assert_int_equal(t.listener.state, HELLO_REFUSED);
}

static void strangers_are_refused_at_their_first_wrong_byte(void **state)
{
    struct talk t;
    uint8_t out[HELLO_BYTES];
    size_t out_n;

    begin(&t, &dialer_config, &listener_config, 9, 1);
    assert_true(hello_take(&t.listener, (const uint8_t *)"G", 1, out, &out_n) == 1);
    assert_int_equal(t.listener.state, HELLO_REFUSED);
    assert_non_null(strstr(t.listener.why, "does not speak"));
    begin(&t, &dialer_config, &listener_config, 9, 1);
    t.said[HELLO][4]++;
    hello_take(&t.listener, t.said[HELLO], 5, out, &out_n);
    assert_int_equal(t.listener.state, HELLO_REFUSED);
    assert_non_null(strstr(t.listener.why, "version"));
}

static void sessions_have_different_names(void **state)
{
    struct talk a, b;

    begin(&a, &dialer_config, &listener_config, 9, 1);
    begin(&b, &dialer_config, &listener_config, 9, 2);
    go(&a, MESSAGES_N, 0, 0);
    go(&b, MESSAGES_N, 0, 0);
    assert_memory_not_equal(a.dialer.session.id, b.dialer.session.id, HELLO_NONCE_BYTES);
}

/* Everything that a proof is bound to, changed one at a time. */
static void a_proof_fits_one_generation_pair_and_connection(void **state)
{
    struct hello_session session = {.peer = 9, .id = {1}};
    struct hello_session other = {.peer = 9, .id = {2}};
    struct hello_config job = dialer_config, run = dialer_config;
    uint8_t key[KEY_BYTES] = {5}, wrong[KEY_BYTES] = {6};
    uint8_t p[11][HELLO_PROOF_BYTES];

    strcpy(job.job, "mnisu");
    run.run++;
    hello_proof(&dialer_config, &session, 4, key, 71, 1, 9, 0, p[0]);
    hello_proof(&dialer_config, &other, 4, key, 71, 1, 9, 0, p[1]);
    hello_proof(&dialer_config, &session, 5, key, 71, 1, 9, 0, p[2]);
    hello_proof(&dialer_config, &session, 4, wrong, 71, 1, 9, 0, p[3]);
    hello_proof(&dialer_config, &session, 4, key, 72, 1, 9, 0, p[4]);
    hello_proof(&dialer_config, &session, 4, key, 71, 2, 9, 0, p[5]);
    hello_proof(&dialer_config, &session, 4, key, 71, 1, 8, 0, p[6]);
    hello_proof(&dialer_config, &session, 4, key, 71, 1, 9, 2, p[7]);
    hello_proof(&job, &session, 4, key, 71, 1, 9, 0, p[8]);
    hello_proof(&run, &session, 4, key, 71, 1, 9, 0, p[9]);
    hello_proof(&dialer_config, &session, 4, key, 9, 0, 71, 1, p[10]);
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        for (size_t k = 0; k < ARRAY_LEN(p); k++) {
            assert_true(hello_equal(p[i], p[k]) == (i == k));
        }
    }
    /* Both sides come to the same one: who the peer is, and who dialed, is each side's own view. */
    session.dialed = true;
    session.peer = 71;
    hello_proof(&listener_config, &session, 4, key, 71, 1, 9, 0, p[1]);
    assert_true(hello_equal(p[0], p[1]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_of_one_run_come_together),
        cmocka_unit_test(every_changed_bit_of_every_message_is_refused),
        cmocka_unit_test(any_split_gives_the_same),
        cmocka_unit_test(bytes_after_the_handshake_are_not_taken),
        cmocka_unit_test(another_key_job_run_or_worker_is_refused),
        cmocka_unit_test(a_class_is_agreed_on_and_must_be_served),
        cmocka_unit_test(a_worker_does_not_link_to_itself),
        cmocka_unit_test(what_was_said_once_proves_nothing_later),
        cmocka_unit_test(a_hash_sent_back_is_refused),
        cmocka_unit_test(strangers_are_refused_at_their_first_wrong_byte),
        cmocka_unit_test(sessions_have_different_names),
        cmocka_unit_test(a_proof_fits_one_generation_pair_and_connection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
