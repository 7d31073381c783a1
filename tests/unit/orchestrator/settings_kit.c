#include "unit/orchestrator/settings_kit.h"

#include "store/store.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

struct settings_kit *settings_kit;

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
    struct msg_admin drain = {.verb = ADMIN_DRAIN, .job = "job", .node = "a"};
    struct msg_answer m;

    settings_kit->hold = 0;
    kit_say(cl, WIRE_ADMIN, &drain, 1);
    kit_answer(cl, 1, &m);
    assert_int_equal(m.status, MU_OK);
    client_close(cl);
}

void settings_say(struct client *cl, uint64_t request, const struct msg_config *m,
                  const char *value)
{
    struct msg_config full = *m;

    full.request = request * 10;
    if (value != NULL) {
        full.value = (uint8_t *)(uintptr_t)value;
        full.value_n = (uint32_t)strlen(value);
    }
    kit_say(cl, WIRE_CONFIG, &full, request);
}

const struct msg_setting *settings_next(struct client *cl, uint64_t request)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];

    if (client_next(cl, KIT_WAIT_MS, &h, &msg, error) != MU_OK) {
        fail_msg("no answer came: %s", error);
    }
    assert_int_equal(h.type, WIRE_SETTING);
    assert_int_equal(h.request, request);
    assert_int_equal(msg->setting.request, request * 10);
    return &msg->setting;
}

static int change(struct client *cl, enum config_verb verb, const char *job, const char *key,
                  const char *value)
{
    struct msg_config m = {.verb = (uint8_t)verb, .expect = CONFIG_ANY};

    snprintf(m.job, sizeof(m.job), "%s", job);
    snprintf(m.key, sizeof(m.key), "%s", key);
    settings_say(cl, 7, &m, value);
    return settings_next(cl, 7)->status;
}

int settings_put(struct client *cl, const char *job, const char *key, const char *value)
{
    return change(cl, CONFIG_PUT, job, key, value);
}

int settings_remove(struct client *cl, const char *job, const char *key)
{
    return change(cl, CONFIG_REMOVE, job, key, NULL);
}

void settings_is(struct client *cl, const char *job, const char *key, const char *value)
{
    struct msg_config m = {.verb = CONFIG_GET};
    const struct msg_setting *s;

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
    struct msg_config m = {.verb = CONFIG_LIST, .job = "job", .key = "none-of-these"};

    settings_say(cl, 9, &m, NULL);
    assert_string_equal(settings_next(cl, 9)->key, "");
}

void settings_end(struct client *cl, uint64_t request, uint64_t version)
{
    const struct msg_setting *s = settings_next(cl, request);

    assert_int_equal(s->status, MU_OK);
    assert_string_equal(s->key, "");
    assert_int_equal(s->version, version);
    assert_int_equal(s->more, 0);
}
