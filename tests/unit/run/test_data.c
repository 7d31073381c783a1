/* libmuster's data plane: groups and calls, with a fake agent and, as the other worker, one in a
 * process of its own. */
#include "unit/run/peer_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LONG_MS PEER_LONG_MS

static struct fake agent;
static struct peer peer;
static char own_addr[ADDR_MAX_LEN];

/* The other comes to its generation, and gives 3 to a sum. */
static void peer_comes(void)
{
    peer_begin(&peer, true, 3, 0);
}

static void peer_came(void)
{
    int32_t sum;

    assert_int_equal(peer_end(&peer, &sum), MU_OK);
    assert_int_equal(sum, 7);
}

/* ---- our worker ---- */

static mu_run *join(void)
{
    union wire_any msg;
    mu_run *run;

    fake_open(&agent, FAKE_LIFE, 1000);
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    fake_attached(&agent);
    fake_next(&agent, WIRE_REPORT, &msg);
    strcpy(own_addr, msg.report.addr);
    fake_warm(&agent, run);
    return run;
}

/* Members: 'p' the peer, 'w' our worker, 'z' its next life. They were together in the last one, if
 * this is none to begin with. */
static void generation(uint64_t number, uint8_t kind, const char *who)
{
    struct member members[3] = {{0}};
    struct generation g = {.job = "mnist",
                           .run = 1,
                           .number = number,
                           .from = kind == GENERATION_FRESH ? 0 : number - 1,
                           .kind = kind,
                           .members = members};

    for (; *who != '\0'; who++) {
        struct member *m = &members[g.members_n++];

        m->worker = *who == 'p' ? PEER : *who == 'w' ? FAKE_WORKER : wid_make(4, 1, 3);
        m->flags = kind == GENERATION_FRESH || *who == 'z' ? 0 : MEMBER_CAUGHT_UP;
        strcpy(m->addr, *who == 'p' ? peer.addr : own_addr);
    }
    fake_say(&agent, WIRE_GENERATION, &g);
    if (peer.pid != 0) {
        peer_generation(&peer, &g);
    }
}

/* In generation 7 with the peer: two members, and a sum of 3 + 4. */
static mu_run *join_peer(void)
{
    const int32_t mine = 4;
    mu_run *run;
    int32_t sum = 0;

    peer_open(&peer);
    run = join();
    generation(7, GENERATION_FRESH, "pw");
    peer_comes();
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_OK);
    assert_int_equal(sum, 7);
    peer_came();
    return run;
}

static void leave(mu_run *run)
{
    fake_leave(&agent, run);
    peer_close(&peer);
}

/* ---- alone ---- */

static void alone_every_call_works(void **state)
{
    const float in[] = {1, -2, 3};
    float out[3] = {0};
    const void *view = NULL, *second = NULL, *third = NULL;
    mu_group_info group;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_group(run, &group), MU_OK);
    assert_true(group.generation == 0 && group.rank == -1 && group.size == 0);
    assert_int_equal(mu_allreduce(run, in, out, 3, MU_F32, MU_SUM, 0), MU_OK);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(mu_group(run, &group), MU_OK);
    assert_true(group.generation == 1 && group.rank == 0 && group.size == 1);
    assert_int_equal(mu_group_check(run, 1), MU_OK);
    memset(out, 0, sizeof(out));
    assert_int_equal(mu_reduce_scatter(run, in, out, 3, MU_F32, MU_MEAN, 0), MU_OK);
    assert_memory_equal(in, out, sizeof(in));
    memset(out, 0, sizeof(out));
    assert_int_equal(mu_allgather(run, in, out, 3, MU_F32, 0), MU_OK);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(mu_broadcast(run, out, 3, MU_F32, 0, 0), MU_OK);
    assert_memory_equal(in, out, sizeof(in));
    memset(out, 0, sizeof(out));
    assert_int_equal(mu_reduce(run, in, out, 3, MU_F32, MU_MAX, 0, 0), MU_OK);
    assert_memory_equal(in, out, sizeof(in));
    assert_int_equal(mu_meet(run, 0), MU_OK);
    assert_int_equal(mu_regroup(run, 0), MU_OK);
    assert_int_equal(mu_allreduce_view(run, in, 3, MU_F32, MU_SUM, 0, &view), MU_OK);
    assert_memory_equal(in, view, sizeof(in));
    assert_int_equal(mu_allreduce_view(run, in, 3, MU_F32, MU_SUM, 0, &second), MU_OK);
    assert_int_equal(mu_allreduce_view(run, in, 3, MU_F32, MU_SUM, 0, &third), MU_ELIMIT);
    fake_explains(mu_error(), "mu_view_release()");
    mu_view_release(run, view);
    assert_int_equal(mu_allreduce_view(run, in, 3, MU_F32, MU_SUM, 0, &third), MU_OK);
    mu_view_release(run, second);
    mu_view_release(run, third);
    mu_view_release(run, NULL);
    assert_int_equal(mu_send(run, in, 3, MU_F32, 0, 1, 0), MU_EINVAL); /* To itself. */
    assert_int_equal(mu_leave(run), MU_OK);
}

