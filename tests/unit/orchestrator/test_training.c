/* Numbers of training: where they show, whose count, and how many events they make. */
#include "lib/asks.h"
#include "unit/unit.h"

#include "unit/orchestrator/web_kit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct metric metric(const char *name, double value)
{
    struct metric m = {0};

    strcpy(m.name, name);
    memcpy(&m.bits, &value, sizeof(m.bits));
    return m;
}

static wid self(const struct puppet *p)
{
    return wid_make(p->hello.node, 0, p->report.incarnation);
}

/* Returns when the orchestrator has taken it. */
static void say_as(struct puppet *p, wid worker, uint64_t step, double loss)
{
    struct metric items[] = {metric("loss", loss), metric("say \"hi\"", -INFINITY)};
    const struct body_metrics m = {.step = step, .metrics_n = 2, .metrics = items};
    static struct asks_frame frame;

    asks_body(&frame, ASK_METRICS, false, &m);
    frame.ask.worker = worker;
    kit_say(p->cl, WIRE_ASK, &frame.ask, 0);
    puppet_renew(p);
}

static void say(struct puppet *p, uint64_t step, double loss)
{
    say_as(p, self(p), step, loss);
}

/* The job's numbers are those after this step; 0: it has none. */
static void expect(const struct kit *k, uint64_t step, double loss)
{
    json_t *job = kit_status(k, "job");
    const json_t *metrics = json_object_get(job, "metrics");

    assert_true((metrics != NULL) == (step != 0));
    if (metrics != NULL) {
        assert_int_equal(json_integer_value(json_object_get(metrics, "step")), step);
        assert_true(json_real_value(json_object_get(metrics, "loss")) == loss);
        assert_true(json_is_null(json_object_get(metrics, "say \"hi\"")));
    }
    json_decref(job);
}

static void they_show_with_the_job_and_in_metrics(void **state)
{
    struct kit *k = *state;
    struct puppet a;
    json_t *all;

    puppet_alone(&a, k, "job", "a");
    expect(k, 0, 0);
    say(&a, 41, 0.5);
    expect(k, 41, 0.5);
    all = web_json(k, "/v1/jobs");
    assert_non_null(json_object_get(json_array_get(json_object_get(all, "jobs"), 0), "metrics"));
    json_decref(all);
    web_gives(k, HTTP_VIEWER, "GET", "/v1/jobs/job", NULL, NULL, 200,
              "\"metrics\":{\"step\":41,\"loss\":0.5,\"say \\\"hi\\\"\":null}");
    web_gives(k, HTTP_VIEWER, "GET", "/metrics", NULL, NULL, 200,
              "muster_job_metric{job=\"job\",name=\"loss\"} 0.5\n"
              "muster_job_metric{job=\"job\",name=\"say \\\"hi\\\"\"} -Inf\n");
    puppet_close(&a);
}

static void an_agent_speaks_for_its_own_workers_only(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    puppet_alone(&a, k, "job", "a");
    say_as(&a, wid_make(a.hello.node + 1, 0, 1), 7, 1);
    expect(k, 0, 0);
    puppet_close(&a);
}

/* The old rank 0's last words may be the last to come. */
static void a_lower_step_is_of_the_past(void **state)
{
    struct kit *k = *state;
    struct puppet a, b;

    puppet_pair(&a, &b, k, 1);
    say(&a, 10, 1);
    say(&b, 12, 2);
    say(&a, 11, 3);
    expect(k, 12, 2);
    puppet_close(&a);
    puppet_close(&b);
}

/* Everyone is lost, and there is no checkpoint: training begins anew. */
static void when_training_starts_over_a_lower_step_counts(void **state)
{
    struct kit *k = *state;
    struct puppet a;

    puppet_alone(&a, k, "job", "a");
    say(&a, 10, 1);
    a.report.exit_code = 137; /* With 0 it would have left. */
    puppet_report(&a, PHASE_EXITED, 1);
    a.report.incarnation++;
    puppet_report(&a, PHASE_WARM, 0);
    puppet_holds(&a, 2);
    say(&a, 1, 5);
    expect(k, 1, 5);
    puppet_close(&a);
}

