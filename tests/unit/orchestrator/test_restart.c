/* kill -9 of the orchestrator at any moment: whatever it has acknowledged is there when it is back.
 */
#include "base/prng.h"
#include "unit/orchestrator/orchestrator_kit.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void members_and_generation_survive(void **state)
{
    struct kit *k = *state;
    struct puppet p[2];
    uint8_t key[KEY_BYTES];

    puppet_pair(&p[0], &p[1], k, 2);
    for (int i = 0; i < 2; i++) {
        puppet_report(&p[i], PHASE_IN, p[i].hello.held);
    }
    puppet_active(&p[0], p[0].hello.held);
    memcpy(key, p[0].key, sizeof(key));
    kit_kill(k);
    kit_start(k);
    for (int i = 0; i < 2; i++) {
        uint32_t node = p[i].hello.node;
        struct puppet again = p[i];

        puppet_close(&p[i]);
        again.cl = NULL;
        again.hello.held = again.hello.active = 0; /* as if it had never heard of it */
        again.hello.reports_n = 1;
        again.hello.reports = &again.report;
        assert_int_equal(puppet_join(&again, k), node);
        puppet_holds(&again, p[0].hello.held);
        puppet_active(&again, p[0].hello.held);
        assert_int_equal(again.hello.held, p[0].hello.held);
        assert_int_equal(again.members_n, 2);
        assert_memory_equal(again.key, key, sizeof(key));
        puppet_close(&again);
    }
}

/* It must not go on as if it were the only one. */
static void one_whose_store_somebody_else_writes_ends(void **state)
{
    struct kit *k = *state;
    struct puppet a;
    int status;

    kit_stop(k);
    k->fenced = true;
    kit_start(k);
    puppet_init(&a, "job", "a", 1, 1);
    puppet_connect(&a, k);
    kit_say(a.cl, WIRE_HELLO, &a.hello, 0);
    kit_closes(a.cl);
    assert_int_equal(waitpid(k->pid, &status, 0), k->pid);
    k->pid = -1;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
    assert_true(kit_logged(k, "another process writes this store now"));
    assert_true(kit_logged(k, "this orchestrator ends"));
    puppet_close(&a);
}

static void nobody_is_lost_during_the_grace(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    kit_stop(k);
    k->cluster.lease_ms = 4000;
    k->cluster.reconnect_ms = 20;
    kit_start(k);
    puppet_alone(&a, k, "job", "a");
    kit_kill(k);
    usleep(50000);
    kit_start(k);
    usleep(200000); /* ten times reconnect_ms */
    puppet_close(&a);
    a.hello.reports_n = 1;
    a.hello.reports = &a.report;
    puppet_join(&a, k);
    puppet_renew(&a);
    assert_int_equal(a.ack.generation, a.hello.held);
    puppet_close(&a);
}

/* ---- at random moments ---- */

#define CLIENTS_N 4
#define EACH_MAX 40 /* nodes by one client in one life */
#define LIVES_MAX 100
#define NAMES_MAX (CLIENTS_N * EACH_MAX * LIVES_MAX)

struct crowd {
    const struct kit *k;
    pthread_mutex_t lock;
    uint32_t acked_n;
    struct {
        char name[NAME_MAX_LEN];
        uint32_t node;
    } acked[NAMES_MAX];
    uint32_t round;
};

struct registrar {
    struct crowd *crowd;
    uint32_t index;
};

static void acknowledged(struct crowd *c, const char *name, uint32_t node)
{
    pthread_mutex_lock(&c->lock);
    mu_assert(c->acked_n < NAMES_MAX);
    strcpy(c->acked[c->acked_n].name, name);
    c->acked[c->acked_n++].node = node;
    pthread_mutex_unlock(&c->lock);
}

