#include "unit/unit.h"

#include "core/config.h"

#include <stdio.h>
#include <string.h>

static const struct config_limits limits = {
    .keys_n = 12, .value_bytes = 100, .total_bytes = 400, .window_n = 8};
static struct config config;
static char why[300];

static int setup(void **state)
{
    why[0] = '\0';
    return config_init(&config, "job", &limits);
}

static int teardown(void **state)
{
    config_close(&config);
    return 0;
}

static int check(const char *key, const char *value, uint64_t expect, struct rec_config *r)
{
    struct config_request q = {.key = key,
                               .value = value,
                               .value_n = value == NULL ? 0 : (uint32_t)strlen(value),
                               .expect = expect,
                               .remove = value == NULL};

    return config_check(&config, &q, r, why, sizeof(why));
}

/* A request and its whole way; value = NULL removes. */
static int put(const char *key, const char *value, uint64_t expect)
{
    struct rec_config r;
    int rc = check(key, value, expect, &r);

    return rc == MU_OK ? config_apply(&config, &r) : rc;
}

static void check_value(const char *key, const char *want)
{
    struct rec_config r;

    assert_int_equal(config_get(&config, key, &r), MU_OK);
    assert_string_equal(r.key, key);
    assert_string_equal(r.job, "job");
    assert_int_equal(r.value_n, strlen(want));
    assert_memory_equal(r.value, want, r.value_n);
}

static void nothing_changes_before_the_record_is_applied(void **state)
{
    struct rec_config r, other;

    assert_int_equal(check("a", "1", CONFIG_ANY, &r), MU_OK);
    assert_int_equal(r.version, 1);
    assert_int_equal(config.version, 0);
    assert_int_equal(config_get(&config, "a", &other), MU_ENOENT);
    assert_int_equal(config_apply(&config, &r), MU_OK);
    assert_int_equal(config.version, 1);
    check_value("a", "1");
}

static void one_record_is_pending_at_a_time(void **state)
{
    struct rec_config r, other;

    assert_int_equal(check("a", "1", CONFIG_ANY, &r), MU_OK);
    assert_int_equal(check("b", "1", CONFIG_ANY, &other), MU_EAGAIN);
    assert_int_equal(config_apply(&config, &r), MU_OK);
    assert_int_equal(put("b", "1", CONFIG_ANY), MU_OK);
}

static void a_failed_write_leaves_no_trace(void **state)
{
    struct rec_config r;

    assert_int_equal(check("a", "1", 0, &r), MU_OK);
    config_abort(&config);
    assert_int_equal(config_get(&config, "a", &r), MU_ENOENT);
    assert_int_equal(put("a", "2", 0), MU_OK);
    assert_int_equal(config.version, 1);
    check_value("a", "2");
}

static void a_duplicate_create_is_an_error(void **state)
{
    assert_int_equal(put("a", "1", 0), MU_OK);
    assert_int_equal(put("a", "2", 0), MU_EEXIST);
    assert_string_equal(why, "a exists, at version 1");
    check_value("a", "1");
    assert_int_equal(put("a", NULL, CONFIG_ANY), MU_OK);
    assert_int_equal(put("a", "3", 0), MU_OK);
}

static void compare_and_set_needs_the_version_of_the_last_change(void **state)
{
    assert_int_equal(put("a", "1", 0), MU_OK);
    assert_int_equal(put("b", "1", 0), MU_OK);
    assert_int_equal(put("a", "2", 2), MU_ECONFLICT);
    assert_string_equal(why, "a is at version 1, not 2: read it again");
    assert_int_equal(put("a", "2", 1), MU_OK);
    assert_int_equal(put("a", "3", 1), MU_ECONFLICT);
    assert_int_equal(put("a", NULL, 1), MU_ECONFLICT);
    assert_int_equal(put("a", NULL, 3), MU_OK);
    assert_int_equal(put("a", NULL, CONFIG_ANY), MU_ENOENT);
    assert_int_equal(put("a", "4", 3), MU_ECONFLICT);
    assert_string_equal(why, "a does not exist; version 3 was expected");
    assert_int_equal(config.version, 4);
}

