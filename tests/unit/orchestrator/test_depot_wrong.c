/* What is said wrong about checkpoints is answered, or costs a connection, and disturbs nobody
 * else. */
#include "base/prng.h"
#include "ckpt/sum.h"
#include "unit/orchestrator/putter_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ckpt_kit state_kit;

/* Another one, in the middle of its put, before and after. */
static struct putter other;

/* A piece of chunk 0, as it should be. */
static struct msg_depot piece(const struct putter *p, uint64_t at, uint32_t n)
{
    struct msg_depot m = putter_msg(p, DEPOT_PUT);

    m.at = at;
    m.total = CKPT_CHUNK;
    m.data = state_kit.state + at;
    m.data_n = n;
    return m;
}

/* It is told, and then it is closed. */
static void costs_the_connection(struct putter *p, uint64_t request, const char *text)
{
    const struct msg_depot_says says = putter_hear(p, request);

    assert_int_equal(says.status, MU_EPROTO);
    if (strstr(says.text, text) == NULL) {
        fail_msg("\"%s\" is not in \"%s\"", text, says.text);
    }
    kit_closes(p->cl);
    putter_close(p);
}

static void begun(struct putter *p, const struct kit *k)
{
    putter_open(p, k, &state_kit, "wrong", 7);
    putter_begin(p);
}

static void pieces_out_of_order_cost_the_connection(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;

    begun(&p, k);
    m = piece(&p, 1000, 1000); /* There is one before it. */
    costs_the_connection(&p, putter_say(&p, &m), "not the next");
    begun(&p, k);
    m = piece(&p, 0, 1000);
    kit_say(p.cl, WIRE_DEPOT, &m, 50);
    m = piece(&p, 2000, 1000);
    kit_say(p.cl, WIRE_DEPOT, &m, 50);
    costs_the_connection(&p, 50, "not the next");
    begun(&p, k);
    m = piece(&p, 0, 1000);
    kit_say(p.cl, WIRE_DEPOT, &m, 50);
    kit_say(p.cl, WIRE_DEPOT, &m, 51); /* Another begins before it is whole. */
    costs_the_connection(&p, 51, "not the next");
    begun(&p, k);
    m = piece(&p, 0, 1000);
    kit_say(p.cl, WIRE_DEPOT, &m, 50);
    m = piece(&p, 1000, 1000);
    m.item = 1;
    kit_say(p.cl, WIRE_DEPOT, &m, 50);
    costs_the_connection(&p, 50, "not the next");
}

static void pieces_that_are_too_long_cost_the_connection(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;

    begun(&p, k);
    m = piece(&p, 0, 1000);
    m.total = 999;
    costs_the_connection(&p, putter_say(&p, &m), "not the next");
    begun(&p, k);
    m = piece(&p, 0, 1000);
    m.total = CKPT_CHUNK + 1;
    costs_the_connection(&p, putter_say(&p, &m), "are the most");
    begun(&p, k);
    m = piece(&p, 0, 0);
    costs_the_connection(&p, putter_say(&p, &m), "not the next");
    begun(&p, k);
    m = piece(&p, 0, 0);
    m.total = 0;
    costs_the_connection(&p, putter_say(&p, &m), "are the most");
    begun(&p, k);
    m = putter_msg(&p, DEPOT_COMMIT);
    m.total = CKPT_MANIFEST_MAX; /* It has four chunks. */
    m.data = state_kit.state;
    m.data_n = 1000;
    costs_the_connection(&p, putter_say(&p, &m), "are the most");
}

static void too_much_at_once_costs_the_connection(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;

    putter_open(&p, k, &state_kit, "wrong", 7);
    m = putter_msg(&p, DEPOT_REMOVE);
    for (int i = 0; i < 2000; i++) { /* Faster than a disk. */
        char error[NET_ERROR_MAX];

        if (client_say(p.cl, WIRE_DEPOT, &m, ++p.request, error) != MU_OK) {
            break;
        }
    }
    kit_closes(p.cl);
    putter_close(&p);
    assert_true(kit_logged(k, "more than 16 questions at once"));
}

static void what_was_not_begun_is_answered(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;
    struct msg_depot_says says;

    putter_open(&p, k, &state_kit, "wrong", 7);
    says = putter_hear(&p, putter_say_chunk(&p, 0));
    assert_int_equal(says.status, MU_ESTALE);
    assert_non_null(strstr(says.text, "begin one"));
    assert_int_equal(putter_commit(&p, 0), MU_ESTALE);
    putter_begin(&p);
    p.step = 8; /* Another was begun. */
    assert_int_equal(putter_hear(&p, putter_say_chunk(&p, 0)).status, MU_ESTALE);
    m = putter_msg(&p, DEPOT_REMOVE);
    assert_int_equal(putter_ask(&p, &m).status, MU_ENOENT);
    putter_close(&p);
}

