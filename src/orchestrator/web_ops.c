/* How the orchestrator itself is. */
#include "core/text.h"
#include "orchestrator/web_state.h"
#include "orchestrator/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void answer_line(struct http_request *q, const char *text)
{
    char *copy = strdup(text);

    if (copy == NULL) {
        web_answer_no_memory(q);
        return;
    }
    http_answer(q, 200, "text/plain; charset=utf-8", copy, strlen(copy));
}

/* It was the loop that came here. */
void web_healthz(void *arg, struct http_request *q)
{
    answer_line(q, "ok\n");
}

void web_readyz(void *arg, struct http_request *q)
{
    const struct orchestrator *o = arg;
    char why[STORE_ERROR_MAX] = "";
    struct journal_look l;

    if (o->closing) {
        http_answer_error(q, 503, NULL, "the orchestrator is going");
        return;
    }
    l = journal_look(o->journal);
    if (!l.writable) {
        text_say(why, sizeof(why), "%s", l.error);
        http_set_header(q, "Retry-After", "5");
        http_answer_error(q, 503, "leases go on; no change can be made until writing works again",
                          "the journal can't be written: %.600s",
                          why[0] != '\0' ? why : "the disk does not keep up");
        return;
    }
    answer_line(q, "ok\n");
}

static int make_metrics(struct orchestrator *o, const char *job, char **text_out, size_t *n_out)
{
    *text_out = metrics_text(o, n_out);
    return *text_out != NULL ? MU_OK : MU_ENOMEM;
}

void web_metrics(void *arg, struct http_request *q)
{
    struct orchestrator *o = arg;

    web_answer_made(o->web, q, "metrics", "", "text/plain; version=0.0.4; charset=utf-8",
                    make_metrics);
}

void web_index(void *arg, struct http_request *q)
{
    json_t *list = json_array();

    for (uint32_t i = 0; list != NULL && i < web_routes_n; i++) {
        const struct http_route *r = &web_routes[i];

        if (json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "method", r->method,
                                                  "path", r->path, "role", web_role(r->role), "doc",
                                                  r->doc)) != 0) {
            json_decref(list);
            list = NULL;
        }
    }
    web_answer_json(q, 200, list != NULL ? json_pack("{s:o}", "routes", list) : NULL);
}
