/* Memory that runs out at each allocation in turn, in the store and inside SQLite. Built with
 * --wrap for malloc and calloc, so that the store's own allocations are counted too. */
#include "unit/store/faults_kit.h"
#include "unit/store/shim_kit.h"

#include "base/log.h"
#include "lib/memory_store.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);

static uint64_t count, fail_first, fail_n; /* atomic */

static bool denied(void)
{
    uint64_t n = __atomic_add_fetch(&count, 1, __ATOMIC_SEQ_CST);
    uint64_t first = __atomic_load_n(&fail_first, __ATOMIC_SEQ_CST);

    return first > 0 && n >= first && n - first < __atomic_load_n(&fail_n, __ATOMIC_SEQ_CST);
}

static void deny(uint64_t first, uint64_t n)
{
    __atomic_store_n(&fail_first, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&count, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fail_n, n, __ATOMIC_SEQ_CST);
    __atomic_store_n(&fail_first, first, __ATOMIC_SEQ_CST);
}

void *__wrap_malloc(size_t n)
{
    return denied() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return denied() ? NULL : __real_calloc(n, size);
}

static sqlite3_mem_methods sqlite_methods;

static void *sqlite_malloc(int n)
{
    return denied() ? NULL : sqlite_methods.xMalloc(n);
}

static void *sqlite_realloc(void *p, int n)
{
    return denied() ? NULL : sqlite_methods.xRealloc(p, n);
}

static void count_sqlite_too(void)
{
    sqlite3_mem_methods mine;

    assert_int_equal(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &sqlite_methods), SQLITE_OK);
    mine = sqlite_methods;
    mine.xMalloc = sqlite_malloc;
    mine.xRealloc = sqlite_realloc;
    assert_int_equal(sqlite3_config(SQLITE_CONFIG_MALLOC, &mine), SQLITE_OK);
}

static void sweep(uint64_t run_n, uint64_t stride)
{
    unsigned denials = 0, noticed = 0, calm = 0;

    for (uint64_t n = 1; calm < 2; n += stride) {
        struct faults_run run = {0};
        char dir[512];

        kit_dir_make(dir, sizeof(dir));
        shim_register();
        deny(n, run_n);
        faults_run(&run, dir);
        calm = __atomic_load_n(&count, __ATOMIC_SEQ_CST) < n ? calm + 1 : 0;
        deny(0, 0);
        denials += calm == 0;
        noticed += run.opens + run.appends + run.snapshots > 0;
        faults_check(&run, dir);
        kit_dir_remove(dir);
    }
    print_message("# %u denied allocations, %u of them noticed\n", denials, noticed);
    assert_true(noticed > 10);
}

static void a_denied_allocation_is_survived_wherever_it_happens(void **state)
{
    sweep(1, kit_stride(7));
}

static void many_denied_allocations_in_a_row_are_survived(void **state)
{
    sweep(10, kit_stride(11));
}

static void the_memory_store_survives_a_denied_allocation(void **state)
{
    static const unsigned char ID[STORE_ID_BYTES] = "fifteen letters";
    unsigned denials = 0;

    for (uint64_t n = 1;; n++) {
        struct kit_seen seen;
        struct kit_log log = {0};
        struct store_replay replay = kit_replay(&seen);
        char error[STORE_ERROR_MAX];
        struct store *st = NULL;
        struct store_disk *disk;
        uint64_t done;

        deny(n, 1);
        while (!(disk = store_disk_new(ID))) {
        }
        while (store_memory_open(disk, &replay, NULL, &st, error) == MU_ENOMEM) {
        }
        while (store_seq(st) < 5) {
            kit_append(st, store_seq(st) + 1);
            store_flush(st);
            store_poll(st, kit_on_done, &log);
        }
        while (store_snapshot_seq(st) < 3) {
            kit_snapshot(st, 3);
            store_flush(st);
            store_poll(st, kit_on_done, &log);
        }
        done = __atomic_load_n(&count, __ATOMIC_SEQ_CST);
        deny(0, 0);
        store_close(st);
        replay = kit_replay(&seen);
        assert_int_equal(store_memory_open(disk, &replay, NULL, &st, error), MU_OK);
        kit_check(&seen, st, 5, 5);
        store_close(st);
        store_disk_free(disk);
        if (done < n) {
            break;
        }
        denials++;
    }
    assert_true(denials >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denied_allocation_is_survived_wherever_it_happens),
        cmocka_unit_test(many_denied_allocations_in_a_row_are_survived),
        cmocka_unit_test(the_memory_store_survives_a_denied_allocation),
    };

    log_set_level((enum log_level) - 1); /* Failures are meant here. */
    count_sqlite_too();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
