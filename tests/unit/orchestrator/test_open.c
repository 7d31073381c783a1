/* Starts that can't be: each says what is wrong and what to do, and changes nothing. */
#include "base/crc32c.h"
#include "store/store.h"
#include "unit/orchestrator/orchestrator_kit.h"
#include "unit/unit.h"
#include "wire/bytes.h"
#include "wire/record.h"

#include <stdio.h>
#include <string.h>

static struct orchestrator_config config_of(const struct kit *k)
{
    return (struct orchestrator_config){.listen = {.host = "127.0.0.1"},
                                        .data_dir = k->data,
                                        .token = k->token,
                                        .cluster = k->cluster};
}

static void refused(const struct orchestrator_config *config, int status, const char *text)
{
    struct orchestrator *o = NULL;
    char error[STORE_ERROR_MAX] = "";
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(orchestrator_open(&loop, config, &o, error), status);
    assert_null(o);
    if (strstr(error, text) == NULL) {
        fail_msg("'%s' does not say '%s'", error, text);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void the_same_directory_is_not_served_twice(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);

    kit_start(k);
    refused(&config, MU_EBUSY, k->data);
}

static void a_port_that_is_taken_is_named(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);
    char dir[96], port[16];

    kit_start(k);
    snprintf(dir, sizeof(dir), "%s/other", k->root);
    snprintf(port, sizeof(port), ":%u", k->port);
    config.data_dir = dir;
    config.listen.port = k->port;
    refused(&config, MU_EBUSY, port);
}

static void times_that_make_no_sense_are_refused(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);

    config.cluster.takeover_ms = config.cluster.orphan_ms;
    refused(&config, MU_EINVAL, "takeover");
}

static void a_directory_that_can_not_be_made_is_named(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);
    FILE *file = fopen(k->data, "w"); /* where the directory should be */

    assert_non_null(file);
    fclose(file);
    refused(&config, MU_EIO, k->data);
}

static int nothing(void *arg, const void *data, size_t n)
{
    (void)arg;
    (void)data;
    (void)n;
    return MU_OK;
}

static int nothing_after(void *arg, uint64_t seq, const void *data, size_t n)
{
    (void)seq;
    return nothing(arg, data, n);
}

/* One more record at the end of the journal. */
static void append(const struct kit *k, const void *data, size_t n)
{
    char url[sizeof(k->data) + 8];
    struct store_notify notify = {0};
    struct store_replay replay = {.snapshot = nothing, .record = nothing_after};
    char error[STORE_ERROR_MAX];
    struct store *st;

    snprintf(url, sizeof(url), "sqlite:%s", k->data);
    assert_int_equal(store_open(url, &replay, &notify, &st, error), MU_OK);
    assert_int_equal(store_append(st, data, n, 0), MU_OK);
    store_close(st);
}

static void a_record_that_is_none_ends_the_start(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);

    kit_start(k);
    kit_stop(k);
    append(k, "garbage", 7);
    refused(&config, MU_ECORRUPT, "record 1");
}

static void a_record_that_contradicts_the_others_ends_the_start(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);
    struct rec_gone gone = {.node = 99};
    uint8_t bytes[64];
    size_t n;

    assert_int_equal(wire_record_encode(WIRE_REC_GONE, &gone, bytes, sizeof(bytes), &n), MU_OK);
    kit_start(k);
    kit_stop(k);
    append(k, bytes, n);
    refused(&config, MU_ECORRUPT, "('gone')");
}

static void a_record_of_a_newer_version_asks_for_that(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);
    struct rec_gone gone = {.node = 99};
    uint8_t bytes[64];
    size_t n;

    assert_int_equal(wire_record_encode(WIRE_REC_GONE, &gone, bytes, sizeof(bytes), &n), MU_OK);
    put_u16(bytes, 264); /* no longer used, and never to be used again */
    bytes[3] = WIRE_MINOR + 1;
    put_u32(bytes + 8, 0);
    put_u32(bytes + 8, crc32c(0, bytes, n));
    kit_start(k);
    kit_stop(k);
    append(k, bytes, n);
    refused(&config, MU_EVERSION, "newer");
}

static void a_journal_of_more_than_there_is_room_for_asks_for_higher_limits(void **state)
{
    struct kit *k = *state;
    struct orchestrator_config config = config_of(k);
    struct puppet p;

    kit_start(k);
    for (int i = 0; i < 3; i++) {
        puppet_init(&p, "job", (const char *[]){"a", "b", "c"}[i], 1, 3);
        puppet_join(&p, k);
        puppet_close(&p);
    }
    kit_stop(k);
    config.cluster.nodes_max = 2;
    refused(&config, MU_ECORRUPT, "higher limits");
    kit_start(k); /* With room enough nothing is amiss. */
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_same_directory_is_not_served_twice),
        CASE(a_port_that_is_taken_is_named),
        CASE(times_that_make_no_sense_are_refused),
        CASE(a_directory_that_can_not_be_made_is_named),
        CASE(a_record_that_is_none_ends_the_start),
        CASE(a_record_that_contradicts_the_others_ends_the_start),
        CASE(a_record_of_a_newer_version_asks_for_that),
        CASE(a_journal_of_more_than_there_is_room_for_asks_for_higher_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
