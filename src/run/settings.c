/* mu_config_…: the job's settings, through the agent.
 *
 * A request is told by its number, not by the life that made it: one that is on its way when this
 * worker goes on as another is answered all the same. So a change is sent once and never
 * repeated, neither here nor by the agent, and is made at most once. */
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

static bool is_change(const struct config_ask *a)
{
    return a->m.verb == CONFIG_PUT || a->m.verb == CONFIG_REMOVE;
}

static bool is_list(const struct config_ask *a)
{
    return a->m.verb == CONFIG_LIST || a->m.verb == CONFIG_WATCH;
}

/* ---- the control thread's side ---- */

static void take_item(struct config_ask *a, const struct msg_setting *m)
{
    if (settings_add(a, m->key, m->deleted, m->value, m->value_n, m->version) != MU_OK) {
        ask_answer(&a->ask, MU_ENOMEM, "out of memory for the answer");
    }
}

static void take_end(struct config_ask *a, const struct msg_setting *m)
{
    if (!a->ask.done) {
        a->got.version = m->version;
        settings_sort(&a->got);
        ask_answer(&a->ask, MU_OK, "");
    }
}

/* Items, then one without a key. One without a key that is not the last: what came before is void,
 * as it broke off, and comes again. */
static bool take_list(struct config_ask *a, const struct msg_setting *m)
{
    if (m->key[0] != '\0' && m->more && a->got.n < ITEMS_MAX) {
        take_item(a, m);
    } else if (m->key[0] == '\0' && m->more) {
        clear(&a->ask);
    } else if (m->key[0] == '\0') {
        take_end(a, m);
    } else {
        return false;
    }
    return true;
}

static bool take_one(struct config_ask *a, const struct msg_setting *m)
{
    if (m->more) {
        return false;
    }
    if (!is_change(a) && m->deleted) {
        ask_answer(&a->ask, MU_ENOENT, "");
    } else if (!is_change(a)) {
        take_item(a, m);
    }
    take_end(a, m);
    return true;
}

/* Whoever made the wish has gone on. Of several only the last matters. */
static void resized(struct mu_run *run, const struct msg_setting *m)
{
    run->resize = 0;
    if (m->status != MU_OK) {
        log_warn(AREA, "the job was not resized: %s",
                 m->text[0] != '\0' ? m->text : mu_strerror(m->status));
    }
}

void settings_told(struct mu_run *run, const struct msg_setting *m)
{
    struct config_ask *a = (struct config_ask *)ask_find(run, WIRE_SETTING, m->request);

    if (run->resize != 0 && m->request == run->resize) {
        resized(run, m);
        return;
    }
    if (a == NULL) {
        return;
    }
    if (m->status != MU_OK) {
        ask_answer(&a->ask, m->status < 0 ? m->status : MU_EPROTO, m->text);
    } else if (!(is_list(a) ? take_list(a, m) : take_one(a, m))) {
        control_lost(run, MU_EPROTO,
                     "the agent of this node sent a setting '%s' that was not asked for", m->key);
    }
}

/* ---- the caller's side ---- */

static int ask_send(struct mu_run *run, struct config_ask *a)
{
    int rc;

    a->m.worker = run->life.worker;
    a->m.request = a->ask.request = ++run->request;
    a->m.wait_ms = run_left_ms(a->ask.due_ms);
    memcpy(a->m.job, run->life.job, sizeof(a->m.job));
    rc = control_say(run, WIRE_CONFIG, &a->m);
    if (rc != MU_OK) {
        return run_fail(rc, rc == MU_EINVAL ? "the key is not UTF-8 without control characters"
                                            : "out of memory for a setting");
    }
    return MU_OK;
}

/* Sends it and waits for its answer. */
static int ask_once(struct mu_run *run, struct config_ask *a)
{
    int rc = ask_send(run, a);

    if (rc != MU_OK) {
        return rc;
    }
    rc = ask_wait(run, &a->ask,
                  is_change(a) ? "neither the agent of this node nor the orchestrator answers: it "
                                 "is not known whether the change was made"
                               : "neither the agent of this node nor the orchestrator answers");
    if (rc == MU_OK && a->ask.text[0] != '\0') {
        rc = run_fail(a->ask.status, "%s", a->ask.text);
    } else if (rc == MU_OK && a->ask.status != MU_OK) {
        rc = run_fail(a->ask.status, "setting '%s': %s", a->m.key, mu_strerror(a->ask.status));
    }
    return rc;
}

