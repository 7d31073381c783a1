/* What people ask: admin verbs, status, events. */
#include "unit/orchestrator/orchestrator_kit.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>

static const char *text_of(json_t *json, const char *key)
{
    const char *text = json_string_value(json_object_get(json, key));

    assert_non_null(text);
    return text;
}

/* ---- admin ---- */

static void a_drained_node_is_told_and_shown_as_leaving(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet a, b;
    json_t *json;

    puppet_init(&a, "job", "a", 1, 2);
    puppet_init(&b, "job", "b", 1, 2);
    puppet_join(&a, k);
    puppet_join(&b, k);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "job", "a", text), MU_OK);
    do {
        puppet_next(&a, WIRE_ACK);
    } while ((a.ack.flags & NODE_DRAINING) == 0);
    json = kit_status(k, "job");
    assert_string_equal(text_of(json_array_get(json_object_get(json, "waiting"), 0), "state"),
                        "leaving");
    json_decref(json);
    puppet_close(&a);
    puppet_close(&b);
}

static void what_can_not_be_drained_is_explained(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet a;

    assert_int_equal(kit_admin(k, ASK_DRAIN, "nojob", "a", text), MU_ENOENT);
    assert_non_null(strstr(text, "no job 'nojob'"));
    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "job", "zz", text), MU_ENOENT);
    assert_non_null(strstr(text, "no node 'zz'"));
    puppet_close(&a);
}

static void a_node_is_found_without_its_job_if_one_has_it(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet p[3];

    puppet_init(&p[0], "one", "a", 1, 1);
    puppet_init(&p[1], "one", "b", 1, 1);
    puppet_init(&p[2], "two", "b", 1, 1);
    for (int i = 0; i < 3; i++) {
        puppet_join(&p[i], k);
    }
    assert_int_equal(kit_admin(k, ASK_DRAIN, "", "a", text), MU_OK);
    assert_int_equal(kit_admin(k, ASK_DRAIN, "", "b", text), MU_ECONFLICT);
    assert_non_null(strstr(text, "--job"));
    assert_int_equal(kit_admin(k, ASK_DRAIN, "", "c", text), MU_ENOENT);
    for (int i = 0; i < 3; i++) {
        puppet_close(&p[i]);
    }
}

static void a_shutdown_ends_the_job_once(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet a;
    json_t *json;

    puppet_alone(&a, k, "job", "a");
    assert_int_equal(kit_admin(k, ASK_SHUTDOWN, "job", "", text), MU_OK);
    puppet_next(&a, WIRE_ENDED);
    assert_int_equal(a.ended.run, 1);
    assert_int_equal(kit_admin(k, ASK_SHUTDOWN, "job", "", text), MU_EDONE);
    assert_non_null(strstr(text, "ended already"));
    json = kit_status(k, "job");
    assert_string_not_equal(text_of(json, "state"), "running");
    json_decref(json);
    puppet_close(&a);
}

static void nothing_is_taken_over_from_the_living(void **state)
{
    struct kit *k = *state;
    char text[TEXT_MAX_LEN];
    struct puppet a;

    puppet_alone(&a, k, "job", "a");
    assert_int_equal(kit_admin(k, ASK_TAKEOVER, "job", "", text), MU_EBUSY);
    assert_non_null(strstr(text, "living members"));
    puppet_renew(&a);
    puppet_close(&a);
}

/* ---- status ---- */

