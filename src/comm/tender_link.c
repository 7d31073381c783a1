/* From a handshake to a link, which of two links to one worker stays, and what becomes of the lost.
 *
 * Two workers may dial each other at the same time. Both sides must then keep the same one:
 * the link that the worker with the higher number dialed. Whoever dials has no live link; so a
 * second one by the same side means that it has lost the first, which the other has only not
 * noticed yet, and the newer one stays. A dial by the lower number against a link that the
 * higher one had made means the same, unless both were under way together: it counts as news once
 * the peer has used that link, or so much time has passed that no handshake of then goes on. If
 * both come to nothing all the same, both ends are closed, so both sides know, and dial again. */
#include "comm/tender.h"

#include <stdio.h>

const char *wid_print(wid worker, char text[WID_TEXT_MAX])
{
    snprintf(text, WID_TEXT_MAX, "n%u.%u#%u", wid_node(worker), wid_slot(worker),
             wid_incarnation(worker));
    return text;
}

/* ---- which of two ---- */

static bool by_higher(wid self, const struct hello_session *s)
{
    return s->dialed == (self > s->peer);
}

static bool was_used(const struct link *l)
{
    return l->claim != 0 || wait_now_ns() - l->made_ns > 2 * HELLO_TIMEOUT_MS * MS;
}

static bool gives_way(const struct comm *c, const struct link *old, const struct hello_session *s)
{
    return by_higher(c->hello.self, s) || !by_higher(c->hello.self, &old->session) || was_used(old);
}

/* ---- making ---- */

static int open_link(struct comm *c, struct hand *h, struct link **link_out)
{
    return h->path == COMM_SHM ? shm_link_open(c, h->fd, &h->hello.session, link_out)
                               : tcp_link_open(c, h->fd, &h->hello.session, link_out);
}

/* Under c->lock, so that whoever makes a segment finds it in the list, or it was told of it
 * already. NULL: why is said. */
static struct link *add_link(struct comm *c, struct hand *h, const char **why)
{
    struct tender *t = c->tender;
    const struct hello_session *s = &h->hello.session;
    struct link *old = group_find(c, s->peer), *l = NULL;

    if (h->hello.config.self != c->hello.self || s->peer == c->hello.self) {
        *why = "this worker has another name now";
        return NULL;
    }
    if (old != NULL && !gives_way(c, old, s)) {
        *why = "there is a link already";
        return NULL;
    }
    tender_unwatch(t, h->fd);
    if (open_link(c, h, &l) != MU_OK) {
        *why = "no link could be made of it";
        return NULL;
    }
    l->id = ++t->ids_n;
    l->fd = h->fd;
    l->path = h->path;
    l->made_ns = wait_now_ns();
    l->rank = UINT32_MAX;
    h->fd = -1;
    l->next = c->links;
    c->links = l;
    c->stats.linked_n++;
    link_watch(t, l);
    if (old != NULL) {
        link_lose(old, MU_EPEER, "it has made a new connection");
    }
    return l;
}

void link_make(struct comm *c, struct hand *h)
{
    struct want *w = h->want;
    const uint8_t path = h->path;
    const char *why = "it has gone again";
    struct link *l = NULL;
    char who[WID_TEXT_MAX];

    wid_print(h->hello.session.peer, who);
    if (!link_hung_up(h->fd)) {
        pthread_mutex_lock(&c->lock);
        l = add_link(c, h, &why);
        if (l != NULL) {
            /* In the lock: the engine may close it as soon as it is seen. */
            log_debug("comm", "linked to worker %s by %s", who, l->where);
        }
        pthread_mutex_unlock(&c->lock);
    }
    hand_close(c, h);
    if (l == NULL) {
        log_debug("comm", "a connection with worker %s was dropped: %s", who, why);
        if (w != NULL) {
            want_failed(w, path, true);
        }
        return;
    }
    if (w != NULL) {
        w->made = path;
        w->made_ns = wait_now_ns();
    }
    comm_ring(c);
}
