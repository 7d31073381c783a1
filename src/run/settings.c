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
    LATE_MS = 2000,     /* the agent answers what is late; so much later we do it ourselves */
    RESIZE_MS = 10000,  /* so long an agent without an orchestrator keeps a wish */
    ITEMS_MAX = 1 << 16 /* an answer with more is none */
};

static void ask_clear(struct ask *a)
{
    mu_settings_free(&a->got);
    a->cap = 0;
}

static bool is_change(const struct ask *a)
{
    return a->m.verb == CONFIG_PUT || a->m.verb == CONFIG_REMOVE;
}

static bool is_list(const struct ask *a)
{
    return a->m.verb == CONFIG_LIST || a->m.verb == CONFIG_WATCH;
}

/* ---- the control thread's side ---- */

static void answer(struct ask *a, int status, const char *text)
{
    size_t n = MIN(strlen(text), sizeof(a->text) - 1);

    a->done = true;
    a->status = status;
    memcpy(a->text, text, n);
    a->text[n] = '\0';
    if (status != MU_OK) {
        ask_clear(a);
    }
}

void settings_end(struct mu_run *run, int status, const char *text)
{
    for (struct ask *a = run->asks; a != NULL; a = a->next) {
        if (!a->done) {
            answer(a, status, text);
        }
    }
}

static void take_item(struct ask *a, const struct msg_setting *m)
{
    static const uint8_t none[1];
    const uint8_t *value = m->value_n > 0 ? m->value : none;

    if (settings_add(a, m->key, m->deleted ? NULL : value, m->deleted ? 0 : m->value_n,
                     m->version) != MU_OK) {
        answer(a, MU_ENOMEM, "out of memory for the answer");
    }
}

/* Items, then one without a key. One without a key that is not the last: what came before is void,
 * as it broke off, and comes again. */
static bool take_list(struct ask *a, const struct msg_setting *m)
{
    if (m->key[0] != '\0' && m->more && a->got.n < ITEMS_MAX) {
        take_item(a, m);
    } else if (m->key[0] == '\0' && m->more) {
        ask_clear(a);
    } else if (m->key[0] == '\0') {
        a->got.version = m->version;
        settings_sort(&a->got);
        answer(a, MU_OK, "");
    } else {
        return false;
    }
    return true;
}

static bool take_one(struct ask *a, const struct msg_setting *m)
{
    if (m->more) {
        return false;
    }
    if (!is_change(a) && m->deleted) {
        answer(a, MU_ENOENT, "");
    } else if (!is_change(a)) {
        take_item(a, m);
    }
    if (!a->done) {
        a->got.version = m->version;
        answer(a, MU_OK, "");
    }
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
    struct ask *a = run->asks;

    if (run->resize != 0 && m->request == run->resize) {
        resized(run, m);
        return;
    }
    while (a != NULL && a->m.request != m->request) {
        a = a->next;
    }
    if (a == NULL || a->done) {
        return;
    }
    if (m->status != MU_OK) {
        answer(a, m->status < 0 ? m->status : MU_EPROTO, m->text);
    } else if (!(is_list(a) ? take_list(a, m) : take_one(a, m))) {
        control_lost(run, MU_EPROTO,
                     "the agent of this node sent a setting '%s' that was not asked for", m->key);
    }
}

/* ---- the caller's side ---- */

static int ask_send(struct mu_run *run, struct ask *a)
{
    uint64_t now_ms = run_now_ms();
    uint64_t left_ms = a->due_ms > now_ms ? a->due_ms - now_ms : 0;
    int rc;

    a->m.worker = run->life.worker;
    a->m.request = ++run->request;
    a->m.wait_ms = (uint32_t)MIN(left_ms, (uint64_t)UINT32_MAX);
    memcpy(a->m.job, run->life.job, sizeof(a->m.job));
    rc = control_say(run, WIRE_CONFIG, &a->m);
    if (rc != MU_OK) {
        return run_fail(rc, rc == MU_EINVAL ? "the key is not UTF-8 without control characters"
                                            : "out of memory for a setting");
    }
    return MU_OK;
}

static int ask_failed(struct mu_run *run, const struct ask *a)
{
    if (run->ended || run->leaving || run->lost != MU_OK) {
        return call_state(run);
    }
    return a->text[0] != '\0'
               ? run_fail(a->status, "%s", a->text)
               : run_fail(a->status, "setting '%s': %s", a->m.key, mu_strerror(a->status));
}

static void say_late(struct ask *a)
{
    answer(a, MU_ETIMEDOUT,
           is_change(a) ? "neither the agent of this node nor the orchestrator answers: it is not "
                          "known whether the change was made"
                        : "neither the agent of this node nor the orchestrator answers");
}

/* Sends it and waits for its answer. */
static int ask_once(struct mu_run *run, struct ask *a)
{
    uint64_t late_ms = a->due_ms == UINT64_MAX ? UINT64_MAX : a->due_ms + LATE_MS;
    struct ask **link = &run->asks;
    int rc = ask_send(run, a);

    if (rc != MU_OK) {
        return rc;
    }
    a->done = false;
    a->next = run->asks;
    run->asks = a;
    while (!a->done && !run->leaving) {
        if (!call_wait(run, late_ms) && !a->done) {
            say_late(a);
        }
    }
    while (*link != a) {
        link = &(*link)->next;
    }
    *link = a->next;
    if (!a->done) {
        answer(a, MU_EDONE, "");
    }
    return a->status == MU_OK ? MU_OK : ask_failed(run, a);
}

