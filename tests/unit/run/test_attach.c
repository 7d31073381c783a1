/* libmuster and its agent: joining, generations, the end, and all that can go wrong between. */
#include "unit/run/run_kit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fake agent;

/* ---- alone ---- */

static void without_an_agent_it_is_a_job_of_one(void **state)
{
    mu_config config;
    mu_world_info world;
    mu_values values;
    mu_run *run;

    mu_config_init(&config);
    config.address = "here:1";
    assert_int_equal(mu_join(&config, &run), MU_OK);
    assert_int_equal(mu_wait(run, 0, 0), MU_OK);
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.rank == 0 && world.size == 1 && world.local_rank == 0);
    assert_true(world.local_size == 1 && world.generation == 1 && !world.ended);
    assert_string_equal(world.addresses[0], "here:1");
    mu_world_free(&world);
    mu_world_free(&world); /* Twice is fine. */
    assert_int_equal(mu_sync(run, "t", "abc", 3, 0, &values), MU_OK);
    assert_int_equal(values.n, 1);
    assert_int_equal(values.items[0].data_n, 3);
    assert_memory_equal(values.items[0].data, "abc", 3);
    assert_string_equal(values.items[0].address, "here:1");
    mu_values_free(&values);
    mu_values_free(&values);
    assert_int_equal(mu_sync(run, "t", "abc", 3, 0, NULL), MU_OK);
    assert_int_equal(mu_barrier(run, "t", 0), MU_OK);
    assert_int_equal(mu_wait(run, 1, 20), MU_ETIMEDOUT);
    assert_int_equal(mu_leave(run), MU_OK);
    assert_int_equal(mu_leave(NULL), MU_OK);
}

static void a_process_joins_once_at_a_time(void **state)
{
    mu_run *run, *second = NULL;

    for (int i = 0; i < 2; i++) {
        assert_int_equal(mu_join(NULL, &run), MU_OK);
        assert_int_equal(mu_join(NULL, &second), MU_EBUSY);
        assert_null(second);
        assert_int_equal(mu_leave(run), MU_OK);
    }
}

static void what_is_no_run_or_no_config_is_refused(void **state)
{
    mu_config config = {0};
    mu_world_info world;
    mu_run *run;

    assert_int_equal(mu_join(&config, &run), MU_EINVAL);
    assert_int_equal(mu_join(NULL, NULL), MU_EINVAL);
    mu_config_init(&config);
    config.address = "a-name-that-is-much-too-long-for-an-address-of-any-worker.example.org:12345";
    assert_int_equal(mu_join(&config, &run), MU_EINVAL);
    fake_explains(mu_error(), "longer than 63 bytes");
    assert_int_equal(mu_world(NULL, &world), MU_EINVAL);
    assert_int_equal(mu_wait(NULL, 0, 0), MU_EINVAL);
    assert_int_equal(mu_barrier(NULL, "t", 0), MU_EINVAL);
}

/* ---- joining ---- */

static int free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    close(fd);
    return ntohs(at.sin_port);
}

static void it_attaches_as_its_environment_says_and_warms_up(void **state)
{
    mu_config config;
    mu_world_info world;
    union wire_any msg;
    char address[32];
    mu_run *run;

    fake_open(&agent, FAKE_LIFE, 1000);
    mu_config_init(&config);
    snprintf(address, sizeof(address), "127.0.0.1:%d", free_port());
    config.address = address;
    assert_int_equal(mu_join(&config, &run), MU_OK);
    fake_attached(&agent);
    assert_int_equal(agent.attach.slot, FAKE_SLOT);
    assert_true(agent.attach.cookie == FAKE_COOKIE);
    assert_int_equal(agent.attach.pid, getpid());
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_WARMING);
    assert_true(msg.report.slot == FAKE_SLOT && msg.report.incarnation == 2);
    assert_true(msg.report.entered == 0 && msg.report.reached == 0);
    assert_string_equal(msg.report.addr, address);
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.generation == 0 && world.rank == -1 && world.size == 0);
    assert_string_equal(world.job, "mnist");
    assert_string_equal(world.node, "pine");
    assert_null(world.addresses[0]);
    mu_world_free(&world);
    fake_warm(&agent, run);
    fake_leave(&agent, run);
}

static void it_says_that_it_lives_four_times_a_lease(void **state)
{
    union wire_any msg;
    mu_run *run;

    fake_open(&agent, FAKE_LIFE, 80);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    fake_attached(&agent);
    fake_next(&agent, WIRE_REPORT, &msg);
    for (int i = 0; i < 8; i++) {
        fake_next(&agent, WIRE_BEAT, &msg);
        assert_true(msg.beat.worker == FAKE_WORKER);
    }
    fake_leave(&agent, run);
}

