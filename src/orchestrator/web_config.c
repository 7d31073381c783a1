/* Settings: what is asked, and changes with their conditions. */
#include "orchestrator/web_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIES_MAX 8

/* ---- reading ---- */

static void get(struct web *w, struct http_request *q, const char *job, const struct web_want *want)
{
    uint64_t after = 0;
    int rc;

    if (web_wants_stream(q)) {
        web_stream_settings(w, q, job, want);
        return;
    }
    rc = web_number(q, "wait", INT64_MAX, &after);
    if (rc == MU_OK) {
        web_wait(w, q, job, want, after);
    } else if (rc == MU_ENOENT) {
        web_read(w, q, job, want);
    }
}

void web_config_list(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q), *prefix;
    struct web_want want = {0};
    size_t n;

    if (job == NULL) {
        return;
    }
    prefix = http_query(q, "prefix");
    prefix = prefix != NULL ? prefix : "";
    n = strlen(prefix);
    if (n >= sizeof(want.key)) {
        http_answer_error(q, 400, NULL, "?prefix= is longer than any key (%d bytes)",
                          CONFIG_KEY_MAX - 1);
        return;
    }
    if (n > 0 && prefix[n - 1] != '/' && (web_wants_stream(q) || http_query(q, "wait") != NULL)) {
        http_answer_error(q, 400, "add the slash, or ask for the one key",
                          "only a prefix that ends with '/' can be waited for");
        return;
    }
    memcpy(want.key, prefix, n);
    get(o->web, q, job, &want);
}

/* False: that has been answered. */
static bool key_of(struct http_request *q, char key[CONFIG_KEY_MAX])
{
    const char *text = http_param(q, 1);
    char why[TEXT_MAX_LEN];

    if (!config_key_valid(text, why, sizeof(why))) {
        http_answer_error(q, 400, NULL, "%s", why);
        return false;
    }
    strcpy(key, text);
    return true;
}

void web_config_get(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);
    struct web_want want = {.one = true};

    if (job != NULL && key_of(q, want.key)) {
        get(o->web, q, job, &want);
    }
}

/* ---- changing ---- */

struct change {
    struct setting_ask ask;
    struct http_request *q;
    char key[CONFIG_KEY_MAX];
    uint64_t before; /* the key's version when it was asked; 0: there was none */
    uint32_t tries_n;
};

/* Checks the conditions against the key's version (0: there is none). `expect`: what has to be
 * still so when the change is made. */
static int permit(const struct http_request *q, uint64_t version, uint64_t *expect_out)
{
    const char *match = http_header(q, "If-Match"), *none = http_header(q, "If-None-Match");
    char etag[32];
    int rc;

    snprintf(etag, sizeof(etag), "%" PRIu64, version);
    if (match != NULL) {
        rc = http_etag_match(match, version != 0 ? etag : NULL, false);
        if (rc != MU_OK) {
            return rc == MU_EINVAL ? MU_EINVAL : MU_ECONFLICT;
        }
    }
    if (none != NULL) {
        rc = http_etag_match(none, version != 0 ? etag : NULL, true);
        if (rc != MU_ENOENT) {
            return rc == MU_EINVAL ? MU_EINVAL : MU_ECONFLICT;
        }
    }
    *expect_out = match == NULL && none == NULL ? CONFIG_ANY : version;
    return MU_OK;
}

static uint64_t version_of(struct orchestrator *o, const char *job, const char *key)
{
    const struct config *c = cluster_settings(o->cluster, job);
    struct rec_config r;

    return c != NULL && config_get(c, key, &r) == MU_OK ? r.version : 0;
}