static void status_of_a_job_names_members_by_rank(void **state)
{
    struct kit *k = *state;
    struct puppet a, b, spare;
    json_t *json, *members, *waiting;
    char worker[32];

    puppet_init(&a, "job", "a", 2, 2);
    puppet_init(&b, "job", "b", 2, 2);
    puppet_init(&spare, "job", "spare", 2, 2);
    puppet_join(&a, k);
    json = kit_status(k, "job");
    assert_string_equal(text_of(json, "state"), "forming");
    assert_int_not_equal(strlen(text_of(json, "why")), 0);
    json_decref(json);
    puppet_join(&b, k);
    puppet_report(&a, PHASE_WARM, 0);
    puppet_report(&b, PHASE_WARM, 0);
    puppet_holds(&a, 1);
    puppet_join(&spare, k);
    puppet_report(&spare, PHASE_WARMING, 0);
    json = kit_status(k, "job");
    assert_string_equal(text_of(json, "state"), "running");
    assert_string_equal(text_of(json, "job"), "job");
    assert_string_equal(text_of(json, "mode"), "inprocess");
    assert_int_equal(json_integer_value(json_object_get(json, "generation")), a.hello.held);
    assert_int_equal(json_integer_value(json_object_get(json, "run")), 1);
    members = json_object_get(json, "members");
    assert_int_equal(json_array_size(members), 2);
    for (uint32_t i = 0; i < 2; i++) {
        json_t *m = json_array_get(members, i);

        snprintf(worker, sizeof(worker), "n%u.0#1", wid_node(a.members[i]));
        assert_int_equal(json_integer_value(json_object_get(m, "rank")), i);
        assert_string_equal(text_of(m, "worker"), worker);
        assert_string_equal(text_of(m, "state"), "member");
        assert_string_equal(text_of(m, "role"), "worker");
        assert_string_equal(text_of(m, "node"), i == 0 ? "a" : "b");
        assert_string_equal(text_of(m, "address"), "127.0.0.1");
    }
    waiting = json_object_get(json, "waiting");
    assert_int_equal(json_array_size(waiting), 1);
    assert_string_equal(text_of(json_array_get(waiting, 0), "node"), "spare");
    assert_string_equal(text_of(json_array_get(waiting, 0), "state"), "warming");
    json_decref(json);
    puppet_close(&a);
    puppet_close(&b);
    puppet_close(&spare);
}

static void status_of_all_has_the_orchestrator_itself(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;
    json_t *json, *self;

    puppet_init(&a, "one", "a", 1, 1);
    puppet_init(&b, "two", "b", 1, 1);
    puppet_join(&a, k);
    puppet_join(&b, k);
    json = kit_status(k, "");
    assert_int_equal(json_array_size(json_object_get(json, "jobs")), 2);
    self = json_object_get(json, "orchestrator");
    assert_string_equal(text_of(self, "version"), MUSTER_VERSION);
    assert_int_equal(strlen(text_of(self, "store")), 32);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(self, "connections"), "opened")), 3);
    assert_true(json_integer_value(json_object_get(json_object_get(self, "journal"), "record")) >=
                4);
    assert_true(json_is_true(json_object_get(json_object_get(self, "journal"), "writable")));
    json_decref(json);
    puppet_close(&a);
    puppet_close(&b);
}

static void status_of_no_job_is_an_answer_too(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_STATUS, .job = "nojob"};
    struct msg_says m;

    kit_ask(cl, &ask, 5);
    kit_answer(cl, 5, &m);
    assert_int_equal(m.status, MU_ENOENT);
    assert_non_null(strstr(m.text, "no job 'nojob'"));
    client_close(cl);
}

/* ---- events ---- */

/* Reads events until the end of the answer; the number of the last. */
static uint64_t read_events(struct client *cl, uint32_t *n_out, uint32_t kinds[NOTE_N])
{
    struct metric room[METRICS_MAX];
    uint64_t last = 0;

    memset(kinds, 0, NOTE_N * sizeof(kinds[0]));
    for (*n_out = 0;;) {
        struct wire_scratch scratch = {.mem = (uint8_t *)room, .cap = sizeof(room)};
        const struct msg_says m = kit_next(cl, WIRE_SAYS)->says;
        union wire_any body;

        if (!m.more) {
            return last;
        }
        if (m.body_n > 0) {
            assert_int_equal(
                wire_body_decode(WIRE_BODY_EVENT, m.body, m.body_n, &body, &scratch, NULL), MU_OK);
            assert_true(body.event.number > last && m.at == body.event.number);
            assert_true(body.event.time_ms > 1500000000000);
            last = body.event.number;
            kinds[body.event.kind]++;
            (*n_out)++;
        }
    }
}