static void damaged_chunks_and_wrong_manifests_are_answered(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter p;

    begun(&p, k);
    m = piece(&p, 0, 1000);
    m.total = 1000; /* It has no sum. */
    assert_int_equal(putter_ask(&p, &m).status, MU_ECORRUPT);
    assert_int_equal(putter_begin(&p), 0);
    putter_put(&p, 0, 2);
    assert_int_equal(putter_hear(&p, putter_say_chunk(&p, 3)).status, MU_EINVAL);
    assert_int_equal(putter_begin(&p), 2);
    assert_int_equal(putter_commit(&p, 0), MU_ECORRUPT); /* There are two more. */
    assert_string_equal(putter_list(&p), "");
    assert_int_equal(putter_begin(&p), 2);
    putter_whole(&p, 0);
    assert_string_equal(putter_list(&p), "7");
    putter_close(&p);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const names[] = {"a/b", "..", ".", ".hidden", "../../etc", "", "a b"};
    static const enum depot_op ops[] = {DEPOT_LIST, DEPOT_READ, DEPOT_BEGIN, DEPOT_REMOVE};
    struct kit *k = *state;
    struct putter p;
    struct stat st;
    char path[160];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        putter_open(&p, k, &state_kit, names[i], 7);
        for (size_t op = 0; op < ARRAY_LEN(ops); op++) {
            struct msg_depot m = putter_msg(&p, ops[op]);
            struct msg_depot_says says;

            if (ops[op] == DEPOT_LIST && names[i][0] == '\0') {
                continue;
            }
            m.total = 1000;
            says = putter_ask(&p, &m);
            assert_int_equal(says.status, MU_EINVAL);
            assert_non_null(strstr(says.text, "can't be the name of a job"));
        }
        assert_int_equal(putter_hear(&p, putter_say_chunk(&p, 3)).status, MU_ESTALE);
        putter_close(&p);
    }
    snprintf(path, sizeof(path), "%s/b", k->data);
    assert_int_not_equal(stat(path, &st), 0);
}

static void one_who_does_not_read_is_not_given_more(void **state)
{
    struct kit *k = *state;
    struct putter p;
    struct msg_depot m;

    putter_open(&p, k, &state_kit, "wrong", 7);
    putter_whole(&p, 0);
    m = putter_msg(&p, DEPOT_READ);
    m.total = DEPOT_DATA_MAX;
    for (int round = 0; round < 20; round++) { /* All of it, though it is read late. */
        uint64_t requests[12];

        for (uint64_t i = 0; i < 12; i++) {
            m.at = i * DEPOT_DATA_MAX;
            requests[i] = putter_say(&p, &m);
        }
        usleep(20000);
        for (uint64_t i = 0; i < 12; i++) {
            const struct msg_depot_says says = putter_hear(&p, requests[i]);

            assert_int_equal(says.data_n, DEPOT_DATA_MAX);
            assert_memory_equal(says.data, state_kit.state + i * DEPOT_DATA_MAX, DEPOT_DATA_MAX);
        }
    }
    putter_close(&p);
}

/* ---- anything, in any order ---- */

#define CROWD 5

static void say_any(struct putter *p, struct prng *draw)
{
    static const char *const jobs[] = {"a", "b", "c", "wrong", "../x", ""};
    struct msg_depot m;
    char error[NET_ERROR_MAX];

    snprintf(p->job, sizeof(p->job), "%s", jobs[prng_below(draw, ARRAY_LEN(jobs))]);
    p->step = prng_below(draw, 4);
    m = putter_msg(p, (enum depot_op)prng_below(draw, DEPOT_N));
    m.item = prng_below(draw, 4) == 0 ? DEPOT_MANIFEST : (uint32_t)prng_below(draw, 3);
    m.data = state_kit.state;
    m.data_n = (uint32_t)prng_below(draw, 3) * 1000;
    m.at = prng_below(draw, 3) * 1000 * prng_below(draw, 2);
    m.total = prng_below(draw, 8) == 0 ? UINT64_MAX - prng_below(draw, 2) : m.at + m.data_n;
    m.keep = (uint32_t)prng_below(draw, 3);
    sum_of(m.data, m.data_n, m.sum); /* So that chunks of one piece are good ones. */
    if (client_say(p->cl, WIRE_DEPOT, &m, ++p->request, error) != MU_OK) {
        client_close(p->cl);
        p->cl = NULL;
    }
}

static void hear_any(struct putter *p)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];
    int rc;

    do {
        rc = client_next(p->cl, 1, &h, &msg, error);
    } while (rc == MU_OK);
    if (rc != MU_ETIMEDOUT) {
        client_close(p->cl);
        p->cl = NULL;
    }
}

static void any_words_in_any_order_disturb_nobody(void **state)
{
    struct kit *k = *state;
    struct putter crowd[CROWD] = {{0}};
    struct prng draw;

    prng_init(&draw, 7);
    for (int i = 0; i < (unit_full() ? 6000 : 1500); i++) {
        struct putter *p = &crowd[prng_below(&draw, CROWD)];

        if (p->cl == NULL) {
            putter_open(p, k, &state_kit, "a", 1);
        }
        say_any(p, &draw);
        if (p->cl != NULL && prng_below(&draw, 6) == 0) {
            hear_any(p);
        }
        if (p->cl != NULL && prng_below(&draw, 200) == 0) {
            putter_close(p);
        }
    }
    for (int i = 0; i < CROWD; i++) {
        putter_close(&crowd[i]);
    }
}

/* ---- main ---- */

static int setup(void **state)
{
    ckpt_kit_open(&state_kit, true);
    kit_setup_running(state);
    putter_open(&other, *state, &state_kit, KIT_JOB, 3);
    putter_begin(&other);
    putter_put(&other, 0, 2);
    return 0;
}

static int teardown(void **state)
{
    putter_put(&other, 2, ckpt_chunks(state_kit.bytes));
    assert_int_equal(putter_commit(&other, 0), MU_OK);
    putter_kit_has(*state, &state_kit, 3);
    putter_close(&other);
    ckpt_kit_close(&state_kit);
    return kit_teardown(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(pieces_out_of_order_cost_the_connection),
        CASE(pieces_that_are_too_long_cost_the_connection),
        CASE(too_much_at_once_costs_the_connection),
        CASE(what_was_not_begun_is_answered),
        CASE(damaged_chunks_and_wrong_manifests_are_answered),
        CASE(names_that_lead_elsewhere_are_refused),
        CASE(one_who_does_not_read_is_not_given_more),
        CASE(any_words_in_any_order_disturb_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
