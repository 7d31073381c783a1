/* mu_sync, mu_barrier and mu_agree: values by tag. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A mu_sync() that waits. */
struct call {
    struct ask ask; /* first */
    struct body_value body;
    bool missed;      /* all had come, but this worker's answer was lost */
    mu_values values; /* items_n of them have come */
    size_t items_n;
};

/* ---- values ---- */

void mu_values_free(mu_values *values)
{
    if (values != NULL) {
        for (size_t i = 0; i < values->n; i++) {
            free((void *)(uintptr_t)values->items[i].data); /* NULL: it has not come. */
        }
        free(values->items);
        *values = (mu_values){0};
    }
}

static void call_clear(struct ask *a)
{
    struct call *c = (struct call *)a;

    mu_values_free(&c->values);
    c->items_n = 0;
}

/* ---- marks ---- */

const struct mark *marks_find(const struct marks *marks, const char *tag)
{
    for (uint32_t i = 0; i < MARKS_N; i++) {
        if (strcmp(marks->items[i].tag, tag) == 0) {
            return &marks->items[i];
        }
    }
    return NULL;
}

void marks_set(struct marks *marks, const char *tag, uint64_t generation, uint32_t n)
{
    struct mark *items = marks->items;
    uint32_t at = 0;

    while (at < MARKS_N - 1 && items[at].tag[0] != '\0' && strcmp(items[at].tag, tag) != 0) {
        at++;
    }
    marks->forgot |= items[at].tag[0] != '\0' && strcmp(items[at].tag, tag) != 0;
    memmove(items + 1, items, at * sizeof(*items));
    items[0] = (struct mark){.generation = generation, .n = n};
    memcpy(items[0].tag, tag, strnlen(tag, sizeof(items[0].tag) - 1));
}

/* ---- the control thread's side ---- */

/* What this worker says now, with what it has the answers of. */
static const void *body_of(const struct mu_run *run, struct ask *a)
{
    struct call *c = (struct call *)a;
    const struct mark *mark = marks_find(&run->marks, a->m.topic), *last = run->marks.items;

    c->body.done_generation = mark != NULL ? mark->generation : 0;
    c->body.done_n = mark != NULL ? mark->n : 0;
    memcpy(c->body.last_tag, last->tag, sizeof(c->body.last_tag));
    c->body.last_generation = last->generation;
    c->body.last_n = last->n;
    c->body.joined = mark != NULL || !run->marks.forgot ? run->joined : 0;
    return &c->body;
}

static int take_value(struct call *c, const struct body_values *m)
{
    mu_setting block;
    int rc;

    if (m->index == 0) { /* Also when an answer broke off and is given again. */
        call_clear(&c->ask);
        c->values.items = calloc(m->total, sizeof(c->values.items[0]));
        if (c->values.items == NULL) {
            return MU_ENOMEM;
        }
        c->values.n = m->total;
        c->values.generation = m->generation;
    }
    if (m->total != c->values.n || m->index != c->items_n) {
        return MU_EPROTO;
    }
    rc = setting_make(&block, m->addr, false, m->data, m->data_n, 0);
    if (rc == MU_OK) {
        c->values.items[c->items_n++] = (mu_value){block.key, block.value, m->data_n};
    }
    return rc;
}

static int take(struct mu_run *run, struct ask *a, const struct msg_says *m,
                const union wire_any *body)
{
    const struct body_values *v = body != NULL ? &body->values : NULL;
    struct call *c = (struct call *)a;
    bool whole;
    int rc;

    if (m->status != MU_OK) {
        c->missed = m->status == MU_EPEER && v != NULL && v->round > 0;
        if (c->missed) {
            marks_set(&run->marks, a->m.topic, v->generation, v->round);
        }
        return MU_OK;
    }
    if (v == NULL || v->index >= v->total || v->total > MEMBERS_MAX) {
        return MU_EPROTO;
    }
    rc = take_value(c, v);
    whole = rc == MU_OK && c->items_n == c->values.n;
    if (whole) {
        marks_set(&run->marks, a->m.topic, v->generation, v->round);
    }
    return rc == MU_OK && whole == m->more ? MU_EPROTO : rc;
}

/* ---- the caller's side ---- */

static int check(const struct mu_run *run, const char *tag, const void *data, size_t n)
{
    if (tag == NULL || tag[0] == '\0' || strnlen(tag, SYNC_TAG_MAX) == SYNC_TAG_MAX) {
        return run_fail(MU_EINVAL, "a tag has 1 to %d bytes", SYNC_TAG_MAX - 1);
    }
    for (const struct ask *a = run->asks; a != NULL; a = a->next) {
        if (a->m.kind == ASK_VALUE && strcmp(a->m.topic, tag) == 0) {
            return run_fail(MU_EBUSY, "another thread of this worker waits for '%s'", tag);
        }
    }
    return ask_check(run, tag, data, n);
}

/* What is said is the answer. */
static int sync_alone(const struct mu_run *run, struct call *c)
{
    struct body_values m = {
        .generation = run_newest(run), .total = 1, .data = c->body.data, .data_n = c->body.data_n};

    memcpy(m.addr, run->now.addr, sizeof(m.addr));
    if (take_value(c, &m) != MU_OK) {
        call_clear(&c->ask);
        return run_fail(MU_ENOMEM, "out of memory for a value of %" PRIu32 " bytes", m.data_n);
    }
    return MU_OK;
}

int mu_sync(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
            mu_values *values_out)
{
    struct call c = {.ask = {.m.kind = ASK_VALUE,
                             .due_ms = run_due_ms(timeout_ms),
                             .body = body_of,
                             .take = take,
                             .clear = call_clear}};
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = check(run, tag, data, n);
    if (rc == MU_OK) {
        rc = told_warm(run);
    }
    if (rc == MU_OK) {
        memcpy(c.ask.m.topic, tag, strlen(tag));
        c.body.data_n = (uint32_t)n;
        c.body.data = (uint8_t *)(uintptr_t)data; /* Only read. */
        rc = run->alone ? sync_alone(run, &c) : ask_call(run, &c.ask);
        if (c.missed && values_out == NULL) {
            rc = MU_OK; /* All had come: who wants to know no more than that has its answer. */
        }
    }
    rc = call_exit(run, rc);
    if (rc == MU_OK && values_out != NULL) {
        *values_out = c.values;
    } else if (rc == MU_OK) {
        mu_values_free(&c.values);
    }
    return rc;
}

int mu_barrier(mu_run *run, const char *tag, int64_t timeout_ms)
{
    return mu_sync(run, tag, NULL, 0, timeout_ms, NULL);
}

static bool all_same(const mu_values *values)
{
    const mu_value *first = values->items;

    for (size_t i = 1; i < values->n; i++) {
        const mu_value *other = &values->items[i];

        if (other->data_n != first->data_n ||
            (first->data_n > 0 && memcmp(other->data, first->data, first->data_n) != 0)) {
            return false;
        }
    }
    return true;
}

int mu_agree(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
             int *same_out)
{
    mu_values values;
    int rc = mu_sync(run, tag, data, n, timeout_ms, &values);

    if (rc == MU_OK) {
        *same_out = all_same(&values);
        mu_values_free(&values);
    }
    return rc;
}
