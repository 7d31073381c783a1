/* Checkpoints that the orchestrator keeps: put, read, broken off, taken over, said wrong. */
#include "unit/orchestrator/putter_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL 4 /* chunks of the state */

static struct ckpt_kit state_kit;

/* ---- put, list, read ---- */

static void what_was_put_is_listed_and_read_as_it_was(void **state)
{
    struct kit *k = *state;
    struct putter p;
    uint8_t *data;
    char *text;
    size_t n, text_n;

    assert_int_equal(ckpt_chunks(state_kit.bytes), ALL);
    putter_open(&p, k, &state_kit, KIT_JOB, 20);
    assert_string_equal(putter_list(&p), "");
    assert_null(putter_read(&p, DEPOT_MANIFEST, &n));
    putter_whole(&p, 0);
    assert_string_equal(putter_list(&p), "20");
    putter_kit_has(k, &state_kit, 20);
    data = putter_read(&p, 0, &n);
    assert_int_equal(n, state_kit.bytes);
    assert_memory_equal(data, state_kit.state, n);
    free(data);
    data = putter_read(&p, DEPOT_MANIFEST, &n);
    ckpt_kit_manifest(&state_kit, 20, &text, &text_n);
    assert_int_equal(n, text_n);
    assert_memory_equal(data, text, n);
    free(data);
    free(text);
    assert_null(putter_read(&p, 1, &n));
    assert_true(kit_logged(k, "job 'mnist': checkpoint of step 20 taken in"));
    putter_close(&p);
}

static void several_questions_are_answered_in_their_order(void **state)
{
    struct putter p;
    uint64_t requests[8];
    struct msg_depot m;

    putter_open(&p, *state, &state_kit, KIT_JOB, 20);
    putter_whole(&p, 0);
    m = putter_msg(&p, DEPOT_READ);
    m.total = DEPOT_DATA_MAX;
    for (uint64_t i = 0; i < 8; i++) {
        m.at = (7 - i) * DEPOT_DATA_MAX;
        requests[i] = putter_say(&p, &m);
    }
    for (uint64_t i = 0; i < 8; i++) {
        const struct msg_depot_says says = putter_hear(&p, requests[i]);

        assert_int_equal(says.at, (7 - i) * DEPOT_DATA_MAX);
        assert_int_equal(says.data_n, DEPOT_DATA_MAX);
        assert_memory_equal(says.data, state_kit.state + says.at, says.data_n);
    }
    m.at = state_kit.bytes - 3;
    assert_int_equal(putter_ask(&p, &m).data_n, 3);
    m.at = UINT64_MAX;
    assert_int_equal(putter_ask(&p, &m).data_n, 0);
    putter_close(&p);
}

static void jobs_are_listed_after_a_name(void **state)
{
    static const char names[] = "a\0b\0c";
    struct putter p[3];
    struct msg_depot m = {.op = DEPOT_LIST};
    struct msg_depot_says says;

    for (int i = 0; i < 3; i++) {
        putter_open(&p[i], *state, &state_kit, names + 2 * i, 5);
        putter_whole(&p[i], 0);
    }
    says = putter_ask(&p[0], &m);
    assert_int_equal(says.data_n, sizeof(names));
    assert_memory_equal(says.data, names, sizeof(names));
    m.data = (uint8_t *)(uintptr_t) "b";
    m.data_n = 1;
    says = putter_ask(&p[0], &m);
    assert_int_equal(says.data_n, 2);
    assert_memory_equal(says.data, "c", 2);
    for (int i = 0; i < 3; i++) {
        putter_close(&p[i]);
    }
}

static void lists_go_on_below_a_step(void **state)
{
    struct putter p;
    struct msg_depot m;

    putter_open(&p, *state, &state_kit, KIT_JOB, 0);
    for (p.step = 10; p.step <= 30; p.step += 10) {
        putter_whole(&p, 0);
    }
    assert_string_equal(putter_list(&p), "30 20 10");
    m = putter_msg(&p, DEPOT_LIST);
    m.at = 30;
    assert_int_equal(putter_ask(&p, &m).data_n, 32);
    m.at = 10;
    assert_int_equal(putter_ask(&p, &m).data_n, 0);
    m = putter_msg(&p, DEPOT_REMOVE);
    m.step = 20;
    assert_int_equal(putter_ask(&p, &m).status, MU_OK);
    assert_string_equal(putter_list(&p), "30 10");
    assert_int_equal(putter_ask(&p, &m).status, MU_ENOENT);
    putter_close(&p);
}

