#include "base/hook.h"
#include "comm/copy.h"
#include "comm/fence.h"
#include "comm/shm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* Looks how many notes the peer is done with: false if it says what can't be. */
static bool look_at_tail(struct shm_link *s, const struct board_lane *in)
{
    const uint32_t tail = atomic_load_explicit(&in->tail, memory_order_acquire);
    const uint32_t more = tail - (uint32_t)s->taken_n;

    if (more > s->link.sent_n - s->taken_n) {
        link_lose(&s->link, MU_EPROTO, "it is done with more notes than it was sent");
        return false;
    }
    s->taken_n += more;
    return true;
}

static int fill_ref(struct shm_link *s, struct board_note *slot, const void *data, size_t bytes)
{
    struct segment_ref ref;
    const bool found = segment_find(s->link.comm->segments, data, bytes, &ref);

    mu_assert(found);
    if (ref.id > atomic_load_explicit(&s->out.told, memory_order_relaxed)) {
        /* Made while this link was. */
        int rc = shm_out_flush(s);

        if (ref.id > atomic_load(&s->out.told)) {
            return rc == MU_OK ? MU_EAGAIN : rc;
        }
    }
    slot->segment = ref.id;
    slot->offset = ref.offset;
    return MU_OK;
}

static int shm_send(struct link *l, const struct note *note, const void *data, bool copy)
{
    struct shm_link *s = shm_of(l);
    const struct board_lane *in = shm_in(s);
    struct board_lane *out = s->out_lane.lane;
    struct board_note *slot = &out->ring[s->head % BOARD_RING];

    if (link_is_lost(l)) {
        return MU_EPEER;
    }
    if (in == NULL) {
        return MU_EAGAIN;
    }
    if (l->sent_n - s->taken_n >= BOARD_RING) {
        if (!look_at_tail(s, in)) {
            return MU_EPEER;
        }
        if (l->sent_n - s->taken_n >= BOARD_RING) {
            return MU_EAGAIN;
        }
    }
    if (copy || note->bytes == 0) {
        mu_assert(note->bytes <= LINK_COPY_MAX);
        slot->segment = 0;
        if (note->bytes > 0) {
            copy_far(slot->inlined, data, note->bytes);
            copy_far_done();
        }
    } else {
        int rc = fill_ref(s, slot, data, note->bytes);

        if (rc != MU_OK) {
            return rc;
        }
    }
    slot->note = *note;
    HOOK();
    atomic_store(&out->head, ++s->head);
    l->sent_n++;
    wait_wake(&out->head, &in->sleeps_head, s->in_event);
    return MU_OK;
}

/* Nothing is under way that a peer's end could cut off; whoever wants more of it hears so. */
static int shm_flush(struct link *l)
{
    struct shm_link *s = shm_of(l);
    const int lost = atomic_load_explicit(&l->lost, memory_order_acquire);
    const struct board_lane *in = shm_in(s);

    if ((lost != MU_OK && lost != MU_EPEER) || (in != NULL && !look_at_tail(s, in))) {
        return MU_EPEER;
    }
    return lost == MU_OK && atomic_load_explicit(&s->out.due, memory_order_relaxed)
               ? shm_out_flush(s)
               : MU_OK;
}

static uint64_t shm_taken(struct link *l)
{
    struct shm_link *s = shm_of(l);
    const struct board_lane *in = shm_in(s);

    if (in != NULL) {
        look_at_tail(s, in);
    }
    return s->taken_n;
}

/* void_to is seen before anything that its caller writes after this. */
static void shm_drop(struct link *l)
{
    struct shm_link *s = shm_of(l);

    HOOK();
    atomic_store(&s->out_lane.lane->void_to, s->head);
    fence_release();
}

static int shm_prove(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    if (link_is_lost(l)) {
        return MU_EPEER;
    }
    shm_out_move(shm_of(l), generation, proof);
    return MU_OK;
}

static void shm_await(struct link *l, bool rx, bool tx, struct waiter *w)
{
    struct shm_link *s = shm_of(l);
    const struct board_lane *in = shm_in(s);
    struct board_lane *out = s->out_lane.lane;

    /* What comes by the socket rings the alarm. A note that is held is the first to get on. */
    if (rx && in != NULL && !s->has_note) {
        wait_add_word(w, &in->head, s->head_seen, &out->sleeps_head);
    }
    if (tx && in != NULL) {
        wait_add_word(w, &in->tail, (uint32_t)s->taken_n, &out->sleeps_tail);
    }
    if (tx && atomic_load_explicit(&s->out.due, memory_order_relaxed)) {
        wait_add_fd(w, s->link.fd, POLLOUT);
    }
}

/* A child of the peer may hold its socket open; its process can't be. */
static int peer_pidfd(int socket)
{
    struct ucred cred;
    socklen_t n = sizeof(int);
    int fd;

    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &n) == 0) {
        return fd;
    }
    n = sizeof(cred);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &cred, &n) != 0 || cred.pid <= 0) {
        return -1;
    }
    return (int)syscall(SYS_pidfd_open, cred.pid, 0);
}

static void shm_link_free(struct shm_link *s)
{
    shm_peer_close(&s->peer);
    if (s->in_board != NULL) {
        munmap((void *)(uintptr_t)s->in_board, shm_board_bytes());
        close(s->in_event);
    }
    if (s->pidfd >= 0) {
        close(s->pidfd);
    }
    shm_board_give(segments_board(s->link.comm->segments), s->out_lane.index);
    pthread_mutex_destroy(&s->out.lock);
    free(s->out.gone);
    free(s);
}

/* The peer keeps its mapping of our board, and so the notes that it has not seen yet. */
static void shm_close(struct link *l)
{
    close(l->fd);
    shm_link_free(shm_of(l));
}

int shm_link_pidfd(struct link *l)
{
    return shm_of(l)->pidfd;
}

static const struct link_ops shm_ops = {
    .send = shm_send,
    .flush = shm_flush,
    .taken = shm_taken,
    .head = shm_head,
    .body = shm_body,
    .done = shm_done,
    .drop = shm_drop,
    .prove = shm_prove,
    .await = shm_await,
    .close = shm_close,
};

bool shm_body_ref(struct link *l, struct segment_ref *ref_out)
{
    struct shm_link *s = shm_of(l);

    if (l->path != COMM_SHM || !s->has_note || s->note.bytes == 0 || s->segment == 0) {
        return false;
    }
    *ref_out = (struct segment_ref){.id = s->segment, .offset = s->offset};
    return true;
}

int shm_link_open(struct comm *c, int fd, const struct hello_session *session,
                  struct link **link_out)
{
    struct shm_link *s = calloc(1, sizeof(*s));
    int rc;

    if (s == NULL) {
        return MU_ENOMEM;
    }
    rc = shm_board_take(segments_board(c->segments), c->hello.self, &s->out_lane);
    if (rc != MU_OK) {
        free(s);
        return rc;
    }
    s->link = (struct link){.ops = &shm_ops,
                            .comm = c,
                            .session = *session,
                            .where = "shm",
                            .fd = fd,
                            .path = COMM_SHM,
                            .rank = UINT32_MAX};
    s->pidfd = peer_pidfd(fd);
    s->head = s->out_lane.start;
    pthread_mutex_init(&s->out.lock, NULL);
    shm_peer_init(&s->peer);
    s->out.board_due = true;
    rc = shm_out_flush(s);
    if (rc == MU_EPEER) {
        shm_link_free(s);
        return rc;
    }
    *link_out = &s->link;
    return MU_OK;
}
