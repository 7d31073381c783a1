/* Hands being shaken: what comes is given to hello.c, what it answers is sent. Until that is done a
 * connection costs one struct hand, and no byte beyond the handshake is read. */
#include "link/tender_state.h"

#include "base/hook.h"
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

static int watch(struct tender *t, struct hand *h)
{
    const bool out = h->connecting || h->out_at < h->out_n;

    return tender_await(t, h->fd, EPOLLIN | (out ? (uint32_t)EPOLLOUT : 0), WHAT_HAND, h->id);
}

static void begin_hello(struct tender *t, struct hand *h, enum link_class class)
{
    struct hello_config config = t->config.hello;
    uint8_t nonce[HELLO_NONCE_BYTES];

    pthread_mutex_lock(&t->lock);
    config.self = t->config.hello.self;
    pthread_mutex_unlock(&t->lock);
    random_bytes(nonce, sizeof(nonce));
    if (h->dial != NULL) {
        hello_dial(&h->hello, &config, class, h->dial->to.worker, nonce, h->out);
        h->out_n = HELLO_BYTES;
        memcpy(h->from, h->dial->to.addr, sizeof(h->from));
        return;
    }
    for (unsigned i = 0; i < LINK_CLASSES; i++) {
        /* Packets and a stream of bytes can't stand for each other. */
        if (t->users[i].made != NULL && (h->path == LINK_TCP || i == class)) {
            config.classes |= (uint8_t)(1u << i);
        }
    }
    hello_listen(&h->hello, &config, nonce);
}

int hand_open(struct tender *t, int fd, unsigned path, enum link_class class, struct dial *dial,
              struct hand **hand_out)
{
    struct hand *h = calloc(1, sizeof(*h));

    if (h == NULL) {
        return MU_ENOMEM;
    }
    h->id = ++t->ids_n;
    h->fd = fd;
    h->path = path;
    h->packets = path == LINK_UNIX && addr_local_type(class) == SOCK_SEQPACKET;
    h->dial = dial;
    h->connecting = dial != NULL;
    h->due_ns = clock_ns() + HELLO_TIMEOUT_MS * MS;
    begin_hello(t, h, class);
    const int rc = watch(t, h);

    if (rc != MU_OK) {
        free(h);
        return rc;
    }
    h->next = t->hands;
    t->hands = h;
    if (dial != NULL) {
        dial->hand = h;
    } else {
        t->accepted_n++;
    }
    *hand_out = h;
    return MU_OK;
}

