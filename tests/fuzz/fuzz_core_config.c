/* Requests and records for a small config store. Whatever is accepted is there, as given; whatever
 * is refused changes nothing and has a reason; a dump rebuilds the store.
 *
 * The input is a list of operations: what to do, which key, which version to expect, a value. */
#include "core/config.h"
#include "fuzz/fuzz.h"
#include "wire/wire.h"

#include <string.h>

enum { OP_REMOVE = 1, OP_ABORT = 2, OP_RECORD = 4, OP_KEY = 8 };

static const struct config_limits limits = {
    .keys_n = 6, .value_bytes = 64, .total_bytes = 200, .window_n = 5};

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t take_byte(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

static const uint8_t *take_bytes(struct input *in, uint32_t *n)
{
    const uint8_t *p = in->p;

    *n = (uint32_t)MIN(*n, in->n);
    in->p += *n;
    in->n -= *n;
    return p;
}

/* One of muster's own keys, a plain one, or (OP_KEY) any bytes. */
static void take_key(struct input *in, uint8_t op, char key[CONFIG_KEY_MAX + 8])
{
    static const char *const keys[] = {"size",   "min", "max",   "members", "schedule",
                                       "paused", "a",   "b/c.d", "e",       "f-g_h"};
    uint8_t choice = take_byte(in);
    uint32_t n = choice % (CONFIG_KEY_MAX + 7u);

    memset(key, 0, CONFIG_KEY_MAX + 8);
    if ((op & OP_KEY) != 0) {
        memcpy(key, take_bytes(in, &n), n);
    } else {
        strcpy(key, keys[choice % ARRAY_LEN(keys)]);
    }
}

static void check_there(const struct config *c, const char *key, const struct rec_config *want)
{
    struct rec_config got;

    if (want->deleted) {
        mu_assert(config_get(c, key, &got) == MU_ENOENT);
        return;
    }
    mu_assert(config_get(c, key, &got) == MU_OK);
    mu_assert(got.version == want->version && got.value_n == want->value_n);
    mu_assert(got.value_n == 0 || memcmp(got.value, want->value, got.value_n) == 0);
}

/* What the store makes can be journaled. */
static void check_encodes(const struct rec_config *record)
{
    uint8_t bytes[1024];
    size_t n;

    mu_assert(wire_record_encode(WIRE_REC_CONFIG, record, bytes, sizeof(bytes), &n) == MU_OK);
}

static void do_request(struct config *c, const struct config_request *q, uint8_t op)
{
    const uint64_t before = c->version;
    struct rec_config record, other;
    char why[TEXT_MAX_LEN] = "";
    int rc = config_check(c, q, &record, why, sizeof(why));

    mu_assert(c->version == before);
    if (rc != MU_OK) {
        mu_assert(why[0] != '\0' && memchr(why, '\0', sizeof(why)) != NULL);
        mu_assert(!c->pending);
        return;
    }
    check_encodes(&record);
    mu_assert(record.version == before + 1);
    mu_assert(config_check(c, q, &other, NULL, 0) == MU_EAGAIN);
    if ((op & OP_ABORT) != 0) {
        config_abort(c);
        mu_assert(c->version == before);
        return;
    }
    mu_assert(config_apply(c, &record) == MU_OK);
    mu_assert(c->version == before + 1 && !c->pending);
    check_there(c, q->key, &record);
}

/* A record straight from a journal that may be damaged. */
static void do_record(struct config *c, const struct config_request *q, uint64_t version)
{
    const uint64_t before = c->version;
    struct rec_config record = {.version = version, .deleted = q->remove};

    strcpy(record.job, c->job);
    memcpy(record.key, q->key, sizeof(record.key) - 1);
    record.value_n = q->remove ? 0 : q->value_n;
    record.value = (uint8_t *)(uintptr_t)q->value;
    if (config_apply(c, &record) == MU_OK) {
        mu_assert(c->version == version);
        check_there(c, record.key, &record);
    } else {
        mu_assert(c->version == before);
    }
}

static void check_rebuilt(const struct config *c)
{
    struct rec_config record = {0}, a = {0}, b = {0};
    struct config again;

    mu_assert(config_init(&again, c->job, &limits) == MU_OK);
    while (config_dump(c, record.version, &record) == MU_OK) {
        check_encodes(&record);
        mu_assert(config_apply(&again, &record) == MU_OK);
    }
    mu_assert(again.version == c->version && again.entries_n == c->entries_n);
    while (config_list(c, "", a.key, &a) == MU_OK) {
        mu_assert(config_list(&again, "", b.key, &b) == MU_OK);
        mu_assert(strcmp(a.key, b.key) == 0);
        check_there(&again, a.key, &a);
    }
    mu_assert(config_list(&again, "", b.key, &b) == MU_ENOENT);
    config_close(&again);
}

static void check_watch(const struct config *c)
{
    for (uint64_t from = c->floor; from <= c->version; from++) {
        struct rec_config record;
        uint64_t after = from;

        while (config_since(c, after, &record) == MU_OK) {
            mu_assert(record.version > after && record.version <= c->version);
            after = record.version;
        }
        mu_assert(config_since(c, after, &record) == MU_ENOENT);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {data, n};
    struct config c;

    mu_assert(config_init(&c, "job", &limits) == MU_OK);
    while (in.n > 0) {
        const uint8_t op = take_byte(&in);
        char key[CONFIG_KEY_MAX + 8];
        struct config_request q = {.key = key, .remove = (op & OP_REMOVE) != 0};

        take_key(&in, op, key);
        const uint8_t expect = take_byte(&in);

        q.expect = expect == 255 ? CONFIG_ANY : expect;
        q.value_n = take_byte(&in);
        q.value = take_bytes(&in, &q.value_n);
        if ((op & OP_RECORD) != 0) {
            do_record(&c, &q, c.version + expect);
        } else {
            do_request(&c, &q, op);
        }
    }
    check_rebuilt(&c);
    check_watch(&c);
    config_close(&c);
    return 0;
}