static void memory_is_zeroed_and_of_any_number_of_bytes(void **state)
{
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    for (size_t bytes = 1; bytes < 1 << 20; bytes = bytes * 3 + 1) {
        uint8_t *memory = mu_alloc(run, bytes);

        assert_non_null(memory);
        assert_true(memory[0] == 0 && memory[bytes - 1] == 0);
        memset(memory, 1, bytes);
        mu_free(run, memory);
    }
    mu_free(run, NULL);
    assert_non_null(mu_alloc(run, 4096)); /* Freed by leaving. */
    assert_int_equal(mu_leave(run), MU_OK);
    assert_null(mu_alloc(NULL, 1));
}

static void calls_that_were_started_are_finished_in_any_order(void **state)
{
    int64_t in[2] = {5, 6}, out[2] = {0};
    mu_started *started[2];
    mu_result result;
    mu_call call;
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    mu_call_init(&call, MU_ALLREDUCE);
    call.count = 1;
    call.dtype = MU_I64;
    for (int i = 0; i < 2; i++) {
        call.in = &in[i];
        call.out = &out[i];
        assert_int_equal(mu_start(run, &call, &started[i]), MU_OK);
    }
    assert_int_equal(mu_finish(started[1], MU_FOREVER, NULL), MU_OK);
    assert_int_equal(mu_finish(started[0], MU_FOREVER, &result), MU_OK);
    assert_true(out[0] == 5 && out[1] == 6);
    assert_true(result.generation == 1 && result.members == 1 && result.lost_rank == -1);
    assert_int_equal(mu_finish(NULL, 0, NULL), MU_EINVAL);
    assert_int_equal(mu_leave(run), MU_OK);
}

static void what_is_no_call_is_refused(void **state)
{
    mu_started *started = NULL;
    mu_call call = {0};
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_make(run, NULL, NULL), MU_EINVAL);
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    fake_explains(mu_error(), "mu_call_init()");
    mu_call_init(&call, (enum mu_kind)99);
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    fake_explains(mu_error(), "99");
    mu_call_init(&call, MU_ALLREDUCE);
    call.flags = 64;
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    call.flags = MU_VIEW;
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    fake_explains(mu_error(), "view");
    mu_call_init(&call, MU_RECV);
    call.flags = MU_AGREE;
    assert_int_equal(mu_start(run, &call, &started), MU_EINVAL);
    assert_null(started);
    mu_call_init(&call, MU_REDUCE);
    call.rank = -1;
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    call.rank = 1;
    assert_int_equal(mu_make(run, &call, NULL), MU_EINVAL);
    fake_explains(mu_error(), "root");
    assert_int_equal(mu_make(NULL, &call, NULL), MU_EINVAL);
    assert_int_equal(mu_leave(run), MU_OK);
}

