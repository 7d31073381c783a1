#include "unit/unit.h"

#include "base/crc32c.h"
#include "base/prng.h"

#include <string.h>

static void fill(unsigned char *bytes, size_t n, uint64_t seed)
{
    struct prng p;

    prng_init(&p, seed);
    for (size_t i = 0; i < n; i++) {
        bytes[i] = (unsigned char)prng_u64(&p);
    }
}

/* The test vectors of RFC 3720, B.4, and the usual "123456789". */
static void published_vectors_hold(void **state)
{
    unsigned char bytes[32];

    assert_true(crc32c(0, "123456789", 9) == 0xe3069283U);
    memset(bytes, 0, sizeof(bytes));
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x8a9136aaU);
    memset(bytes, 0xff, sizeof(bytes));
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x62a8ab43U);
    for (unsigned char i = 0; i < sizeof(bytes); i++) {
        bytes[i] = i;
    }
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x46dd794eU);
    for (unsigned char i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (unsigned char)(31 - i);
    }
    assert_true(crc32c(0, bytes, sizeof(bytes)) == 0x113fdb5cU);
}

static void nothing_changes_nothing(void **state)
{
    assert_true(crc32c(0, NULL, 0) == 0);
    assert_true(crc32c(0x12345678, NULL, 0) == 0x12345678);
}

static void the_fast_way_equals_the_portable_way_at_every_length_and_alignment(void **state)
{
    unsigned char bytes[320];

    fill(bytes, sizeof(bytes), 1);
    for (size_t from = 0; from < 16; from++) {
        for (size_t n = 0; n + from <= sizeof(bytes); n++) {
            assert_true(crc32c(77, bytes + from, n) == crc32c_portable(77, bytes + from, n));
        }
    }
}

static void a_sum_in_two_parts_equals_the_sum_of_the_whole(void **state)
{
    unsigned char bytes[100];
    uint32_t whole;

    fill(bytes, sizeof(bytes), 2);
    whole = crc32c(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut++) {
        assert_true(crc32c(crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut) == whole);
    }
}

static void every_single_flipped_bit_is_seen(void **state)
{
    unsigned char bytes[64];
    uint32_t whole;

    fill(bytes, sizeof(bytes), 3);
    whole = crc32c(0, bytes, sizeof(bytes));
    for (size_t bit = 0; bit < 8 * sizeof(bytes); bit++) {
        bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        assert_true(crc32c(0, bytes, sizeof(bytes)) != whole);
        bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(published_vectors_hold),
        cmocka_unit_test(nothing_changes_nothing),
        cmocka_unit_test(the_fast_way_equals_the_portable_way_at_every_length_and_alignment),
        cmocka_unit_test(a_sum_in_two_parts_equals_the_sum_of_the_whole),
        cmocka_unit_test(every_single_flipped_bit_is_seen),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
