/* From a handshake to a link, and which of two links to one worker stays.
 *
 * Two workers may dial each other at the same time, and both sides must then keep the same
 * link. A dialer says its last word, the PROOF, only if it has no live link to that worker at that
 * moment, and has one from then on. So whoever hears a PROOF while it has a live link knows:
 *
 *   it was dialed by the other side as well: that one has lost it, and this is the newer one;
 *   it was dialed by this side: both PROOFs have crossed, or the other side has lost it. In the
 * first case the one dialed by the higher number stays, for both. In the second the lower number
 *   may have to try again until this side has noticed; that its end has come, or that it is older
 *   than any PROOF under way can be, is enough.
 *
 * A link that does not stay has never been proved by both sides, so no move was made with it. */
#include "comm/tender.h"

/* ---- which of two ---- */

/* `old` is live, and the other side has dialed. */
static bool gives_way(const struct comm *c, const struct link *old)
{
    const uint64_t crossing_ns = 2 * HELLO_TIMEOUT_MS * MS;

    return !old->session.dialed || old->session.peer > c->hello.self || link_hung_up(old->fd) ||
           wait_now_ns() - old->made_ns > crossing_ns;
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
    if (old != NULL && (s->dialed || !gives_way(c, old))) {
        *why = "there is a link already";
        return NULL;
    }
    tender_unwatch(t, h->fd);
    if (open_link(c, h, &l) != MU_OK) {
        *why = "no link could be made of it";
        return NULL;
    }
    l->id = ++t->ids_n;
    l->made_ns = wait_now_ns();
    h->fd = -1;
    l->next = c->links;
    c->links = l;
    c->stats.linked_n++;
    link_watch(t, l);
    if (old != NULL) {
        link_lose(old, MU_EPEER, "it has made a new connection");
    }
    want_look(c, s->peer);
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