/* The connection stays open if its descriptor was taken away before. */
void hand_close(struct tender *t, struct hand *h)
{
    struct hand **at = &t->hands;

    while (*at != h) {
        at = &(*at)->next;
    }
    *at = h->next;
    if (h->dial != NULL) {
        h->dial->hand = NULL;
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

void hands_drop(struct tender *t, enum link_class class)
{
    struct hand *next;

    for (struct hand *h = t->hands; h != NULL; h = next) {
        next = h->next;
        if (class == LINK_CLASSES || h->hello.session.class == class) {
            hand_close(t, h);
        }
    }
}

/* Counts and logs a connection that was turned away. */
static void refuse(struct tender *t, struct hand *h, const char *why, bool timed_out)
{
    char more[LOG_PACE_TEXT], who[WID_TEXT_MAX];

    atomic_fetch_add(timed_out ? &t->timed_out_n : &t->refused_n, 1);
    if (!h->hello.session.dialed && h->out_n > 0 && !timed_out) {
        /* It was answered and went: it may have a link by now, or says itself what it minded. */
        log_debug("link", "a connection from %s came to nothing: %s", h->from, why);
        return;
    }
    if (!log_pace_take(&t->refused_pace, clock_ns() / MS, more)) {
        return;
    }
    if (h->hello.session.dialed) {
        log_warn("link", "no link to worker %s at %s: %s%s", wid_print(h->hello.to, who), h->from,
                 why, more);
    } else {
        log_warn("link", "refused a connection from %s: %s%s", h->from, why, more);
    }
}

/* It came to nothing. */
static void give_up(struct tender *t, struct hand *h, bool refused)
{
    struct dial *d = h->dial;
    const unsigned path = h->path;

    hand_close(t, h);
    if (d != NULL) {
        link_dial_failed(d, path, refused);
    }
}

uint64_t hands_expire(struct tender *t, uint64_t now_ns)
{
    uint64_t due_ns = UINT64_MAX;
    struct hand *next;

    for (struct hand *h = t->hands; h != NULL; h = next) {
        next = h->next;
        if (h->due_ns > now_ns) {
            due_ns = MIN(due_ns, h->due_ns);
            continue;
        }
        refuse(t, h, h->spoke ? "it did not finish in time" : "it said nothing", true);
        give_up(t, h, false);
    }
    return due_ns;
}

void hands_make_room(struct tender *t)
{
    struct hand *silent = NULL, *oldest = NULL;

    if (t->accepted_n < HANDS_MAX) {
        return;
    }
    for (struct hand *h = t->hands; h != NULL; h = h->next) { /* the newest is the first */
        if (!h->hello.session.dialed) {
            oldest = h;
            silent = h->spoke ? silent : h;
        }
    }
    oldest = silent != NULL ? silent : oldest;
    refuse(t, oldest, "it said nothing while too many others waited", true);
    hand_close(t, oldest);
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

/* No more than the handshake wants: what comes after it is the link's. Where each message is a
 * packet, a longer one is none of ours. */
static int take_in(struct hand *h)
{
    uint8_t in[HELLO_BYTES];
    size_t out_n = 0;

    HOOK();
    const ssize_t n =
        recv(h->fd, in, HELLO_BYTES - h->hello.in_n, MSG_DONTWAIT | (h->packets ? MSG_TRUNC : 0));

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

static bool has_link(const struct tender *t, const struct hand *h)
{
    const struct link_user *user = &t->users[h->hello.session.class];

    return user->has != NULL && user->has(user->arg, h->hello.session.peer);
}

/* Sends, receives and sends until there is nothing to do now. MU_OK: it is done. MU_EEXIST: there
 * is a link by now, and the last word is not said (comm/links_make.c says why). */
static int shake(struct tender *t, struct hand *h)
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
        if (h->hello.state == HELLO_DONE && h->hello.session.dialed && has_link(t, h)) {
            return MU_EEXIST;
        }
    }
}

/* Both sides are sure of each other. */
static void done(struct tender *t, struct hand *h)
{
    const struct link_user *user = &t->users[h->hello.session.class];
    struct link_made made = {
        .session = h->hello.session, .self = h->hello.config.self, .fd = h->fd, .path = h->path};
    struct dial *d = h->dial;
    bool taken = false;

    memcpy(made.from, h->from, sizeof(made.from));
    if (!link_hung_up(h->fd)) {
        tender_unwatch(t, h->fd);
        taken = user->made(user->arg, &made);
    }
    if (!taken) {
        give_up(t, h, true);
        return;
    }
    h->fd = -1;
    hand_close(t, h);
    if (d != NULL) {
        d->made = (uint8_t)made.path;
        d->made_ns = clock_ns();
    }
}

void hand_go(struct tender *t, struct hand *h)
{
    if (h->connecting) {
        if (!has_connected(h)) {
            give_up(t, h, false);
            return;
        }
        if (!link_dial_connected(t, &h)) {
            return;
        }
        h->connecting = false;
    }
    switch (shake(t, h)) {
    case MU_OK:
        done(t, h);
        return;
    case MU_EEXIST:
        hand_close(t, h);
        return;
    case MU_EAGAIN:
        if (watch(t, h) == MU_OK) {
            return;
        }
        break;
    case MU_EREFUSED:
        refuse(t, h, h->hello.why, false);
        break;
    default:
        /* A dialer's peer that hangs up has its reasons, and its own log. */
        if (!h->hello.session.dialed) {
            refuse(t, h, "it went away before it had proved anything", false);
        }
    }
    give_up(t, h, true);
}
