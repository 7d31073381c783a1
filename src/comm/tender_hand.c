/* Hands being shaken: what comes is given to hello.c, what it answers is sent. Until that is done a
 * connection costs one struct hand, and no byte beyond the handshake is read. */
#include "comm/tender.h"

#include "base/hook.h"
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int watch(struct comm *c, struct hand *h)
{
    const bool out = h->connecting || h->out_at < h->out_n;

    return tender_watch(c->tender, h->fd, EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0), WHAT_HAND,
                        h->id);
}

int hand_open(struct comm *c, int fd, uint8_t path, struct want *want, struct hand **hand_out)
{
    struct tender *t = c->tender;
    uint8_t nonce[HELLO_NONCE_BYTES];
    struct hand *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        return MU_ENOMEM;
    }
    h->id = ++t->ids_n;
    h->fd = fd;
    h->path = path;
    h->want = want;
    h->connecting = want != NULL;
    h->due_ns = wait_now_ns() + HELLO_TIMEOUT_MS * MS;
    random_bytes(nonce, sizeof(nonce));
    pthread_mutex_lock(&c->lock);
    if (want != NULL) {
        hello_dial(&h->hello, &c->hello, want->member.worker, nonce, h->out);
        h->out_n = HELLO_BYTES;
        memcpy(h->from, want->member.addr, sizeof(h->from));
    } else {
        hello_listen(&h->hello, &c->hello, nonce);
    }
    pthread_mutex_unlock(&c->lock);
    const int rc = watch(c, h);

    if (rc != MU_OK) {
        free(h);
        return rc;
    }
    h->next = t->hands;
    t->hands = h;
    if (want != NULL) {
        want->hand = h;
    } else {
        t->accepted_n++;
    }
    *hand_out = h;
    return MU_OK;
}

/* The connection stays open if its descriptor was taken away before. */
void hand_close(struct comm *c, struct hand *h)
{
    struct tender *t = c->tender;
    struct hand **at = &t->hands;

    while (*at != h) {
        at = &(*at)->next;
    }
    *at = h->next;
    if (h->want != NULL) {
        h->want->hand = NULL;
    }
    if (!h->hello.session.dialed) {
        t->accepted_n--;
    }
    if (h->fd >= 0) {
        tender_unwatch(t, h->fd);
        close(h->fd);
    }
    free(h);
}

void hands_drop(struct comm *c)
{
    while (c->tender->hands != NULL) {
        hand_close(c, c->tender->hands);
    }
}

void hand_refuse(struct comm *c, struct hand *h, const char *why, bool timed_out)
{
    char more[LOG_PACE_TEXT], who[WID_TEXT_MAX];

    pthread_mutex_lock(&c->lock);
    c->stats.refused_n += !timed_out;
    c->stats.timed_out_n += timed_out;
    pthread_mutex_unlock(&c->lock);
    if (!h->hello.session.dialed && h->out_n > 0 && !timed_out) {
        /* It was answered and went: it may have a link by now, or says itself what it minded. */
        log_debug("comm", "a connection from %s came to nothing: %s", h->from, why);
        return;
    }
    if (!log_pace_take(&c->tender->refused_pace, wait_now_ns() / MS, more)) {
        return;
    }
    if (h->hello.session.dialed) {
        log_warn("comm", "no link to worker %s at %s: %s%s", wid_print(h->hello.to, who), h->from,
                 why, more);
    } else {
        log_warn("comm", "refused a connection from %s: %s%s", h->from, why, more);
    }
}

/* It came to nothing. */
static void give_up(struct comm *c, struct hand *h, bool refused)
{
    struct want *w = h->want;
    const uint8_t path = h->path;

    hand_close(c, h);
    if (w != NULL) {
        want_failed(w, path, refused);
    }
}

uint64_t hands_expire(struct comm *c, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;
    struct hand *next;

    for (struct hand *h = c->tender->hands; h != NULL; h = next) {
        next = h->next;
        if (h->due_ns > now_ns) {
            due_ns = MIN(due_ns, h->due_ns);
            continue;
        }
        hand_refuse(c, h, h->spoke ? "it did not finish in time" : "it said nothing", true);
        give_up(c, h, false);
    }
    return due_ns;
}

