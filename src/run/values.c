/* mu_sync, mu_barrier and mu_agree: values by tag. */
#include "run/run.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The orchestrator says who is missing, and needs a moment to; so much later we say it ourselves.
 */
enum { LATE_MS = 2000 };

/* ---- values ---- */

/* One block: the data, aligned for anything, then the address. */
static int value_make(mu_value *value, const char *address, const void *data, size_t data_n)
{
    size_t address_n = strlen(address) + 1;
    uint8_t *block = malloc(data_n + address_n);

    if (block == NULL) {
        return MU_ENOMEM;
    }
    if (data_n > 0) {
        memcpy(block, data, data_n);
    }
    memcpy(block + data_n, address, address_n);
    *value = (mu_value){(const char *)block + data_n, block, data_n};
    return MU_OK;
}

static void items_free(mu_value *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free((void *)(uintptr_t)items[i].data);
    }
    free(items);
}

void mu_values_free(mu_values *values)
{
    if (values != NULL) {
        items_free(values->items, values->n);
        *values = (mu_values){0};
    }
}

static void call_clear(struct call *c)
{
    items_free(c->values.items, c->items_n);
    c->values = (mu_values){0};
    c->items_n = 0;
}

/* ---- the control thread's side ---- */

static void answer(struct call *c, int status, const char *text)
{
    c->done = true;
    c->status = status;
    memcpy(c->text, text, strnlen(text, sizeof(c->text) - 1) + 1);
    c->text[sizeof(c->text) - 1] = '\0';
    if (status != MU_OK) {
        call_clear(c);
    }
}

static int call_send(struct mu_run *run, struct call *c)
{
    uint64_t now_ms = run_now_ms();
    uint64_t left_ms = c->due_ms > now_ms ? c->due_ms - now_ms : 0;

    const struct mark *mark = marks_find(&run->marks, c->m.tag);

    c->m.worker = run->life.worker;
    c->m.done_generation = mark != NULL ? mark->generation : 0;
    c->m.done_n = mark != NULL ? mark->n : 0;
    memcpy(c->m.last_tag, run->marks.last.tag, sizeof(c->m.last_tag));
    c->m.last_generation = run->marks.last.generation;
    c->m.last_n = run->marks.last.n;
    c->m.joined = mark != NULL || !run->marks.forgot ? run->joined : 0;
    c->m.wait_ms = (uint32_t)MIN(left_ms, (uint64_t)UINT32_MAX);
    return control_say(run, WIRE_SYNC, &c->m);
}

void values_repeat(struct mu_run *run)
{
    for (struct call *c = run->calls; c != NULL; c = c->next) {
        if (!c->done && call_send(run, c) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a value");
            return;
        }
    }
}

void values_end(struct mu_run *run, int status, const char *text)
{
    for (struct call *c = run->calls; c != NULL; c = c->next) {
        if (!c->done) {
            answer(c, status, text);
        }
    }
}