static void what_the_environment_says_is_checked(void **state)
{
    mu_run *run;

    setenv("MUSTER_TRANSPORT", "pigeon", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    fake_explains(mu_error(), "MUSTER_TRANSPORT is 'pigeon'");
    unsetenv("MUSTER_TRANSPORT");
    setenv("MUSTER_TLS", "yes", 1);
    assert_int_equal(mu_join(NULL, &run), MU_EINVAL);
    fake_explains(mu_error(), "MUSTER_TLS is 'yes'");
    unsetenv("MUSTER_TLS");
    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_leave(run), MU_OK);
}

static void an_address_that_is_not_this_hosts_fails_the_join(void **state)
{
    mu_config config;
    mu_run *run = NULL;

    fake_open(&agent, FAKE_LIFE, 1000);
    mu_config_init(&config);
    config.address = "192.0.2.1:4711";
    assert_true(mu_join(&config, &run) < 0);
    fake_explains(mu_error(), "192.0.2.1:4711");
    assert_null(run);
    fake_attached(&agent);
    fake_close(&agent);
}

/* ---- with a peer ---- */

/* … for as long as there is a link to each of them. */
static void a_newcomer_has_reached_a_generation_when_every_member_has_answered(void **state)
{
    mu_run *run;

    peer_open(&peer);
    run = join();
    generation(7, GENERATION_FRESH, "p");
    fake_reached(&agent, 7); /* Nothing else is news. */
    assert_int_equal(agent.last.phase, PHASE_WARM);
    assert_int_equal(agent.last.entered, 0);
    peer_leave(&peer);
    fake_reached(&agent, 0);
    peer_join(&peer);
    fake_reached(&agent, 7);
    leave(run);
}

static void one_that_does_not_answer_is_not_reached(void **state)
{
    mu_run *run;

    peer_open(&peer);
    run = join();
    peer_close(&peer);
    generation(7, GENERATION_FRESH, "p");
    fake_told(run, 7);
    usleep(100000);
    fake_leave(&agent, run);
    assert_true(agent.last.reached == 0);
}

static void a_group_forms_by_its_first_call(void **state)
{
    mu_run *run = join_peer();
    mu_group_info group;

    assert_int_equal(mu_group(run, &group), MU_OK);
    assert_true(group.generation == 7 && group.rank == 1 && group.size == 2 && !group.settled);
    leave(run);
}

static void until_all_have_come_a_group_can_wait_no_longer_than_it_wants(void **state)
{
    mu_run *run;

    peer_open(&peer);
    run = join();
    assert_int_equal(mu_regroup(run, 20), MU_ETIMEDOUT);
    fake_explains(mu_error(), "in no generation yet");
    generation(7, GENERATION_FRESH, "pw");
    fake_told(run, 7);
    assert_int_equal(mu_regroup(run, 150), MU_ETIMEDOUT);
    fake_explains(mu_error(), "n3.1#2 has not come to generation 7");
    leave(run);
}

static void *regroup_main(void *arg)
{
    static int status;

    status = mu_regroup(arg, MU_FOREVER);
    return &status;
}

static int join_blocked(pthread_t thread)
{
    void *status;

    pthread_join(thread, &status);
    return *(int *)status;
}

