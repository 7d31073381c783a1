/* Looking in: what is shown is what was sent, and looking changes nothing. */
#include "unit/core/cluster_kit.h"

#include <stdlib.h>
#include <string.h>

struct seen {
    uint32_t nodes_n, members_n, jobs_n;
    wid members[16];
    char names[16][NAME_MAX_LEN];
    bool draining[16], lapsed[16], member[16];
};

static void see_node(void *arg, const struct node_look *n)
{
    struct seen *s = arg;

    strcpy(s->names[s->nodes_n], n->name);
    s->draining[s->nodes_n] = n->draining;
    s->lapsed[s->nodes_n] = n->lapsed;
    s->member[s->nodes_n++] = n->member;
    for (uint32_t i = 0; i < n->slots; i++) {
        if (n->slot[i].member != 0) {
            s->members[s->members_n++] = n->slot[i].member;
        }
    }
}

static void see_job(void *arg, const struct job_look *j)
{
    struct seen *s = arg;

    assert_string_equal(j->view.name, s->jobs_n == 0 ? "job" : "other");
    s->jobs_n++;
}

static struct seen look(void)
{
    struct seen s = {0};

    assert_int_equal(cluster_each_node(f.c, "job", see_node, &s), MU_OK);
    return s;
}

static void member_slots_come_in_order_of_rank(void **state)
{
    struct generation g;
    struct seen s;

    f.slots = 2;
    shape(2, 3);
    form("a b");
    hello("c");
    s = look();
    assert_int_equal(cluster_generation(f.c, "job", &g), MU_OK);
    assert_int_equal(s.members_n, g.members_n);
    for (uint32_t i = 0; i < g.members_n; i++) {
        assert_int_equal(s.members[i], g.members[i].worker);
    }
    assert_int_equal(s.nodes_n, 3);
    assert_string_equal(s.names[2], "c");
    assert_false(s.member[2]);
}

static void who_leaves_and_who_is_silent_shows(void **state)
{
    struct seen s;

    shape(1, 3);
    form("a b c");
    admin(ADMIN_DRAIN, "b");
    silence("c");
    pass(2 * LEASE_MS);
    s = look();
    for (uint32_t i = 0; i < s.nodes_n; i++) {
        assert_int_equal(s.draining[i], strcmp(s.names[i], "b") == 0);
        assert_int_equal(s.lapsed[i], strcmp(s.names[i], "c") == 0);
    }
}

static void a_node_that_is_not_durable_is_not_shown(void **state)
{
    shape(1, 2);
    form("a");
    hold();
    hello("b");
    assert_int_equal(look().nodes_n, 1);
    sync_all();
    assert_int_equal(look().nodes_n, 2);
}

static void a_job_is_shown_with_what_was_asked_of_it(void **state)
{
    struct job_look j;

    shape(2, 3);
    form("a b");
    assert_int_equal(cluster_look_job(f.c, "job", &j), MU_OK);
    assert_int_equal(j.min, 2);
    assert_int_equal(j.max, 3);
    assert_int_equal(j.survivors_n, 2);
    assert_int_equal(j.view.members_n, 2);
    assert_false(j.failed);
    assert_string_equal(j.why, "");
    want(2);
    paused(true);
    assert_int_equal(cluster_look_job(f.c, "job", &j), MU_OK);
    assert_true(j.paused);
    assert_int_equal(j.want_size, 2);
    assert_false(j.scheduled);
    assert_int_equal(cluster_look_job(f.c, "nojob", &j), MU_ENOENT);
    assert_int_equal(cluster_each_node(f.c, "nojob", see_node, NULL), MU_ENOENT);
}

static void jobs_come_one_after_the_other(void **state)
{
    struct seen s = {0};

    shape(1, 1);
    form("a");
    f.job = "other";
    hello("b");
    cluster_each_job(f.c, see_job, &s);
    assert_int_equal(s.jobs_n, 2);
}

static void looking_changes_nothing(void **state)
{
    struct seen s = {0};
    char *before, *after;

    shape(1, 3);
    form("a b c");
    before = dump_text(&f.mind);
    forget();
    look();
    cluster_each_job(f.c, see_job, &s);
    after = dump_text(&f.mind);
    assert_string_equal(before, after);
    expect_log("");
    free(before);
    free(after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(member_slots_come_in_order_of_rank),
        CASE(who_leaves_and_who_is_silent_shows),
        CASE(a_node_that_is_not_durable_is_not_shown),
        CASE(a_job_is_shown_with_what_was_asked_of_it),
        CASE(jobs_come_one_after_the_other),
        CASE(looking_changes_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