static void refuse(struct orchestrator *o, struct http_request *q, const char *job, const char *key)
{
    const uint64_t version = version_of(o, job, key);
    const struct config *c = cluster_settings(o->cluster, job);
    char error[CONFIG_KEY_MAX + 64];
    json_t *now;

    if (version != 0) {
        web_etag(q, version);
        snprintf(error, sizeof(error), "setting '%s' is at version %" PRIu64, key, version);
    } else {
        snprintf(error, sizeof(error), "there is no setting '%s'", key);
    }
    if (c != NULL) {
        web_version(q, c);
    }
    now = version != 0 ? json_integer((json_int_t)version) : json_null();
    web_answer_json(q, 412,
                    json_pack("{s:s, s:s, s:o}", "error", error, "hint",
                              "read it again, then say which version is to be changed", "version",
                              now));
}

static void answer_changed(struct orchestrator *o, struct change *c, uint64_t version)
{
    struct http_request *q = c->q;
    const struct config *settings = cluster_settings(o->cluster, c->ask.job);

    if (settings != NULL) {
        web_version(q, settings);
    }
    if (c->ask.request.remove) {
        http_answer(q, 204, NULL, NULL, 0);
        return;
    }
    web_etag(q, version);
    web_answer_json(q, c->before == 0 ? 201 : 200,
                    json_pack("{s:s, s:I}", "key", c->key, "version", (json_int_t)version));
}

static void ask(struct orchestrator *o, struct change *c);

static void on_changed(struct orchestrator *o, struct setting_ask *a, int status, uint64_t version,
                       const char *why)
{
    struct change *c = (struct change *)a;

    switch (status) {
    case MU_OK:
        answer_changed(o, c, version);
        break;
    case MU_EEXIST:
    case MU_ECONFLICT: /* Somebody was faster; the conditions may hold all the same. */
        ask(o, c);
        return;
    case MU_ENOENT:
        web_answer_status(c->q, status, why, "GET lists those there are");
        break;
    case MU_EAGAIN:
    case MU_EIO:
        web_answer_status(c->q, status, why,
                          "read it before you try again: it may have been changed");
        break;
    default:
        web_answer_status(c->q, status, why, NULL);
        break;
    }
    free(c);
}

/* The request stays until it is answered, and with it key and value. */
static void ask(struct orchestrator *o, struct change *c)
{
    struct http_request *q = c->q;
    int rc;

    c->before = version_of(o, c->ask.job, c->key);
    rc = permit(q, c->before, &c->ask.request.expect);
    if (rc == MU_OK && c->tries_n++ < TRIES_MAX) {
        settings_change(o, &c->ask);
        return;
    }
    if (rc == MU_EINVAL) {
        http_answer_error(q, 400, "it is \"VERSION\", with the quotes, or *",
                          "If-Match or If-None-Match makes no sense");
    } else if (rc != MU_OK) {
        refuse(o, q, c->ask.job, c->key);
    } else {
        web_answer_status(q, MU_EAGAIN, "others change this setting all the time", NULL);
    }
    free(c);
}

static void change(struct orchestrator *o, struct http_request *q, bool removes)
{
    const char *job = web_job(o->web, q);
    char key[CONFIG_KEY_MAX];
    struct change *c;
    size_t n;

    if (job == NULL || !key_of(q, key)) {
        return;
    }
    const void *value = http_body(q, &n);

    if (!removes && n > o->config.settings.value_bytes) {
        http_answer_error(q, 413, NULL, "a value has at most %u bytes",
                          o->config.settings.value_bytes);
        return;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        web_answer_no_memory(q);
        return;
    }
    c->q = q;
    memcpy(c->key, key, sizeof(key));
    snprintf(c->ask.job, sizeof(c->ask.job), "%s", job);
    c->ask.request = (struct config_request){.key = c->key, .remove = removes};
    if (!removes) {
        c->ask.request.value = value;
        c->ask.request.value_n = (uint32_t)n;
    }
    c->ask.done = on_changed;
    ask(o, c);
}

void web_config_put(void *arg, struct http_request *q)
{
    change(arg, q, false);
}

void web_config_delete(void *arg, struct http_request *q)
{
    change(arg, q, true);
}