/* A watch that nothing has come of is repeated for as long as there is time. */
static int ask_run(struct mu_run *run, struct ask *a)
{
    int rc;

    do {
        rc = ask_once(run, a);
        a->m.after = a->got.version;
    } while (rc == MU_OK && a->m.verb == CONFIG_WATCH && a->got.n == 0 && run_now_ms() < a->due_ms);
    return rc;
}

static int check(const struct ask *a, const char *key, const void *value, size_t n)
{
    size_t key_n = strnlen(key, CONFIG_KEY_MAX);
    char whole[CONFIG_KEY_MAX], why[TEXT_MAX_LEN];

    if (n > CONFIG_VALUE_MAX) {
        return run_fail(MU_ELIMIT, "'%s': a value of %zu bytes; it may have %u", key, n,
                        CONFIG_VALUE_MAX);
    }
    if (value == NULL && n > 0) {
        return run_fail(MU_EINVAL, "'%s': %zu bytes at NULL", key, n);
    }
    if (key_n == CONFIG_KEY_MAX) {
        return run_fail(MU_EINVAL, "the key has more than %d characters", CONFIG_KEY_MAX - 1);
    }
    if (a->m.verb == CONFIG_LIST || (a->m.verb == CONFIG_WATCH && key_n == 0)) {
        return MU_OK;
    }
    memcpy(whole, key, key_n + 1);
    if (a->m.verb == CONFIG_WATCH && whole[key_n - 1] == '/') {
        whole[key_n - 1] = '\0';
    }
    return config_key_valid(whole, why, sizeof(why)) ? MU_OK : run_fail(MU_EINVAL, "%s", why);
}

/* On success what came is in a->got, the caller's. */
static int ask(struct mu_run *run, struct ask *a, const char *key, const void *value, size_t n,
               int64_t timeout_ms)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    a->due_ms = run_due_ms(timeout_ms);
    rc = key == NULL ? run_fail(MU_EINVAL, "there is no key") : check(a, key, value, n);
    if (rc == MU_OK) {
        rc = call_state(run);
    }
    if (rc == MU_OK) {
        memcpy(a->m.key, key, strlen(key));
        a->m.value_n = (uint32_t)n;
        a->m.value = (uint8_t *)(uintptr_t)value; /* Only read. */
        rc = run->alone ? settings_alone(run, a) : ask_run(run, a);
    }
    if (rc == MU_OK && a->m.verb == CONFIG_WATCH && a->got.n == 0) {
        rc = run_fail(MU_ETIMEDOUT, "nothing has changed after version %" PRIu64 " of the settings",
                      a->m.after);
    }
    call_exit(run);
    if (rc != MU_OK) {
        ask_clear(a);
    }
    return rc;
}

int mu_config_get(mu_run *run, const char *key, int64_t timeout_ms, mu_setting *setting_out)
{
    struct ask a = {.m.verb = CONFIG_GET};
    int rc = ask(run, &a, key, NULL, 0, timeout_ms);

    if (rc == MU_OK) {
        *setting_out = a.got.items[0];
        free(a.got.items);
    }
    return rc;
}

int mu_config_list(mu_run *run, const char *prefix, int64_t timeout_ms, mu_settings *settings_out)
{
    struct ask a = {.m.verb = CONFIG_LIST};
    int rc = ask(run, &a, prefix, NULL, 0, timeout_ms);

    if (rc == MU_OK) {
        *settings_out = a.got;
    }
    return rc;
}

int mu_config_put(mu_run *run, const char *key, const void *value, size_t n, uint64_t expect,
                  int64_t timeout_ms, uint64_t *version_out)
{
    struct ask a = {.m = {.verb = CONFIG_PUT, .expect = expect}};
    int rc = ask(run, &a, key, value, n, timeout_ms);

    if (rc == MU_OK && version_out != NULL) {
        *version_out = a.got.version;
    }
    return rc;
}

int mu_config_remove(mu_run *run, const char *key, uint64_t expect, int64_t timeout_ms)
{
    struct ask a = {.m = {.verb = CONFIG_REMOVE, .expect = expect}};

    return ask(run, &a, key, NULL, 0, timeout_ms);
}

int mu_config_watch(mu_run *run, const char *key, uint64_t after, int64_t timeout_ms,
                    mu_settings *settings_out)
{
    struct ask a = {.m = {.verb = CONFIG_WATCH, .after = after}};
    int rc = ask(run, &a, key, NULL, 0, timeout_ms);

    if (rc == MU_OK) {
        *settings_out = a.got;
    }
    return rc;
}

int mu_resize(mu_run *run, uint32_t nodes)
{
    struct ask a = {.m = {.verb = CONFIG_PUT, .key = "size", .expect = MU_ANY}};
    char text[16];
    int rc;

    if (nodes == 0) {
        return run_fail(MU_EINVAL, "a job has at least one node");
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    a.due_ms = run_due_ms(RESIZE_MS);
    a.m.value_n = (uint32_t)snprintf(text, sizeof(text), "%" PRIu32, nodes);
    a.m.value = (uint8_t *)text;
    rc = call_state(run);
    if (rc == MU_OK) {
        rc = run->alone ? settings_alone(run, &a) : ask_send(run, &a);
    }
    if (rc == MU_OK && !run->alone) {
        run->resize = a.m.request;
    }
    call_exit(run);
    return rc;
}