static void a_new_run_begins_without_any(void **state)
{
    struct kit *k = *state;
    struct msg_bye bye = {0};
    char text[TEXT_MAX_LEN];
    struct puppet a, b;

    puppet_alone(&a, k, "job", "a");
    say(&a, 10, 1);
    assert_int_equal(kit_admin(k, ASK_SHUTDOWN, "job", "", text), MU_OK);
    bye.node = a.hello.node;
    kit_say(a.cl, WIRE_BYE, &bye, 0);
    puppet_close(&a);
    expect(k, 10, 1); /* of the run that has ended */
    for (int i = 0;; i++) {
        const union wire_any *msg;
        struct wire_header h;
        char error[NET_ERROR_MAX];

        puppet_init(&b, "job", "b", 1, 1);
        b.hello.flags = NODE_RERUN;
        puppet_connect(&b, k);
        kit_say(b.cl, WIRE_HELLO, &b.hello, 0);
        assert_int_equal(client_next(b.cl, KIT_WAIT_MS, &h, &msg, error), MU_OK);
        if (h.type == WIRE_WELCOME) {
            break;
        }
        assert_true(i < KIT_WAIT_MS / 10);
        puppet_close(&b);
        usleep(10000);
    }
    expect(k, 0, 0);
    puppet_close(&b);
}

/* ---- events ---- */

static uint32_t count_events(const struct kit *k, uint64_t *last_out)
{
    json_t *all = web_json(k, "/v1/events"), *event;
    uint32_t n = 0;
    size_t i;

    json_array_foreach(json_object_get(all, "events"), i, event)
    {
        if (strcmp(json_string_value(json_object_get(event, "event")), "metrics") == 0) {
            const json_t *metrics = json_object_get(event, "metrics");

            *last_out = (uint64_t)json_integer_value(json_object_get(event, "value"));
            assert_int_equal(json_integer_value(json_object_get(metrics, "step")), *last_out);
            assert_true(json_real_value(json_object_get(metrics, "loss")) == (double)*last_out);
            n++;
        }
    }
    json_decref(all);
    return n;
}

static void of_many_a_few_become_events_and_the_last_one_does(void **state)
{
    enum { STEPS = 300 };
    struct kit *k = *state;
    uint64_t last = 0, began_ms = net_now_ms();
    struct puppet a;
    uint32_t n = 0;

    puppet_alone(&a, k, "job", "a");
    for (uint64_t step = 1; step <= STEPS; step++) {
        say(&a, step, (double)step);
    }
    for (int i = 0; last < STEPS && i < KIT_WAIT_MS / 20; i++) {
        n = count_events(k, &last);
        usleep(20000);
    }
    assert_int_equal(last, STEPS);
    assert_true(n >= 2 && n <= (net_now_ms() - began_ms) / 1000 + 2);
    puppet_close(&a);
}

static void a_stream_tells_of_them(void **state)
{
    struct kit *k = *state;
    struct web_conn c;
    struct puppet a;

    puppet_alone(&a, k, "job", "a");
    c = web_say(k, HTTP_VIEWER, "GET", "/v1/jobs/job/events?follow=1", NULL, NULL, 0);
    say(&a, 3, 0.25);
    web_expect(&c, "event: metrics\n");
    web_expect(&c, "\"metrics\":{\"step\":3,\"loss\":0.25,");
    web_expect(&c, "step 3: loss 0.25, say \\\"hi\\\" -inf");
    web_hang_up(&c);
    puppet_close(&a);
}

static void who_follows_by_frames_gets_them_too(void **state)
{
    struct msg_ask ask = {.kind = ASK_FOLLOW};
    struct msg_event e;
    struct kit *k = *state;
    struct client *cl;
    struct puppet a;

    puppet_alone(&a, k, "job", "a");
    cl = kit_connect(k);
    kit_ask(cl, &ask, 1);
    say(&a, 3, 0.25);
    do {
        e = kit_event(cl);
    } while (e.kind != NOTE_METRICS);
    assert_int_equal(e.value, 3);
    assert_int_equal(e.metrics_n, 2);
    assert_string_equal(e.metrics[0].name, "loss");
    assert_string_equal(e.reason, "loss 0.25, say \"hi\" -inf");
    client_close(cl);
    puppet_close(&a);
}

#define TRAINING_CASE(name) cmocka_unit_test_setup_teardown(name, web_setup_running, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRAINING_CASE(they_show_with_the_job_and_in_metrics),
        TRAINING_CASE(an_agent_speaks_for_its_own_workers_only),
        TRAINING_CASE(a_lower_step_is_of_the_past),
        TRAINING_CASE(when_training_starts_over_a_lower_step_counts),
        TRAINING_CASE(a_new_run_begins_without_any),
        TRAINING_CASE(of_many_a_few_become_events_and_the_last_one_does),
        TRAINING_CASE(a_stream_tells_of_them),
        TRAINING_CASE(who_follows_by_frames_gets_them_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
