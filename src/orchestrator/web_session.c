/* A page's session: src/http/session.c. */
#include "orchestrator/web_state.h"

void web_session_begin(void *arg, struct http_request *q)
{
    (void)arg;
    http_session_begin(q);
    web_answer_json(
        q, 200, json_pack("{s:s, s:i}", "role", web_role(http_role(q)), "seconds", HTTP_SESSION_S));
}

void web_session_end(void *arg, struct http_request *q)
{
    (void)arg;
    http_session_end(q);
    web_answer_json(q, 200, json_pack("{}"));
}