/* Registers nodes, one after the other, until nobody answers (or that is many). */
static void *register_nodes(void *arg)
{
    struct registrar *r = arg;
    const struct kit *k = r->crowd->k;
    struct endpoints to = {.n = 1, .at = {{.host = "127.0.0.1", .port = k->port}}};
    char error[NET_ERROR_MAX];

    for (uint32_t i = 0; i < EACH_MAX; i++) {
        const union wire_any *msg;
        struct wire_header h;
        struct client *cl;
        struct puppet p;
        char name[NAME_MAX_LEN];
        int rc = client_open(&to, &k->token, KIT_WAIT_MS, &cl, error);

        if (rc != MU_OK) {
            return NULL;
        }
        snprintf(name, sizeof(name), "r%u-c%u-%u", r->crowd->round, r->index, i);
        puppet_init(&p, "job", name, 1, 4);
        rc = client_say(cl, WIRE_HELLO, &p.hello, 0, error);
        while (rc == MU_OK) {
            rc = client_next(cl, KIT_WAIT_MS, &h, &msg, error);
            if (rc == MU_OK && h.type == WIRE_WELCOME) {
                acknowledged(r->crowd, name, msg->welcome.node);
                break;
            }
        }
        client_close(cl);
        if (rc != MU_OK) {
            return NULL;
        }
    }
    return NULL;
}

static void all_acknowledged_are_there(struct crowd *c)
{
    json_t *json = kit_status(c->k, "job");
    json_t *waiting = json_object_get(json, "waiting");
    json_t *names = json_object();

    for (size_t i = 0; i < json_array_size(waiting); i++) {
        json_t *name = json_object_get(json_array_get(waiting, i), "node");

        assert_int_equal(json_object_set_new(names, json_string_value(name), json_true()), 0);
    }
    for (uint32_t i = 0; i < c->acked_n; i++) {
        if (json_object_get(names, c->acked[i].name) == NULL) {
            fail_msg("node '%s' was welcomed as n%u and is not there after the restart",
                     c->acked[i].name, c->acked[i].node);
        }
    }
    json_decref(names);
    json_decref(json);
}

static void no_number_was_given_twice(const struct crowd *c)
{
    for (uint32_t i = 0; i < c->acked_n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            assert_int_not_equal(c->acked[i].node, c->acked[j].node);
        }
    }
}

static void no_acknowledged_change_is_lost_at_random_moments(void **state)
{
    struct kit *k = *state;
    struct crowd *crowd = calloc(1, sizeof(*crowd));
    uint32_t rounds_n = getenv("MUSTER_TEST_FULL") != NULL ? LIVES_MAX : 12;
    struct prng prng;

    prng_init(&prng, 20260101);
    kit_stop(k);
    k->cluster.nodes_max = k->cluster.workers_max = NAMES_MAX * 2;
    kit_start(k);
    crowd->k = k;
    pthread_mutex_init(&crowd->lock, NULL);
    for (crowd->round = 0; crowd->round < rounds_n; crowd->round++) {
        struct registrar r[CLIENTS_N];
        pthread_t thread[CLIENTS_N];

        for (uint32_t i = 0; i < CLIENTS_N; i++) {
            r[i] = (struct registrar){crowd, i};
            assert_int_equal(pthread_create(&thread[i], NULL, register_nodes, &r[i]), 0);
        }
        usleep((useconds_t)(5000 + prng_u64(&prng) % 150000));
        kit_kill(k);
        for (uint32_t i = 0; i < CLIENTS_N; i++) {
            pthread_join(thread[i], NULL);
        }
        kit_start(k);
        if (crowd->acked_n > 0) { /* or it was killed before it had said anything */
            all_acknowledged_are_there(crowd);
        }
    }
    no_number_was_given_twice(crowd);
    assert_true(crowd->acked_n > 0);
    print_message("# %u nodes were acknowledged in %u lives\n", crowd->acked_n, rounds_n);
    pthread_mutex_destroy(&crowd->lock);
    free(crowd);
}

static void an_orderly_stop_loses_nothing_either(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet a;
    json_t *json;

    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "job", "a", text), MU_OK);
    kit_stop(k);
    kit_start(k);
    json = kit_status(k, "job");
    assert_string_equal(json_string_value(json_object_get(
                            json_array_get(json_object_get(json, "waiting"), 0), "state")),
                        "leaving");
    json_decref(json);
    puppet_close(&a);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, kit_setup_running, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(members_and_generation_survive),
        CASE(one_whose_store_somebody_else_writes_ends),
        CASE(nobody_is_lost_during_the_grace),
        CASE(no_acknowledged_change_is_lost_at_random_moments),
        CASE(an_orderly_stop_loses_nothing_either),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
