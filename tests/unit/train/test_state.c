/* What a trainer names as its state: what may be named, how it is described, and its digest. How it
 * is streamed is in tests/comm/state_test.c. */
#include "train/train.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct state s;

static int close_it(void **state)
{
    state_close(&s);
    return 0;
}

static struct state_part part_at(const char *name, void *data, size_t bytes)
{
    struct state_part p = {.data = data, .bytes = bytes};

    memcpy(p.name, name, MIN(strlen(name) + 1, sizeof(p.name))); /* Too long: not terminated. */
    return p;
}

static int add(const char *name, void *data, size_t bytes)
{
    const struct state_part p = part_at(name, data, bytes);

    return state_add(&s, &p);
}

/* ---- by calls ---- */

struct saved {
    const void *data;
    size_t n;
    int status;
    uint32_t saves_n;
};

static int save(void *arg, const void **data_out, size_t *n_out)
{
    struct saved *v = arg;

    v->saves_n++;
    if (v->status == MU_OK) {
        *data_out = v->data;
        *n_out = v->n;
    }
    return v->status;
}

static int load(void *arg, const void *data, size_t n)
{
    return MU_OK;
}

static int add_calls(const char *name, struct saved *v)
{
    struct state_part p = part_at(name, NULL, 0);

    p.save = save;
    p.load = load;
    p.arg = v;
    return state_add(&s, &p);
}

/* ---- naming ---- */

static void expect_text(const char *want)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);

    state_describe(&s, out);
    assert_int_equal(fclose(out), 0);
    assert_string_equal(text, want);
    free(text);
}

static void every_part_is_a_line_in_the_order_of_naming(void **state)
{
    uint8_t memory[4000];
    struct saved v = {.data = memory};

    expect_text("");
    assert_int_equal(add("weights", memory, 4000), MU_OK);
    assert_int_equal(add("a", memory, 0), MU_OK);
    assert_int_equal(add_calls("optimizer", &v), MU_OK);
    assert_int_equal(add("bias/größe", memory, 7), MU_OK);
    expect_text("state weights 4000 bytes\n"
                "state a 0 bytes\n"
                "state optimizer by calls\n"
                "state bias/größe 7 bytes\n");
    assert_int_equal(v.saves_n, 0);
}

static void a_name_that_can_not_stand_in_a_line_is_refused(void **state)
{
    static const char *const NAMES[] = {"", " ", "a b", "a\n", "\ta", "a\x7f"};
    char most[STATE_NAME_MAX + 1];
    uint8_t byte = 0;

    for (size_t i = 0; i < ARRAY_LEN(NAMES); i++) {
        assert_int_equal(add(NAMES[i], &byte, 1), MU_EINVAL);
        assert_non_null(strstr(mu_error(), "name"));
    }
    memset(most, 'n', sizeof(most));
    most[STATE_NAME_MAX] = '\0';
    assert_int_equal(add(most, &byte, 1), MU_EINVAL);
    assert_int_equal(s.n, 0);
    most[STATE_NAME_MAX - 1] = '\0';
    assert_int_equal(add(most, &byte, 1), MU_OK);
}

static void a_name_is_given_once(void **state)
{
    uint8_t byte = 0;

    assert_int_equal(add("w", &byte, 1), MU_OK);
    assert_int_equal(add("v", &byte, 1), MU_OK);
    assert_int_equal(add("w", &byte, 1), MU_EEXIST);
    assert_non_null(strstr(mu_error(), "\"w\""));
    expect_text("state w 1 bytes\nstate v 1 bytes\n");
}

static void a_part_has_memory_or_both_calls(void **state)
{
    uint8_t byte = 0;
    struct state_part p = part_at("w", NULL, 4);

    assert_int_equal(state_add(&s, &p), MU_EINVAL);
    p.save = save;
    assert_int_equal(state_add(&s, &p), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "load is missing"));
    p.save = NULL;
    p.load = load;
    assert_int_equal(state_add(&s, &p), MU_EINVAL);
    assert_non_null(strstr(mu_error(), "save is missing"));
    p.save = save;
    p.data = &byte;
    assert_int_equal(state_add(&s, &p), MU_EINVAL);
    assert_int_equal(s.n, 0);
    p.data = NULL;
    assert_int_equal(state_add(&s, &p), MU_OK);
}

