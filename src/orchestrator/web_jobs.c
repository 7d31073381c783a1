/* Jobs, their members, and the generations that they have had. */
#include "orchestrator/web_state.h"

#include <stdlib.h>
#include <string.h>

static void answer_text(struct http_request *q, int rc, char *text)
{
    if (rc != MU_OK || text == NULL) {
        web_answer_status(q, rc, NULL, NULL);
        return;
    }
    http_answer(q, 200, "application/json", text, strlen(text));
}

void web_jobs(void *arg, struct http_request *q)
{
    char *text = NULL;
    const int rc = status_list_text(arg, &text);

    answer_text(q, rc, text);
}

void web_one_job(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);
    char *text = NULL;

    if (job != NULL) {
        const int rc = status_text(o, job, &text);

        answer_text(q, rc, text);
    }
}

void web_members(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;
    const char *job = web_job(o->web, q);
    char *text = NULL;

    if (job != NULL) {
        const int rc = status_members_text(o, job, &text);

        answer_text(q, rc, text);
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