/* Its orchestrator hears whom it can't reach; whoever is left goes on, with the same call. */
static void a_peer_that_is_lost_ends_the_call_and_the_group_moves_on(void **state)
{
    const int32_t mine = 4;
    mu_run *run = join_peer();
    union wire_any msg = {0};
    pthread_t thread;
    mu_result result;
    mu_call call;
    int32_t sum = 0;

    peer_close(&peer);
    mu_call_init(&call, MU_ALLREDUCE);
    call.in = &mine;
    call.out = &sum;
    call.count = 1;
    call.dtype = MU_I32;
    assert_int_equal(mu_make(run, &call, &result), MU_EPEER);
    fake_explains(mu_error(), "rank 0 (n3.1#2)");
    fake_explains(mu_error(), "mu_regroup() and make the call again");
    assert_true(result.lost_rank == 0 && result.generation == 0);
    assert_int_equal(mu_regroup(run, 20), MU_ETIMEDOUT);
    fake_explains(mu_error(), "n3.1#2 has not come to generation 7");
    assert_int_equal(pthread_create(&thread, NULL, regroup_main, run), 0);
    do {
        fake_next(&agent, WIRE_REPORT, &msg);
    } while (msg.report.apart_n == 0);
    assert_true(msg.report.entered == 7 && msg.report.apart_in == 7 && msg.report.apart_n == 1);
    assert_true(msg.report.apart[0].peer == PEER && msg.report.apart[0].idle_ms == 0);
    generation(8, GENERATION_FAILURE, "w");
    assert_int_equal(join_blocked(thread), MU_OK);
    assert_int_equal(mu_make(run, &call, &result), MU_OK);
    assert_true(sum == 4 && result.generation == 8 && result.members == 1);
    fake_leave(&agent, run);
}

static void *blocked_main(void *arg)
{
    static int status;
    const int32_t mine = 4;
    int32_t sum;

    status = mu_allreduce(arg, &mine, &sum, 1, MU_I32, MU_SUM, MU_FOREVER);
    return &status;
}

static void a_failure_generation_ends_a_call_that_waits(void **state)
{
    mu_run *run = join_peer();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, blocked_main, run), 0);
    usleep(20000);
    generation(8, GENERATION_FAILURE, "w");
    assert_int_equal(join_blocked(thread), MU_EPEER);
    assert_int_equal(mu_regroup(run, LONG_MS), MU_OK);
    leave(run);
}

static void a_planned_generation_does_not(void **state)
{
    const int32_t mine = 4;
    mu_run *run = join_peer();
    int32_t sum = 0;

    generation(8, GENERATION_BOUNDARY, "pw");
    fake_told(run, 8);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, 50), MU_EPEER);
    fake_explains(mu_error(), "has done nothing for 50 ms"); /* That is why, and nothing else. */
    leave(run);
}

static void a_group_is_whole_while_all_its_members_are_in_the_newest_generation(void **state)
{
    mu_run *run = join_peer();

    uint8_t secrets[3][MU_SECRET_BYTES];

    assert_int_equal(mu_group_secret(run, 7, "a", secrets[0]), MU_OK);
    assert_int_equal(mu_group_secret(run, 7, "b", secrets[1]), MU_OK);
    assert_int_equal(mu_group_secret(run, 7, "a", secrets[2]), MU_OK);
    assert_memory_equal(secrets[0], secrets[2], MU_SECRET_BYTES);
    assert_memory_not_equal(secrets[0], secrets[1], MU_SECRET_BYTES);
    assert_int_equal(mu_group_secret(run, 7, "", secrets[0]), MU_EINVAL);
    assert_int_equal(mu_group_secret(run, 6, "a", secrets[0]), MU_EPEER);
    assert_int_equal(mu_group_check(run, 7), MU_OK);
    assert_int_equal(mu_group_check(run, 0), MU_EPEER);
    assert_int_equal(mu_group_check(run, 6), MU_EPEER);
    fake_explains(mu_error(), "generation 6 no more");
    generation(8, GENERATION_BOUNDARY, "pwz");
    fake_told(run, 8);
    assert_int_equal(mu_group_check(run, 7), MU_OK); /* Growth hurries nobody. */
    generation(9, GENERATION_BOUNDARY, "wz");
    fake_told(run, 9);
    assert_int_equal(mu_group_check(run, 7), MU_EPEER);
    fake_explains(mu_error(), "n3.1#2 of generation 7 is gone");
    leave(run);
}

