/* One who asks an orchestrator by HTTP, over plain sockets. Whatever fails, fails the test; nothing
 * waits for more than KIT_WAIT_MS. */
#ifndef UNIT_ORCHESTRATOR_WEB_KIT_H
#define UNIT_ORCHESTRATOR_WEB_KIT_H

#include "http/http.h"
#include "unit/orchestrator/orchestrator_kit.h"

struct web_reply {
    unsigned status;
    char head[4096]; /* status line and headers */
    char *body;      /* with a zero byte after it */
    size_t body_n;
};

/* A connection, and what has come through it. */
struct web_conn {
    int fd;
    char *in;
    size_t in_n;
    bool ended;
};

/* As kit_setup…(), with HTTP. */
int web_setup(void **state);
int web_setup_running(void **state);

/* Says a request; headers end with \r\n each, and may be NULL, as may the body. */
struct web_conn web_say(const struct kit *k, enum http_role role, const char *method,
                        const char *path, const char *headers, const void *body, size_t body_n);
struct web_reply web_reply(struct web_conn *c); /* all of it; closes */
void web_hang_up(struct web_conn *c);

/* Both; the caller frees the body. */
struct web_reply web_ask(const struct kit *k, enum http_role role, const char *method,
                         const char *path, const char *headers, const char *body);

/* The answer has this status, and (unless NULL) this text in its body. */
void web_gives(const struct kit *k, enum http_role role, const char *method, const char *path,
               const char *headers, const char *body, unsigned status, const char *text);

/* A viewer's GET that gives JSON; to be released. */
json_t *web_json(const struct kit *k, const char *path);

/* A header of the reply, in a static buffer; "" if it is not there. */
const char *web_header(const struct web_reply *r, const char *name);
uint64_t web_etag_of(const struct web_reply *r);

/* A stream: until this text has come, the head included. Gives all that came so far. */
const char *web_expect(struct web_conn *c, const char *text);

#endif
