/* Results that nobody copies: how many can be looked at, and for how long they stay. */
#include "unit/comm/group_kit.h"
#include "unit/unit.h"

#include <string.h>

#define N 20000

static struct comm_call sum_of(const float *in)
{
    return (struct comm_call){.op = COMM_ALLREDUCE,
                              .in = in,
                              .count = N,
                              .dtype = DTYPE_F32,
                              .reduce = REDUCE_SUM,
                              .flags = COMM_VIEW,
                              .timeout_ms = KIT_LONG_MS};
}

static void fill(float *in, float value)
{
    for (size_t i = 0; i < N; i++) {
        in[i] = value + (float)i;
    }
}

static bool is_sum(const float *view, float value)
{
    for (size_t i = 0; i < N; i++) {
        if (view[i] != 2 * (value + (float)i)) {
            return false;
        }
    }
    return true;
}

/* Both make the call with the same value; worker 1 in the background. Their views. */
static void make_both(struct kit *kit, float *in[2], float value, const void *views[2])
{
    struct comm_started *started;
    struct comm_result results[2];
    struct comm_call calls[2];

    for (uint32_t i = 0; i < 2; i++) {
        fill(in[i], value);
        calls[i] = sum_of(in[i]);
    }
    assert_int_equal(comm_start(kit->comms[1], &calls[1], &started), MU_OK);
    assert_int_equal(comm_run(kit->comms[0], &calls[0], &results[0]), MU_OK);
    assert_int_equal(comm_finish(started, -1, &results[1]), MU_OK);
    views[0] = results[0].view;
    views[1] = results[1].view;
}

static void open_two(struct kit *kit, unsigned paths, float *in[2])
{
    kit_open_all(kit, 2, paths, false);
    kit_enter(kit, 1, 0x3);
    in[0] = comm_alloc(kit->comms[0], N * sizeof(float));
    in[1] = comm_alloc(kit->comms[1], N * sizeof(float));
    assert_true(in[0] != NULL && in[1] != NULL);
}

static void a_view_stays_until_it_is_released(void **state)
{
    for (unsigned paths = COMM_SHM; paths <= COMM_TCP; paths++) {
        const void *first[2], *second[2];
        float *in[2];
        struct kit kit;

        open_two(&kit, paths, in);
        make_both(&kit, in, 1, first);
        for (int i = 2; i < 12; i++) {
            make_both(&kit, in, (float)i, second);
            for (uint32_t w = 0; w < 2; w++) {
                assert_true(is_sum(first[w], (float)(i - 1)));
                assert_true(is_sum(second[w], (float)i));
                comm_release(kit.comms[w], first[w]);
                first[w] = second[w];
            }
        }
        kit_close(&kit);
    }
}

/* It is told at once, nobody else is disturbed, and the call can be made when there is room. */
static void one_view_too_many_is_refused_and_costs_nothing(void **state)
{
    const void *first[2], *second[2];
    struct comm_started *started;
    struct comm_result result;
    struct comm_call calls[2];
    float *in[2];
    struct kit kit;

    open_two(&kit, COMM_SHM, in);
    make_both(&kit, in, 1, first);
    make_both(&kit, in, 2, second);
    comm_release(kit.comms[1], first[1]);
    calls[0] = sum_of(in[0]);
    calls[1] = sum_of(in[1]);
    fill(in[0], 3);
    fill(in[1], 3);
    assert_int_equal(comm_start(kit.comms[1], &calls[1], &started), MU_OK);
    assert_int_equal(comm_run(kit.comms[0], &calls[0], &result), MU_ELIMIT);
    assert_true(strstr(result.error, "release") != NULL);
    comm_release(kit.comms[0], first[0]);
    assert_int_equal(comm_run(kit.comms[0], &calls[0], &result), MU_OK);
    assert_true(is_sum(result.view, 3) && is_sum(second[0], 2) && is_sum(second[1], 2));
    assert_int_equal(comm_finish(started, -1, &result), MU_OK);
    assert_true(is_sum(result.view, 3));
    kit_close(&kit);
}

/* Its pages are its own, whatever becomes of the group and of the one that wrote them. */
static void a_view_outlives_the_group_and_its_owner(void **state)
{
    const void *views[2];
    float *in[2];
    struct kit kit;

    open_two(&kit, COMM_SHM, in);
    make_both(&kit, in, 5, views);
    comm_close(kit.comms[1]);
    kit.comms[1] = NULL;
    kit_enter(&kit, 2, 0x1);
    fill(in[0], 6);
    for (int i = 0; i < 4; i++) {
        struct comm_call call = sum_of(in[0]);
        struct comm_result result;

        assert_int_equal(comm_run(kit.comms[0], &call, &result), MU_OK);
        comm_release(kit.comms[0], result.view);
    }
    assert_true(is_sum(views[0], 5));
    comm_release(kit.comms[0], views[0]);
    kit_close(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_stays_until_it_is_released),
        cmocka_unit_test(one_view_too_many_is_refused_and_costs_nothing),
        cmocka_unit_test(a_view_outlives_the_group_and_its_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