/* Whoever looks late sees the same members, and not that they have begun anew meanwhile. */
static void a_group_that_was_overtaken_is_so_for_good(void **state)
{
    mu_run *run = join_peer();

    generation(8, GENERATION_FRESH, "pw");
    generation(9, GENERATION_BOUNDARY, "pw");
    fake_told(run, 9);
    assert_int_equal(mu_group_check(run, 7), MU_EPEER);
    fake_explains(mu_error(), "overtaken");
    leave(run);
}

static void a_member_that_moves_on_ends_the_calls_of_those_who_have_not(void **state)
{
    mu_run *run = join_peer();
    pthread_t thread;
    int32_t sum = 0;
    const int32_t mine = 4;

    assert_int_equal(pthread_create(&thread, NULL, blocked_main, run), 0);
    usleep(20000);
    generation(8, GENERATION_BOUNDARY, "pw");
    peer_comes();
    assert_int_equal(join_blocked(thread), MU_EPEER);
    assert_int_equal(mu_regroup(run, LONG_MS), MU_OK);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_OK);
    peer_came();
    assert_int_equal(sum, 7);
    leave(run);
}

static void leaving_ends_a_call_that_waits(void **state)
{
    mu_run *run = join_peer();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, blocked_main, run), 0);
    usleep(20000);
    leave(run);
    assert_int_equal(join_blocked(thread), MU_EDONE);
}

static void the_end_of_the_run_ends_a_call_that_waits(void **state)
{
    struct msg_ended ended = {.run = 1};
    mu_run *run = join_peer();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, blocked_main, run), 0);
    usleep(20000);
    fake_say(&agent, WIRE_ENDED, &ended);
    assert_int_equal(join_blocked(thread), MU_EDONE);
    assert_int_equal(mu_group_check(run, 7), MU_EDONE);
    assert_int_equal(mu_regroup(run, 0), MU_EDONE);
    leave(run);
}

/* ---- agreed calls ---- */

/* In generation 7 with the peer, which is active. */
static mu_run *join_active(void)
{
    struct msg_active active = {7};
    mu_run *run = join_peer();

    fake_say(&agent, WIRE_ACTIVE, &active);
    peer_active(&peer, 7);
    return run;
}

static mu_call agreed_sum(const int32_t *mine, int32_t *sum)
{
    mu_call call;

    mu_call_init(&call, MU_ALLREDUCE);
    call.in = mine;
    call.out = sum;
    call.count = 1;
    call.dtype = MU_I32;
    call.flags = MU_AGREE;
    return call;
}

/* Both go on in the next round, and agree on 3 + 4. */
static void go_on_together(mu_run *run)
{
    const int32_t mine = 4;
    int32_t sum = 0, theirs = 0;
    const mu_call call = agreed_sum(&mine, &sum);
    mu_result result;

    peer_begin(&peer, true, 3, MU_AGREE);
    assert_int_equal(mu_regroup(run, LONG_MS), MU_OK);
    assert_int_equal(mu_make(run, &call, &result), MU_OK);
    assert_int_equal(peer_end(&peer, &theirs), MU_OK);
    assert_true(sum == 7 && theirs == 7 && result.generation == 7 && result.members == 2);
}

/* "timeout_ms: how long a peer may do nothing": it is named, until it comes. */
static void a_peer_that_does_nothing_is_named_until_it_comes(void **state)
{
    const int32_t mine = 4;
    mu_run *run = join_active();
    union wire_any msg = {0};
    int32_t sum;

    assert_int_equal(mu_progress(run, 41), MU_OK);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, 50), MU_EPEER);
    do {
        fake_next(&agent, WIRE_REPORT, &msg);
    } while (msg.report.apart_n == 0);
    assert_true(msg.report.apart_in == 7 && msg.report.apart_n == 1);
    assert_true(msg.report.apart[0].peer == PEER && msg.report.apart[0].idle_ms == 50);
    peer_begin(&peer, false, 3, 0);
    assert_int_equal(peer_end(&peer, &sum), MU_EPEER); /* The other has given up. */
    go_on_together(run);
    do {
        fake_next(&agent, WIRE_REPORT, &msg);
    } while (msg.report.apart_n != 0);
    assert_int_equal(msg.report.step, 41); /* Calls are no steps: those are the caller's. */
    leave(run);
}

