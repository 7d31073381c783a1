/* mu_serve() and mu_roster(), against an agent that does what the test tells it. */
#include "unit/run/run_kit.h"

#include "muster.h"

#include <string.h>

static struct fake agent;

static mu_run *join(void)
{
    union wire_any msg;
    mu_run *run;

    fake_open(&agent, FAKE_LIFE, 1000);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    fake_attached(&agent);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_WARMING);
    assert_int_equal(msg.report.asks, 0);
    return run;
}

/* Its agent says that it is another life of it, with that role. */
static void be(uint8_t role, uint8_t mode)
{
    struct msg_life life = {
        .worker = wid_make(4, 1, 3), .lease_ms = 1000, .job = "mnist", .role = role, .mode = mode};
    union wire_any msg;

    fake_say(&agent, WIRE_LIFE, &life);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.incarnation, 3);
}

static void end(bool left)
{
    const struct msg_ended ended = {.run = 1, .left = left};

    fake_say(&agent, WIRE_ENDED, &ended);
}

static void tell(uint64_t version, const struct roster_entry *helpers, uint32_t n)
{
    struct msg_roster m = {.run = 1,
                           .version = version,
                           .helpers_n = n,
                           .helpers = (struct roster_entry *)(uintptr_t)helpers};

    fake_say(&agent, WIRE_ROSTER, &m);
}

/* ---- serving ---- */

static void who_serves_says_so_and_hears_of_the_end(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    assert_int_equal(mu_serve(run, 0), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_SERVING);
    assert_true(msg.report.addr[0] != '\0' && msg.report.entered == 0);
    assert_int_equal(mu_serve(run, 20), MU_OK); /* It goes on. */
    end(false);
    assert_int_equal(mu_serve(run, MU_FOREVER), MU_EDONE);
    fake_leave(&agent, run);
    assert_int_equal(agent.last.phase, PHASE_FINISHED);
}