/* A watch that nothing has come of is repeated for as long as there is time. */
static int ask_run(struct mu_run *run, struct config_ask *a)
{
    int rc;

    do {
        rc = ask_once(run, a);
        a->m.after = a->got.version;
    } while (rc == MU_OK && a->m.verb == CONFIG_WATCH && a->got.n == 0 &&
             clock_ms() < a->ask.due_ms);
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
    if (a->m.verb == CONFIG_LIST || (a->m.verb == CONFIG_WATCH && n == 0)) {
        return MU_OK;
    }
    memcpy(whole, key, n + 1);
    if (a->m.verb == CONFIG_WATCH && whole[n - 1] == '/') {
        whole[n - 1] = '\0';
    }
    return config_key_valid(whole, why, sizeof(why)) ? MU_OK : run_fail(MU_EINVAL, "%s", why);
}

/* On success what came is the caller's. */
static int ask(struct mu_run *run, const struct msg_config *m, const char *key, const void *value,
               size_t n, int64_t timeout_ms, mu_settings *got_out)
{
    struct config_ask a = {
        .ask = {.type = WIRE_SETTING, .due_ms = run_due_ms(timeout_ms), .clear = clear}, .m = *m};
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = check_key(&a, key);
    if (rc == MU_OK) {
        rc = ask_check(run, key, value, n);
    }
    if (rc == MU_OK) {
        memcpy(a.m.key, key, strlen(key));
        a.m.value_n = (uint32_t)n;
        a.m.value = (uint8_t *)(uintptr_t)value; /* Only read. */
        rc = run->alone ? settings_alone(run, &a) : ask_run(run, &a);
    }
    if (rc == MU_OK && a.m.verb == CONFIG_WATCH && a.got.n == 0) {
        rc = run_fail(MU_ETIMEDOUT, "nothing has changed after version %" PRIu64 " of the settings",
                      a.m.after);
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
    const struct msg_config m = {.verb = CONFIG_GET};
    mu_settings got;
    int rc = ask(run, &m, key, NULL, 0, timeout_ms, &got);

    if (rc == MU_OK) {
        *setting_out = got.items[0];
        free(got.items);
    }
    return rc;
}

int mu_config_list(mu_run *run, const char *prefix, int64_t timeout_ms, mu_settings *settings_out)
{
    const struct msg_config m = {.verb = CONFIG_LIST};

    return ask(run, &m, prefix, NULL, 0, timeout_ms, settings_out);
}

int mu_config_put(mu_run *run, const char *key, const void *value, size_t n, uint64_t expect,
                  int64_t timeout_ms, uint64_t *version_out)
{
    const struct msg_config m = {.verb = CONFIG_PUT, .expect = expect};
    mu_settings got;
    int rc = ask(run, &m, key, value, n, timeout_ms, &got);

    if (rc == MU_OK && version_out != NULL) {
        *version_out = got.version;
    }
    return rc;
}

int mu_config_remove(mu_run *run, const char *key, uint64_t expect, int64_t timeout_ms)
{
    const struct msg_config m = {.verb = CONFIG_REMOVE, .expect = expect};
    mu_settings got;

    return ask(run, &m, key, NULL, 0, timeout_ms, &got);
}

int mu_config_watch(mu_run *run, const char *key, uint64_t after, int64_t timeout_ms,
                    mu_settings *settings_out)
{
    const struct msg_config m = {.verb = CONFIG_WATCH, .after = after};

    return ask(run, &m, key, NULL, 0, timeout_ms, settings_out);
}

int mu_resize(mu_run *run, uint32_t nodes)
{
    struct config_ask a = {.ask.due_ms = run_due_ms(RESIZE_MS),
                           .m = {.verb = CONFIG_PUT, .key = "size", .expect = MU_ANY}};
    char text[16];
    int rc;

    if (nodes == 0) {
        return run_fail(MU_EINVAL, "a job has at least one node");
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    a.m.value_n = (uint32_t)snprintf(text, sizeof(text), "%" PRIu32, nodes);
    a.m.value = (uint8_t *)text;
    rc = call_state(run);
    if (rc == MU_OK) {
        rc = run->alone ? settings_alone(run, &a) : ask_send(run, &a);
    }
    if (rc == MU_OK && !run->alone) {
        run->resize = a.m.request;
    }
    return call_exit(run, rc);
}
