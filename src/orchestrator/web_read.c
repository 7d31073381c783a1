/* Settings as answers: one by its key, or all that begin with a prefix. */
#include "orchestrator/setting_json.h"
#include "orchestrator/web_state.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void web_etag(struct http_request *q, uint64_t version)
{
    char text[32];

    snprintf(text, sizeof(text), "\"%" PRIu64 "\"", version);
    http_set_header(q, "ETag", text);
}

/* Where a wait goes on, also when what was asked for is not there. */
void web_version(struct http_request *q, const struct config *c)
{
    char text[32];

    snprintf(text, sizeof(text), "%" PRIu64, c->version);
    http_set_header(q, "Muster-Version", text);
}

/* ---- answers ---- */

/* True: the asker has this version already, or asked in a way that makes no sense, and that has
 * been answered. */
static bool is_known(struct http_request *q, uint64_t version)
{
    const char *list = http_header(q, "If-None-Match");
    char etag[32];
    int rc;

    snprintf(etag, sizeof(etag), "%" PRIu64, version);
    rc = list != NULL ? http_etag_match(list, etag, true) : MU_ENOENT;
    if (rc == MU_OK) {
        http_answer(q, 304, NULL, NULL, 0);
    } else if (rc == MU_EINVAL) {
        http_answer_error(q, 400, "it is \"VERSION\", with the quotes, or *",
                          "If-None-Match makes no sense");
    }
    return rc != MU_ENOENT;
}

static void answer_raw(struct http_request *q, const struct rec_config *r)
{
    json_t *text = json_stringn(r->value_n > 0 ? (const char *)r->value : "", r->value_n);
    char *body = malloc((size_t)r->value_n + 1);

    if (body == NULL) {
        json_decref(text);
        web_answer_no_memory(q);
        return;
    }
    if (r->value_n > 0) {
        memcpy(body, r->value, r->value_n);
    }
    http_answer(q, 200, text != NULL ? "text/plain; charset=utf-8" : "application/octet-stream",
                body, r->value_n);
    json_decref(text);
}

static void read_one(struct http_request *q, const char *job, const char *key,
                     const struct config *c)
{
    struct rec_config r;

    if (config_get(c, key, &r) != MU_OK) {
        http_answer_error(q, 404, "GET the folder above lists those there are",
                          "job '%s' has no setting '%s'", job, key);
        return;
    }
    web_etag(q, r.version);
    if (is_known(q, r.version)) {
        return;
    }
    if (web_accepts(q, "application/json")) {
        web_answer_json(q, 200, setting_json(&r));
    } else {
        answer_raw(q, &r);
    }
}

static void read_list(struct http_request *q, const char *job, const char *prefix,
                      const struct config *c)
{
    json_t *list;
    struct rec_config r = {0};

    web_etag(q, c->version);
    if (is_known(q, c->version)) {
        return;
    }
    list = json_array();
    while (list != NULL && config_list(c, prefix, r.key, &r) == MU_OK) {
        if (json_array_append_new(list, setting_json(&r)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    web_answer_json(q, 200,
                    list == NULL ? NULL
                                 : json_pack("{s:s, s:I, s:o}", "job", job, "version",
                                             (json_int_t)c->version, "settings", list));
}

void web_read(struct web *w, struct http_request *q, const char *job, const struct web_want *want)
{
    const struct config *c = cluster_settings(w->o->cluster, job);

    if (c == NULL) {
        web_answer_status(q, MU_ENOENT, "there is no such job", NULL);
        return;
    }
    web_version(q, c);
    if (want->one) {
        read_one(q, job, want->key, c);
    } else {
        read_list(q, job, want->key, c);
    }
}
