/* One try after the other, until there is a link. */
#include "link/tender_state.h"

#include <errno.h>
#include <unistd.h>

#define DIAL_FIRST_MS 1
#define DIAL_LAST_MS 200
#define UNIX_TRIES 3       /* until TCP is taken instead */
#define SHORT_LIFE_MS 1000 /* a link that did not live longer came to nothing */

/* ---- one try ---- */

static void later(struct dial *d)
{
    const uint32_t pause_ms = MAX(d->pause_ms, DIAL_FIRST_MS);

    d->next_ns = clock_ns() + pause_ms * MS;
    d->pause_ms = MIN(pause_ms * 2, DIAL_LAST_MS);
}

void link_dial_failed(struct dial *d, unsigned path, bool refused)
{
    if (path == LINK_UNIX && refused) {
        d->refused_n++;
    }
    later(d);
}

static bool may_be_local(const struct tender *t, const struct dial *d)
{
    const bool only = (t->config.paths & LINK_TCP) == 0;

    return d->to.host == t->config.host && (t->config.paths & LINK_UNIX) != 0 &&
           (only || d->refused_n < UNIX_TRIES);
}

static bool open_hand(struct tender *t, struct dial *d, int fd, unsigned path,
                      enum link_class class, struct hand **hand_out)
{
    if (hand_open(t, fd, path, class, d, hand_out) != MU_OK) {
        close(fd);
        later(d);
        return false;
    }
    return true;
}

/* 0, or -1 and errno. */
static int connect_local(const struct address *to, enum link_class class, int *fd_out)
{
    struct address local;

    addr_local(class, address_port(&to->sa), &local);
    *fd_out = addr_connect(&local, addr_local_type(class));
    return *fd_out < 0 ? -1 : 0;
}

static void say_once(struct dial *d, const char *why)
{
    char who[WID_TEXT_MAX];

    if (!d->said) {
        d->said = true;
        log_warn("link", "can't reach worker %s at \"%s\": %s", wid_print(d->to.worker, who),
                 d->to.addr, why);
    }
}

void link_dial_go(struct tender *t, struct dial *d, enum link_class class, const struct member *m)
{
    struct hand *h;
    struct address to;
    int fd;

    d->to = *m;
    if (addr_parse(m->addr, &to) != MU_OK) {
        say_once(d, "that is no address; it should be like 10.0.0.1:4711");
        later(d);
        return;
    }
    if (may_be_local(t, d)) {
        if (connect_local(&to, class, &fd) == 0) {
            (void)open_hand(t, d, fd, LINK_UNIX, class, &h);
            return;
        }
        if (errno == EAGAIN) { /* It is there, and busy. */
            later(d);
            return;
        }
    }
    if ((t->config.paths & LINK_TCP) == 0) {
        if (m->host != t->config.host) {
            say_once(d, "it is on another host, and TCP is not allowed");
        }
        later(d);
        return;
    }
    fd = addr_connect(&to, SOCK_STREAM);
    if (fd < 0) {
        later(d);
        return;
    }
    (void)open_hand(t, d, fd, LINK_TCP, class, &h);
}

/* A worker of this host that has come up since its unix socket was tried: that one is better, and
 * TCP would last for as long as both live. */
bool link_dial_connected(struct tender *t, struct hand **hand)
{
    struct hand *h = *hand;
    const enum link_class class = h->hello.session.class;
    struct dial *d = h->dial;
    struct address to;
    int fd;

    if (h->path == LINK_UNIX || !may_be_local(t, d) || addr_parse(d->to.addr, &to) != MU_OK ||
        connect_local(&to, class, &fd) != 0) {
        return true;
    }
    hand_close(t, h);
    return open_hand(t, d, fd, LINK_UNIX, class, hand);
}

/* ---- when ---- */

/* Links that are made and lost at once: no better than none. */
static void judge_last(struct dial *d, uint64_t now_ns)
{
    if (d->made == 0) {
        return;
    }
    if (now_ns - d->made_ns > SHORT_LIFE_MS * MS) {
        d->pause_ms = DIAL_FIRST_MS;
        d->refused_n = 0;
    } else {
        link_dial_failed(d, d->made, true);
    }
    d->made = 0;
}

uint64_t link_dial_at(struct dial *d, uint64_t now_ns)
{
    if (d->hand != NULL) {
        return UINT64_MAX;
    }
    judge_last(d, now_ns);
    return d->next_ns;
}

void link_dial_stop(struct tender *t, struct dial *d)
{
    if (d->hand != NULL) {
        hand_close(t, d->hand);
    }
}