static void two_jobs_come_in_side_by_side(void **state)
{
    struct kit *k = *state;
    struct putter a, b;

    putter_open(&a, k, &state_kit, "a", 7);
    putter_open(&b, k, &state_kit, "b", 9);
    putter_begin(&a);
    putter_begin(&b);
    for (uint32_t i = 0; i < ALL; i++) {
        putter_put(&a, i, i + 1);
        putter_put(&b, i, i + 1);
    }
    assert_int_equal(putter_commit(&a, 0), MU_OK);
    assert_int_equal(putter_commit(&b, 0), MU_OK);
    assert_string_equal(putter_list(&a), "7");
    assert_string_equal(putter_list(&b), "9");
    putter_close(&a);
    putter_close(&b);
}

/* ---- broken off ---- */

static void a_broken_put_goes_on_where_it_was(void **state)
{
    struct kit *k = *state;
    struct putter p;

    putter_open(&p, k, &state_kit, KIT_JOB, 20);
    assert_int_equal(putter_begin(&p), 0);
    putter_put(&p, 0, 3);
    putter_say_chunk(&p, 3); /* It may have come, or not. */
    putter_close(&p);
    putter_open(&p, k, &state_kit, KIT_JOB, 20);
    assert_in_range(putter_begin(&p), 3, 4);
    putter_whole(&p, 0);
    putter_kit_has(k, &state_kit, 20);
    putter_close(&p);
}

static void a_put_goes_on_with_the_next_orchestrator(void **state)
{
    struct kit *k = *state;
    struct putter p;

    for (int i = 0; i < 2; i++) {
        putter_open(&p, k, &state_kit, KIT_JOB, 20 + (uint64_t)i);
        assert_int_equal(putter_begin(&p), 0);
        putter_put(&p, 0, 2);
        if (i == 0) {
            kit_stop(k);
        } else {
            kit_kill(k);
        }
        putter_close(&p);
        kit_start(k);
        putter_open(&p, k, &state_kit, KIT_JOB, 20 + (uint64_t)i);
        assert_int_equal(putter_begin(&p), 2);
        putter_put(&p, 2, ALL);
        assert_int_equal(putter_commit(&p, 0), MU_OK);
        putter_close(&p);
        putter_kit_has(k, &state_kit, 20 + (uint64_t)i);
    }
}

static void what_is_on_its_way_when_all_is_closed_does_no_harm(void **state)
{
    struct kit *k = *state;

    for (uint32_t i = 0; i < 6; i++) {
        struct putter p, q;

        putter_open(&p, k, &state_kit, "p", i + 1);
        putter_open(&q, k, &state_kit, "q", i + 1);
        putter_whole(&q, 1);
        putter_begin(&p);
        putter_say_chunk(&p, 0);
        if (i % 3 != 0) {
            putter_say_chunk(&p, 1);
        }
        for (uint32_t r = 0; r < 8; r++) {
            struct msg_depot m = putter_msg(&q, DEPOT_READ);

            m.total = DEPOT_DATA_MAX;
            putter_say(&q, &m);
        }
        if (i % 2 == 0) { /* The others go first. */
            putter_close(&p);
            putter_close(&q);
        }
        usleep(i * 700);
        kit_stop(k); /* Everything must have been freed. */
        putter_close(&p);
        putter_close(&q);
        kit_start(k);
    }
}

/* ---- taken over ---- */

static void whoever_begins_takes_over(void **state)
{
    struct kit *k = *state;
    struct msg_depot_says says;
    struct putter a, b;

    putter_open(&a, k, &state_kit, KIT_JOB, 20);
    putter_begin(&a);
    putter_put(&a, 0, 2);
    putter_open(&b, k, &state_kit, KIT_JOB, 20);
    assert_int_equal(putter_begin(&b), 2);
    says = putter_hear(&a, putter_say_chunk(&a, 2));
    assert_int_equal(says.status, MU_ESTALE);
    assert_int_equal(says.item, 2);
    assert_int_equal(putter_commit(&a, 0), MU_ESTALE);
    putter_put(&b, 2, ALL);
    assert_int_equal(putter_commit(&b, 0), MU_OK);
    putter_close(&b);
    putter_kit_has(k, &state_kit, 20);
    a.step = 30; /* Its connection is as good as ever. */
    putter_whole(&a, 1);
    assert_string_equal(putter_list(&a), "30");
    putter_close(&a);
}

