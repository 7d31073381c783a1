/* mu_config_…: the job's settings, through the agent.
 *
 * A change is sent once and never repeated, neither here nor by the agent: it is made at most once,
 * whatever becomes of this life. A watch is answered with the first changes that come. */
#include "base/log.h"
#include "run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AREA "run"

enum {
    RESIZE_MS = 10000,  /* so long an agent without an orchestrator keeps a wish */
    ITEMS_MAX = 1 << 16 /* an answer with more is none */
};

static void clear(struct ask *ask)
{
    mu_settings_free(&((struct config_ask *)ask)->got);
}

static const void *body_of(const struct mu_run *run, struct ask *ask)
{
    return &((struct config_ask *)ask)->body;
}

/* ---- the control thread's side ---- */

static int take_item(struct config_ask *a, const struct msg_says *m, const struct body_setting *s)
{
    if (s == NULL || m->topic[0] == '\0' || a->got.n == ITEMS_MAX) {
        return MU_EPROTO;
    }
    return settings_add(a, m->topic, s->deleted, s->value, s->value_n, m->at);
}

/* Items, then one without a key. */
static int take_list(struct config_ask *a, const struct msg_says *m, const struct body_setting *s)
{
    if (m->more) {
        return take_item(a, m, s);
    }
    a->got.version = m->at;
    settings_sort(&a->got);
    return m->topic[0] == '\0' ? MU_OK : MU_EPROTO;
}

static int take(struct mu_run *run, struct ask *ask, const struct msg_says *m,
                const union wire_any *body)
{
    const struct body_setting *s = body != NULL ? &body->setting : NULL;
    struct config_ask *a = (struct config_ask *)ask;

    if (m->status != MU_OK) {
        return MU_OK;
    }
    switch (ask->m.kind) {
    case ASK_SETTING_LIST:
    case ASK_SETTING_WATCH:
        return take_list(a, m, s);
    case ASK_SETTING_CHANGE:
        a->got.version = m->at;
        return m->more ? MU_EPROTO : MU_OK;
    default:
        if (m->more) {
            return MU_EPROTO;
        }
        return s != NULL && s->deleted ? MU_ENOENT : take_item(a, m, s);
    }
}

/* Whoever made the wish has gone on. Of several only the last matters. */
static void resized(const struct ask *a)
{
    if (a->status != MU_OK && a->status != MU_EDONE) {
        log_warn(AREA, "the job was not resized: %s",
                 a->text[0] != '\0' ? a->text : mu_strerror(a->status));
    }
}

/* ---- the caller's side ---- */

static int ask_run(struct mu_run *run, struct config_ask *a)
{
    int rc = ask_call(run, &a->ask);

    if (rc == MU_ETIMEDOUT && a->ask.m.kind == ASK_SETTING_WATCH && a->ask.done) {
        rc = run_fail(rc, "nothing has changed after version %" PRIu64 " of the settings%s%s",
                      a->ask.m.at, a->ask.text[0] != '\0' ? ": " : "", a->ask.text);
    }
    return rc;
}

static int check_key(const struct config_ask *a, const char *key)
{
    char whole[CONFIG_KEY_MAX], why[TEXT_MAX_LEN];
    size_t n;

    if (key == NULL) {
        return run_fail(MU_EINVAL, "there is no key");
    }
    n = strnlen(key, CONFIG_KEY_MAX);
    if (n == CONFIG_KEY_MAX) {
        return run_fail(MU_EINVAL, "the key has more than %d characters", CONFIG_KEY_MAX - 1);
    }
    if (a->ask.m.kind == ASK_SETTING_LIST || (a->ask.m.kind == ASK_SETTING_WATCH && n == 0)) {
        return MU_OK;
    }
    memcpy(whole, key, n + 1);
    if (a->ask.m.kind == ASK_SETTING_WATCH && whole[n - 1] == '/') {
        whole[n - 1] = '\0';
    }
    return config_key_valid(whole, why, sizeof(why)) ? MU_OK : run_fail(MU_EINVAL, "%s", why);
}

