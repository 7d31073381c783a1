/* Random changes of a config store against a naive model of it, a watcher, and rebuilt copies. */
#include "unit/unit.h"

#include "base/prng.h"
#include "core/config.h"
#include "lib/chance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct config_limits limits = {
    .keys_n = 12, .value_bytes = 100, .total_bytes = 400, .window_n = 8};
static struct config config;
static char why[300];

#define KEYS_N 20
#define HISTORY_N 400

struct model {
    bool there[KEYS_N];
    uint64_t version[KEYS_N];
    char value[KEYS_N][64];
};

static struct model model;
static struct model follower; /* knows what a watcher knows */
static uint64_t follower_at;
static struct rec_config history[HISTORY_N];
static uint8_t history_values[HISTORY_N][64];
static uint32_t history_n;

static void key_name(uint32_t k, char *out)
{
    (void)sprintf(out, "k/%c%u", 'a' + (char)(k % 5), k);
}

static uint32_t key_number(const char *key)
{
    return (uint32_t)strtoul(key + 3, NULL, 10);
}

static void model_apply(struct model *m, const struct rec_config *r)
{
    uint32_t k = key_number(r->key);

    m->there[k] = !r->deleted;
    m->version[k] = r->deleted ? 0 : r->version;
    memset(m->value[k], 0, sizeof(m->value[k]));
    if (!r->deleted) {
        memcpy(m->value[k], r->value, r->value_n);
    }
}

static uint32_t model_count(uint32_t *bytes)
{
    uint32_t n = 0;

    *bytes = 0;
    for (uint32_t k = 0; k < KEYS_N; k++) {
        n += model.there[k];
        *bytes += (uint32_t)strlen(model.value[k]);
    }
    return n;
}

static void one_random_operation(struct prng *rng)
{
    uint32_t k = (uint32_t)prng_below(rng, KEYS_N);
    char key[16];
    char value[64] = "";
    uint32_t bytes;
    uint32_t n = model_count(&bytes);
    uint64_t choices[] = {0, CONFIG_ANY, model.version[k], config.version};
    struct config_request q = {.key = key, .value = value, .remove = prng_chance(rng, 300000)};
    struct rec_config r;
    int want = MU_OK;

    key_name(k, key);
    memset(value, 'a' + (int)prng_below(rng, 26), q.remove ? 0 : prng_below(rng, 60));
    q.value_n = (uint32_t)strlen(value);
    q.expect = choices[prng_below(rng, ARRAY_LEN(choices))];
    if (q.remove && !model.there[k]) {
        want = MU_ENOENT;
    } else if (q.expect == 0 && model.there[k]) {
        want = MU_EEXIST;
    } else if (q.expect != CONFIG_ANY && q.expect != model.version[k]) {
        want = MU_ECONFLICT;
    } else if (!q.remove && ((!model.there[k] && n == limits.keys_n) ||
                             bytes - strlen(model.value[k]) + q.value_n > limits.total_bytes)) {
        want = MU_ELIMIT;
    }
    assert_int_equal(config_check(&config, &q, &r, why, sizeof(why)), want);
    if (want != MU_OK) {
        return;
    }
    if (prng_chance(rng, 100000)) {
        config_abort(&config);
        return;
    }
    assert_int_equal(config_apply(&config, &r), MU_OK);
    model_apply(&model, &r);
    memcpy(history_values[history_n], value, sizeof(value));
    history[history_n] = r;
    history[history_n].value = history_values[history_n];
    history_n++;
}

static void check_against_model(const struct config *c, const struct model *m)
{
    for (uint32_t k = 0; k < KEYS_N; k++) {
        struct rec_config r;
        char key[16];
        key_name(k, key);
        assert_int_equal(config_get(c, key, &r), m->there[k] ? MU_OK : MU_ENOENT);
        if (m->there[k]) {
            assert_true(r.version == m->version[k]);
            assert_int_equal(r.value_n, strlen(m->value[k]));
            assert_memory_equal(r.value, m->value[k], r.value_n);
        }
    }
}

static void follow(void)
{
    struct rec_config r = {.key = ""};
    int rc;

    while ((rc = config_since(&config, follower_at, &r)) == MU_OK) {
        model_apply(&follower, &r);
        follower_at = r.version;
    }
    if (rc == MU_ESTALE) {
        memset(&follower, 0, sizeof(follower));
        r.key[0] = '\0';
        while (config_list(&config, "", r.key, &r) == MU_OK) {
            model_apply(&follower, &r);
        }
        follower_at = config.version;
    }
    assert_true(follower_at == config.version);
    assert_memory_equal(&follower, &model, sizeof(model));
}

static void check_rebuilt(void)
{
    struct config replayed, restored;
    struct rec_config r;
    uint64_t after = 0;

    assert_int_equal(config_init(&replayed, "job", &limits), MU_OK);
    assert_int_equal(config_init(&restored, "job", &limits), MU_OK);
    for (uint32_t i = 0; i < history_n; i++) {
        assert_int_equal(config_apply(&replayed, &history[i]), MU_OK);
    }
    while (config_dump(&config, after, &r) == MU_OK) {
        assert_int_equal(config_apply(&restored, &r), MU_OK);
        after = r.version;
    }
    check_against_model(&replayed, &model);
    check_against_model(&restored, &model);
    assert_true(replayed.version == config.version && restored.version == config.version);
    assert_true(replayed.floor == config.floor && restored.floor >= config.floor);
    for (uint64_t v = restored.floor; v <= config.version; v++) { /* What it tells is the truth. */
        struct rec_config a, b;
        int rc = config_since(&config, v, &a);
        assert_int_equal(config_since(&restored, v, &b), rc);
        assert_true(rc != MU_OK || (a.version == b.version && strcmp(a.key, b.key) == 0 &&
                                    a.deleted == b.deleted && a.value_n == b.value_n));
    }
    config_close(&replayed);
    config_close(&restored);
}

static void random_changes_match_a_naive_model_and_can_be_rebuilt(void **state)
{
    uint64_t seeds_n = getenv("MUSTER_TEST_FULL") != NULL ? 2000 : 40;
    struct prng rng;

    for (uint64_t seed = 0; seed < seeds_n; seed++) {
        prng_init(&rng, seed);
        assert_int_equal(config_init(&config, "job", &limits), MU_OK);
        memset(&model, 0, sizeof(model));
        memset(&follower, 0, sizeof(follower));
        follower_at = 0;
        for (history_n = 0; history_n < HISTORY_N;) {
            one_random_operation(&rng);
            if (prng_chance(&rng, 150000)) {
                check_against_model(&config, &model);
                follow();
            }
            if (prng_chance(&rng, 20000)) {
                check_rebuilt();
            }
        }
        config_close(&config);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_changes_match_a_naive_model_and_can_be_rebuilt),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
