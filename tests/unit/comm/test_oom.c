/* The data plane when memory runs out: it says so, leaves nothing behind, and can go on. */
#include "unit/comm/group_kit.h"
#include "unit/deny.h"
#include "unit/unit.h"

#include <string.h>

static int open_and_close(void *arg)
{
    char error[COMM_ERROR_MAX] = "";
    struct comm_config config;
    struct comm *c = NULL;

    kit_config(0, 0, false, &config);
    const int rc = comm_open(&config, &c, error);

    assert_true((rc == MU_OK) == (c != NULL));
    assert_true((rc == MU_OK) == (error[0] == '\0'));
    comm_close(c);
    return rc;
}

static void opening_takes_all_or_nothing(void **state)
{
    assert_true(deny_sweep(open_and_close, NULL) > 3);
}

/* One allocation of all that two workers make is denied (each third of them, unless all of it is
 * wanted): either their move succeeds all the same, or it says why not, and the next one succeeds.
 */
static void a_move_that_lacks_memory_can_be_made_again(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        for (uint32_t nth = 1 + (uint32_t)apart;; nth += unit_full() ? 1 : 3) {
            struct kit_moved moved;
            struct kit_room room;
            struct kit kit;

            kit_open_all(&kit, 2, 0, apart != 0);
            kit_generation(&kit, 1, 0x3, &room);
            deny_begin(nth);
            kit_move(&kit, &room.generation, 0x3, 200, &moved);
            deny_end();
            const bool denied = deny_taken() >= nth;

            for (int i = 0; i < 2; i++) {
                assert_true(moved.rc[i] == MU_OK || moved.rc[i] == MU_ETIMEDOUT ||
                            (denied && moved.rc[i] == MU_ENOMEM));
            }
            kit_enter(&kit, 2, 0x3);
            kit_barrier(&kit, 0x3);
            kit_close(&kit);
            if (!denied) {
                assert_true(nth > 5);
                break;
            }
        }
    }
}

static void check_refused(int rc, int want, const struct comm_result *result)
{
    assert_int_equal(rc, want);
    assert_true(result->rank == COMM_NOBODY && result->worker == 0);
    assert_true(result->generation == 0 && result->members_n == 0);
    assert_null(result->view);
    assert_in_range(strnlen(result->error, COMM_ERROR_MAX), 1, COMM_ERROR_MAX - 1);
}

/* Whoever makes a call prints its result: no way out leaves what was there before. */
static void a_call_that_is_not_made_sets_its_result(void **state)
{
    const struct comm_call call = {.op = COMM_BARRIER, .timeout_ms = -1};
    struct comm_started *started;
    struct comm_result result;
    struct kit kit;
    int rc;

    kit_open_all(&kit, 1, 0, false);
    pthread_mutex_lock(&kit.comms[0]->engine); /* What is started stays under way. */
    assert_int_equal(comm_start(kit.comms[0], &call, &started), MU_OK);

    memset(&result, 0xa5, sizeof(result));
    deny_begin(1);
    rc = comm_run(kit.comms[0], &call, &result);
    deny_end();
    check_refused(rc, MU_ENOMEM, &result);

    memset(&result, 0xa5, sizeof(result));
    check_refused(comm_finish(started, 0, &result), MU_ETIMEDOUT, &result);

    comm_stop(kit.comms[0]);
    memset(&result, 0xa5, sizeof(result));
    check_refused(comm_finish(started, -1, &result), MU_EDONE, &result);
    memset(&result, 0xa5, sizeof(result));
    check_refused(comm_run(kit.comms[0], &call, &result), MU_EDONE, &result);

    pthread_mutex_unlock(&kit.comms[0]->engine);
    comm_abandon(started);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_takes_all_or_nothing),
        cmocka_unit_test(a_move_that_lacks_memory_can_be_made_again),
        cmocka_unit_test(a_call_that_is_not_made_sets_its_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