static void there_is_a_limit(void **state)
{
    uint8_t byte = 0;
    char name[32];

    assert_int_equal(add("huge", &byte, SIZE_MAX / 2), MU_ELIMIT);
    for (uint32_t i = 0; i < STATE_PARTS_MAX; i++) {
        snprintf(name, sizeof(name), "p%u", i);
        assert_int_equal(add(name, &byte, 1), MU_OK);
    }
    assert_int_equal(add("more", &byte, 1), MU_ELIMIT);
    assert_non_null(strstr(mu_error(), "4096"));
    assert_int_equal(s.n, STATE_PARTS_MAX);
    assert_string_equal(s.parts[1234].name, "p1234");
}

static void what_is_closed_can_be_filled_again(void **state)
{
    uint8_t byte = 0;

    assert_int_equal(add("w", &byte, 1), MU_OK);
    state_close(&s);
    state_close(&s);
    expect_text("");
    assert_int_equal(add("w", &byte, 1), MU_OK);
}

/* ---- the digest ---- */

struct digest {
    uint8_t b[DIGEST_BYTES];
};

static struct digest digest_now(void)
{
    struct digest d;

    assert_int_equal(state_digest(&s, d.b), MU_OK);
    return d;
}

/* Of two parts, as these are. */
static struct digest digest_of(const char *name_a, const char *a, size_t a_n, const char *name_b,
                               const char *b, size_t b_n)
{
    char memory[2][64];
    struct digest d;

    memcpy(memory[0], a, a_n);
    memcpy(memory[1], b, b_n);
    state_close(&s);
    assert_int_equal(add(name_a, memory[0], a_n), MU_OK);
    assert_int_equal(add(name_b, memory[1], b_n), MU_OK);
    d = digest_now();
    state_close(&s);
    return d;
}

static bool equal(struct digest a, struct digest b)
{
    return memcmp(a.b, b.b, DIGEST_BYTES) == 0;
}

static void every_byte_changes_the_digest(void **state)
{
    static uint8_t memory[3][5000];
    struct digest was, now;

    for (size_t i = 0; i < 5000; i++) {
        memory[0][i] = memory[1][i] = memory[2][i] = (uint8_t)(i * 7);
    }
    assert_int_equal(add("a", memory[0], 5000), MU_OK);
    assert_int_equal(add("b", memory[1], 3), MU_OK);
    was = digest_now();
    for (size_t i = 0; i < 5003; i++) {
        uint8_t *byte = i < 5000 ? &memory[0][i] : &memory[1][i - 5000];

        *byte ^= (uint8_t)(1 << i % 8);
        now = digest_now();
        assert_false(equal(was, now));
        *byte ^= (uint8_t)(1 << i % 8);
    }
    memory[1][3] ^= 1; /* no part of it */
    now = digest_now();
    assert_true(equal(was, now));
    state_close(&s); /* The same bytes elsewhere are the same state. */
    assert_int_equal(add("a", memory[2], 5000), MU_OK);
    assert_int_equal(add("b", memory[2], 3), MU_OK);
    now = digest_now();
    assert_true(equal(was, now));
}

static void names_lengths_and_order_change_the_digest(void **state)
{
    const struct digest was = digest_of("n", "abc", 3, "m", "def", 3);

    assert_true(equal(was, digest_of("n", "abc", 3, "m", "def", 3)));
    assert_false(equal(was, digest_of("o", "abc", 3, "m", "def", 3)));
    assert_false(equal(was, digest_of("n", "abc", 3, "mm", "def", 3)));
    assert_false(equal(was, digest_of("n", "abc", 2, "m", "def", 3)));
    assert_false(equal(was, digest_of("n", "abcd", 4, "m", "ef", 2)));
    assert_false(equal(was, digest_of("m", "def", 3, "n", "abc", 3)));
    assert_false(equal(was, digest_of("m", "abc", 3, "n", "def", 3)));
    assert_false(equal(digest_of("n", "", 0, "m", "a", 1), digest_of("n", "a", 1, "m", "", 0)));
}

