/* mu_sync, mu_barrier and mu_agree: values by tag. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* A mu_sync() that waits. */
struct call {
    struct ask ask; /* first */
    struct msg_sync m;
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

static int call_send(struct mu_run *run, struct call *c)
{
    const struct mark *mark = marks_find(&run->marks, c->m.tag), *last = run->marks.items;

    c->m.worker = run->life.worker;
    c->m.done_generation = mark != NULL ? mark->generation : 0;
    c->m.done_n = mark != NULL ? mark->n : 0;
    memcpy(c->m.last_tag, last->tag, sizeof(c->m.last_tag));
    c->m.last_generation = last->generation;
    c->m.last_n = last->n;
    c->m.joined = mark != NULL || !run->marks.forgot ? run->joined : 0;
    c->m.wait_ms = run_left_ms(c->ask.due_ms);
    return control_say(run, WIRE_SYNC, &c->m);
}

void values_repeat(struct mu_run *run)
{
    for (struct ask *a = run->asks; a != NULL; a = a->next) {
        if (a->type == WIRE_SYNCED && !a->done && call_send(run, (struct call *)a) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a value");
            return;
        }
    }
}

static int take_value(struct call *c, const struct msg_synced *m)
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
        return MU_OK; /* The rest of one that broke off. */
    }
    rc = setting_make(&block, m->addr, false, m->data, m->data_n, 0);
    if (rc == MU_OK) {
        c->values.items[c->items_n++] = (mu_value){block.key, block.value, m->data_n};
    }
    return rc;
}

void values_told(struct mu_run *run, const struct msg_synced *m)
{
    struct call *c = (struct call *)ask_find(run, WIRE_SYNCED, m->request);

    /* MU_ESTALE: this worker goes on as another, and asks again as soon as it knows as whom. */
    if (c == NULL || m->worker != run->life.worker || m->status == MU_ESTALE) {
        return;
    }
    c->missed = m->status == MU_EPEER && m->round > 0;
    if (c->missed) {
        marks_set(&run->marks, c->m.tag, m->generation, m->round);
    }
    if (m->status != MU_OK) {
        ask_answer(&c->ask, m->status < 0 ? m->status : MU_EPROTO, m->text);
    } else if (m->index >= m->total || m->total > MEMBERS_MAX) {
        control_lost(run, MU_EPROTO, "the agent of this node sent value %" PRIu32 " of %" PRIu32,
                     m->index, m->total);
    } else if (take_value(c, m) != MU_OK) {
        ask_answer(&c->ask, MU_ENOMEM, "out of memory for the values of the others");
    } else if (c->items_n > 0 && c->items_n == c->values.n) {
        marks_set(&run->marks, c->m.tag, m->generation, m->round);
        ask_answer(&c->ask, MU_OK, "");
    }
}

/* ---- the caller's side ---- */

static int check(const struct mu_run *run, const char *tag, const void *data, size_t n)
{
    if (tag == NULL || tag[0] == '\0' || strnlen(tag, SYNC_TAG_MAX) == SYNC_TAG_MAX) {
        return run_fail(MU_EINVAL, "a tag has 1 to %d bytes", SYNC_TAG_MAX - 1);
    }
    for (const struct ask *a = run->asks; a != NULL; a = a->next) {
        if (a->type == WIRE_SYNCED && strcmp(((const struct call *)a)->m.tag, tag) == 0) {
            return run_fail(MU_EBUSY, "another thread of this worker waits for '%s'", tag);
        }
    }
    return ask_check(run, tag, data, n);
}

/* What is said is the answer. */
static int sync_alone(const struct mu_run *run, struct call *c)
{
    struct msg_synced m = {
        .generation = run_newest(run), .total = 1, .data = c->m.data, .data_n = c->m.data_n};

    memcpy(m.addr, run->now.addr, sizeof(m.addr));
    if (take_value(c, &m) != MU_OK) {
        call_clear(&c->ask);
        return run_fail(MU_ENOMEM, "out of memory for a value of %" PRIu32 " bytes", m.data_n);
    }
    return MU_OK;
}

/* Sends it and waits for its answer. */
static int call_run(struct mu_run *run, struct call *c)
{
    int rc = call_send(run, c);

    if (rc != MU_OK) {
        return run_fail(rc, rc == MU_EINVAL ? "the tag is not UTF-8 without control characters"
                                            : "out of memory for a value");
    }
    rc = ask_wait(run, &c->ask, "neither the agent of this node nor the orchestrator answers");
    if (rc == MU_OK && c->ask.status != MU_OK) {
        rc = run_fail(c->ask.status, "'%s': %s", c->m.tag, c->ask.text);
    }
    return rc;
}

int mu_sync(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
            mu_values *values_out)
{
    struct call c = {
        .ask = {.type = WIRE_SYNCED, .due_ms = run_due_ms(timeout_ms), .clear = call_clear}};
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = check(run, tag, data, n);
    if (rc == MU_OK) {
        rc = told_warm(run);
    }
    if (rc == MU_OK) {
        memcpy(c.m.tag, tag, strlen(tag));
        c.m.request = c.ask.request = ++run->request;
        c.m.data_n = (uint32_t)n;
        c.m.data = (uint8_t *)(uintptr_t)data; /* Only read. */
        rc = run->alone ? sync_alone(run, &c) : call_run(run, &c);
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