static void expect_no_join(enum fake_welcome welcome, int status, const char *part)
{
    mu_config config;
    mu_run *run = NULL;

    fake_open(&agent, welcome, 1000);
    mu_config_init(&config);
    config.join_ms = welcome == FAKE_SILENT ? 50 : 10000;
    assert_int_equal(mu_join(&config, &run), status);
    fake_explains(mu_error(), part);
    assert_null(run);
    fake_attached(&agent);
    fake_close(&agent);
}

static void an_agent_that_does_not_take_it_fails_the_join(void **state)
{
    expect_no_join(FAKE_SILENT, MU_ETIMEDOUT, "does not answer");
    expect_no_join(FAKE_REFUSED, MU_EREFUSED, "its cookie is of an earlier start");
    expect_no_join(FAKE_ENDED, MU_EDONE, "the run has ended: it was shut down");
    expect_no_join(FAKE_GARBAGE, MU_EPROTO, "not a muster frame");
    expect_no_join(FAKE_CLOSE, MU_EPEER, "the agent of this node is gone");
}

static void no_agent_at_its_socket_fails_the_join(void **state)
{
    mu_run *run;

    setenv("MUSTER_SOCKET", "/tmp/muster-unit-nobody-is-here", 1);
    setenv("MUSTER_SLOT", "0", 1);
    setenv("MUSTER_COOKIE", "1", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EPEER);
    fake_explains(mu_error(), "/tmp/muster-unit-nobody-is-here");
    setenv("MUSTER_SLOT", "-1", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    setenv("MUSTER_SLOT", "64", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    setenv("MUSTER_SLOT", "0", 1);
    setenv("MUSTER_COOKIE", "xyz", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    fake_explains(mu_error(), "MUSTER_COOKIE is 'xyz'");
    unsetenv("MUSTER_COOKIE");
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    unsetenv("MUSTER_SOCKET");
    unsetenv("MUSTER_SLOT");
}

/* ---- generations ---- */

static void a_generation_that_names_it_is_entered(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;
    union wire_any msg;

    fake_generation(&agent, 7, "3 4 5");
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_IN);
    assert_true(msg.report.entered == 7 && msg.report.reached == 0); /* Nobody has answered. */
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.generation == 7 && world.rank == 1 && world.size == 3);
    assert_true(world.local_rank == 0 && world.local_size == 1);
    assert_string_equal(world.addresses[0], "127.0.0.3:1");
    assert_string_equal(world.addresses[2], "127.0.0.5:1");
    assert_null(world.addresses[3]);
    mu_world_free(&world);
    fake_generation(&agent, 7, "3 4 5"); /* Said again: nothing to say. */
    fake_generation(&agent, 8, "4");
    assert_int_equal(mu_wait(run, 7, MU_FOREVER), MU_OK);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.entered == 8);
    fake_leave(&agent, run);
}

static void local_ranks_count_the_workers_of_its_node(void **state)
{
    struct member members[] = {{.worker = wid_make(3, 0, 1)},
                               {.worker = wid_make(4, 0, 1)},
                               {.worker = FAKE_WORKER},
                               {.worker = wid_make(4, 3, 1)}};
    struct generation g = {.number = 1, .members_n = 4, .members = members};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;

    fake_say(&agent, WIRE_GENERATION, &g);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_OK);
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.rank == 2 && world.local_rank == 1 && world.local_size == 3);
    mu_world_free(&world);
    fake_leave(&agent, run);
}

static void one_that_is_not_named_waits(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;

    fake_generation(&agent, 7, "3 5");
    fake_told(run, 7);
    assert_int_equal(mu_wait(run, 0, 20), MU_ETIMEDOUT);
    fake_explains(mu_error(), "the newest is 7 of job mnist");
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.generation == 7 && world.rank == -1 && world.size == 2);
    assert_true(world.local_rank == -1 && world.local_size == 0);
    mu_world_free(&world);
    fake_leave(&agent, run);
    assert_true(agent.last.entered == 0 && agent.last.reached == 0); /* Nobody has answered. */
}

