/* What the handlers share: answers, errors, and numbers out of queries. */
#include "orchestrator/web_state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void web_answer_no_memory(struct http_request *q)
{
    http_answer_error(q, 500, NULL, "the orchestrator is out of memory");
}

void web_answer_json(struct http_request *q, unsigned status, json_t *json)
{
    char *text = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;

    json_decref(json);
    if (text == NULL) {
        web_answer_no_memory(q);
        return;
    }
    http_answer(q, status, "application/json", text, strlen(text));
}

static unsigned code_of(int status)
{
    switch (status) {
    case MU_EINVAL:
        return 400;
    case MU_ENOENT:
        return 404;
    case MU_EEXIST:
    case MU_ECONFLICT:
        return 412;
    case MU_ELIMIT:
        return 507;
    case MU_EAGAIN:
    case MU_EIO:
        return 503;
    default:
        return 500;
    }
}

void web_answer_status(struct http_request *q, int status, const char *why, const char *hint)
{
    const unsigned code = code_of(status);

    if (code == 503) {
        http_set_header(q, "Retry-After", "1");
    }
    http_answer_error(q, code, hint, "%s",
                      why != NULL && why[0] != '\0' ? why : mu_strerror(status));
}

int web_number(struct http_request *q, const char *name, uint64_t max, uint64_t *n_out)
{
    const char *text = http_query(q, name);
    uint64_t n = 0;

    if (text == NULL) {
        return MU_ENOENT;
    }
    for (const char *p = text; *p != '\0' || p == text; p++) {
        const unsigned digit = (unsigned)*p - '0';

        if (digit > 9 || n > (UINT64_MAX - digit) / 10 || n * 10 + digit > max) {
            http_answer_error(q, 400, NULL, "?%s= wants a whole number from 0 to %" PRIu64, name,
                              max);
            return MU_EINVAL;
        }
        n = n * 10 + digit;
    }
    *n_out = n;
    return MU_OK;
}

bool web_accepts(const struct http_request *q, const char *type)
{
    const char *accept = http_header(q, "Accept");

    return accept != NULL && strcasestr(accept, type) != NULL;
}

bool web_wants_stream(const struct http_request *q)
{
    const char *follow = http_query(q, "follow");

    return web_accepts(q, "text/event-stream") ||
           (follow != NULL && strcmp(follow, "0") != 0 && strcmp(follow, "false") != 0);
}

const char *web_job(struct web *w, struct http_request *q)
{
    const char *job = http_param(q, 0);
    struct job_view view;

    if (cluster_job(w->o->cluster, job, &view) == MU_OK) {
        return job;
    }
    http_answer_error(q, 404, "GET /v1/jobs lists those there are", "there is no job '%.63s'", job);
    return NULL;
}
