/* Jobs, their members, and the generations that they have had. */
#include "orchestrator/web_state.h"

#include <string.h>

static int make_list(struct orchestrator *o, const char *job, char **text_out, size_t *n_out)
{
    int rc = status_list_text(o, text_out);

    *n_out = rc == MU_OK ? strlen(*text_out) : 0;
    return rc;
}

static int make_job(struct orchestrator *o, const char *job, char **text_out, size_t *n_out)
{
    int rc = status_text(o, job, text_out);

    *n_out = rc == MU_OK ? strlen(*text_out) : 0;
    return rc;
}

static int make_members(struct orchestrator *o, const char *job, char **text_out, size_t *n_out)
{
    int rc = status_members_text(o, job, text_out);

    *n_out = rc == MU_OK ? strlen(*text_out) : 0;
    return rc;
}

void web_jobs(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;

    web_answer_made(o->web, q, "jobs", "", "application/json", make_list);
}

void web_one_job(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);

    if (job != NULL) {
        web_answer_made(o->web, q, "job", job, "application/json", make_job);
    }
}

void web_members(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);

    if (job != NULL) {
        web_answer_made(o->web, q, "members", job, "application/json", make_members);
    }
}

void web_generations(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);
    uint64_t since = 0;
    json_t *list;

    if (job == NULL || web_number(q, "since", INT64_MAX, &since) == MU_EINVAL) {
        return;
    }
    list = history_json(o->web->history, job, since);
    web_answer_json(q, 200,
                    list != NULL ? json_pack("{s:s, s:o}", "job", job, "generations", list) : NULL);
}