static int take_value(struct call *c, const struct msg_synced *m)
{
    if (m->index == 0) { /* Also when an answer broke off and is given again. */
        call_clear(c);
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
    int rc = value_make(&c->values.items[m->index], m->addr, m->data, m->data_n);

    c->items_n += rc == MU_OK;
    return rc;
}

void values_told(struct mu_run *run, const struct msg_synced *m)
{
    struct call *c = run->calls;

    while (c != NULL && c->m.request != m->request) {
        c = c->next;
    }
    if (c == NULL || c->done || m->worker != run->life.worker) {
        return;
    }
    if (m->status == MU_ESTALE) {
        return; /* We go on as another, and ask again as soon as we know as whom. */
    }
    c->missed = m->status == MU_EPEER && m->round > 0;
    if (c->missed) {
        marks_set(&run->marks, c->m.tag, m->generation, m->round);
    }
    if (m->status != MU_OK) {
        answer(c, m->status < 0 ? m->status : MU_EPROTO, m->text);
    } else if (m->index >= m->total || m->total > MEMBERS_MAX) {
        control_lost(run, MU_EPROTO, "the agent of this node sent value %" PRIu32 " of %" PRIu32,
                     m->index, m->total);
    } else if (take_value(c, m) != MU_OK) {
        answer(c, MU_ENOMEM, "out of memory for the values of the others");
    } else if (c->items_n > 0 && c->items_n == c->values.n) {
        marks_set(&run->marks, c->m.tag, m->generation, m->round);
        answer(c, MU_OK, "");
    }
}

/* ---- the caller's side ---- */

static int check(const struct mu_run *run, const char *tag, const void *data, size_t n)
{
    if (tag == NULL || tag[0] == '\0' || strnlen(tag, SYNC_TAG_MAX) == SYNC_TAG_MAX) {
        return run_fail(MU_EINVAL, "a tag has 1 to %d bytes", SYNC_TAG_MAX - 1);
    }
    if (data == NULL && n > 0) {
        return run_fail(MU_EINVAL, "'%s': %zu bytes at NULL", tag, n);
    }
    if (n > SYNC_DATA_MAX) {
        return run_fail(MU_ELIMIT, "'%s': a value of %zu bytes; it may have %u", tag, n,
                        SYNC_DATA_MAX);
    }
    for (const struct call *c = run->calls; c != NULL; c = c->next) {
        if (strcmp(c->m.tag, tag) == 0) {
            return run_fail(MU_EBUSY, "another thread of this worker waits for '%s'", tag);
        }
    }
    return call_state(run);
}

static int sync_alone(const struct mu_run *run, const void *data, size_t n, mu_values *out)
{
    *out = (mu_values){.generation = run_newest(run), .n = 1};
    out->items = calloc(1, sizeof(out->items[0]));
    if (out->items == NULL || value_make(&out->items[0], run->addr, data, n) != MU_OK) {
        free(out->items);
        return run_fail(MU_ENOMEM, "out of memory for a value of %zu bytes", n);
    }
    return MU_OK;
}

/* Sends it and waits for its answer. */
static int call_run(struct mu_run *run, struct call *c)
{
    uint64_t late_ms = c->due_ms == UINT64_MAX ? UINT64_MAX : c->due_ms + LATE_MS;
    struct call **link = &run->calls;
    int rc = call_send(run, c);

    if (rc != MU_OK) {
        return run_fail(rc, rc == MU_EINVAL ? "the tag is not UTF-8 without control characters"
                                            : "out of memory for a value");
    }
    c->next = run->calls;
    run->calls = c;
    while (!c->done && !run->leaving) {
        if (!call_wait(run, late_ms) && !c->done) {
            answer(c, MU_ETIMEDOUT, "neither the agent of this node nor the orchestrator answers");
        }
    }
    while (*link != c) {
        link = &(*link)->next;
    }
    *link = c->next;
    if (!c->done) {
        answer(c, MU_EDONE, "");
    }
    if (c->status != MU_OK && (run->ended || run->leaving || run->lost != MU_OK)) {
        return call_state(run);
    }
    return c->status == MU_OK ? MU_OK : run_fail(c->status, "'%s': %s", c->m.tag, c->text);
}

int mu_sync(mu_run *run, const char *tag, const void *data, size_t n, int64_t timeout_ms,
            mu_values *values_out)
{
    struct call c = {.due_ms = run_due_ms(timeout_ms)};
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    rc = check(run, tag, data, n);
    if (rc == MU_OK && run->alone) {
        rc = sync_alone(run, data, n, &c.values);
    } else if (rc == MU_OK) {
        told_warm(run);
        memcpy(c.m.tag, tag, strlen(tag));
        c.m.request = ++run->request;
        c.m.data_n = (uint32_t)n;
        c.m.data = (uint8_t *)(uintptr_t)data; /* Only read. */
        rc = call_run(run, &c);
        if (c.missed && values_out == NULL) {
            rc = MU_OK; /* All had come: who wants to know no more than that has its answer. */
        }
    }
    call_exit(run);
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