static void keys_are_paths_of_plain_characters(void **state)
{
    static const char *good[] = {"a", "A.b_c-9", "a/b/c", "...", "a..b", "a/.b", "-"};
    static const char *bad[] = {"",   "/",      "/a",    "a/",  "a//b", ".",
                                "..", "a/../b", "a/./b", "a b", "ü"};
    char key[CONFIG_KEY_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        assert_int_equal(put(good[i], "1", 0), MU_OK);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(put(bad[i], "1", CONFIG_ANY), MU_EINVAL);
        assert_non_null(strstr(why, "is not valid"));
    }
    memset(key, 'k', sizeof(key));
    key[CONFIG_KEY_MAX] = '\0';
    assert_int_equal(put(key, "1", 0), MU_EINVAL);
    assert_string_equal(why, "the key has more than 127 characters");
    key[CONFIG_KEY_MAX - 1] = '\0';
    assert_int_equal(put(key, "1", 0), MU_OK);
}

static void keys_values_and_their_sum_are_bounded(void **state)
{
    char value[102];
    char key[8];

    memset(value, 'v', sizeof(value));
    value[101] = '\0';
    assert_int_equal(put("a", value, 0), MU_ELIMIT);
    assert_string_equal(why, "the value of a has 101 bytes, more than 100");
    value[100] = '\0';
    for (int i = 0; i < 4; i++) {
        (void)sprintf(key, "k%d", i);
        assert_int_equal(put(key, value, 0), MU_OK);
    }
    assert_int_equal(put("more", "1", 0), MU_ELIMIT);
    assert_string_equal(why, "all values together would exceed 400 bytes: remove some");
    assert_int_equal(put("k3", value, 4), MU_OK); /* What is replaced makes room. */
    for (int i = 4; i < 12; i++) {
        (void)sprintf(key, "k%d", i);
        assert_int_equal(put(key, "", 0), MU_OK);
    }
    assert_int_equal(put("more", "", 0), MU_ELIMIT);
    assert_string_equal(why, "there are 12 keys already: remove some");
    assert_int_equal(put("k0", NULL, CONFIG_ANY), MU_OK);
    assert_int_equal(put("more", value, 0), MU_OK);
    check_value("k1", value);
    check_value("k3", value);
    check_value("k11", "");
}

static void reserved_keys_are_validated_with_a_reason(void **state)
{
    static const struct {
        const char *key;
        const char *value;
        const char *why;
    } bad[] = {
        {"size", "0", "size must be a whole number from 1 to 131072, not \"0\""},
        {"size", "", "size must be a whole number from 1 to 131072, not \"\""},
        {"size", "99999999999999999999",
         "size must be a whole number from 1 to 131072, not \"99999999999999999999\""},
        {"min", "-1", "min must be a whole number from 1 to 131072, not \"-1\""},
        {"max", "4 ", "max must be a whole number from 1 to 131072, not \"4 \""},
        {"paused", "yes", "paused must be true or false, not \"yes\""},
        {"paused", "", "paused must be true or false, not \"\""},
        {"members", "", "members: name 1, \"\", is not the name of a node"},
        {"members", "a,", "members: name 2, \"\", is not the name of a node"},
        {"members", "a,b c", "members: name 2, \"b c\", is not the name of a node"},
        {"members", "n1,n2,n11,n1", "members: \"n1\" is listed twice"},
        {"schedule", "2:10,x",
         "schedule: part 2: size must be a whole number from 1 to 131072, "
         "not \"x\""},
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_int_equal(put(bad[i].key, bad[i].value, CONFIG_ANY), MU_EINVAL);
        assert_string_equal(why, bad[i].why);
    }
    assert_int_equal(config.version, 0);
    assert_int_equal(put("paused", "true", 0), MU_OK);
    assert_int_equal(put("members", "n1,n2,n11,n", 0), MU_OK);
    assert_int_equal(put("schedule", "2:10,4", 0), MU_OK);
    assert_int_equal(put("sizes", "anything", 0), MU_OK);
    assert_int_equal(put("my/size", "anything", 0), MU_OK);
}