static void a_part_without_bytes_is_part_of_the_digest(void **state)
{
    uint8_t byte = 3;
    struct digest one, two;

    assert_int_equal(add("a", &byte, 1), MU_OK);
    one = digest_now();
    assert_int_equal(add("b", &byte, 0), MU_OK);
    two = digest_now();
    assert_false(equal(one, two));
}

static void what_save_gives_is_digested_as_if_it_lay_there(void **state)
{
    uint8_t bytes[] = {9, 8, 7};
    struct saved v = {.data = bytes, .n = 3};
    struct digest lying, saved, longer;

    assert_int_equal(add("a", bytes, 3), MU_OK);
    lying = digest_now();
    state_close(&s);
    assert_int_equal(add_calls("a", &v), MU_OK);
    saved = digest_now();
    assert_true(equal(lying, saved));
    assert_int_equal(v.saves_n, 1);
    v.n = 2;
    longer = digest_now();
    assert_false(equal(saved, longer));
}

static void a_save_that_fails_fails_the_digest(void **state)
{
    struct saved v = {.status = -1234};
    struct digest d = {{1, 2, 3}};

    assert_int_equal(add_calls("optimizer", &v), MU_OK);
    assert_int_equal(state_digest(&s, d.b), -1234);
    assert_non_null(strstr(mu_error(), "optimizer"));
    v = (struct saved){.data = NULL, .n = 5};
    assert_int_equal(state_digest(&s, d.b), MU_EINVAL);
    assert_true(equal(d, (struct digest){{1, 2, 3}}));
}

/* Workers of one job may be of different builds: it must not change by itself. */
static void the_digest_is_the_same_everywhere(void **state)
{
    static const uint8_t EMPTY[] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47, 0x98, 0xd8,
                                    0x60, 0x01, 0xc3, 0x24, 0x46, 0x8d, 0x49, 0x7f};
    static const uint8_t SOME[] = {0x22, 0x49, 0x18, 0x7f, 0xee, 0x52, 0x99, 0x1a,
                                   0xa9, 0xfd, 0xa6, 0x9e, 0x83, 0x87, 0x1b, 0x30};
    uint8_t bytes[1000];

    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * i);
    }
    assert_memory_equal(digest_now().b, EMPTY, DIGEST_BYTES);
    assert_int_equal(add("weights", bytes, sizeof(bytes)), MU_OK);
    assert_int_equal(add("empty", bytes, 0), MU_OK);
    assert_memory_equal(digest_now().b, SOME, DIGEST_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_part_is_a_line_in_the_order_of_naming, close_it),
        cmocka_unit_test_teardown(a_name_that_can_not_stand_in_a_line_is_refused, close_it),
        cmocka_unit_test_teardown(a_name_is_given_once, close_it),
        cmocka_unit_test_teardown(a_part_has_memory_or_both_calls, close_it),
        cmocka_unit_test_teardown(there_is_a_limit, close_it),
        cmocka_unit_test_teardown(what_is_closed_can_be_filled_again, close_it),
        cmocka_unit_test_teardown(every_byte_changes_the_digest, close_it),
        cmocka_unit_test_teardown(names_lengths_and_order_change_the_digest, close_it),
        cmocka_unit_test_teardown(a_part_without_bytes_is_part_of_the_digest, close_it),
        cmocka_unit_test_teardown(what_save_gives_is_digested_as_if_it_lay_there, close_it),
        cmocka_unit_test_teardown(a_save_that_fails_fails_the_digest, close_it),
        cmocka_unit_test_teardown(the_digest_is_the_same_everywhere, close_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
