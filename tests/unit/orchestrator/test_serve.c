/* The orchestrator as agents see it: real processes, real TLS, a real journal. */
#include "lib/asks.h"
#include "unit/orchestrator/orchestrator_kit.h"
#include "unit/unit.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static struct asks_frame frame;

static void a_node_is_welcomed_and_enters_its_generation(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    puppet_init(&a, "job", "a", 1, 1);
    assert_int_not_equal(puppet_join(&a, k), 0);
    assert_int_not_equal(a.hello.store, 0);
    puppet_report(&a, PHASE_WARM, 0);
    puppet_holds(&a, 1);
    assert_int_equal(a.members_n, 1);
    assert_int_equal(a.members[0], wid_make(a.hello.node, 0, 1));
    assert_true(a.has_key);
    puppet_report(&a, PHASE_IN, a.hello.held);
    puppet_active(&a, a.hello.held);
    puppet_renew(&a);
    assert_int_equal(a.ack.generation, a.hello.held);
    puppet_close(&a);
}

static void who_is_no_member_gets_the_generation_without_its_key(void **state)
{
    struct kit *k = *state;
    struct puppet a, spare;

    puppet_init(&a, "job", "a", 1, 1);
    puppet_init(&spare, "job", "spare", 1, 1);
    puppet_join(&a, k);
    puppet_join(&spare, k);
    puppet_report(&a, PHASE_WARM, 0);
    puppet_holds(&a, 1);
    puppet_holds(&spare, 1);
    assert_int_equal(a.hello.held, spare.hello.held);
    assert_int_equal(spare.members_n, 1);
    assert_int_equal(spare.members[0], a.members[0]);
    assert_true(a.has_key);
    assert_false(spare.has_key);
    puppet_close(&a);
    puppet_close(&spare);
}

static void all_members_get_the_same_generation(void **state)
{
    struct kit *k = *state;
    struct puppet p[4];

    for (int i = 0; i < 4; i++) {
        puppet_init(&p[i], "job", (const char *[]){"a", "b", "c", "d"}[i], 4, 4);
        puppet_join(&p[i], k);
        puppet_report(&p[i], PHASE_WARM, 0);
    }
    for (int i = 0; i < 4; i++) {
        puppet_holds(&p[i], 1);
        assert_int_equal(p[i].members_n, 4);
        assert_memory_equal(p[i].key, p[0].key, KEY_BYTES);
        assert_memory_equal(p[i].members, p[0].members, 4 * sizeof(wid));
        puppet_report(&p[i], PHASE_IN, p[i].hello.held);
    }
    for (int i = 0; i < 4; i++) {
        puppet_active(&p[i], p[0].hello.held);
        puppet_close(&p[i]);
    }
}

static void a_closed_connection_is_a_loss_that_others_hear_of(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    kit_stop(k);
    k->cluster.reconnect_ms = 50;
    kit_start(k);
    puppet_pair(&a, &b, k, 1);
    puppet_report(&a, PHASE_IN, a.hello.held);
    puppet_report(&b, PHASE_IN, b.hello.held);
    puppet_active(&a, a.hello.held);
    puppet_close(&b);
    puppet_holds(&a, a.hello.held + 1);
    assert_int_equal(a.members_n, 1);
    assert_true(kit_logged(k, "node 'b' lost"));
    puppet_close(&a);
}

static void an_agent_of_another_store_is_refused(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    puppet_init(&a, "job", "a", 1, 1);
    a.hello.store = 12345;
    a.hello.node = 3;
    puppet_connect(&a, k);
    kit_say(a.cl, WIRE_HELLO, &a.hello, 0);
    puppet_next(&a, WIRE_REFUSED);
    assert_int_equal(a.refused.status, MU_EREFUSED);
    assert_non_null(strstr(a.refused.text, "--adopt"));
    puppet_close(&a);
}

/* It goes on for everybody else. */
static void a_hello_whose_names_are_none_is_refused(void **state)
{
    static const char *const names[][2] = {{"a b", "n"},       {"x/y", "n"}, {"\xc3\xbc", "n"},
                                           {"", "n"},          {"job", ""},  {"job", "a,b"},
                                           {"job", "\xc3\xbc"}};
    struct kit *k = *state;
    struct puppet a;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        puppet_init(&a, names[i][0], names[i][1], 1, 1);
        puppet_connect(&a, k);
        kit_say(a.cl, WIRE_HELLO, &a.hello, 0);
        puppet_next(&a, WIRE_REFUSED);
        assert_int_equal(a.refused.status, MU_EINVAL);
        puppet_close(&a);
    }
    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    puppet_close(&a);
}

static void a_renewal_without_hello_is_told_to_say_hello(void **state)
{
    struct kit *k = *state;
    struct msg_renew renew = {.seq = 1};
    struct client *cl = kit_connect(k);

    kit_say(cl, WIRE_RENEW, &renew, 0);
    assert_int_equal(kit_next(cl, WIRE_REFUSED)->refused.status, MU_ESTALE);
    client_close(cl);
}

static void a_frame_that_makes_no_sense_closes_that_connection_only(void **state)
{
    struct kit *k = *state;
    struct msg_ready ready = {.from = wid_make(1, 0, 1), .step = 1};
    struct client *cl = kit_connect(k);
    struct puppet a;

    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    kit_say(cl, WIRE_READY, &ready, 0);
    kit_closes(cl);
    client_close(cl);
    assert_true(kit_logged(k, "sent a 'ready' frame"));
    puppet_renew(&a);
    puppet_close(&a);
}

