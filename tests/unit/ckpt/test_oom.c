/* Memory that runs out at any allocation: a status, nothing lost, nothing half. */
#include "ckpt/ckpt.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/deny.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

static struct ckpt_kit kit;

static int try_save(void *zstd)
{
    struct ckpt_target t = ckpt_kit_target(&kit, 2, "g2", 1);
    int rc;

    t.zstd = zstd != NULL;
    rc = ckpt_kit_save(&kit, &t, NULL);
    deny_end(); /* What follows is the test's. */
    assert_int_equal(ckpt_kit_count(&kit), rc == MU_OK ? 2 : 1);
    if (rc != MU_OK) {
        ckpt_abandon(&t);
    }
    return rc;
}

static int try_load(void *arg)
{
    struct ckpt *c;
    int rc = ckpt_open(kit.dir, KIT_JOB, 2, &c, NULL);
    static uint8_t to[2 * CKPT_CHUNK];

    if (rc != MU_OK) {
        return rc;
    }
    rc = ckpt_verify(c, NULL);
    for (uint32_t i = 0; rc == MU_OK && i < KIT_PARTS; i++) {
        rc = ckpt_read_part(c, i, to, NULL);
    }
    ckpt_close(c);
    return rc;
}

static int try_lists(void *arg)
{
    struct ckpt_entry *entries;
    uint32_t n;
    int rc = ckpt_list(kit.dir, KIT_JOB, &entries, &n, NULL);

    if (rc == MU_OK) {
        free(entries);
        rc = ckpt_prune(kit.dir, KIT_JOB, CKPT_NEWEST, 2, 0, NULL, NULL);
    }
    return rc;
}

static char *intake_text;
static size_t intake_text_n;
static struct ckpt_manifest intake_m;

static int try_take_in(void *arg)
{
    struct ckpt_intake *i;
    int rc = ckpt_intake_open(kit.dir, KIT_JOB, 3, kit.bytes, &i, NULL);

    if (rc == MU_OK) {
        uint8_t sum[CKPT_SUM_BYTES];

        for (uint32_t c = ckpt_intake_has(i, sum); rc == MU_OK && c < intake_m.chunks_n; c++) {
            rc = ckpt_intake_put(i, c, kit.state + c * CKPT_CHUNK, intake_m.chunks[c].stored,
                                 intake_m.chunks[c].sum, NULL);
        }
        rc = rc == MU_OK ? ckpt_intake_commit(i, intake_text, intake_text_n, NULL) : rc;
        ckpt_intake_close(i);
    }
    deny_end();
    assert_int_equal(ckpt_kit_count(&kit), rc == MU_OK ? 3 : 2);
    return rc;
}

static void a_save_without_memory_changes_nothing(void **state)
{
    const struct ckpt_target t = ckpt_kit_target(&kit, 1, "g1", 1);

    assert_int_equal(ckpt_kit_save(&kit, &t, NULL), MU_OK);
    assert_true(deny_sweep(try_save, NULL) > 3);
    assert_int_equal(ckpt_remove(kit.dir, KIT_JOB, 2, NULL), MU_OK);
    memset(kit.state, 1, (size_t)CKPT_CHUNK);
    assert_true(deny_sweep(try_save, &kit) > 4);
}

static void a_load_without_memory_says_so(void **state)
{
    assert_true(deny_sweep(try_load, NULL) > 4);
    assert_true(deny_sweep(try_lists, NULL) > 0);
}

static void an_intake_without_memory_goes_on_later(void **state)
{
    ckpt_kit_manifest(&kit, 3, &intake_text, &intake_text_n);
    assert_int_equal(ckpt_manifest_parse(intake_text, intake_text_n, &intake_m, NULL), MU_OK);
    assert_true(deny_sweep(try_take_in, NULL) > 4);
    assert_int_equal(ckpt_kit_load(&kit, 3, NULL), MU_OK);
    ckpt_manifest_free(&intake_m);
    free(intake_text);
}

static int open_kit(void **state)
{
    ckpt_kit_open(&kit, false);
    return 0;
}

static int close_kit(void **state)
{
    ckpt_kit_close(&kit);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_save_without_memory_changes_nothing),
        cmocka_unit_test(a_load_without_memory_says_so),
        cmocka_unit_test(an_intake_without_memory_goes_on_later),
    };

    return cmocka_run_group_tests(tests, open_kit, close_kit);
}
