#include "base/prng.h"
#include "base/timers.h"
#include "unit/unit.h"

#define N 300

struct owner {
    uint64_t want_ms; /* 0: off */
    struct timer timer;
};

static void nothing(void *data, struct timer *t)
{
}

static uint64_t earliest(const struct owner *all)
{
    uint64_t at_ms = UINT64_MAX;

    for (uint32_t i = 0; i < N; i++) {
        at_ms = all[i].want_ms != 0 ? MIN(at_ms, all[i].want_ms) : at_ms;
    }
    return at_ms;
}

static void an_empty_heap_has_nothing_due(void **state)
{
    struct timers ts = {0};
    struct timer t = {0};

    assert_true(timers_next_ms(&ts) == UINT64_MAX);
    assert_null(timers_take(&ts, UINT64_MAX));
    assert_false(timer_is_on(&t));
    timers_disarm(&ts, &t);
    assert_true(timers_next_ms(&ts) == UINT64_MAX);
}

static void one_is_taken_when_it_is_due_and_not_before(void **state)
{
    struct timers ts = {0};
    struct timer t = {0};

    timers_arm(&ts, &t, 10, nothing);
    assert_true(timer_is_on(&t));
    assert_null(timers_take(&ts, 9));
    assert_ptr_equal(timers_take(&ts, 10), &t);
    assert_ptr_equal(t.fn, nothing);
    assert_false(timer_is_on(&t));
    assert_null(timers_take(&ts, 10));
}

/* As a list without order would have it, whatever is armed, moved, disarmed and taken. */
static void any_order_of_calls_gives_the_earliest(void **state)
{
    struct owner all[N] = {0};
    struct timers ts = {0};
    struct prng prng;
    uint64_t now_ms = 1;

    prng_init(&prng, 7);
    for (uint32_t round = 0; round < 20000; round++) {
        struct owner *o = &all[prng_between(&prng, 0, N - 1)];
        struct timer *t;

        switch (prng_between(&prng, 0, 3)) {
        case 0:
            o->want_ms = 0;
            timers_disarm(&ts, &o->timer);
            break;
        case 1:
            now_ms += prng_between(&prng, 0, 20);
            while ((t = timers_take(&ts, now_ms)) != NULL) {
                o = CONTAINER_OF(t, struct owner, timer);
                assert_true(o->want_ms == earliest(all));
                o->want_ms = 0;
            }
            assert_true(earliest(all) > now_ms);
            break;
        default:
            o->want_ms = now_ms + prng_between(&prng, 0, 500);
            timers_arm(&ts, &o->timer, o->want_ms, nothing);
            break;
        }
        assert_true(timers_next_ms(&ts) == earliest(all));
        assert_int_equal(timer_is_on(&o->timer), o->want_ms != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_nothing_due),
        cmocka_unit_test(one_is_taken_when_it_is_due_and_not_before),
        cmocka_unit_test(any_order_of_calls_gives_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