void hands_make_room(struct comm *c)
{
    struct hand *silent = NULL, *oldest = NULL;

    if (c->tender->accepted_n < HANDS_MAX) {
        return;
    }
    for (struct hand *h = c->tender->hands; h != NULL; h = h->next) { /* the newest is the first */
        if (!h->hello.session.dialed) {
            oldest = h;
            silent = h->spoke ? silent : h;
        }
    }
    oldest = silent != NULL ? silent : oldest;
    hand_refuse(c, oldest, "it said nothing while too many others waited", true);
    hand_close(c, oldest);
}

/* MU_EAGAIN: there is more to send. */
static int send_out(struct hand *h)
{
    while (h->out_at < h->out_n) {
        HOOK();
        const ssize_t n = send(h->fd, h->out + h->out_at, h->out_n - h->out_at, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return errno == EAGAIN ? MU_EAGAIN : MU_EPEER;
        }
        h->out_at += (size_t)n;
    }
    return MU_OK;
}

/* No more than the handshake wants: what comes after it is the link's. On the unix socket each
 * message is a packet, and a longer one is none of ours. */
static int take_in(struct hand *h)
{
    uint8_t in[HELLO_BYTES];
    size_t out_n = 0;

    HOOK();
    const ssize_t n = recv(h->fd, in, HELLO_BYTES - h->hello.in_n,
                           MSG_DONTWAIT | (h->path == COMM_SHM ? MSG_TRUNC : 0));

    if (n < 0) {
        return errno == EAGAIN || errno == EINTR ? MU_EAGAIN : MU_EPEER;
    }
    if (n == 0) {
        return MU_EPEER;
    }
    if ((size_t)n > HELLO_BYTES - h->hello.in_n) {
        h->hello.state = HELLO_REFUSED;
        h->hello.why = "its first packet is too long";
        return MU_EREFUSED;
    }
    h->spoke = true;
    (void)hello_take(&h->hello, in, (size_t)n, h->out, &out_n);
    h->out_at = 0;
    h->out_n = out_n;
    return h->hello.state == HELLO_REFUSED ? MU_EREFUSED : MU_OK;
}

static bool has_connected(struct hand *h)
{
    int error = 0;
    socklen_t n = sizeof(error);

    return getsockopt(h->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == 0;
}

/* Sends, receives and sends until there is nothing to do now. MU_OK: it is done. MU_EEXIST: there
 * is a link by now, and the last word is not said (tender_link.c says why). */
static int shake(struct comm *c, struct hand *h)
{
    for (;;) {
        int rc = send_out(h);

        if (rc != MU_OK || h->hello.state == HELLO_DONE) {
            return rc;
        }
        rc = take_in(h);
        if (rc != MU_OK) {
            return rc;
        }
        if (h->hello.state == HELLO_DONE && h->hello.session.dialed &&
            comm_has_link(c, h->hello.session.peer)) {
            return MU_EEXIST;
        }
    }
}

void hand_go(struct comm *c, struct hand *h)
{
    if (h->connecting) {
        if (!has_connected(h)) {
            give_up(c, h, false);
            return;
        }
        if (!want_connected(c, &h)) {
            return;
        }
        h->connecting = false;
    }
    switch (shake(c, h)) {
    case MU_OK:
        link_make(c, h);
        return;
    case MU_EEXIST:
        hand_close(c, h);
        return;
    case MU_EAGAIN:
        if (watch(c, h) == MU_OK) {
            return;
        }
        break;
    case MU_EREFUSED:
        hand_refuse(c, h, h->hello.why, false);
        break;
    default:
        /* A dialer's peer that hangs up has its reasons, and its own log. */
        if (!h->hello.session.dialed) {
            hand_refuse(c, h, "it went away before it had proved anything", false);
        }
    }
    give_up(c, h, true);
}
