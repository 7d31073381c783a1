#include "unit/unit.h"

#include "base/prng.h"
#include "core/arena.h"

#include <string.h>

static void all_of_it_can_be_used_whatever_the_holes(void **state)
{
    uint32_t pieces[16], large;
    struct arena a;

    assert_int_equal(arena_init(&a, 1024, 32), MU_OK);
    for (int i = 0; i < 16; i++) {
        assert_int_equal(arena_take(&a, 64, &pieces[i]), MU_OK);
        memset(arena_at(&a, pieces[i]), i, 64);
    }
    assert_int_equal(arena_take(&a, 1, &large), MU_ELIMIT);
    for (int i = 0; i < 16; i += 2) {
        arena_give(&a, pieces[i]);
    }
    assert_int_equal(arena_take(&a, 513, &large), MU_ELIMIT);
    assert_int_equal(arena_take(&a, 512, &large), MU_OK);
    memset(arena_at(&a, large), 0xff, 512);
    for (int i = 1; i < 16; i += 2) {
        for (int k = 0; k < 64; k++) {
            assert_int_equal(arena_at(&a, pieces[i])[k], i);
        }
    }
    arena_give(&a, ARENA_NONE);
    arena_close(&a);
}

static void a_length_beyond_all_bounds_is_refused(void **state)
{
    uint32_t piece = 77;
    struct arena a;

    assert_int_equal(arena_init(&a, 64, 1), MU_OK);
    assert_int_equal(arena_take(&a, 65, &piece), MU_ELIMIT);
    assert_int_equal(arena_take(&a, UINT32_MAX, &piece), MU_ELIMIT);
    assert_int_equal(piece, 77);
    assert_int_equal(arena_take(&a, 1, &piece), MU_OK);
    assert_int_equal(arena_take(&a, 1, &piece), MU_ELIMIT); /* One piece is all. */
    arena_give(&a, piece);
    assert_int_equal(arena_take(&a, 64, &piece), MU_OK);
    arena_close(&a);
}

/* Every piece keeps its bytes while others come and go; nothing is refused that fits. */
static void pieces_keep_their_bytes(void **state)
{
    enum { PIECES = 40, CAP = 4096 };
    uint32_t pieces[PIECES], n[PIECES] = {0}, used = 0;
    struct arena a;
    struct prng p;

    prng_init(&p, 7);
    assert_int_equal(arena_init(&a, CAP, PIECES), MU_OK);
    for (int round = 0; round < 20000; round++) {
        uint32_t i = (uint32_t)prng_below(&p, PIECES);

        if (n[i] > 0) {
            for (uint32_t k = 0; k < n[i]; k++) {
                assert_int_equal(arena_at(&a, pieces[i])[k], (uint8_t)(i + n[i]));
            }
            assert_int_equal((uintptr_t)arena_at(&a, pieces[i]) % 8, 0);
            used -= (n[i] + 7) / 8 * 8;
            arena_give(&a, pieces[i]);
            n[i] = 0;
        } else {
            uint32_t want = (uint32_t)prng_between(&p, 1, 300);
            int rc = arena_take(&a, want, &pieces[i]);

            assert_int_equal(rc, used + (want + 7) / 8 * 8 <= CAP ? MU_OK : MU_ELIMIT);
            if (rc == MU_OK) {
                n[i] = want;
                used += (want + 7) / 8 * 8;
                memset(arena_at(&a, pieces[i]), (int)(i + want), want);
            }
        }
        assert_int_equal(a.used, used);
    }
    arena_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_of_it_can_be_used_whatever_the_holes),
        cmocka_unit_test(a_length_beyond_all_bounds_is_refused),
        cmocka_unit_test(pieces_keep_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