/* The cluster knows a connection by its node: a second one would be forgotten when it closes. */
static void one_connection_is_one_node(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    puppet_init(&a, "job", "a", 1, 2);
    puppet_init(&b, "job", "b", 1, 2);
    puppet_join(&a, k);
    kit_say(a.cl, WIRE_HELLO, &b.hello, 0);
    puppet_next(&a, WIRE_REFUSED);
    assert_int_equal(a.refused.status, MU_EPROTO);
    kit_closes(a.cl);
    puppet_close(&a);
    puppet_join(&b, k);
    puppet_close(&b);
}

static void a_node_that_says_bye_is_gone(void **state)
{
    struct kit *k = *state;
    struct msg_bye bye = {0};
    struct puppet a;

    puppet_init(&a, "job", "a", 1, 1);
    bye.node = puppet_join(&a, k);
    kit_say(a.cl, WIRE_BYE, &bye, 0);
    assert_true(kit_logged(k, "node 'a' is gone"));
    puppet_close(&a);
}

static void values_by_tag_reach_all_members(void **state)
{
    struct kit *k = *state;
    struct puppet p[2];
    uint8_t data[2] = {'x', 'y'};

    puppet_pair(&p[0], &p[1], k, 2);
    for (int i = 0; i < 2; i++) {
        struct msg_sync m = {.worker = wid_make(p[i].hello.node, 0, 1),
                             .request = 1,
                             .wait_ms = KIT_WAIT_MS,
                             .tag = "t",
                             .data_n = 1,
                             .data = &data[i]};

        asks_value(&frame, &m);
        kit_say(p[i].cl, WIRE_ASK, &frame.ask, 0);
    }
    for (int i = 0; i < 2; i++) {
        for (uint32_t r = 0; r < 2; r++) {
            const struct msg_synced m = asks_to_synced(&puppet_next(&p[i], WIRE_SAYS)->says);

            assert_int_equal(m.status, MU_OK);
            assert_int_equal(m.index, r);
            assert_int_equal(m.total, 2);
            assert_int_equal(m.data_n, 1);
            assert_int_equal(m.data[0], data[r]);
        }
        puppet_close(&p[i]);
    }
}

/* An agent can't speak for another's workers. */
static void a_value_for_a_worker_of_another_node_is_not_taken(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    puppet_pair(&a, &b, k, 2);
    struct msg_sync own = {.worker = wid_make(a.hello.node, 0, 1), .request = 1, .wait_ms = 300};
    struct msg_sync forged = {.worker = wid_make(b.hello.node, 0, 1), .request = 1, .wait_ms = 300};

    asks_value(&frame, &forged);
    kit_say(a.cl, WIRE_ASK, &frame.ask, 0);
    asks_value(&frame, &own);
    kit_say(a.cl, WIRE_ASK, &frame.ask, 0);
    assert_int_equal(puppet_next(&a, WIRE_SAYS)->says.status, MU_ETIMEDOUT);
    puppet_close(&a);
    puppet_close(&b);
}

/* Whether it is open still; what has come is dropped. */
static bool is_open(struct client *cl)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];
    const int rc = client_next(cl, 20, &h, &msg, error);

    return rc == MU_OK || rc == MU_ETIMEDOUT;
}

static void who_is_silent_for_several_leases_is_cut_off(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    kit_stop(k);
    k->cluster.lease_ms = 300;
    k->cluster.reconnect_ms = 300;
    kit_start(k);
    puppet_init(&a, "job", "a", 1, 2);
    puppet_init(&b, "job", "b", 1, 2);
    puppet_join(&a, k);
    puppet_join(&b, k);
    for (int i = 0; is_open(a.cl); i++) {
        assert_true(i < KIT_WAIT_MS / 20);
        puppet_renew(&b);
    }
    puppet_close(&a);
    assert_true(kit_logged(k, "it said nothing for a long time"));
    puppet_renew(&b);
    puppet_close(&b);
}

/* It stands still for longer than a lease. The answer to another's question shows that it has
 * looked at its clock since: whoever it would evict for that is evicted by then. */
static void to_be_stopped_is_no_reason_to_evict(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    kit_stop(k);
    k->cluster.lease_ms = 1200;
    k->cluster.reconnect_ms = 100;
    kit_start(k);
    puppet_alone(&a, k, "job", "a");
    assert_int_equal(kill(k->pid, SIGSTOP), 0);
    usleep(1400000);
    assert_int_equal(kill(k->pid, SIGCONT), 0);
    json_decref(kit_status(k, "job"));
    puppet_renew(&a);
    assert_int_equal(a.ack.generation, a.hello.held);
    puppet_close(&a);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, kit_setup_running, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_node_is_welcomed_and_enters_its_generation),
        CASE(who_is_no_member_gets_the_generation_without_its_key),
        CASE(all_members_get_the_same_generation),
        CASE(a_closed_connection_is_a_loss_that_others_hear_of),
        CASE(an_agent_of_another_store_is_refused),
        CASE(a_hello_whose_names_are_none_is_refused),
        CASE(a_renewal_without_hello_is_told_to_say_hello),
        CASE(a_frame_that_makes_no_sense_closes_that_connection_only),
        CASE(one_connection_is_one_node),
        CASE(a_node_that_says_bye_is_gone),
        CASE(values_by_tag_reach_all_members),
        CASE(a_value_for_a_worker_of_another_node_is_not_taken),
        CASE(who_is_silent_for_several_leases_is_cut_off),
        CASE(to_be_stopped_is_no_reason_to_evict),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
