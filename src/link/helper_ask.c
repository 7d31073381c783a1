/* Calls: given by any thread, then the thread's until they end. */
#include "link/helper_state.h"

#include "base/clock.h"
#include "base/thread.h"

#include <string.h>

/* ---- from and to the callers ---- */

/* Under the lock. */
static int check(struct helper *h, struct helper_call *call)
{
    call->to = helper_peer_find(h, call->peer);
    if (call->to == NULL || !call->to->listed) {
        return MU_ENOENT;
    }
    if (call->timeout_ms == 0 || call->timeout_ms > INT32_MAX) {
        return MU_EINVAL;
    }
    call->size = 0;
    for (uint32_t i = 0; i < call->parts_n; i++) {
        if (call->parts[i].iov_len > HELPER_BODY_MAX - call->size) {
            return MU_EINVAL;
        }
        call->size += call->parts[i].iov_len;
    }
    return call->to->pending_n >= HELPER_WAITING_MAX ? MU_ELIMIT : MU_OK;
}

static int give(struct helper *h, struct helper_call *const *calls, uint32_t n,
                struct helper_gate *gate)
{
    const uint64_t now_ms = clock_ms();
    int rc = MU_OK;
    uint32_t i;

    pthread_mutex_lock(&h->lock);
    if (h->closing) {
        rc = MU_EDONE;
    }
    for (i = 0; i < n && rc == MU_OK; i++) {
        rc = check(h, calls[i]);
        if (rc == MU_OK) {
            calls[i]->to->pending_n++;
        }
    }
    for (uint32_t k = 0; rc != MU_OK && k + 1 < i; k++) {
        calls[k]->to->pending_n--;
    }
    for (i = 0; i < n && rc == MU_OK; i++) {
        calls[i]->gate = gate;
        calls[i]->due_ms = now_ms + calls[i]->timeout_ms;
        calls[i]->state = CALL_GIVEN;
        calls[i]->cancelled = false;
        calls[i]->slot = NULL;
        calls[i]->waits = false;
        calls[i]->timer = (struct timer){0};
        TAILQ_INSERT_TAIL(&h->given, calls[i], link);
    }
    if (rc == MU_OK && n > 0) {
        h->stats.calls_n += n;
        helper_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
    return rc;
}

int helper_call(struct helper *h, struct helper_call *const *calls, uint32_t n)
{
    return give(h, calls, n, NULL);
}

struct helper_gate {
    pthread_mutex_t lock;
    pthread_cond_t open;
    uint32_t left_n;
};

int helper_ask(struct helper *h, struct helper_call *const *calls, uint32_t n)
{
    struct helper_gate gate = {.left_n = n};
    int rc;

    pthread_mutex_init(&gate.lock, NULL);
    thread_condition(&gate.open);
    rc = give(h, calls, n, &gate);
    pthread_mutex_lock(&gate.lock);
    while (rc == MU_OK && gate.left_n > 0) {
        pthread_cond_wait(&gate.open, &gate.lock);
    }
    pthread_mutex_unlock(&gate.lock);
    pthread_cond_destroy(&gate.open);
    pthread_mutex_destroy(&gate.lock);
    return rc;
}

void helper_cancel(struct helper *h, struct helper_call *call)
{
    pthread_mutex_lock(&h->lock);
    if (call->state != CALL_IDLE && !call->cancelled) {
        call->cancelled = true;
        TAILQ_INSERT_TAIL(&h->cancels, call, cancels);
        helper_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
}

static void tell(struct helper_call *call)
{
    struct helper_gate *gate = call->gate;

    if (gate == NULL) {
        call->done(call);
        return;
    }
    pthread_mutex_lock(&gate->lock);
    if (--gate->left_n == 0) {
        pthread_cond_signal(&gate->open);
    }
    pthread_mutex_unlock(&gate->lock);
}

/* ---- a call's end ---- */

/* What is batched and still to be END-ed, or was copied, is not the caller's memory any more. The
 * request need not be sent any more, and no answer is wanted. */
static void leave_slot(struct helper_slot *s)
{
    s->call = NULL;
    s->place = NULL;
    if (s->queued && s->head.what == HELPER_REQUEST) {
        TAILQ_REMOVE(&s->conn->ready, s, link); /* The peer has not heard of it. */
        s->queued = s->out_open = s->in_open = false;
    } else if (s->out_open || s->in_open) {
        helper_cut(s, MU_EDONE);
    }
    if (!s->conn->lost) {
        helper_slot_done(s);
    }
}

void helper_end_call(struct helper *h, struct helper_call *call, int status)
{
    struct helper_slot *s = call->slot;

    timers_disarm(&h->timers, &call->timer);
    if (call->waits) {
        call->waits = false;
        TAILQ_REMOVE(&call->to->waiting, call, link);
    }
    call->slot = NULL;
    if (s != NULL) {
        leave_slot(s);
    }
    call->status = status;
    pthread_mutex_lock(&h->lock);
    if (call->cancelled) {
        TAILQ_REMOVE(&h->cancels, call, cancels);
        call->cancelled = false;
    }
    call->state = CALL_IDLE;
    call->to->pending_n--;
    pthread_mutex_unlock(&h->lock);
    tell(call);
}

void helper_end_waiting(struct helper *h, struct helper_peer *p, int status)
{
    while (!TAILQ_EMPTY(&p->waiting)) {
        helper_end_call(h, TAILQ_FIRST(&p->waiting), status);
    }
}

static void on_late(void *data, struct timer *t)
{
    struct helper_call *call =
        (struct helper_call *)((char *)t - offsetof(struct helper_call, timer));

    helper_end_call(data, call, MU_ETIMEDOUT);
}

/* ---- to the peer ---- */

static void send_request(struct helper_conn *c, struct helper_call *call, struct helper_slot *s)
{
    const uint64_t now_ms = c->h->now_ms;
    const uint64_t left_ms = call->due_ms > now_ms ? call->due_ms - now_ms : 1;
    const struct helper_head head = {.what = HELPER_REQUEST,
                                     .kind = call->kind,
                                     .slot = s->index,
                                     .number = ++c->number,
                                     .total = call->size,
                                     .value = (int32_t)MIN(left_ms, INT32_MAX)};

    s->number = head.number;
    s->call = call;
    s->in_open = true;
    s->answering = false;
    s->place = NULL;
    call->slot = s;
    helper_say(s, &head, call->parts, call->size);
}

void helper_go_on(struct helper_peer *p)
{
    struct helper_conn *c = p->conn;

    while (c != NULL && !c->lost && c->free_n > 0 && !TAILQ_EMPTY(&p->waiting)) {
        struct helper_call *call = TAILQ_FIRST(&p->waiting);
        struct helper_slot *s = helper_slot_open(c, c->free_slots[c->free_n - 1]);

        if (s == NULL) {
            helper_end_call(c->h, call, MU_ENOMEM);
            continue;
        }
        c->free_n--;
        call->waits = false;
        TAILQ_REMOVE(&p->waiting, call, link);
        send_request(c, call, s);
    }
}

void helper_take_calls(struct helper *h)
{
    struct helper_calls given = TAILQ_HEAD_INITIALIZER(given);
    struct helper_call *call;

    pthread_mutex_lock(&h->lock);
    TAILQ_CONCAT(&given, &h->given, link);
    pthread_mutex_unlock(&h->lock);
    while ((call = TAILQ_FIRST(&given)) != NULL) {
        struct helper_peer *p = call->to;

        TAILQ_REMOVE(&given, call, link);
        pthread_mutex_lock(&h->lock);
        call->state = CALL_TAKEN;
        const bool dials = p->conn == NULL && !p->wanted, listed = p->listed;

        p->wanted |= dials;
        pthread_mutex_unlock(&h->lock);
        if (!listed) {
            helper_end_call(h, call, MU_EPEER);
            continue;
        }
        call->waits = true;
        TAILQ_INSERT_TAIL(&p->waiting, call, link);
        timers_arm(&h->timers, &call->timer, MAX(call->due_ms, 1), on_late);
        if (dials) {
            tender_wake(h->tender);
        }
        helper_go_on(p);
    }
    for (;;) {
        pthread_mutex_lock(&h->lock);
        call = TAILQ_FIRST(&h->cancels);
        const bool given_again = call != NULL && call->state == CALL_GIVEN;

        pthread_mutex_unlock(&h->lock);
        if (call == NULL || given_again) { /* That one is for the next turn. */
            return;
        }
        helper_end_call(h, call, MU_EDONE);
    }
}

/* ---- the answer ---- */

int helper_answer_begins(struct helper_slot *s, const struct helper_head *head)
{
    struct helper_call *call = s->call;

    s->place = NULL;
    if (call == NULL) {
        return MU_OK;
    }
    call->status = head->value;
    call->bytes = head->total;
    if (head->total > call->room) {
        call->answer = call->place != NULL ? call->place(call, head->total) : NULL;
        if (call->answer == NULL) {
            call->bytes = 0;
            helper_end_call(s->conn->h, call, MU_ELIMIT);
            return MU_OK;
        }
    }
    s->place = call->answer;
    return MU_OK;
}

/* The answer may come before all of the request has left: the rest is not wanted. */
void helper_answer_ends(struct helper_slot *s, int status)
{
    struct helper_call *call = s->call;

    s->in_open = false;
    if (call == NULL) {
        helper_slot_done(s);
        return;
    }
    if (status != MU_OK) {
        call->bytes = 0;
    }
    helper_end_call(s->conn->h, call, status != MU_OK ? status : call->status);
}

void helper_asked(struct helper_slot *s)
{
    helper_slot_done(s);
}
