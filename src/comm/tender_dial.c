/* How wanted members are dialed: by the unix socket of their port if they are on this host, else by
 * TCP; again and again while there is no link and it is wanted, after 1 ms, 2 ms … 200 ms. */
#include "comm/tender.h"

#include <errno.h>
#include <unistd.h>

#define SHM_TRIES 3        /* until TCP is taken instead */
#define SHORT_LIFE_MS 1000 /* a link that did not live longer came to nothing */

/* ---- one try ---- */

static void later(struct want *w)
{
    w->next_ns = wait_now_ns() + w->pause_ms * MS;
    w->pause_ms = MIN(w->pause_ms * 2, DIAL_LAST_MS);
}

void want_failed(struct want *w, uint8_t path, bool refused)
{
    if (path == COMM_SHM && refused) {
        w->refused_n++;
    }
    later(w);
}

static bool may_share(const struct comm *c, const struct want *w, const struct member *m)
{
    const bool only_shm = (c->config.paths & COMM_TCP) == 0;

    return m->host == c->config.host && (c->config.paths & COMM_SHM) != 0 &&
           (only_shm || w->refused_n < SHM_TRIES);
}

static bool open_hand(struct comm *c, struct want *w, int fd, uint8_t path, struct hand **hand_out)
{
    if (hand_open(c, fd, path, w, hand_out) != MU_OK) {
        close(fd);
        later(w);
        return false;
    }
    return true;
}

/* 0, or -1 and errno. */
static int connect_local(const struct address *to, int *fd_out)
{
    struct address local;

    addr_local(address_port(&to->sa), &local);
    *fd_out = addr_connect(&local, SOCK_SEQPACKET);
    return *fd_out < 0 ? -1 : 0;
}

static void say_once(struct want *w, const struct member *m, const char *why)
{
    char who[WID_TEXT_MAX];

    if (!w->said) {
        w->said = true;
        log_warn("comm", "can't reach worker %s at \"%s\": %s", wid_print(m->worker, who), m->addr,
                 why);
    }
}

/* m: a copy of w->member, which is under c->lock. */
static void dial(struct comm *c, struct want *w, const struct member *m)
{
    struct hand *h;
    struct address to;
    int fd;

    if (addr_parse(m->addr, &to) != MU_OK) {
        say_once(w, m, "that is no address; it should be like 10.0.0.1:4711");
        later(w);
        return;
    }
    if (may_share(c, w, m)) {
        if (connect_local(&to, &fd) == 0) {
            (void)open_hand(c, w, fd, COMM_SHM, &h);
            return;
        }
        if (errno == EAGAIN) { /* It is there, and busy. */
            later(w);
            return;
        }
    }
    if ((c->config.paths & COMM_TCP) == 0) {
        if (m->host != c->config.host) {
            say_once(w, m, "it is on another host, and TCP is not allowed");
        }
        later(w);
        return;
    }
    fd = addr_connect(&to, SOCK_STREAM);
    if (fd < 0) {
        later(w);
        return;
    }
    (void)open_hand(c, w, fd, COMM_TCP, &h);
}

/* A worker of this host that has come up since its unix socket was tried: that one is better, and
 * TCP would last for as long as both live. */
bool want_connected(struct comm *c, struct hand **hand)
{
    struct hand *h = *hand;
    struct want *w = h->want;
    struct member m;
    struct address to;
    int fd;

    if (h->path == COMM_SHM || w == NULL) {
        return true;
    }
    pthread_mutex_lock(&c->lock);
    m = w->member;
    pthread_mutex_unlock(&c->lock);
    if (!may_share(c, w, &m) || addr_parse(m.addr, &to) != MU_OK || connect_local(&to, &fd) != 0) {
        return true;
    }
    hand_close(c, h);
    return open_hand(c, w, fd, COMM_SHM, hand);
}

/* ---- when ---- */

/* Links that are made and lost at once: no better than none. */
static void judge_last(struct want *w, uint64_t now_ns)
{
    if (w->made == 0) {
        return;
    }
    if (now_ns - w->made_ns > SHORT_LIFE_MS * MS) {
        w->pause_ms = DIAL_FIRST_MS;
        w->refused_n = 0;
    } else {
        want_failed(w, w->made, true);
    }
    w->made = 0;
}

/* Nobody else takes one out of the list, so the place in it is good while the lock is not held. */
uint64_t wants_dial(struct comm *c, uint64_t now_ns)
{
    struct tender *t = c->tender;
    uint64_t due_ns = UINT64_MAX;
    struct want *w;

    pthread_mutex_lock(&c->lock);
    for (struct want **at = &t->wants; (w = *at) != NULL;) {
        const bool wanted = w->sought || w->named;

        if (w->hand != NULL && (!wanted || w->linked)) {
            hand_close(c, w->hand);
        }
        if (!wanted) {
            *at = w->next;
            want_free(t, w);
            continue;
        }
        if (!w->linked && w->hand == NULL) {
            judge_last(w, now_ns);
            if (MAX(w->next_ns, w->turn_ns) <= now_ns) {
                const struct member m = w->member;

                pthread_mutex_unlock(&c->lock);
                dial(c, w, &m); /* There is a hand now, or it is for later. */
                pthread_mutex_lock(&c->lock);
            }
            if (w->hand == NULL) {
                due_ns = MIN(due_ns, MAX(w->next_ns, w->turn_ns));
            }
        }
        at = &w->next;
    }
    pthread_mutex_unlock(&c->lock);
    return due_ns;
}