/* No generation comes: the members settle by themselves. */
static void after_a_link_was_reset_the_group_goes_on_in_its_generation(void **state)
{
    const int32_t mine = 4;
    mu_run *run = join_active();
    mu_group_info group;
    int32_t sum;

    for (int i = 0; i < 3; i++) {
        peer_reset_link(&peer, run);
        assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_EPEER);
        peer_begin(&peer, false, 3, 0);
        assert_int_equal(peer_end(&peer, &sum), MU_EPEER);
        go_on_together(run);
        assert_int_equal(mu_group(run, &group), MU_OK);
        assert_true(group.generation == 7 && group.size == 2 && !group.settled);
    }
    leave(run);
}

/* The peer makes a call that it does not agree on: so it has its result, and says no READY. */
static void what_one_alone_held_is_made_anew(void **state)
{
    const int32_t mine = 4;
    mu_run *run = join_active();
    mu_started *started;
    int32_t sum = 0, theirs;
    const mu_call call = agreed_sum(&mine, &sum);
    mu_group_info group;

    assert_int_equal(mu_start(run, &call, &started), MU_OK);
    peer_begin(&peer, false, 3, 0);
    assert_int_equal(peer_end(&peer, &theirs), MU_OK);
    peer_reset_link(&peer, run);
    assert_int_equal(mu_finish(started, LONG_MS, NULL), MU_EPEER);
    peer_begin(&peer, false, 3, MU_AGREE);
    assert_int_equal(peer_end(&peer, &theirs), MU_EPEER);
    go_on_together(run);
    assert_int_equal(mu_group(run, &group), MU_OK);
    assert_false(group.settled);
    leave(run);
}

/* Calls that were started are finished in any order, or after the group has moved: what went well
 * in the background counts all the same. */
static void what_went_well_counts_before_it_is_finished(void **state)
{
    for (int regroups_first = 0; regroups_first < 2; regroups_first++) {
        const int32_t mine = 4;
        mu_run *run = join_active();
        mu_started *first, *second;
        int32_t sums[2] = {0}, theirs;
        const mu_call calls[] = {agreed_sum(&mine, &sums[0]), agreed_sum(&mine, &sums[1])};

        assert_int_equal(mu_start(run, &calls[0], &first), MU_OK);
        assert_int_equal(mu_start(run, &calls[1], &second), MU_OK);
        peer_begin(&peer, false, 3, MU_AGREE);
        assert_int_equal(peer_end(&peer, &theirs), MU_OK);
        peer_begin(&peer, false, 3, 0); /* No READY; but the first is over here, too. */
        assert_int_equal(peer_end(&peer, &theirs), MU_OK);
        peer_reset_link(&peer, run);
        assert_int_equal(mu_finish(second, LONG_MS, NULL), MU_EPEER);
        if (!regroups_first) {
            assert_int_equal(mu_finish(first, LONG_MS, NULL), MU_OK);
        }
        peer_begin(&peer, false, 3, 0);
        assert_int_equal(peer_end(&peer, &theirs), MU_EPEER);
        go_on_together(run);
        if (regroups_first) {
            assert_int_equal(mu_finish(first, LONG_MS, NULL), MU_OK);
        }
        assert_int_equal(sums[0], 7);
        leave(run);
    }
}

/* ---- left out ---- */

/* The peer is alone in generation 8. */
static void go_on_without(void)
{
    int32_t sum;

    generation(8, GENERATION_FAILURE, "p");
    peer_begin(&peer, true, 3, 0);
    assert_int_equal(peer_end(&peer, &sum), MU_OK);
    assert_int_equal(sum, 3);
}

