#include "unit/orchestrator/settings_kit.h"

#include "store/store.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct settings_kit *settings_kit;
static struct asks_frame frame;

int __real_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);
int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie);
size_t __real_store_poll(struct store *st, store_done_fn *done, void *arg);
size_t __wrap_store_poll(struct store *st, store_done_fn *done, void *arg);

int __wrap_store_append(struct store *st, const void *data, size_t n, uint64_t cookie)
{
    if (settings_kit->refuse_n > 0) {
        settings_kit->refuse_n--;
        return MU_EAGAIN;
    }
    settings_kit->appends_n++;
    return __real_store_append(st, data, n, cookie);
}

size_t __wrap_store_poll(struct store *st, store_done_fn *done, void *arg)
{
    return settings_kit->hold ? 0 : __real_store_poll(st, done, arg);
}

int settings_setup(void **state)
{
    if (settings_kit == NULL) {
        settings_kit = mmap(NULL, sizeof(*settings_kit), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        assert_true(settings_kit != MAP_FAILED);
    }
    memset(settings_kit, 0, sizeof(*settings_kit));
    kit_setup_running(state);
    settings_job(*state, "job");
    return 0;
}

void settings_job(const struct kit *k, const char *job)
{
    struct puppet p;

    puppet_init(&p, job, "a", 1, 8);
    puppet_join(&p, k);
    puppet_close(&p);
}

void settings_release(const struct kit *k)
{
    struct client *cl = kit_connect(k);
    struct msg_ask drain = {.kind = ASK_DRAIN, .job = "job", .topic = "a"};
    struct msg_says m;

    settings_kit->hold = 0;
    kit_ask(cl, &drain, 1);
    kit_answer(cl, 1, &m);
    assert_int_equal(m.status, MU_OK);
    client_close(cl);
}

void settings_say(struct client *cl, uint64_t request, const struct asked *m, const char *value)
{
    struct asked full = *m;

    full.request = request;
    if (value != NULL) {
        full.value = (uint8_t *)(uintptr_t)value;
        full.value_n = (uint32_t)strlen(value);
    }
    asks_ask(&frame, &full);
    kit_say(cl, WIRE_ASK, &frame.ask, 0);
}

const struct said *settings_next(struct client *cl, uint64_t request)
{
    static struct said said;

    said = asks_to_said(&kit_next(cl, WIRE_SAYS)->says);
    assert_int_equal(said.request, request);
    return &said;
}

static int change(struct client *cl, enum asked_verb verb, const char *job, const char *key,
                  const char *value)
{
    struct asked m = {.verb = (uint8_t)verb, .expect = CONFIG_ANY};

    snprintf(m.job, sizeof(m.job), "%s", job);
    snprintf(m.key, sizeof(m.key), "%s", key);
    settings_say(cl, 7, &m, value);
    return settings_next(cl, 7)->status;
}

int settings_put(struct client *cl, const char *job, const char *key, const char *value)
{
    return change(cl, ASKED_PUT, job, key, value);
}

int settings_remove(struct client *cl, const char *job, const char *key)
{
    return change(cl, ASKED_REMOVE, job, key, NULL);
}

void settings_is(struct client *cl, const char *job, const char *key, const char *value)
{
    struct asked m = {.verb = ASKED_GET};
    const struct said *s;

    snprintf(m.job, sizeof(m.job), "%s", job);
    snprintf(m.key, sizeof(m.key), "%s", key);
    settings_say(cl, 8, &m, NULL);
    s = settings_next(cl, 8);
    assert_int_equal(s->status, MU_OK);
    assert_int_equal(s->value_n, strlen(value));
    assert_memory_equal(s->value, value, s->value_n);
}

void settings_quiet(struct client *cl)
{
    struct asked m = {.verb = ASKED_LIST, .job = "job", .key = "none-of-these"};

    settings_say(cl, 9, &m, NULL);
    assert_string_equal(settings_next(cl, 9)->key, "");
}

void settings_end(struct client *cl, uint64_t request, uint64_t version)
{
    const struct said *s = settings_next(cl, request);

    assert_int_equal(s->status, MU_OK);
    assert_string_equal(s->key, "");
    assert_int_equal(s->version, version);
    assert_int_equal(s->more, 0);
}

void settings_mark(struct client *cl, uint64_t request, uint64_t version)
{
    const struct said *s = settings_next(cl, request);

    assert_int_equal(s->status, MU_OK);
    assert_string_equal(s->key, "");
    assert_int_equal(s->version, version);
    assert_int_equal(s->more, 1);
}