static void events_so_far_come_in_order_and_end(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_EVENTS};
    uint32_t kinds[NOTE_N], n;
    struct puppet a;
    uint64_t last;

    puppet_alone(&a, k, "job", "a");
    kit_ask(cl, &ask, 1);
    last = read_events(cl, &n, kinds);
    assert_int_equal(last, n);
    assert_int_equal(kinds[NOTE_RESTARTED], 1);
    assert_int_equal(kinds[NOTE_JOINED], 1);
    assert_int_equal(kinds[NOTE_GENERATION], 1);
    assert_int_equal(kinds[NOTE_ACTIVE], 1);
    ask.at = last - 1;
    kit_ask(cl, &ask, 2);
    assert_int_equal(read_events(cl, &n, kinds), last);
    assert_int_equal(n, 1);
    client_close(cl);
    puppet_close(&a);
}

static void events_of_one_job_leave_out_the_others(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_EVENTS, .job = "one"};
    uint32_t kinds[NOTE_N], n;
    struct puppet a, b;

    puppet_init(&a, "one", "a", 1, 1);
    puppet_init(&b, "two", "b", 1, 1);
    puppet_join(&a, k);
    puppet_join(&b, k);
    kit_ask(cl, &ask, 1);
    read_events(cl, &n, kinds);
    assert_int_equal(kinds[NOTE_JOINED], 1);
    client_close(cl);
    puppet_close(&a);
    puppet_close(&b);
}

static void who_follows_is_told_what_happens(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_FOLLOW};
    struct msg_event e;
    struct msg_says m;
    struct puppet a;

    kit_ask(cl, &ask, 9);
    kit_answer(cl, 9, &m);
    assert_int_equal(m.status, MU_OK);
    assert_true(m.more);
    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    do {
        e = kit_event(cl);
    } while (e.kind != NOTE_JOINED);
    assert_string_equal(e.job, "job");
    assert_string_equal(e.node, "a");
    assert_int_equal(e.value, a.hello.node);
    client_close(cl);
    puppet_close(&a);
}

/* There is room for 256 at a time. */
static void a_follower_that_left_is_no_follower(void **state)
{
    struct kit *k = *state;
    struct msg_ask ask = {.kind = ASK_FOLLOW};
    struct msg_says m;
    struct puppet a;

    for (uint64_t i = 0; i < 300; i++) {
        struct client *cl = kit_connect(k);

        kit_ask(cl, &ask, i);
        kit_answer(cl, i, &m);
        assert_int_equal(m.status, MU_OK);
        client_close(cl);
    }
    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    puppet_close(&a);
}

static void there_is_room_for_so_many_followers(void **state)
{
    struct kit *k = *state;
    struct msg_ask ask = {.kind = ASK_FOLLOW};
    struct client *cl[257];
    struct msg_says m;

    for (uint64_t i = 0; i < ARRAY_LEN(cl); i++) {
        cl[i] = kit_connect(k);
        kit_ask(cl[i], &ask, i);
        kit_answer(cl[i], i, &m);
        assert_int_equal(m.status, i < 256 ? MU_OK : MU_ELIMIT);
    }
    assert_non_null(strstr(m.text, "--follow"));
    for (size_t i = 0; i < ARRAY_LEN(cl); i++) {
        client_close(cl[i]);
    }
}