static void one_that_is_left_out_hears_so_once_and_then_waits_to_be_taken_in(void **state)
{
    struct msg_life life = {
        .worker = wid_make(4, 1, 3), .run = 1, .lease_ms = 1000, .job = "mnist"};
    struct msg_active active = {8};
    const int32_t mine = 4;
    mu_run *run = join_peer();
    int32_t sum;

    go_on_without();
    fake_told(run, 8);
    assert_int_equal(mu_regroup(run, LONG_MS), MU_ESTALE);
    fake_explains(mu_error(), "left out after generation 7 of job mnist");
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_ESTALE);
    fake_say(&agent, WIRE_ACTIVE, &active);
    fake_say(&agent, WIRE_LIFE, &life);
    assert_int_equal(mu_regroup(run, 20), MU_ETIMEDOUT);
    generation(9, GENERATION_BOUNDARY, "pz");
    peer_comes();
    assert_int_equal(mu_regroup(run, LONG_MS), MU_OK);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_OK);
    peer_came();
    assert_int_equal(sum, 7);
    leave(run);
}

static void one_that_was_taken_in_anew_meanwhile_hears_so_in_its_next_call(void **state)
{
    struct msg_life life = {
        .worker = wid_make(4, 1, 3), .run = 1, .lease_ms = 1000, .job = "mnist"};
    const int32_t mine = 4;
    mu_run *run = join_peer();
    int32_t sum;

    go_on_without();
    fake_say(&agent, WIRE_LIFE, &life);
    generation(9, GENERATION_BOUNDARY, "pz");
    fake_told(run, 9);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_ESTALE);
    peer_comes();
    assert_int_equal(mu_regroup(run, LONG_MS), MU_OK);
    assert_int_equal(mu_allreduce(run, &mine, &sum, 1, MU_I32, MU_SUM, LONG_MS), MU_OK);
    peer_came();
    leave(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_every_call_works),
        cmocka_unit_test(memory_is_zeroed_and_of_any_number_of_bytes),
        cmocka_unit_test(calls_that_were_started_are_finished_in_any_order),
        cmocka_unit_test(what_is_no_call_is_refused),
        cmocka_unit_test(what_the_environment_says_is_checked),
        cmocka_unit_test(an_address_that_is_not_this_hosts_fails_the_join),
        cmocka_unit_test(a_newcomer_has_reached_a_generation_when_every_member_has_answered),
        cmocka_unit_test(one_that_does_not_answer_is_not_reached),
        cmocka_unit_test(a_group_forms_by_its_first_call),
        cmocka_unit_test(until_all_have_come_a_group_can_wait_no_longer_than_it_wants),
        cmocka_unit_test(a_peer_that_is_lost_ends_the_call_and_the_group_moves_on),
        cmocka_unit_test(a_failure_generation_ends_a_call_that_waits),
        cmocka_unit_test(a_planned_generation_does_not),
        cmocka_unit_test(a_group_is_whole_while_all_its_members_are_in_the_newest_generation),
        cmocka_unit_test(a_group_that_was_overtaken_is_so_for_good),
        cmocka_unit_test(a_member_that_moves_on_ends_the_calls_of_those_who_have_not),
        cmocka_unit_test(leaving_ends_a_call_that_waits),
        cmocka_unit_test(the_end_of_the_run_ends_a_call_that_waits),
        cmocka_unit_test(a_peer_that_does_nothing_is_named_until_it_comes),
        cmocka_unit_test(after_a_link_was_reset_the_group_goes_on_in_its_generation),
        cmocka_unit_test(what_one_alone_held_is_made_anew),
        cmocka_unit_test(what_went_well_counts_before_it_is_finished),
        cmocka_unit_test(one_that_is_left_out_hears_so_once_and_then_waits_to_be_taken_in),
        cmocka_unit_test(one_that_was_taken_in_anew_meanwhile_hears_so_in_its_next_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