/* It parks, for as long as its state might be needed. */
static void one_that_is_left_out_begins_anew_once_that_is_active(void **state)
{
    struct msg_life life = {.worker = wid_make(4, 1, 3), .lease_ms = 1000, .job = "mnist"};
    struct msg_active active = {8};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    union wire_any msg;

    fake_generation(&agent, 7, "3 4 5");
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_IN);
    assert_true(msg.report.entered == 7);
    fake_generation(&agent, 8, "3 5"); /* It says nothing to that. */
    fake_told(run, 8);
    assert_int_equal(mu_wait(run, 0, 20), MU_ETIMEDOUT);
    fake_say(&agent, WIRE_ACTIVE, &active);
    fake_next(&agent, WIRE_FORGET, &msg);
    assert_true(msg.forget.worker == FAKE_WORKER);
    fake_say(&agent, WIRE_LIFE, &life);
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_int_equal(msg.report.phase, PHASE_WARM);
    assert_true(msg.report.incarnation == 3 && msg.report.entered == 0);
    fake_next(&agent, WIRE_BEAT, &msg);
    fake_leave(&agent, run);
}

static void frames_in_single_bytes_are_as_good_as_any(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_SLOWLY);
    union wire_any msg;

    fake_generation(&agent, 7, "3 4 5 6 7 8");
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.entered == 7);
    fake_generation(&agent, 8, "3 4 5 6 7 8 9");
    fake_next(&agent, WIRE_REPORT, &msg);
    assert_true(msg.report.entered == 8);
    fake_leave(&agent, run);
}

static void a_generation_of_many_thousands_is_taken(void **state)
{
    enum { MANY = 40000 };
    struct member *members = calloc(MANY, sizeof(*members));
    struct generation g = {.number = 9, .members_n = MANY, .members = members};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;

    assert_non_null(members);
    for (uint32_t i = 0; i < MANY; i++) {
        members[i].worker = i == 12345 ? FAKE_WORKER : wid_make(10 + i, 0, 1);
        snprintf(members[i].addr, sizeof(members[i].addr), "127.0.%u.%u:1", i / 256, i % 256);
    }
    fake_say(&agent, WIRE_GENERATION, &g);
    free(members);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_OK);
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.rank == 12345 && world.size == MANY);
    assert_string_equal(world.addresses[MANY - 1], "127.0.156.63:1");
    mu_world_free(&world);
    fake_leave(&agent, run);
}

/* ---- the end ---- */

static void leaving_says_that_the_work_is_finished(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    union wire_any msg;

    fake_generation(&agent, 7, "3 4 5");
    fake_next(&agent, WIRE_REPORT, &msg);
    fake_leave(&agent, run);
    assert_int_equal(agent.last.phase, PHASE_FINISHED);
    assert_true(agent.last.entered == 7);
}

static atomic_bool reading;

static void *read_late(void *arg)
{
    usleep(200000);
    reading = true;
    fake_end_begin(&agent);
    fake_end_join(&agent);
    return NULL;
}

/* Or its agent might see the exit first, and take it for a worker that went away. */
static void leaving_waits_until_the_agent_has_read_that(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, read_late, NULL), 0);
    assert_int_equal(mu_leave(run), MU_OK);
    assert_true(reading);
    pthread_join(thread, NULL);
    assert_int_equal(agent.last.phase, PHASE_FINISHED);
    fake_close(&agent);
}

static void after_the_end_every_call_that_waits_says_so(void **state)
{
    struct msg_ended ended = {.run = 1, .step = 9, .failed = 1, .why = "n3.0#1 exited with 7"};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;
    mu_values values;

    fake_say(&agent, WIRE_ENDED, &ended);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_EDONE);
    fake_explains(mu_error(), "the run has failed: n3.0#1 exited with 7");
    assert_int_equal(mu_sync(run, "t", "x", 1, MU_FOREVER, &values), MU_EDONE);
    assert_int_equal(mu_barrier(run, "t", MU_FOREVER), MU_EDONE);
    assert_int_equal(mu_world(run, &world), MU_OK);
    assert_true(world.ended && world.failed);
    mu_world_free(&world);
    fake_die(&agent); /* The agent goes too: that is no news. */
    assert_int_equal(mu_barrier(run, "t", MU_FOREVER), MU_EDONE);
    fake_leave(&agent, run);
}

static void an_agent_that_is_gone_fails_every_call(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    mu_world_info world;

    fake_die(&agent);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_EPEER);
    fake_explains(mu_error(), "the agent of this node is gone");
    assert_int_equal(mu_barrier(run, "t", MU_FOREVER), MU_EPEER);
    assert_int_equal(mu_world(run, &world), MU_OK);
    mu_world_free(&world);
    fake_leave(&agent, run);
}

