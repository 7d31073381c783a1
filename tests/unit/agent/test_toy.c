/* A new kind of question, by one line (toy.def) and one server (toy.c): asked by a worker, this
 * program itself, through a real agent of a real orchestrator. */
#include "lib/asks.h"
#include "run/run.h"
#include "unit/agent/node_kit.h"

#include <stdio.h>
#include <string.h>

/* ---- the worker ---- */

struct toy {
    struct ask ask; /* first */
    struct body_text word;
    char got[300];
};

static const void *word_of(const struct mu_run *run, struct ask *a)
{
    return &((struct toy *)a)->word;
}

static int take(struct mu_run *run, struct ask *a, const struct msg_says *m,
                const union wire_any *body)
{
    if (body != NULL) {
        snprintf(((struct toy *)a)->got, 300, "%.*s", (int)body->text.data_n, body->text.data);
    }
    return MU_OK;
}

static void ask(mu_run *run, const char *word)
{
    struct toy t = {.ask = {.m.kind = ASK_TOY, .due_ms = UINT64_MAX, .body = word_of, .take = take},
                    .word = {.data_n = (uint32_t)strlen(word), .data = (uint8_t *)(uintptr_t)word}};
    int rc = call_enter(run);

    rc = call_exit(run, rc == MU_OK ? ask_call(run, &t.ask) : rc);
    worker_say("results", "%d %s\n", rc, rc == MU_OK ? t.got : mu_error());
}

/* What no library of ours says: bytes that are no body, and a kind that there is not. */
static void abuse(mu_run *run)
{
    uint8_t bytes[] = {0xff, 0xff, 0xff};
    struct msg_ask bad = {.kind = ASK_TOY, .body_n = 3, .body = bytes, .wait_ms = UINT32_MAX};

    for (uint64_t i = 0; i < 4; i++) {
        bad.request = 1000 + i;
        bad.worker = run->life.worker;
        bad.kind = i < 2 ? ASK_TOY : i < 3 ? ASK_SHUTDOWN : UINT16_MAX;
        pthread_mutex_lock(&run->lock);
        control_say(run, WIRE_ASK, &bad);
        pthread_mutex_unlock(&run->lock);
    }
}

static int worker_main(char *what)
{
    static char longest[300];
    mu_run *run;

    if (mu_join(NULL, &run) != MU_OK) {
        return 9;
    }
    ask(run, "muster");
    abuse(run);
    ask(run, "again");
    memset(longest, 'x', sizeof(longest) - 1);
    ask(run, longest);
    return mu_leave(run) == MU_OK ? 0 : 9;
}

/* ---- the tests ---- */

static void a_worker_asks_and_bytes_without_sense_harm_nobody(void **state)
{
    struct kit *k = *state;
    struct node_config config;
    pid_t node;

    kit_serve(k);
    config = kit_config(k, "a", kit_worker("asks"));
    config.mode = MODE_INPROCESS;
    node = kit_run(k, &config);
    assert_int_equal(kit_wait(k, node), 0);
    assert_string_equal(kit_read(k, "results"),
                        "0 retsum\n0 niaga\n-6 it is too long for a question of its kind\n");
    kit_serve_close(k);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(
        a_worker_asks_and_bytes_without_sense_harm_nobody, kit_open, kit_close)};

    kit_main(argc, argv, worker_main);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
