/* The one door for questions (wire/ask.def): of workers through their agents, of people's commands.
 * Each kind has a server, which answers now or later. A question that makes no sense is answered
 * so, and costs its asker nothing else: many share an agent's connection. */
#include "core/text.h"
#include "orchestrator/driver.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_BYTES 4096
#define SCRATCH_BYTES 8192

/* ---- answers ---- */

void ask_says(struct orchestrator *o, const struct asker *to, struct msg_says *m)
{
    const struct session *s = session_find(o, to->conn);

    if (s != NULL && !o->closing) {
        m->worker = to->worker;
        m->request = to->request;
        conn_say(s->conn, WIRE_SAYS, m, 0, 0);
    }
}

void ask_says_body(struct orchestrator *o, const struct asker *to, struct msg_says *m,
                   const void *body)
{
    const enum wire_type type = ask_rule(to->kind)->answer;
    const size_t size = wire_body_size(type, body);
    uint8_t small[SMALL_BYTES];
    uint8_t *bytes = size <= sizeof(small) ? small : malloc(size);
    size_t n = 0;

    if (bytes == NULL) {
        ask_fails(o, to, MU_EAGAIN, "the orchestrator is out of memory; try again later");
        return;
    }
    mu_assert(wire_body_encode(type, body, bytes, size, &n) == MU_OK);
    m->body = bytes;
    m->body_n = (uint32_t)n;
    ask_says(o, to, m);
    m->body = NULL;
    m->body_n = 0;
    if (bytes != small) {
        free(bytes);
    }
}

void ask_fails(struct orchestrator *o, const struct asker *to, int status, const char *fmt, ...)
{
    struct msg_says m = {.status = status};
    va_list args;

    va_start(args, fmt);
    text_vsay(m.text, sizeof(m.text), fmt, args);
    va_end(args);
    ask_says(o, to, &m);
}

void ask_no_job(struct orchestrator *o, const struct asker *to, const char *job)
{
    ask_fails(o, to, MU_ENOENT, "there is no job '%s' here; `muster status` shows those there are",
              job);
}

/* ---- questions ---- */

static ask_server *const servers[ASK_KINDS_N] = {
#define ASK(number, NAME, what, server, request, answer, policy, who, max) \
    [number] = serve_##server,
#include "wire/ask.def"
};

/* An agent speaks for its own workers only. Another number than its own is one that it had before,
 * and whoever has it will repeat what it wants under the new one. */
static bool is_of_another_life(const struct session *s, const struct ask_rule *rule,
                               const struct msg_ask *m)
{
    return (rule->policy == ASK_REPEAT || rule->policy == ASK_LATEST) &&
           (s->node_number == 0 || wid_node(m->worker) != s->node_number);
}

static void serve(struct session *s, const struct ask_rule *rule, const struct asker *from,
                  const struct msg_ask *m)
{
    uint64_t room[SCRATCH_BYTES / 8];
    struct wire_scratch scratch = {.mem = (uint8_t *)room, .cap = sizeof(room)};
    struct wire_fault fault = {0};
    union wire_any body;
    int rc = MU_OK;

    if (rule->request != 0) {
        rc = wire_body_decode(rule->request, m->body, m->body_n, &body, &scratch, &fault);
    } else if (m->body_n > 0) {
        rc = MU_EPROTO;
        strcpy(fault.text, "it has a body");
    }
    if (rc != MU_OK) {
        ask_fails(s->o, from, MU_EINVAL, "this %s makes no sense: %s", rule->what, fault.text);
        return;
    }
    servers[m->kind](s, from, m, rule->request != 0 ? &body : NULL);
}

void ask_take(struct session *s, const struct msg_ask *asked)
{
    const struct ask_rule *rule = ask_rule(asked->kind);
    const struct asker from = {s->number, asked->worker, asked->request, asked->kind};
    struct msg_ask m = *asked;

    if (rule == NULL) {
        ask_fails(s->o, &from, MU_EINVAL,
                  "this orchestrator (%s) does not know that question; start a newer one",
                  mu_version());
        return;
    }
    if (is_of_another_life(s, rule, &m)) {
        return;
    }
    if (s->is_agent && !rule->workers) {
        ask_fails(s->o, &from, MU_EREFUSED, "only people ask for %s", rule->what);
        return;
    }
    if (s->is_agent) {
        memcpy(m.job, s->job, sizeof(m.job));
    }
    serve(s, rule, &from, &m);
}
