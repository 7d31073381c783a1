/* What people ask of the orchestrator. A request that changes something is answered when its record
 * is durable, or has failed. */
#include "core/text.h"
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (256u << 10)

void people_answer(struct session *s, uint64_t request, int status, bool more, const char *fmt, ...)
{
    struct msg_answer m = {.status = status, .more = more};
    va_list args;

    va_start(args, fmt);
    text_vsay(m.text, sizeof(m.text), fmt, args);
    va_end(args);
    conn_say(s->conn, WIRE_ANSWER, &m, 0, request);
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

void people_admin(struct session *s, const struct msg_admin *asked, uint64_t request)
{
    struct orchestrator *o = s->o;
    struct msg_admin m = *asked;
    struct event e = {.kind = EVENT_ADMIN, .conn = s->number, .u.admin = &m};
    uint32_t pending_n = journal_look(o->journal).pending_n;
    bool waits;
    int rc;

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

/* ---- ask ---- */

static void answer_pieces(struct session *s, uint64_t request, const char *text)
{
    size_t left = strlen(text);

    do {
        struct msg_answer m = {.data_n = (uint32_t)MIN(left, PIECE_BYTES),
                               .data = (uint8_t *)(uintptr_t)text};

        text += m.data_n;
        left -= m.data_n;
        m.more = left > 0;
        conn_say(s->conn, WIRE_ANSWER, &m, 0, request);
    } while (left > 0);
}

static void ask_status(struct session *s, const struct msg_ask *m, uint64_t request)
{
    char *text;
    int rc = status_text(s->o, m->job, &text);

    if (rc == MU_ENOENT) {
        people_answer(s, request, rc, false,
                      "there is no job '%s' here; `muster status` shows those there are", m->job);
    } else if (rc != MU_OK) {
        people_answer(s, request, rc, false, "the orchestrator can't say: %s", mu_strerror(rc));
    } else {
        answer_pieces(s, request, text);
        free(text);
    }
}

void people_ask(struct session *s, const struct msg_ask *m, uint64_t request)
{
    switch (m->what) {
    case ASK_STATUS:
        ask_status(s, m, request);
        break;
    case ASK_EVENTS:
    case ASK_FOLLOW:
        events_ask(s, m, request);
        break;
    default:
        people_answer(s, request, MU_EINVAL, false,
                      "this orchestrator (%s) does not know that question; start a newer one",
                      mu_version());
        break;
    }
}