static void min_size_and_max_stay_in_order(void **state)
{
    assert_int_equal(put("min", "2", 0), MU_OK);
    assert_int_equal(put("max", "1", 0), MU_EINVAL);
    assert_string_equal(why, "max would be 1, below min, which would be 2");
    assert_int_equal(put("max", "4", 0), MU_OK);
    assert_int_equal(put("size", "5", 0), MU_EINVAL);
    assert_string_equal(why, "max would be 4, below size, which would be 5");
    assert_int_equal(put("size", "1", 0), MU_EINVAL);
    assert_string_equal(why, "size would be 1, below min, which would be 2");
    assert_int_equal(put("size", "4", 0), MU_OK);
    assert_int_equal(put("max", "3", CONFIG_ANY), MU_EINVAL);
    assert_int_equal(put("min", "5", CONFIG_ANY), MU_EINVAL);
    assert_int_equal(put("size", NULL, CONFIG_ANY), MU_OK);
    assert_int_equal(put("max", "3", CONFIG_ANY), MU_OK);
    assert_int_equal(put("min", "3", CONFIG_ANY), MU_OK);
}

static void thousands_of_members_may_be_listed_and_no_more(void **state)
{
    static char value[CONFIG_VALUE_MAX];
    struct config_limits wide = {.keys_n = 1,
                                 .value_bytes = CONFIG_VALUE_MAX,
                                 .total_bytes = CONFIG_VALUE_MAX,
                                 .window_n = 1};
    size_t n = 0;

    config_close(&config);
    assert_int_equal(config_init(&config, "job", &wide), MU_OK);
    for (int i = 0; i < CONFIG_MEMBERS_MAX; i++) {
        n += (size_t)sprintf(value + n, "%snode-%d", i == 0 ? "" : ",", i);
    }
    assert_int_equal(put("members", value, 0), MU_OK);
    strcpy(value + n, ",n");
    assert_int_equal(put("members", value, CONFIG_ANY), MU_EINVAL);
    assert_string_equal(why, "members has more than 4096 names");
    strcpy(value + n - 1, "4"); /* node-4095 becomes node-4094 */
    assert_int_equal(put("members", value, CONFIG_ANY), MU_EINVAL);
    assert_string_equal(why, "members: \"node-4094\" is listed twice");
}

/* The watch window of 1: the second version evicts the first. */
static void a_watcher_too_far_behind_is_told_to_list_again(void **state)
{
    struct config_limits narrow = limits;
    struct rec_config r;

    narrow.window_n = 1;
    config_close(&config);
    assert_int_equal(config_init(&config, "job", &narrow), MU_OK);
    assert_int_equal(config_since(&config, 0, &r), MU_ENOENT);
    assert_int_equal(put("a", "1", 0), MU_OK);
    assert_int_equal(config_since(&config, 0, &r), MU_OK);
    assert_int_equal(r.version, 1);
    assert_int_equal(put("b", "2", 0), MU_OK);
    assert_int_equal(config_since(&config, 0, &r), MU_ESTALE);
    assert_int_equal(config_since(&config, 1, &r), MU_OK);
    assert_string_equal(r.key, "b");
    assert_int_equal(config_since(&config, 2, &r), MU_ENOENT);
    assert_int_equal(config_since(&config, 3, &r), MU_ESTALE);
}

static void a_watcher_sees_each_key_once_as_it_is_now(void **state)
{
    struct rec_config r;

    assert_int_equal(put("a", "1", 0), MU_OK);
    assert_int_equal(put("b", "1", 0), MU_OK);
    assert_int_equal(put("a", "2", 1), MU_OK);
    assert_int_equal(put("b", NULL, 2), MU_OK);
    assert_int_equal(put("b", "2", 0), MU_OK);
    assert_int_equal(put("b", NULL, 5), MU_OK);
    assert_int_equal(config_since(&config, 0, &r), MU_OK);
    assert_int_equal(r.version, 3);
    assert_memory_equal(r.value, "2", 1);
    assert_int_equal(config_since(&config, 3, &r), MU_OK);
    assert_string_equal(r.key, "b");
    assert_true(r.deleted && r.version == 6);
    assert_int_equal(config_since(&config, 6, &r), MU_ENOENT);
}

