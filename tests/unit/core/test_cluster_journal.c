/* Records: memory is never ahead of the journal, a slow or failing disk harms nobody, and what
 * contradicts the records before it is refused. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a slow disk ---- */

static void renewals_are_acknowledged_while_a_record_is_pending(void **state)
{
    form("a b c");
    hold();
    exits("c", 0, 137);
    forget();
    pass(LEASE_MS * 10); /* a and b renew all the while. */
    assert_true(said_like("a: ack") > 10);
    assert_true(said_like("b: ack") > 10);
    assert_int_equal(said_like("record"), 0); /* one membership record at a time */
    sync_all();
    settle();
    expect_active("failure", "a b");
}

static void losses_while_a_record_is_pending_merge_into_the_next(void **state)
{
    form("a b c d e");
    hold();
    forget();
    exits("b", 0, 137);
    exits("c", 0, 137);
    exits("d", 0, 137);
    assert_int_equal(said_like("record generation"), 1);
    sync_all();
    expect_log("record generation 2 failure a c d e\n"
               "a: generation 2\nb: generation 2\nc: generation 2\nd: generation 2\n"
               "e: generation 2\n"
               "record generation 3 failure a e\n"
               "a: generation 3\nb: generation 3\nc: generation 3\nd: generation 3\n"
               "e: generation 3\n");
}

static void jobs_have_a_pending_record_each(void **state)
{
    shape(1, 2);
    form("a b");
    f.job = "other";
    form("x y");
    hold();
    forget();
    exits("b", 0, 137);
    exits("y", 0, 137);
    assert_int_equal(said("record generation 2 failure a"), 1);
    assert_int_equal(said("record generation 2 failure x"), 1);
    sync_all();
    f.job = "job";
}

static void a_generation_that_is_pending_is_not_seen_but_withholds_leases(void **state)
{
    form("a b");
    hold();
    join("c");
    sync_one(); /* c itself */
    warm("c");
    assert_int_equal(said("record generation 2 boundary a b c+"), 1);
    expect_active("fresh", "a b");
    renew("a");
    assert_int_equal(at("a")->ack.generation, 2); /* Who holds less has no lease. */
    assert_int_equal(at("a")->held, 1);
    sync_all();
    assert_int_equal(at("a")->held, 2);
}

static void the_orchestrator_may_die_between_handing_out_and_applying(void **state)
{
    form("a b c");
    hold();
    exits("c", 0, 137);
    restart(); /* The record is lost … */
    hello("a");
    hello("b");
    hello("c");
    expect_generation("failure", "a b"); /* … and the loss is not. */
    settle();
    expect_active("failure", "a b");
}

/* ---- writes that fail ---- */

static void a_generation_that_could_not_be_written_is_tried_again_under_another_number(void **state)
{
    char *before, *after;

    form("a b c");
    before = dump_text(&f.mind);
    hold();
    exits("c", 0, 137);
    forget();
    fail_all();
    after = dump_text(&f.mind);
    assert_string_equal(after, before);
    assert_int_equal(said_like("record"), 0); /* not at once */
    pass(f.config.retry_ms - 1);
    assert_int_equal(said_like("record"), 0);
    pass(1);
    assert_int_equal(said("record generation 3 failure a b"), 1);
    sync_all();
    expect_generation("failure", "a b");
    free(before);
    free(after);
}

static void an_active_that_could_not_be_written_is_tried_again(void **state)
{
    join("a");
    pass(WINDOW_MS);
    hold();
    enter("a");
    fail_all();
    assert_int_equal(job().active, 0);
    pass(f.config.retry_ms);
    sync_all();
    assert_int_equal(job().active, 1);
}

static void a_node_that_could_not_be_written_is_told_to_try_again(void **state)
{
    uint32_t number;

    hold();
    hello("a");
    sync_one();
    fail_all();
    assert_int_equal(at("a")->refused, MU_EAGAIN);
    assert_int_equal(job().nodes_n, 0);
    sync_all();
    hello("a");
    number = at("a")->node;
    assert_int_equal(at("a")->refused, 0);
    assert_int_equal(number, 2); /* Numbers are never tried twice. */
}

static void a_job_that_could_not_be_written_is_made_by_the_next_hello(void **state)
{
    struct job_view v;

    hold();
    hello("a");
    fail_all();
    assert_int_equal(cluster_job(f.c, "job", &v), MU_ENOENT);
    shape(2, 7);
    at("b");
    hello("b");
    assert_int_equal(at("b")->refused, 0);
    sync_all();
    assert_int_equal(job().run, 1);
}

static void a_departure_that_could_not_be_written_is_tried_again(void **state)
{
    form("a");
    hello("b");
    hold();
    bye("b");
    fail_all();
    assert_int_equal(job().nodes_n, 2);
    f.hold = false;
    silence("b");
    pass(LEASE_MS * 2);
    assert_int_equal(job().nodes_n, 1);
}

static void an_end_that_could_not_be_written_is_tried_again(void **state)
{
    form("a");
    hold();
    report("a", 0, PHASE_FINISHED, 1, 1);
    fail_all();
    assert_false(job().finished);
    pass(f.config.retry_ms);
    sync_all();
    assert_true(job().ended);
}