/* The bytes of a beat with one of them changed. */
static void expect_lost(size_t at, uint8_t flip, int status, const char *part)
{
    struct msg_lease lease = {5, 0};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    uint8_t bytes[64];
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_LEASE, &lease, 0, 0, bytes, sizeof(bytes), &n), MU_OK);
    fake_bytes(&agent, bytes, n);
    bytes[at] ^= flip;
    fake_bytes(&agent, bytes, n);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), status);
    fake_explains(mu_error(), part);
    fake_leave(&agent, run);
}

static void an_agent_that_can_not_be_understood_is_as_good_as_gone(void **state)
{
    struct msg_renew renew = {1, 2, 3, 4, 5};
    mu_run *run;

    expect_lost(0, 1, MU_EPROTO, "not a muster frame");
    expect_lost(4, 2, MU_EVERSION, "speaks wire version");
    expect_lost(8, 64, MU_EPROTO, "payload");
    expect_lost(35, 1, MU_ECORRUPT, "checksum");
    run = fake_join(&agent, FAKE_LIFE);
    fake_say(&agent, WIRE_RENEW, &renew);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_EPROTO);
    fake_explains(mu_error(), "said renew, which is not for workers");
    fake_leave(&agent, run);
}

static void half_a_frame_and_then_nothing_is_the_end(void **state)
{
    struct msg_lease lease = {5, 0};
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    uint8_t bytes[64];
    size_t n = 0;

    assert_int_equal(wire_encode(WIRE_LEASE, &lease, 0, 0, bytes, sizeof(bytes), &n), MU_OK);
    fake_bytes(&agent, bytes, n - 1);
    assert_int_equal(mu_wait(run, 0, 20), MU_ETIMEDOUT);
    fake_die(&agent);
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_EPEER);
    fake_leave(&agent, run);
}

/* ---- processes ---- */

static void a_forked_child_can_not_use_its_parents_run(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);
    int status = 0;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        mu_world_info world;
        bool ok = mu_world(run, &world) == MU_EINVAL && mu_wait(run, 0, 0) == MU_EINVAL &&
                  mu_barrier(run, "t", 0) == MU_EINVAL && mu_leave(run) == MU_EINVAL &&
                  strstr(mu_error(), "a forked child") != NULL;

        _exit(ok ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    fake_generation(&agent, 7, "4");
    assert_int_equal(mu_wait(run, 0, MU_FOREVER), MU_OK);
    fake_leave(&agent, run);
}

static volatile sig_atomic_t signalled;
static pthread_t signalled_in;

static void on_signal(int number)
{
    signalled++;
    signalled_in = pthread_self();
}

static void signals_are_left_to_the_trainer(void **state)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    signal(SIGUSR2, on_signal);
    for (int i = 0; i < 20; i++) {
        kill(getpid(), SIGUSR2);
        assert_int_equal(mu_wait(run, 0, 1), MU_ETIMEDOUT);
        assert_true(pthread_equal(signalled_in, pthread_self()));
    }
    assert_true(signalled > 0);
    signal(SIGUSR2, SIG_DFL);
    fake_leave(&agent, run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_agent_it_is_a_job_of_one),
        cmocka_unit_test(a_process_joins_once_at_a_time),
        cmocka_unit_test(what_is_no_run_or_no_config_is_refused),
        cmocka_unit_test(it_attaches_as_its_environment_says_and_warms_up),
        cmocka_unit_test(it_says_that_it_lives_four_times_a_lease),
        cmocka_unit_test(an_agent_that_does_not_take_it_fails_the_join),
        cmocka_unit_test(no_agent_at_its_socket_fails_the_join),
        cmocka_unit_test(a_generation_that_names_it_is_entered),
        cmocka_unit_test(local_ranks_count_the_workers_of_its_node),
        cmocka_unit_test(one_that_is_not_named_waits),
        cmocka_unit_test(one_that_is_left_out_begins_anew_once_that_is_active),
        cmocka_unit_test(frames_in_single_bytes_are_as_good_as_any),
        cmocka_unit_test(a_generation_of_many_thousands_is_taken),
        cmocka_unit_test(leaving_says_that_the_work_is_finished),
        cmocka_unit_test(leaving_waits_until_the_agent_has_read_that),
        cmocka_unit_test(after_the_end_every_call_that_waits_says_so),
        cmocka_unit_test(an_agent_that_is_gone_fails_every_call),
        cmocka_unit_test(an_agent_that_can_not_be_understood_is_as_good_as_gone),
        cmocka_unit_test(half_a_frame_and_then_nothing_is_the_end),
        cmocka_unit_test(a_forked_child_can_not_use_its_parents_run),
        cmocka_unit_test(signals_are_left_to_the_trainer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
