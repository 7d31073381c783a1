/* What people ask of the orchestrator. A request that changes something is answered when its record
 * is durable, or has failed. */
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void people_answer(const struct session *s, uint64_t request, int status, bool more,
                   const char *fmt, ...)
{
    const struct asker to = {.conn = s->number, .request = request};
    struct msg_says m = {.status = status, .more = more};
    va_list args;

    va_start(args, fmt);
    text_vsay(m.text, sizeof(m.text), fmt, args);
    va_end(args);
    ask_says(s->o, &to, &m);
}

/* ---- admin ---- */

struct search {
    struct orchestrator *o;
    const char *node;
    const char *job; /* being looked at */
    char found[NAME_MAX_LEN];
    uint32_t found_n;
};

static void match_node(void *arg, const struct node_look *n)
{
    struct search *q = arg;

    if (!n->gone && strcmp(n->name, q->node) == 0 && strcmp(q->found, q->job) != 0) {
        strcpy(q->found, q->job);
        q->found_n++;
    }
}

static void match_job(void *arg, const struct job_look *j)
{
    struct search *q = arg;

    q->job = j->view.name;
    if (!j->view.ended) {
        cluster_each_node(q->o->cluster, j->view.name, match_node, q);
    }
}

/* A node that was named without its job. */
static bool find_job(struct session *s, struct msg_admin *m, uint64_t request)
{
    struct search q = {.o = s->o, .node = m->node};

    cluster_each_job(s->o->cluster, match_job, &q);
    if (q.found_n == 1) {
        strcpy(m->job, q.found);
        return true;
    }
    if (q.found_n == 0) {
        people_answer(s, request, MU_ENOENT, false,
                      "there is no node '%s' here; `muster status` shows those there are", m->node);
    } else {
        people_answer(s, request, MU_ECONFLICT, false,
                      "%u jobs have a node '%s'; say which one with --job", q.found_n, m->node);
    }
    return false;
}

static void say_no_such(struct session *s, const struct msg_admin *m, uint64_t request)
{
    struct job_view view;

    if (cluster_job(s->o->cluster, m->job, &view) != MU_OK) {
        people_answer(s, request, MU_ENOENT, false,
                      "there is no job '%s' here; `muster status` shows those there are", m->job);
    } else {
        people_answer(s, request, MU_ENOENT, false,
                      "job '%s' has no node '%s'; `muster status %s` shows those it has", m->job,
                      m->node, m->job);
    }
}

static void say_why_not(struct session *s, const struct msg_admin *m, uint64_t request, int status)
{
    switch (status) {
    case MU_ENOENT:
        say_no_such(s, m, request);
        break;
    case MU_EBUSY:
        people_answer(s, request, status, false,
                      "job '%s' has living members that hold its state: nothing is taken over "
                      "from them. Stop them first if you mean to give that state up",
                      m->job);
        break;
    case MU_EDONE:
        people_answer(s, request, status, false, "job '%s' has ended already", m->job);
        break;
    case MU_EAGAIN:
        people_answer(s, request, status, false,
                      "job '%s' is about to end; look again with `muster status %s`", m->job,
                      m->job);
        break;
    default:
        people_answer(s, request, status, false, "job '%s': %s", m->job, mu_strerror(status));
        break;
    }
}

/* The topic names it. */
static bool take_node(struct session *s, const struct msg_ask *asked, struct msg_admin *m)
{
    const size_t n = strlen(asked->topic);

    if (n >= sizeof(m->node)) {
        people_answer(s, asked->request, MU_EINVAL, false, "'%.80s' is no name of a node",
                      asked->topic);
        return false;
    }
    memcpy(m->node, asked->topic, n + 1);
    return true;
}

static enum admin_verb verb_of(uint16_t kind)
{
    return kind == ASK_DRAIN      ? ADMIN_DRAIN
           : kind == ASK_TAKEOVER ? ADMIN_TAKEOVER
           : kind == ASK_SHUTDOWN ? ADMIN_SHUTDOWN
                                  : ADMIN_SAVE;
}

void serve_admin(struct session *s, const struct asker *from, const struct msg_ask *asked,
                 const union wire_any *body)
{
    struct orchestrator *o = s->o;
    struct msg_admin m = {.verb = (uint8_t)verb_of(asked->kind)};
    const uint64_t request = asked->request;
    struct event e = {.kind = EVENT_ADMIN, .conn = s->number, .u.admin = &m};
    uint32_t pending_n = journal_look(o->journal).pending_n;
    bool waits;
    int rc;

    memcpy(m.job, asked->job, sizeof(m.job));
    if (!take_node(s, asked, &m)) {
        return;
    }
    if (pending_n > ADMIN_PENDING_MAX) {
        people_answer(s, request, MU_EAGAIN, false,
                      "nothing was changed: %u records wait for the disk; try again later",
                      pending_n);
        return;
    }
    if (m.verb == ADMIN_DRAIN && m.job[0] == '\0' && !find_job(s, &m, request)) {
        return;
    }
    o->asking = (struct asking){.conn = s->number, .request = request};
    rc = driver_step(o, &e);
    waits = o->asking.waits;
    o->asking = (struct asking){0};
    if (rc != MU_OK) {
        say_why_not(s, &m, request, rc);
    } else if (!waits) { /* A takeover that still waits for nodes. */
        people_answer(s, request, MU_OK, false, "%s", "");
    }
}

/* ---- status ---- */

static void answer_pieces(struct orchestrator *o, const struct asker *to, const char *text)
{
    size_t left = strlen(text);

    do {
        struct body_text piece = {.data_n = (uint32_t)MIN(left, TEXT_PIECE_MAX),
                                  .data = (uint8_t *)(uintptr_t)text};
        struct msg_says m = {.more = left > piece.data_n};

        text += piece.data_n;
        left -= piece.data_n;
        ask_says_body(o, to, &m, &piece);
    } while (left > 0);
}

void serve_status(struct session *s, const struct asker *from, const struct msg_ask *m,
                  const union wire_any *body)
{
    char *text;
    int rc = status_text(s->o, m->job, &text);

    if (rc == MU_ENOENT) {
        ask_no_job(s->o, from, m->job);
    } else if (rc != MU_OK) {
        ask_fails(s->o, from, rc, "the orchestrator can't say: %s", mu_strerror(rc));
    } else {
        answer_pieces(s->o, from, text);
        free(text);
    }
}
