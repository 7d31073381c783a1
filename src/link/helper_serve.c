/* Requests of others: assembled, handed to the handler, answered by whichever thread. */
#include "link/helper_state.h"

#include <stdlib.h>
#include <string.h>

/* The asker gives up first; this is for one that does not. */
#define GRACE_MS 500

/* ---- their memory ---- */

static void free_taken(struct helper_taken *t)
{
    free(t->copy.iov_base);
    free(t);
}

static void tell_sent(struct helper_taken *t, bool whole)
{
    if (t->sent != NULL) {
        t->sent(t->arg, whole);
    }
}

/* What place() gave is the handler's again. */
static void drop(struct helper *h, struct helper_taken *t)
{
    if (t->placed && h->config.ops.drop != NULL) {
        h->config.ops.drop(h->config.ops.arg, &t->r);
    }
    free_taken(t);
}

/* ---- coming ---- */

/* In the place of an answer. */
static void refuse(struct helper_slot *s, int status)
{
    s->answering = true;
    helper_cut(s, status);
}

/* The request is not waited for any more: nothing that belongs to its handler is touched from here
 * on but by helper_answer(). */
static void give_up(struct helper_slot *s, int status)
{
    struct helper *h = s->conn->h;
    struct helper_taken *t = s->taken;

    s->place = NULL;
    if (t == NULL) {
        return;
    }
    if (s->in_open) {
        s->taken = NULL;
        drop(h, t);
    } else if (s->answering) { /* It is being sent, or has been said. */
        const bool said = !s->out_open;

        if (!said) {
            helper_cut(s, status);
        }
        s->taken = NULL;
        tell_sent(t, said);
        free_taken(t);
        return;
    } else {
        pthread_mutex_lock(&h->lock);
        t->slot = NULL;
        pthread_mutex_unlock(&h->lock);
        s->taken = NULL;
    }
    refuse(s, status);
}

static void on_late(void *data, struct timer *t)
{
    give_up((struct helper_slot *)((char *)t - offsetof(struct helper_slot, timer)), MU_ETIMEDOUT);
}

int helper_request_begins(struct helper_slot *s, const struct helper_head *head)
{
    struct helper *h = s->conn->h;
    const bool small = head->total <= HELPER_SMALL;
    struct helper_taken *t = calloc(1, sizeof(*t) + (small ? head->total : 0));

    s->place = NULL;
    timers_arm(&h->timers, &s->timer, h->now_ms + (uint64_t)head->value + GRACE_MS, on_late);
    if (t == NULL) {
        refuse(s, MU_ENOMEM);
        return MU_OK;
    }
    t->r = (struct helper_request){.peer = s->conn->made.session.peer,
                                   .kind = head->kind,
                                   .timeout_ms = (uint32_t)head->value,
                                   .bytes = head->total};
    t->h = h;
    t->r.body = t + 1;
    if (!small) {
        t->r.body =
            h->config.ops.place != NULL ? h->config.ops.place(h->config.ops.arg, &t->r) : NULL;
        t->placed = true;
    }
    if (t->r.body == NULL) {
        free_taken(t);
        refuse(s, MU_ELIMIT);
        return MU_OK;
    }
    s->taken = t;
    s->place = t->r.body;
    return MU_OK;
}

void helper_request_ends(struct helper_slot *s)
{
    struct helper *h = s->conn->h;
    struct helper_taken *t = s->taken;

    s->in_open = false;
    s->place = NULL;
    if (t == NULL) {
        helper_slot_done(s);
        return;
    }
    pthread_mutex_lock(&h->lock);
    t->slot = s;
    h->refs_n++;
    h->stats.requests_n++;
    pthread_mutex_unlock(&h->lock);
    h->config.ops.take(h->config.ops.arg, &t->r);
}