static void a_number_from_before_a_restart_is_told(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_EVENTS, .at = 100000};
    uint32_t kinds[NOTE_N], n;
    struct msg_says m;

    kit_ask(cl, &ask, 1);
    kit_answer(cl, 1, &m);
    assert_non_null(strstr(m.text, "restarted"));
    read_events(cl, &n, kinds);
    assert_int_equal(kinds[NOTE_RESTARTED], 1);
    client_close(cl);
}

/* Each makes a record and an event. */
static void drain_often(struct client *cl, uint32_t times)
{
    struct msg_ask drain = {.kind = ASK_DRAIN, .job = "job", .topic = "a"};
    struct msg_says m;

    for (uint64_t done = 0; done < times; done += 500) {
        for (uint64_t i = 0; i < 500; i++) {
            kit_ask(cl, &drain, done + i);
        }
        for (uint64_t i = 0; i < 500; i++) {
            kit_answer(cl, done + i, &m);
            assert_int_equal(m.status, MU_OK);
        }
    }
}

/* More than are kept, and a journal that needs a snapshot. */
static void old_events_are_forgotten_and_that_is_told(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_EVENTS, .at = 1};
    uint32_t kinds[NOTE_N], n;
    struct msg_says m;
    struct puppet a;
    json_t *json, *journal;

    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    drain_often(cl, 6000);
    kit_ask(cl, &ask, 1);
    kit_answer(cl, 1, &m);
    assert_non_null(strstr(m.text, "no longer kept"));
    read_events(cl, &n, kinds);
    assert_int_equal(n, 4096);
    json = kit_status(k, "");
    journal = json_object_get(json_object_get(json, "orchestrator"), "journal");
    assert_true(json_integer_value(json_object_get(journal, "snapshot")) > 4096);
    json_decref(json);
    client_close(cl);
    puppet_close(&a);
    kit_kill(k);
    kit_start(k);
    json = kit_status(k, "job");
    assert_string_equal(text_of(json_array_get(json_object_get(json, "waiting"), 0), "node"), "a");
    json_decref(json);
}

/* Asks for much and reads nothing of it. */
static void who_does_not_read_is_closed_and_nobody_else(void **state)
{
    struct kit *k = *state;
    struct client *cl = kit_connect(k), *deaf = kit_connect(k);
    struct msg_ask ask = {.kind = ASK_EVENTS};
    char error[NET_ERROR_MAX];
    struct puppet a;
    json_t *json;
    int rc = MU_OK;

    puppet_init(&a, "job", "a", 1, 1);
    puppet_join(&a, k);
    drain_often(cl, 4000);
    for (uint64_t i = 0; i < 1000 && rc == MU_OK; i++) {
        rc = client_say(deaf, WIRE_ASK, &ask, 0, error);
    }
    kit_closes(deaf);
    client_close(deaf);
    puppet_renew(&a);
    json = kit_status(k, "");
    assert_int_equal(
        json_integer_value(json_object_get(
            json_object_get(json_object_get(json, "orchestrator"), "connections"), "unread")),
        1);
    json_decref(json);
    client_close(cl);
    puppet_close(&a);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, kit_setup_running, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_drained_node_is_told_and_shown_as_leaving),
        CASE(what_can_not_be_drained_is_explained),
        CASE(a_node_is_found_without_its_job_if_one_has_it),
        CASE(a_shutdown_ends_the_job_once),
        CASE(nothing_is_taken_over_from_the_living),
        CASE(status_of_a_job_names_members_by_rank),
        CASE(status_of_all_has_the_orchestrator_itself),
        CASE(status_of_no_job_is_an_answer_too),
        CASE(events_so_far_come_in_order_and_end),
        CASE(events_of_one_job_leave_out_the_others),
        CASE(who_follows_is_told_what_happens),
        CASE(a_follower_that_left_is_no_follower),
        CASE(there_is_room_for_so_many_followers),
        CASE(a_number_from_before_a_restart_is_told),
        CASE(old_events_are_forgotten_and_that_is_told),
        CASE(who_does_not_read_is_closed_and_nobody_else),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
