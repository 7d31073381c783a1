#include "unit/unit.h"

#include "base/heap.h"
#include "base/prng.h"
#include "lib/chance.h"

#include <stdlib.h>

static int by_key_then_value(const void *a, const void *b)
{
    const struct heap_item *x = a, *y = b;

    if (x->key != y->key) {
        return x->key < y->key ? -1 : 1;
    }
    return x->value < y->value ? -1 : x->value > y->value;
}

static void an_empty_heap_has_no_top(void **state)
{
    struct heap h;

    heap_init(&h, NULL, 0);
    assert_null(heap_top(&h));
}

static void items_leave_in_order_whatever_order_they_came_in(void **state)
{
    struct heap_item storage[257], sorted[257];
    struct prng p;
    struct heap h;

    prng_init(&p, 1);
    for (uint32_t n = 0; n <= ARRAY_LEN(storage); n++) {
        heap_init(&h, storage, n);
        for (uint32_t i = 0; i < n; i++) {
            sorted[i] = (struct heap_item){prng_below(&p, 40), (uint32_t)prng_below(&p, 1000)};
            heap_push(&h, sorted[i].key, sorted[i].value);
        }
        qsort(sorted, n, sizeof(sorted[0]), by_key_then_value);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(heap_top(&h)->key, sorted[i].key);
            assert_int_equal(heap_top(&h)->value, sorted[i].value);
            heap_pop(&h);
        }
        assert_null(heap_top(&h));
    }
}

static void the_top_stays_least_through_mixed_pushes_and_pops(void **state)
{
    struct heap_item storage[64], all[64];
    uint32_t all_n = 0;
    struct prng p;
    struct heap h;

    prng_init(&p, 2);
    heap_init(&h, storage, ARRAY_LEN(storage));
    for (int round = 0; round < 20000; round++) {
        if (all_n == 0 || (all_n < ARRAY_LEN(all) && prng_chance(&p, 520000))) {
            all[all_n] = (struct heap_item){prng_u64(&p) >> 58, (uint32_t)round};
            heap_push(&h, all[all_n].key, all[all_n].value);
            all_n++;
        } else {
            heap_pop(&h);
            for (uint32_t i = 1; i < all_n; i++) {
                all[i - 1] = all[i];
            }
            all_n--;
        }
        qsort(all, all_n, sizeof(all[0]), by_key_then_value);
        assert_int_equal(h.n, all_n);
        if (all_n > 0) {
            assert_int_equal(heap_top(&h)->key, all[0].key);
            assert_int_equal(heap_top(&h)->value, all[0].value);
        }
    }
}

static void ties_leave_in_the_order_of_their_values(void **state)
{
    struct heap_item storage[5];
    struct heap h;

    heap_init(&h, storage, ARRAY_LEN(storage));
    for (uint32_t i = 0; i < 5; i++) {
        heap_push(&h, UINT64_MAX, (i * 3) % 5);
    }
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(heap_top(&h)->value, i);
        heap_pop(&h);
    }
}

static void push_one(void *arg)
{
    heap_push(arg, 1, 1);
}

static void pop_one(void *arg)
{
    heap_pop(arg);
}

static void pushing_into_a_full_heap_or_popping_an_empty_one_panics(void **state)
{
    struct heap_item storage[1];
    struct heap h;

    heap_init(&h, storage, 1);
    assert_true(unit_panics(pop_one, &h));
    assert_false(unit_panics(push_one, &h));
    heap_push(&h, 0, 0);
    assert_true(unit_panics(push_one, &h));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_no_top),
        cmocka_unit_test(items_leave_in_order_whatever_order_they_came_in),
        cmocka_unit_test(the_top_stays_least_through_mixed_pushes_and_pops),
        cmocka_unit_test(ties_leave_in_the_order_of_their_values),
        cmocka_unit_test(pushing_into_a_full_heap_or_popping_an_empty_one_panics),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