static void who_is_to_leave_hears_that(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    assert_int_equal(mu_serve(run, 0), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    end(true);
    assert_int_equal(mu_serve(run, MU_FOREVER), MU_ELEFT);
    fake_leave(&agent, run);
}

static void another_life_goes_on_serving(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    assert_int_equal(mu_serve(run, 0), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    be(ROLE_WORKER, MODE_INPROCESS);
    assert_int_equal(mu_serve(run, 0), MU_OK);
    fake_leave(&agent, run);
    assert_int_equal(agent.last.incarnation, 3);
}

static void what_is_for_those_who_train_is_refused(mu_run *run)
{
    float x = 1;

    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_EINVAL);
    fake_explains(mu_error(), "this worker helps");
    assert_int_equal(mu_barrier(run, "t", MU_FOREVER), MU_EINVAL);
    assert_int_equal(mu_regroup(run, MU_FOREVER), MU_EINVAL);
    assert_int_equal(mu_allreduce(run, &x, &x, 1, MU_F32, MU_SUM, MU_FOREVER), MU_EINVAL);
    assert_int_equal(mu_progress(run, 3), MU_OK); /* for the status */
}

static void by_its_role_or_because_it_serves_it_is_in_no_generation(void **state)
{
    mu_run *run = join();
    union wire_any msg;

    be(ROLE_PS, MODE_INPROCESS);
    what_is_for_those_who_train_is_refused(run);
    fake_leave(&agent, run);
    run = join();
    assert_int_equal(mu_serve(run, 0), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    what_is_for_those_who_train_is_refused(run);
    fake_leave(&agent, run);
}

static void who_trains_does_not_serve(void **state)
{
    mu_run *run = join();

    fake_warm(&agent, run);
    assert_int_equal(mu_serve(run, 0), MU_EINVAL);
    fake_explains(mu_error(), "this worker trains");
    fake_leave(&agent, run);
}

static void in_restart_mode_nobody_serves(void **state)
{
    mu_run *run = join();

    be(ROLE_PS, MODE_RESTART);
    assert_int_equal(mu_serve(run, 0), MU_EINVAL);
    fake_explains(mu_error(), "restart mode");
    fake_leave(&agent, run);
}

/* ---- the roster ---- */

static const struct roster_entry two[] = {
    {.worker = 70, .role = ROLE_PS, .phase = PHASE_SERVING, .number = 1, .addr = "c:1"},
    {.worker = 60, .role = ROLE_CHIEF, .phase = PHASE_WARMING, .number = 0, .addr = "b:1"},
    {.worker = 80, .role = ROLE_PS, .phase = PHASE_SERVING, .number = 0, .addr = "a:1"},
    {.worker = 90, .role = ROLE_WORKER, .phase = PHASE_SERVING, .addr = "d:1"}};

static void it_is_asked_for_and_waited_for(void **state)
{
    mu_run *run = join();
    mu_roster_info roster;
    union wire_any msg;

    assert_int_equal(mu_roster(run, 0, 20, &roster), MU_ETIMEDOUT);
    fake_explains(mu_error(), "has not said yet");
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.asks, 1);
    assert_int_equal(msg.report.phase, PHASE_WARMING); /* To ask takes nobody in. */
    tell(4, NULL, 0);
    assert_int_equal(mu_roster(run, 0, MU_FOREVER, &roster), MU_OK);
    assert_true(roster.n == 0 && roster.version == 1);
    mu_roster_free(&roster);
    assert_int_equal(mu_roster(run, 1, 20, &roster), MU_ETIMEDOUT);
    fake_explains(mu_error(), "not changed after version 1");
    tell(5, two, 4);
    assert_int_equal(mu_roster(run, 1, MU_FOREVER, &roster), MU_OK);
    assert_true(roster.n == 4 && roster.version == 2);
    assert_true(roster.items[0].role == MU_WORKER && roster.items[0].number == -1);
    assert_true(roster.items[1].role == MU_CHIEF && roster.items[1].standing == MU_WARMING);
    assert_true(roster.items[2].role == MU_PS && roster.items[2].number == 0);
    assert_true(roster.items[2].id == 80 && roster.items[2].standing == MU_SERVING);
    assert_string_equal(roster.items[2].address, "a:1");
    assert_true(roster.items[3].number == 1);
    mu_roster_free(&roster);
    mu_roster_free(&roster);
    fake_leave(&agent, run);
}

static void the_same_again_is_no_change(void **state)
{
    mu_run *run = join();
    mu_roster_info roster;

    tell(4, two, 3);
    assert_int_equal(mu_roster(run, 0, MU_FOREVER, &roster), MU_OK);
    mu_roster_free(&roster);
    tell(900, two, 3); /* An orchestrator that was restarted. */
    tell(901, two, 2);
    assert_int_equal(mu_roster(run, 1, MU_FOREVER, &roster), MU_OK);
    assert_true(roster.n == 2 && roster.version == 2);
    mu_roster_free(&roster);
    fake_leave(&agent, run);
}

static void members_come_first_by_rank(void **state)
{
    mu_run *run = join();
    mu_roster_info roster;

    tell(4, two, 1);
    fake_generation(&agent, 7, "3 4 5");
    fake_told(run, 7);
    assert_int_equal(mu_roster(run, 1, MU_FOREVER, &roster), MU_OK);
    assert_int_equal(roster.n, 4);
    for (int i = 0; i < 3; i++) {
        assert_true(roster.items[i].standing == MU_MEMBER && roster.items[i].number == i);
        assert_true(roster.items[i].address[0] != '\0');
    }
    assert_int_equal(roster.items[3].role, MU_PS);
    mu_roster_free(&roster);
    fake_leave(&agent, run);
}

static void who_waits_for_it_hears_of_the_end(void **state)
{
    mu_run *run = join();
    mu_roster_info roster;

    tell(4, two, 1);
    assert_int_equal(mu_roster(run, 0, MU_FOREVER, &roster), MU_OK);
    mu_roster_free(&roster);
    end(false);
    assert_int_equal(mu_roster(run, 1, MU_FOREVER, &roster), MU_EDONE);
    fake_leave(&agent, run);
}

/* ---- alone ---- */

static void a_job_of_one_has_itself_and_nobody_to_serve(void **state)
{
    mu_roster_info roster;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_roster(run, 0, MU_FOREVER, &roster), MU_OK);
    assert_true(roster.n == 1 && roster.items[0].standing == MU_MEMBER);
    assert_int_equal(roster.items[0].number, 0);
    mu_roster_free(&roster);
    assert_int_equal(mu_serve(run, MU_FOREVER), MU_EDONE);
    assert_int_equal(mu_leave(run), MU_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_serves_says_so_and_hears_of_the_end),
        cmocka_unit_test(who_is_to_leave_hears_that),
        cmocka_unit_test(another_life_goes_on_serving),
        cmocka_unit_test(by_its_role_or_because_it_serves_it_is_in_no_generation),
        cmocka_unit_test(who_trains_does_not_serve),
        cmocka_unit_test(in_restart_mode_nobody_serves),
        cmocka_unit_test(it_is_asked_for_and_waited_for),
        cmocka_unit_test(the_same_again_is_no_change),
        cmocka_unit_test(members_come_first_by_rank),
        cmocka_unit_test(who_waits_for_it_hears_of_the_end),
        cmocka_unit_test(a_job_of_one_has_itself_and_nobody_to_serve),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