void settings_ask_init(struct config_ask *a, enum ask_kind kind)
{
    *a = (struct config_ask){.ask = {.m.kind = (uint16_t)kind, .take = take, .clear = clear}};
}

/* On success what came is the caller's. */
static int ask(struct mu_run *run, enum ask_kind kind, const char *key, uint64_t at,
               const struct body_setting *body, int64_t timeout_ms, mu_settings *got_out)
{
    struct config_ask a;
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    settings_ask_init(&a, kind);
    a.ask.m.at = at;
    a.ask.due_ms = run_due_ms(timeout_ms);
    rc = check_key(&a, key);
    if (rc == MU_OK && body != NULL) {
        a.body = *body;
        a.ask.body = body_of;
    }
    if (rc == MU_OK) {
        rc = ask_check(run, key, a.body.value, a.body.value_n);
    }
    if (rc == MU_OK) {
        memcpy(a.ask.m.topic, key, strlen(key));
        rc = run->alone ? settings_alone(run, &a) : ask_run(run, &a);
    }
    rc = call_exit(run, rc);
    if (rc == MU_OK) {
        *got_out = a.got;
    } else {
        clear(&a.ask);
    }
    return rc;
}

int mu_config_get(mu_run *run, const char *key, int64_t timeout_ms, mu_setting *setting_out)
{
    mu_settings got;
    int rc = ask(run, ASK_SETTING_GET, key, 0, NULL, timeout_ms, &got);

    if (rc == MU_OK) {
        *setting_out = got.items[0];
        free(got.items);
    }
    return rc;
}

int mu_config_list(mu_run *run, const char *prefix, int64_t timeout_ms, mu_settings *settings_out)
{
    return ask(run, ASK_SETTING_LIST, prefix, 0, NULL, timeout_ms, settings_out);
}

int mu_config_put(mu_run *run, const char *key, const void *value, size_t n, uint64_t expect,
                  int64_t timeout_ms, uint64_t *version_out)
{
    const struct body_setting body = {.value = (uint8_t *)(uintptr_t)value, /* Only read. */
                                      .value_n = (uint32_t)MIN(n, UINT32_MAX)};
    mu_settings got;
    int rc = ask(run, ASK_SETTING_CHANGE, key, expect, &body, timeout_ms, &got);

    if (rc == MU_OK && version_out != NULL) {
        *version_out = got.version;
    }
    return rc;
}

int mu_config_remove(mu_run *run, const char *key, uint64_t expect, int64_t timeout_ms)
{
    const struct body_setting body = {.deleted = true};
    mu_settings got;

    return ask(run, ASK_SETTING_CHANGE, key, expect, &body, timeout_ms, &got);
}

int mu_config_watch(mu_run *run, const char *key, uint64_t after, int64_t timeout_ms,
                    mu_settings *settings_out)
{
    return ask(run, ASK_SETTING_WATCH, key, after, NULL, timeout_ms, settings_out);
}

int mu_resize(mu_run *run, uint32_t nodes)
{
    char text[16];
    struct config_ask a = {.ask = {.m = {.kind = ASK_SETTING_CHANGE, .topic = "size", .at = MU_ANY},
                                   .due_ms = run_due_ms(RESIZE_MS),
                                   .body = body_of,
                                   .over = resized},
                           .body = {.value = (uint8_t *)text}};
    int rc;

    if (nodes == 0) {
        return run_fail(MU_EINVAL, "a job has at least one node");
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    a.body.value_n = (uint32_t)snprintf(text, sizeof(text), "%" PRIu32, nodes);
    rc = call_state(run);
    if (rc == MU_OK && run->alone) {
        rc = settings_alone(run, &a);
    } else if (rc == MU_OK) {
        ask_end(run, &run->resize.ask);
        run->resize = a;
        rc = ask_begin(run, &run->resize.ask);
        run->resize.ask.body = NULL; /* It is said once. */
    }
    return call_exit(run, rc);
}
