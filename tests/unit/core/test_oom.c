/* The core takes its memory at init: each allocation is denied in turn, and nothing is left
 * behind. */
#include "unit/deny.h"
#include "unit/unit.h"

#include "core/agent.h"
#include "core/cluster.h"
#include "core/step.h"
#include "core/sync.h"
#include "core/tasks.h"

static int try_cluster(void *none)
{
    struct cluster_config config = cluster_defaults();
    config.nodes_max = config.workers_max = 64; /* What is denied does not depend on sizes. */
    struct cluster *untouched = (struct cluster *)&config, *c = untouched;
    int rc = cluster_init(&config, NULL, &c);

    if (rc == MU_OK) {
        assert_true(cluster_memory(c) > 0);
        cluster_close(c);
    } else {
        assert_ptr_equal(c, untouched);
    }
    return rc;
}

static int try_step(void *none)
{
    struct step s;
    int rc = step_init(&s, &(struct step_config){.slices_n = 8, .members_max = 16});

    if (rc == MU_OK) {
        step_close(&s);
    }
    return rc;
}

static int try_membership(void *none)
{
    struct member members[2] = {{.worker = 1}, {.worker = 2}};
    struct membership *untouched = (struct membership *)members, *m = untouched;
    int rc = membership_open(&(struct generation){.members = members, .members_n = 2}, &m);

    if (rc == MU_OK) {
        membership_close(m);
    } else {
        assert_ptr_equal(m, untouched);
    }
    return rc;
}

static int try_agent(void *none)
{
    struct agent a;
    int rc =
        agent_init(&a, &(struct agent_config){.renew_ms = 1, .members_max = 16, .hello.slots = 1});

    if (rc == MU_OK) {
        agent_close(&a);
    }
    return rc;
}

static int try_sync(void *none)
{
    struct sync_config config = sync_defaults();
    struct sync *untouched = (struct sync *)&config, *s = untouched;
    int rc = sync_init(&config, &s);

    if (rc == MU_OK) {
        sync_close(s);
    } else {
        assert_ptr_equal(s, untouched);
    }
    return rc;
}

static int try_tasks(void *none)
{
    struct tasks_limits limits = {64, 4, 64, 8, 8, 8, 2};
    struct tasks *untouched = (struct tasks *)&limits, *t = untouched;
    int rc = tasks_init("job", &limits, &t);

    if (rc == MU_OK) {
        assert_true(tasks_memory(t) > 0);
        tasks_close(t);
    } else {
        assert_ptr_equal(t, untouched);
    }
    return rc;
}

static void a_cluster_is_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_cluster, NULL) >= 10);
}

static void a_step_is_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_step, NULL) >= 6);
}

static void a_membership_is_made_whole_or_not_at_all(void **state)
{
    assert_int_equal(deny_sweep(try_membership, NULL), 1);
}

static void an_agent_is_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_agent, NULL) >= 1);
}

static void values_by_tag_are_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_sync, NULL) >= 9);
}

static void a_task_manager_is_made_whole_or_not_at_all(void **state)
{
    assert_true(deny_sweep(try_tasks, NULL) >= 20);
}

static void closing_nothing_is_fine(void **state)
{
    cluster_close(NULL);
    tasks_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cluster_is_made_whole_or_not_at_all),
        cmocka_unit_test(a_step_is_made_whole_or_not_at_all),
        cmocka_unit_test(a_membership_is_made_whole_or_not_at_all),
        cmocka_unit_test(an_agent_is_made_whole_or_not_at_all),
        cmocka_unit_test(values_by_tag_are_made_whole_or_not_at_all),
        cmocka_unit_test(a_task_manager_is_made_whole_or_not_at_all),
        cmocka_unit_test(closing_nothing_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