static void one_who_is_late_in_a_chunk_is_answered_in_order(void **state)
{
    struct kit *k = *state;
    struct msg_depot m;
    struct putter a, b;
    uint64_t first;

    putter_open(&a, k, &state_kit, KIT_JOB, 20);
    putter_begin(&a);
    putter_open(&b, k, &state_kit, KIT_JOB, 20);
    first = putter_say_chunk(&a, 0);
    m = putter_msg(&a, DEPOT_PUT);
    m.item = 1;
    m.total = CKPT_CHUNK;
    m.data = state_kit.state;
    m.data_n = 1000;
    a.request++;
    kit_say(a.cl, WIRE_DEPOT, &m, a.request);
    putter_hear(&a, first);
    putter_begin(&b);
    m.at = 1000;
    m.data_n = (uint32_t)MIN(CKPT_CHUNK - 1000, DEPOT_DATA_MAX);
    kit_say(a.cl, WIRE_DEPOT, &m, a.request); /* Nobody waits for this one, … */
    m.at = CKPT_CHUNK - 1000;
    m.data_n = 1000;
    kit_say(a.cl, WIRE_DEPOT, &m, a.request); /* … and this is the last. */
    assert_int_equal(putter_hear(&a, a.request).status, MU_ESTALE);
    putter_close(&a);
    putter_close(&b);
}

/* ---- limits ---- */

static void there_are_so_many_uploads_and_no_more(void **state)
{
    struct kit *k = *state;
    struct putter p[17];
    struct msg_depot m;
    struct msg_depot_says says;

    for (uint32_t i = 0; i < 16; i++) {
        char job[16];

        snprintf(job, sizeof(job), "job%u", (unsigned)i);
        putter_open(&p[i], k, &state_kit, job, 1);
        putter_begin(&p[i]);
    }
    putter_open(&p[16], k, &state_kit, "another", 1);
    m = putter_msg(&p[16], DEPOT_BEGIN);
    m.total = state_kit.bytes;
    says = putter_ask(&p[16], &m);
    assert_int_equal(says.status, MU_EAGAIN);
    assert_non_null(strstr(says.text, "try again"));
    putter_begin(&p[3]); /* One that is among them may begin anew. */
    putter_close(&p[0]);
    do {
        usleep(10000);
        says = putter_ask(&p[16], &m);
    } while (says.status == MU_EAGAIN);
    assert_int_equal(says.status, MU_OK);
    for (uint32_t i = 1; i < 17; i++) {
        putter_close(&p[i]);
    }
}

static void leases_are_renewed_while_a_lot_comes_in(void **state)
{
    struct kit *k = *state;
    struct puppet a;
    pid_t pid;
    int status, n = 0;

    kit_start(k);
    puppet_alone(&a, k, "job", "a");
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct putter p;

        alarm(100);
        putter_open(&p, k, &state_kit, KIT_JOB, 1);
        for (p.step = 1; p.step <= 6; p.step++) {
            putter_whole(&p, 1);
        }
        _exit(0);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        puppet_renew(&a);
        n++;
        usleep(20000);
    }
    assert_int_equal(status, 0);
    assert_true(n > 2);
    puppet_renew(&a); /* It would be refused, had its lease ended. */
    assert_int_equal(a.refused.status, 0);
    puppet_close(&a);
}

/* ---- main ---- */

static int setup(void **state)
{
    ckpt_kit_open(&state_kit, true);
    return kit_setup_running(state);
}

static int setup_idle(void **state)
{
    ckpt_kit_open(&state_kit, true);
    return kit_setup(state);
}

static int teardown(void **state)
{
    ckpt_kit_close(&state_kit);
    return kit_teardown(state);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(what_was_put_is_listed_and_read_as_it_was),
        CASE(several_questions_are_answered_in_their_order),
        CASE(jobs_are_listed_after_a_name),
        CASE(lists_go_on_below_a_step),
        CASE(two_jobs_come_in_side_by_side),
        CASE(a_broken_put_goes_on_where_it_was),
        CASE(a_put_goes_on_with_the_next_orchestrator),
        CASE(what_is_on_its_way_when_all_is_closed_does_no_harm),
        CASE(whoever_begins_takes_over),
        CASE(one_who_is_late_in_a_chunk_is_answered_in_order),
        CASE(there_are_so_many_uploads_and_no_more),
        cmocka_unit_test_setup_teardown(leases_are_renewed_while_a_lot_comes_in, setup_idle,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