static void keys_are_listed_in_order_below_a_prefix(void **state)
{
    static const char *want[] = {"a/x", "a/y"};
    struct rec_config r = {.key = ""};

    assert_int_equal(put("b", "", 0), MU_OK);
    assert_int_equal(put("a/y", "", 0), MU_OK);
    assert_int_equal(put("a", "", 0), MU_OK);
    assert_int_equal(put("a/x", "", 0), MU_OK);
    assert_int_equal(put("a-x", "", 0), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(want); i++) {
        assert_int_equal(config_list(&config, "a/", r.key, &r), MU_OK);
        assert_string_equal(r.key, want[i]);
    }
    assert_int_equal(config_list(&config, "a/", r.key, &r), MU_ENOENT);
    assert_int_equal(config_list(&config, "a", "", &r), MU_OK);
    assert_string_equal(r.key, "a");
    assert_int_equal(config_list(&config, "a", "a", &r), MU_OK);
    assert_string_equal(r.key, "a-x");
    assert_int_equal(config_list(&config, "", "a/y", &r), MU_OK);
    assert_string_equal(r.key, "b");
    assert_int_equal(config_list(&config, "c", "", &r), MU_ENOENT);
}

static void records_that_cannot_follow_are_refused(void **state)
{
    static uint8_t value[101];
    struct rec_config r = {.job = "job", .key = "a", .version = 1};

    assert_int_equal(config_apply(&config, &r), MU_OK);
    assert_int_equal(config_apply(&config, &r), MU_ECORRUPT);
    r.version = 2;
    strcpy(r.key, "..");
    assert_int_equal(config_apply(&config, &r), MU_ECORRUPT);
    strcpy(r.key, "b");
    r.deleted = 1;
    assert_int_equal(config_apply(&config, &r), MU_ECORRUPT);
    r.deleted = 0;
    strcpy(r.job, "other");
    assert_int_equal(config_apply(&config, &r), MU_ECORRUPT);
    strcpy(r.job, "job");
    r.value = value;
    r.value_n = sizeof(value);
    assert_int_equal(config_apply(&config, &r), MU_ELIMIT);
    assert_int_equal(config.version, 1);
    assert_int_equal(config.entries_n, 1);
}

static void limits_out_of_range_are_refused(void **state)
{
    struct config other;
    struct config_limits bad = limits;

    assert_int_equal(config_init(&other, "not a name", &limits), MU_EINVAL);
    bad.value_bytes = CONFIG_VALUE_MAX + 1;
    assert_int_equal(config_init(&other, "job", &bad), MU_EINVAL);
    bad = limits;
    bad.window_n = 0;
    assert_int_equal(config_init(&other, "job", &bad), MU_EINVAL);
}

#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(nothing_changes_before_the_record_is_applied),
        T(one_record_is_pending_at_a_time),
        T(a_failed_write_leaves_no_trace),
        T(a_duplicate_create_is_an_error),
        T(compare_and_set_needs_the_version_of_the_last_change),
        T(keys_are_paths_of_plain_characters),
        T(keys_values_and_their_sum_are_bounded),
        T(reserved_keys_are_validated_with_a_reason),
        T(min_size_and_max_stay_in_order),
        T(thousands_of_members_may_be_listed_and_no_more),
        T(a_watcher_too_far_behind_is_told_to_list_again),
        T(a_watcher_sees_each_key_once_as_it_is_now),
        T(keys_are_listed_in_order_below_a_prefix),
        T(records_that_cannot_follow_are_refused),
        T(limits_out_of_range_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