static void a_checkpoint_that_could_not_be_written_is_tried_again(void **state)
{
    form("a");
    hold();
    at("a")->reports[0].checkpoint = 10;
    resend("a");
    fail_all();
    assert_int_equal(job().checkpoint, 0);
    pass(f.config.retry_ms);
    sync_all();
    assert_int_equal(job().checkpoint, 10);
}

static void writes_that_fail_for_long_evict_nobody(void **state)
{
    form("a b c");
    hold();
    exits("c", 0, 137);
    for (int i = 0; i < 50; i++) {
        fail_all();
        pass(f.config.retry_ms);
    }
    sync_all();
    settle();
    expect_active("failure", "a b");
}

static void a_new_run_that_could_not_be_written_leaves_the_old_one_as_it_was(void **state)
{
    char *before, *after;

    shape(1, 1);
    form("a");
    admin(ADMIN_SHUTDOWN, "");
    bye("a");
    before = dump_text(&f.mind);
    hold();
    shape(2, 3);
    at("b")->flags = NODE_RERUN;
    hello("b");
    fail_all();
    after = dump_text(&f.mind);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

/* ---- joins and departures that cross ---- */

static void agents_that_restart_while_their_record_is_pending_leave_nothing_behind(void **state)
{
    f.config.nodes_max = 4;
    kit_open();
    for (int i = 0; i < 8; i++) {
        hold();
        rejoin("a");
        closed("a");
        rejoin("a");
        sync_all();
        assert_int_equal(at("a")->refused, 0);
        hello("a");
        closed("a");
        pass(LEASE_MS);
    }
}

static void one_that_says_bye_while_it_is_alive_is_in_no_generation(void **state)
{
    shape(2, 3);
    hello("a");
    hello("b");
    hello("c");
    warm("b");
    hold();
    bye("b"); /* Its worker still looks warm: a liar's or a hurried agent's bye. */
    warm("a c");
    sync_all();
    pass(WINDOW_MS);
    expect_generation("fresh", "a c");
}

/* ---- records that contradict ---- */

static void refused(const struct record *r)
{
    char *before = dump_text(&f.mind), *after;

    assert_int_equal(cluster_apply(f.c, r, NULL), MU_ECORRUPT);
    after = dump_text(&f.mind);
    assert_string_equal(after, before);
    free(before);
    free(after);
}

static void records_of_unknown_jobs_are_refused(void **state)
{
    struct member m = {.worker = wid_make(1, 0, 1)};

    form("a");
    refused(&(struct record){.kind = RECORD_NODE, .u.node = {"x", "n", 9, 1, 1, 1, 0}});
    refused(&(struct record){.kind = RECORD_GENERATION,
                             .u.generation = {"x", 1, 9, 0, 0, 0, 0, {0}, 1, &m}});
    refused(&(struct record){.kind = RECORD_ACTIVE, .u.active = {"x", 1}});
    refused(&(struct record){.kind = RECORD_FINISHED,
                             .u.finished = {.job = "x", .run = 1, .step = 1, .ended = 1}});
    refused(&(struct record){.kind = RECORD_SPENT, .u.spent = {"x", "a", 0, 1, 1}});
    refused(&(struct record){.kind = RECORD_CHECKPOINT, .u.checkpoint = {"x", 1, 1}});
    refused(&(struct record){.kind = RECORD_CONFIG, .u.config = {"x", "k", 1, 0, 0, NULL}});
    refused(&(struct record){.kind = RECORD_CLUSTER_LAST});
}

static void records_of_an_earlier_run_are_refused(void **state)
{
    struct member m = {.worker = 0};

    shape(1, 1);
    form("a");
    admin(ADMIN_SHUTDOWN, "");
    bye("a");
    rejoin("a");
    assert_int_equal(job().run, 2);
    m.worker = wid_make(at("a")->node, 0, 1);
    refused(&(struct record){.kind = RECORD_JOB, .u.job = {"job", 1, 1, 1, 3, 2, 0, 0}});
    refused(&(struct record){.kind = RECORD_GENERATION,
                             .u.generation = {"job", 1, 9, 0, 0, 0, 0, {0}, 1, &m}});
    refused(&(struct record){.kind = RECORD_FINISHED,
                             .u.finished = {.job = "job", .run = 1, .step = 1, .ended = 0}});
    refused(&(struct record){.kind = RECORD_CHECKPOINT, .u.checkpoint = {"job", 1, 1}});
}

static void nodes_that_are_there_or_make_no_sense_are_refused(void **state)
{
    form("a b");
    refused(&(struct record){.kind = RECORD_NODE, .u.node = {"job", "c", 1, 1, 1, 1, 0}});
    refused(&(struct record){.kind = RECORD_NODE, .u.node = {"job", "c", 0, 1, 1, 1, 0}});
    refused(&(struct record){.kind = RECORD_NODE, .u.node = {"job", "c", 9, 1, 1, 0, 0}});
    refused(
        &(struct record){.kind = RECORD_NODE, .u.node = {"job", "c", 9, 1, 1, SLOTS_MAX + 1, 0}});
    refused(&(struct record){.kind = RECORD_NODE, .u.node = {"job", "c", 9, 1, 1, 1, ROLE_N}});
    refused(&(struct record){.kind = RECORD_GONE, .u.gone = {.node = 9}});
}

static void generations_that_do_not_follow_are_refused(void **state)
{
    struct member m[2] = {{.worker = wid_make(1, 0, 1)}, {.worker = wid_make(2, 0, 1)}};
    struct record r = {.kind = RECORD_GENERATION,
                       .u.generation = {"job", 1, 2, 0, 0, 0, 0, {0}, 2, m}};

    form("a b");
    r.u.generation.number = 1;
    refused(&r); /* a number that was used */
    r.u.generation.number = 0;
    refused(&r);
    r.u.generation.number = 2;
    r.u.generation.members_n = 0;
    refused(&r);
    r.u.generation.members_n = 2;
    m[1].worker = wid_make(7, 0, 1);
    refused(&r); /* an unknown node */
    m[1].worker = wid_make(2, 1, 1);
    refused(&r); /* a slot that it does not have */
    refused(&(struct record){.kind = RECORD_ACTIVE, .u.active = {"job", 2}});
    refused(&(struct record){.kind = RECORD_ACTIVE, .u.active = {"job", 0}});
}

static void generations_with_the_dead_or_twice_the_same_are_refused(void **state)
{
    struct member m[2] = {{.worker = wid_make(1, 0, 1)}, {.worker = wid_make(1, 0, 1)}};
    struct record r = {.kind = RECORD_GENERATION,
                       .u.generation = {"job", 1, 5, 0, 0, 0, 0, {0}, 2, m}};

    form("a");
    refused(&r);
    hello("b");
    exits("b", 0, 1);
    bye("b");
    m[1].worker = wid_make(at("b")->node, 0, 1);
    refused(&r);
}

static void departures_are_recorded_once(void **state)
{
    form("a b");
    exits("b", 0, 1);
    settle();
    bye("b");
    refused(&(struct record){.kind = RECORD_GONE, .u.gone.node = at("b")->node});
    refused(&(struct record){.kind = RECORD_GONE,
                             .u.gone = {.node = at("a")->node, .forgotten = 1}}); /* It is here. */
}

static void more_nodes_than_there_is_room_for_are_refused_as_such(void **state)
{
    f.config.nodes_max = 1;
    kit_open();
    hello("a");
    assert_int_equal(
        cluster_apply(f.c,
                      &(struct record){.kind = RECORD_NODE, .u.node = {"job", "b", 2, 1, 1, 1, 0}},
                      NULL),
        MU_ELIMIT);
}

/* Written before names were checked: such a job comes back, and no node of it is taken in. */
static void a_job_whose_name_is_none_is_replayed(void **state)
{
    static const char *const names[] = {"a b", "x/y", "\xc3\xbc"};
    struct cluster *c;

    assert_int_equal(cluster_init(&f.config, NULL, &c), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct record r = {.kind = RECORD_JOB, .u.job = {.run = 1, .min = 1, .max = 1}};
        struct job_view view;

        strcpy(r.u.job.job, names[i]);
        assert_int_equal(cluster_apply(c, &r, NULL), MU_OK);
        assert_int_equal(cluster_job(c, names[i], &view), MU_OK);
    }
    cluster_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_job_whose_name_is_none_is_replayed),
        CASE(renewals_are_acknowledged_while_a_record_is_pending),
        CASE(losses_while_a_record_is_pending_merge_into_the_next),
        CASE(jobs_have_a_pending_record_each),
        CASE(a_generation_that_is_pending_is_not_seen_but_withholds_leases),
        CASE(the_orchestrator_may_die_between_handing_out_and_applying),
        CASE(a_generation_that_could_not_be_written_is_tried_again_under_another_number),
        CASE(an_active_that_could_not_be_written_is_tried_again),
        CASE(a_node_that_could_not_be_written_is_told_to_try_again),
        CASE(a_job_that_could_not_be_written_is_made_by_the_next_hello),
        CASE(a_departure_that_could_not_be_written_is_tried_again),
        CASE(an_end_that_could_not_be_written_is_tried_again),
        CASE(a_checkpoint_that_could_not_be_written_is_tried_again),
        CASE(writes_that_fail_for_long_evict_nobody),
        CASE(a_new_run_that_could_not_be_written_leaves_the_old_one_as_it_was),
        CASE(agents_that_restart_while_their_record_is_pending_leave_nothing_behind),
        CASE(one_that_says_bye_while_it_is_alive_is_in_no_generation),
        CASE(records_of_unknown_jobs_are_refused),
        CASE(records_of_an_earlier_run_are_refused),
        CASE(nodes_that_are_there_or_make_no_sense_are_refused),
        CASE(generations_that_do_not_follow_are_refused),
        CASE(generations_with_the_dead_or_twice_the_same_are_refused),
        CASE(departures_are_recorded_once),
        CASE(more_nodes_than_there_is_room_for_are_refused_as_such),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
