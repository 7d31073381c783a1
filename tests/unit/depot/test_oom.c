/* Memory that runs out at any allocation: a status, nothing lost, nothing half. */
#include "unit/deny.h"
#include "unit/depot/depot_kit.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct ckpt_kit state_of;
static struct ckpt_mark mark;
static struct depot_kit kit;

/* ---- the other side has memory enough ---- */

static struct depot_line inner;

static int say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    int rc;

    deny_pause();
    rc = inner.say(arg, m, request, why);
    deny_resume();
    return rc;
}

static int next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    int rc;

    deny_pause();
    rc = inner.next(arg, wait_ms, request_out, m_out, why);
    deny_resume();
    return rc;
}

static int open_depot(struct depot **d_out)
{
    struct depot_line line;

    inner = line = depot_kit_line(&kit, 0);
    line.say = say;
    line.next = next;
    return depot_open(&line, d_out);
}

/* ---- tries ---- */

static int try_put(void *zstd)
{
    struct depot_copy copy = depot_kit_copy(&state_of, &mark, zstd != NULL);
    struct depot *d;
    int rc = open_depot(&d);

    if (rc == MU_OK) {
        rc = depot_put(d, &copy, NULL);
        depot_close(d);
    }
    deny_end(); /* What follows is the test's. */
    assert_int_equal(kit.kept_n, rc == MU_OK ? 1 : 0);
    return rc;
}

static int try_get(void *arg)
{
    static uint8_t to[2 * CKPT_CHUNK];
    struct ckpt *c;
    struct depot *d;
    int rc = open_depot(&d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_get(d, KIT_JOB, mark.step, &c, NULL);
    for (uint32_t i = 0; rc == MU_OK && i < KIT_PARTS; i++) {
        rc = ckpt_read_part(c, i, to, NULL);
        if (rc != MU_OK || i + 1 == KIT_PARTS) {
            ckpt_close(c);
        }
    }
    depot_close(d);
    return rc;
}

static int try_lists(void *arg)
{
    struct ckpt_entry *entries;
    struct depot *d;
    uint32_t n;
    char *names;
    int rc = open_depot(&d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_list(d, KIT_JOB, &entries, &n, NULL);
    if (rc == MU_OK) {
        free(entries);
        rc = depot_jobs(d, &names, NULL);
    }
    if (rc == MU_OK) {
        free(names);
    }
    depot_close(d);
    return rc;
}

static void without_memory_nothing_is_put_and_it_goes_on_later(void **state)
{
    assert_true(deny_sweep(try_put, NULL) > 4);
    assert_int_equal(kit.chunks_resent, 0);
    depot_kit_close(&kit);
    depot_kit_open(&kit);
    memset(state_of.state, 1, (size_t)CKPT_CHUNK);
    assert_true(deny_sweep(try_put, &kit) > 5);
}

static void without_memory_reading_says_so(void **state)
{
    assert_int_equal(kit.kept_n, 1); /* of the test before */
    assert_true(deny_sweep(try_get, NULL) > 4);
    assert_true(deny_sweep(try_lists, NULL) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_memory_nothing_is_put_and_it_goes_on_later),
        cmocka_unit_test(without_memory_reading_says_so),
    };
    int failed;

    ckpt_kit_open(&state_of, false);
    mark = ckpt_kit_mark(40);
    depot_kit_open(&kit);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    depot_kit_close(&kit);
    ckpt_kit_close(&state_of);
    return failed;
}
