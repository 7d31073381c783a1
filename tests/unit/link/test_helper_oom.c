/* Helpers when memory runs out: calls end, nothing is left behind, and it goes on. */
#include "unit/deny.h"
#include "unit/link/helper_kit.h"

#include <string.h>

static int open_and_close(void *arg)
{
    const struct tender_config listen = {
        .hello = {.job = "test", .run = 1, .self = 1}, .host = 1, .paths = LINK_UNIX | LINK_TCP};
    const struct helper_config config = {.tls = false};
    char error[LINK_ERROR_MAX] = "";
    struct tender *t = NULL;
    struct helper *h = NULL;
    int rc = tender_open(&listen, &t, error);

    assert_true((rc == MU_OK) == (t != NULL) && (rc == MU_OK) == (error[0] == '\0'));
    if (rc == MU_OK) {
        rc = helper_open(t, &config, &h);
        assert_true((rc == MU_OK) == (h != NULL));
        helper_close(h);
        tender_close(t);
    }
    return rc;
}

static void opening_takes_all_or_nothing(void **state)
{
    assert_true(deny_sweep(open_and_close, NULL) >= 2);
}

/* One allocation of all that a large and a small call take, on both sides, is denied. */
static void a_call_that_lacks_memory_ends_and_can_be_made_again(void **state)
{
    static uint8_t bytes[100000], in[100000];

    for (uint32_t nth = 1;; nth++) {
        struct kit_worker a, b;

        kit_open(&a, 0, (struct kit_config){0});
        kit_open(&b, 1, (struct kit_config){0});
        deny_begin(nth);
        const int named = helper_peers(a.helper, &b.member, 1);
        const int large =
            named != MU_OK ? named
                           : kit_ask(&a, &b, KIT_LENGTH, bytes, sizeof(bytes), in, sizeof(in), 300);
        const int small =
            named != MU_OK ? named : kit_ask(&a, &b, KIT_FAIL, bytes, 8, in, sizeof(in), 300);

        deny_end();
        const bool denied = deny_taken() >= nth;

        assert_true(large == MU_OK || large == MU_ETIMEDOUT ||
                    (denied && (large == MU_ENOMEM || large == MU_EPEER || large == MU_ELIMIT)));
        assert_true(small == MU_ENOENT || small == MU_ETIMEDOUT ||
                    (denied && (small == MU_ENOMEM || small == MU_EPEER)));
        kit_meet(&a, &b);
        assert_int_equal(
            kit_ask(&a, &b, KIT_LENGTH, bytes, sizeof(bytes), in, sizeof(in), KIT_LONG_MS), MU_OK);
        kit_close(&a);
        kit_close(&b);
        if (!denied) {
            assert_true(nth > 5);
            break;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_takes_all_or_nothing),
        cmocka_unit_test(a_call_that_lacks_memory_ends_and_can_be_made_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
