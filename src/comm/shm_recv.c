#include "base/hook.h"
#include "comm/fence.h"
#include "comm/shm.h"

#include <string.h>

/* The order of things, each way: the writer fills a slot and then stores head; the reader copies
 * the slot, uses the bytes, looks at void_to and then stores tail; the writer sees tail and fills
 * the slot again. Numbers are those of the lane (from `start` on); tail counts from 0. */

static int broke(struct link *l, const char *why)
{
    link_lose(l, MU_EPROTO, why);
    return MU_EPEER;
}

static uint32_t number_of_current(const struct shm_link *s)
{
    return s->in_start + (uint32_t)s->done_n;
}

/* Its memory is the peer's again. */
static void give_back(struct shm_link *s)
{
    struct board_lane *out = s->out_lane.lane;

    s->has_note = false;
    s->done_n++;
    HOOK();
    atomic_store(&out->tail, (uint32_t)s->done_n);
    wait_wake(&out->tail, &shm_in(s)->sleeps_tail, s->in_event);
}

/* Takes the next note into s->note. The peer may change it at any time, so it is copied, and only
 * the copy is looked at. */
static int fetch(struct shm_link *s, const struct board_lane *in, int lost)
{
    const uint32_t number = number_of_current(s);
    const uint32_t head = atomic_load_explicit(&in->head, memory_order_acquire);
    const struct board_note *slot = &in->ring[number % BOARD_RING];

    s->head_seen = head;
    if (head == number) {
        return lost != MU_OK ? MU_EPEER : MU_EAGAIN;
    }
    if (head - number > BOARD_RING) {
        return broke(&s->link, "more notes than its ring can hold");
    }
    memcpy(&s->note, &slot->note, sizeof(s->note));
    s->segment = slot->segment;
    s->offset = slot->offset;
    atomic_signal_fence(memory_order_seq_cst); /* From here on, nothing is read again. */
    if (!note_valid(&s->note) || s->note.kind == NOTE_MOVE ||
        (s->segment == 0 && s->note.bytes > LINK_COPY_MAX)) {
        return broke(&s->link, "a note that says what can't be");
    }
    return MU_OK;
}

/* What a peer said before it went still counts; what one that broke the protocol said does not. */
int shm_head(struct link *l, struct note *note_out)
{
    struct shm_link *s = shm_of(l);
    const int lost = atomic_load_explicit(&l->lost, memory_order_acquire);
    const struct board_lane *in = shm_in(s);

    if (lost != MU_OK && (lost != MU_EPEER || in == NULL)) {
        return MU_EPEER;
    }
    if (!s->has_note && atomic_load_explicit(&s->peer.sweep, memory_order_relaxed)) {
        shm_peer_sweep(&s->peer);
    }
    if (in == NULL) {
        return MU_EAGAIN;
    }
    if (l->proved != l->comm->group.number) {
        s->head_seen = atomic_load_explicit(&in->head, memory_order_acquire);
        return lost != MU_OK ? MU_EPEER : MU_EAGAIN;
    }
    for (;;) {
        int rc = s->has_note ? MU_OK : fetch(s, in, lost);

        if (rc != MU_OK) {
            return rc;
        }
        if (s->note.generation > l->comm->group.number) {
            return lost != MU_OK ? MU_EPEER : MU_EAGAIN;
        }
        s->has_note = true;
        if (s->note.generation == l->comm->group.number) {
            break;
        }
        give_back(s);
    }
    *note_out = s->note;
    return MU_OK;
}

/* Mail is of no call, and its bytes lie in the ring: what was said was said. */
static bool is_void(struct shm_link *s)
{
    const uint32_t to = atomic_load_explicit(&shm_in(s)->void_to, memory_order_relaxed);

    return s->note.kind != NOTE_MAIL && (int32_t)(to - number_of_current(s)) > 0;
}

int shm_body(struct link *l, void *place, const void **data_out)
{
    struct shm_link *s = shm_of(l);
    const uint8_t *map;
    size_t has;
    int rc;

    mu_assert(s->has_note);
    if (s->segment == 0 || s->note.bytes == 0) {
        *data_out = shm_in(s)->ring[number_of_current(s) % BOARD_RING].inlined;
        return MU_OK;
    }
    rc = shm_peer_find(&s->peer, s->segment, &map, &has);
    if (rc == MU_EAGAIN) {
        return link_is_lost(l) ? MU_EPEER : MU_EAGAIN;
    }
    if (rc == MU_ENOENT) {
        /* Freed after the call that used it was given up. */
        return is_void(s) ? MU_EPEER : broke(l, "a note about memory that is gone");
    }
    if (s->offset > has || s->note.bytes > has - s->offset) {
        return broke(l, "a note about bytes outside of its memory");
    }
    *data_out = map + s->offset;
    return MU_OK;
}

int shm_done(struct link *l)
{
    struct shm_link *s = shm_of(l);
    bool counts = true;

    mu_assert(s->has_note);
    if (s->note.bytes > 0) {
        fence_acquire(); /* The bytes have been read before void_to is. */
        counts = !is_void(s);
    }
    give_back(s);
    return counts ? MU_OK : MU_EPEER;
}
