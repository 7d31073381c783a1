/* What is asked of the orchestrator, through the agent (wire/ask.def). Whoever asks waits for the
 * answer; the control thread takes it. A question is told by its number, not by the life that made
 * it, unless it belongs to a life (REPEAT): then it is said again as whoever this worker goes on
 * as. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The agent or the orchestrator answers what is late, and says more; so much later it is said here.
 */
enum { LATE_MS = 2000, SCRATCH_BYTES = 4096 };

/* ---- to the agent ---- */

static int encode(const struct ask_rule *rule, const void *body, struct msg_ask *m)
{
    const size_t size = wire_body_size(rule->request, body);
    uint8_t *bytes = malloc(size);
    size_t n = 0;
    int rc = bytes != NULL ? wire_body_encode(rule->request, body, bytes, size, &n) : MU_ENOMEM;

    if (rc != MU_OK) {
        free(bytes);
        return rc;
    }
    m->body = bytes;
    m->body_n = (uint32_t)n;
    return MU_OK;
}

int ask_send(struct mu_run *run, struct msg_ask *m, const void *body)
{
    const struct ask_rule *rule = ask_rule(m->kind);
    int rc = body != NULL ? encode(rule, body, m) : MU_OK;

    if (rc == MU_OK) {
        m->worker = run->life.worker;
        rc = control_say(run, WIRE_ASK, m);
    }
    free(m->body);
    m->body = NULL;
    m->body_n = 0;
    return rc;
}

static int say(struct mu_run *run, struct ask *a)
{
    a->m.wait_ms = run_left_ms(a->due_ms);
    return ask_send(run, &a->m, a->body != NULL ? a->body(run, a) : NULL);
}

int ask_begin(struct mu_run *run, struct ask *a)
{
    const struct ask_rule *rule = ask_rule(a->m.kind);
    int rc;

    a->m.request = ++run->request;
    a->done = false;
    rc = say(run, a);
    if (rc != MU_OK) {
        return run_fail(rc,
                        rc == MU_EINVAL ? "%s: '%s' is not UTF-8 without control characters"
                                        : "%s: out of memory for '%s'",
                        rule->what, a->m.topic);
    }
    a->next = run->asks;
    run->asks = a;
    return MU_OK;
}

void ask_end(struct mu_run *run, struct ask *a)
{
    struct ask **link = &run->asks;

    while (*link != NULL && *link != a) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = a->next;
    }
}

void asks_repeat(struct mu_run *run)
{
    for (struct ask *a = run->asks; a != NULL; a = a->next) {
        if (!a->done && ask_rule(a->m.kind)->policy == ASK_REPEAT && say(run, a) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a question");
            return;
        }
    }
}

/* ---- answers ---- */

void ask_answer(struct ask *a, int status, const char *text)
{
    const size_t n = strnlen(text, sizeof(a->text) - 1);

    a->done = true;
    a->status = status;
    memcpy(a->text, text, n);
    a->text[n] = '\0';
    if (status != MU_OK && a->clear != NULL) {
        a->clear(a);
    }
    if (a->over != NULL) {
        a->over(a);
    }
}

void asks_over(struct mu_run *run)
{
    for (struct ask *a = run->asks; a != NULL; a = a->next) {
        if (!a->done) {
            ask_answer(a, MU_EDONE, "");
        }
    }
}

/* NULL: nobody waits for it. MU_ESTALE to what belongs to a life: this worker goes on as another,
 * and asks again as soon as it knows as whom. */
static struct ask *find(const struct mu_run *run, const struct msg_says *m)
{
    struct ask *a = run->asks;

    while (a != NULL && (a->done || a->m.request != m->request)) {
        a = a->next;
    }
    if (a != NULL && ask_rule(a->m.kind)->policy == ASK_REPEAT &&
        (m->worker != run->life.worker || m->status == MU_ESTALE)) {
        return NULL;
    }
    return a;
}

static int decode(const struct ask *a, const struct msg_says *m, union wire_any *body,
                  struct wire_scratch *scratch)
{
    const struct ask_rule *rule = ask_rule(a->m.kind);

    if (m->body_n == 0) {
        return MU_OK;
    }
    return rule->answer != 0
               ? wire_body_decode(rule->answer, m->body, m->body_n, body, scratch, NULL)
               : MU_EPROTO;
}

static int take(struct mu_run *run, struct ask *a, const struct msg_says *m)
{
    uint64_t room[SCRATCH_BYTES / 8];
    struct wire_scratch scratch = {.mem = (uint8_t *)room, .cap = sizeof(room)};
    union wire_any body;
    int rc = decode(a, m, &body, &scratch);

    if (rc != MU_OK) {
        return MU_EPROTO;
    }
    return a->take != NULL ? a->take(run, a, m, m->body_n > 0 ? &body : NULL) : MU_OK;
}

void asks_told(struct mu_run *run, const struct msg_says *m)
{
    struct ask *a = find(run, m);
    int rc;

    if (a == NULL) {
        return;
    }
    if (m->status == MU_OK && m->more && m->topic[0] == '\0' && m->body_n == 0) {
        if (a->clear != NULL) {
            a->clear(a);
        }
        return;
    }
    rc = take(run, a, m);
    if (rc == MU_EPROTO) {
        control_lost(run, rc, "the agent of this node sent a %s '%s' that was not asked for",
                     ask_rule(a->m.kind)->what, m->topic);
    } else if (rc != MU_OK) {
        ask_answer(a, rc, rc == MU_ENOMEM ? "out of memory for the answer" : "");
    } else if (m->status != MU_OK) {
        ask_answer(a, m->status < 0 ? m->status : MU_EPROTO, m->text);
    } else if (!m->more) {
        ask_answer(a, MU_OK, "");
    }
}

/* ---- the caller's side ---- */

/* The orchestrator's words on a setting name it themselves. */
static int explain(const struct ask *a)
{
    const char *why = a->text[0] != '\0' ? a->text : mu_strerror(a->status);
    const struct ask_rule *rule = ask_rule(a->m.kind);

    if (rule->policy != ASK_REPEAT && a->status != MU_ETIMEDOUT && a->text[0] != '\0') {
        return run_fail(a->status, "%s", why);
    }
    return run_fail(a->status, "%s '%s': %s", rule->what, a->m.topic, why);
}

int ask_call(struct mu_run *run, struct ask *a)
{
    const uint64_t late_ms = a->due_ms == UINT64_MAX ? UINT64_MAX : a->due_ms + LATE_MS;
    int rc = ask_begin(run, a);

    if (rc != MU_OK) {
        return rc;
    }
    while (!a->done) {
        if (!call_wait(run, late_ms) && !a->done) {
            ask_answer(a, MU_ETIMEDOUT,
                       ask_rule(a->m.kind)->policy == ASK_ONCE
                           ? "neither the agent of this node nor the orchestrator answers: it is "
                             "not known whether the change was made"
                           : "neither the agent of this node nor the orchestrator answers");
        }
    }
    ask_end(run, a);
    if (a->status == MU_OK) {
        return MU_OK;
    }
    rc = call_state(run);
    return rc != MU_OK ? rc : explain(a);
}

int ask_check(const struct mu_run *run, const char *what, const void *data, size_t n)
{
    if (n > MU_VALUE_MAX) {
        return run_fail(MU_ELIMIT, "'%s': a value of %zu bytes; it may have %u", what, n,
                        MU_VALUE_MAX);
    }
    if (data == NULL && n > 0) {
        return run_fail(MU_EINVAL, "'%s': %zu bytes at NULL", what, n);
    }
    return call_state(run);
}
