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
#include "comm/links.h"

/* ---- which of two ---- */

/* `old` is live, and the other side has dialed. */
static bool gives_way(const struct comm *c, const struct link *old)
{
    const uint64_t crossing_ns = 2 * HELLO_TIMEOUT_MS * MS;

    return !old->session.dialed || old->session.peer > c->hello.self || link_hung_up(old->fd) ||
           clock_ns() - old->made_ns > crossing_ns;
}

/* ---- making ---- */

static int open_link(struct comm *c, const struct link_made *made, struct link **link_out)
{
    return made->path == COMM_SHM ? shm_link_open(c, made->fd, &made->session, link_out)
                                  : tcp_link_open(c, made->fd, &made->session, link_out);
}

/* Under c->lock, so that whoever makes a segment finds it in the list, or it was told of it
 * already. NULL: why is said. */
static struct link *add_link(struct comm *c, const struct link_made *made, const char **why)
{
    const struct hello_session *s = &made->session;
    struct link *old = group_find(c, s->peer), *l = NULL;

    if (made->self != c->hello.self || s->peer == c->hello.self) {
        *why = "this worker has another name now";
        return NULL;
    }
    if (old != NULL && (s->dialed || !gives_way(c, old))) {
        *why = "there is a link already";
        return NULL;
    }
    if (open_link(c, made, &l) != MU_OK) {
        *why = "no link could be made of it";
        return NULL;
    }
    l->id = ++c->tended->ids_n;
    l->made_ns = clock_ns();
    l->next = c->links;
    c->links = l;
    c->stats.linked_n++;
    link_watch(c, l);
    if (old != NULL) {
        link_lose(old, MU_EPEER, "it has made a new connection");
    }
    want_look(c, s->peer);
    return l;
}

bool link_make(void *comm, const struct link_made *made)
{
    struct comm *c = comm;
    const char *why = NULL;
    char who[WID_TEXT_MAX];

    wid_print(made->session.peer, who);
    pthread_mutex_lock(&c->lock);
    const struct link *l = add_link(c, made, &why);

    if (l != NULL) {
        /* In the lock: the engine may close it as soon as it is seen. */
        log_debug("comm", "linked to worker %s by %s", who, l->where);
    } else {
        log_debug("comm", "a connection with worker %s was dropped: %s", who, why);
    }
    pthread_mutex_unlock(&c->lock);
    if (l != NULL) {
        comm_ring(c);
    }
    return l != NULL;
}