void helper_request_cut(struct helper_slot *s)
{
    if (s->taken == NULL && !s->in_open) {
        return; /* It has had its answer, or a CUT is on its way. */
    }
    give_up(s, MU_EDONE);
    s->in_open = false;
    helper_slot_done(s);
}

/* ---- going ---- */

static int copy_parts(struct helper_taken *t, const struct iovec *parts, uint32_t parts_n)
{
    size_t all = 0, at = 0;

    for (uint32_t i = 0; i < parts_n; i++) {
        all += parts[i].iov_len;
    }
    if (all == 0) {
        t->parts_n = 0;
        return MU_OK;
    }
    t->copy = (struct iovec){malloc(all), all};
    if (t->copy.iov_base == NULL) {
        return MU_ENOMEM;
    }
    for (uint32_t i = 0; i < parts_n; at += parts[i++].iov_len) {
        if (parts[i].iov_len > 0) {
            memcpy((uint8_t *)t->copy.iov_base + at, parts[i].iov_base, parts[i].iov_len);
        }
    }
    t->parts = &t->copy;
    t->parts_n = 1;
    return MU_OK;
}

void helper_answer(struct helper_request *r, int status, const struct iovec *parts,
                   uint32_t parts_n, void (*sent)(void *arg, bool whole), void *arg)
{
    struct helper_taken *t = (struct helper_taken *)r;
    struct helper *h = t->h;

    mu_assert(status <= MU_OK);
    t->status = status;
    t->parts = parts;
    t->parts_n = parts_n;
    t->sent = sent;
    t->arg = arg;
    if (sent == NULL && copy_parts(t, parts, parts_n) != MU_OK) {
        t->status = MU_ENOMEM;
        t->parts_n = 0;
    }
    pthread_mutex_lock(&h->lock);
    const bool wanted = t->slot != NULL;

    if (wanted) {
        TAILQ_INSERT_TAIL(&h->answers, t, link);
        helper_wake(h);
    }
    pthread_mutex_unlock(&h->lock);
    if (!wanted) {
        tell_sent(t, false);
        free_taken(t);
    }
    helper_unref(h);
}

static void send_answer(struct helper_slot *s, struct helper_taken *t)
{
    struct helper_head head = {
        .what = HELPER_ANSWER, .slot = s->index, .number = s->number, .value = t->status};

    for (uint32_t i = 0; i < t->parts_n; i++) {
        head.total += t->parts[i].iov_len;
    }
    mu_assert(head.total <= HELPER_BODY_MAX);
    s->answering = true;
    helper_say(s, &head, t->parts, head.total);
}

void helper_take_answers(struct helper *h)
{
    struct helper_taken *t;

    for (;;) {
        pthread_mutex_lock(&h->lock);
        t = TAILQ_FIRST(&h->answers);
        struct helper_slot *s = t != NULL ? t->slot : NULL;

        if (t != NULL) {
            TAILQ_REMOVE(&h->answers, t, link);
        }
        pthread_mutex_unlock(&h->lock);
        if (t == NULL) {
            return;
        }
        if (s != NULL) {
            send_answer(s, t);
        } else { /* Given up since. */
            tell_sent(t, false);
            free_taken(t);
        }
    }
}

void helper_answered(struct helper_slot *s)
{
    struct helper_taken *t = s->taken;

    if (t != NULL && s->answering) {
        s->taken = NULL;
        tell_sent(t, true);
        free_taken(t);
    }
    helper_slot_done(s);
}

void helper_request_lost(struct helper_slot *s)
{
    struct helper *h = s->conn->h;
    struct helper_taken *t = s->taken;

    timers_disarm(&h->timers, &s->timer);
    s->taken = NULL;
    if (t == NULL) {
        return;
    }
    if (s->in_open) {
        drop(h, t);
    } else if (s->answering) {
        tell_sent(t, false);
        free_taken(t);
    } else {
        pthread_mutex_lock(&h->lock);
        t->slot = NULL;
        pthread_mutex_unlock(&h->lock);
    }
}
