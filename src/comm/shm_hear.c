#include "base/hook.h"
#include "comm/memfd.h"
#include "comm/shm.h"
#include "comm/shm_packet.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* What peers say on the socket. All of it runs in the tender's thread. */

#define HEAR_MAX 256 /* packets in one go: other links want to be heard, too */

struct parcel {
    struct packet packet;
    int fds[PACKET_FDS_MAX]; /* -1: none, or taken */
    size_t fds_n;
};

static void parcel_close(struct parcel *p)
{
    for (size_t i = 0; i < p->fds_n; i++) {
        if (p->fds[i] >= 0) {
            close(p->fds[i]);
        }
    }
}

static void parcel_take_fds(struct parcel *p, struct msghdr *msg)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t n;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
            if (p->fds_n < PACKET_FDS_MAX) {
                p->fds[p->fds_n++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

/* MU_EAGAIN: nothing has come. MU_EPEER: it has hung up. Otherwise *p is to be closed. */
static int parcel_receive(struct shm_link *s, struct parcel *p, const char **why_out)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = &p->packet, .iov_len = sizeof(p->packet)};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.bytes,
                         .msg_controllen = sizeof(control.bytes)};
    ssize_t got;

    p->fds_n = 0;
    do {
        got = recvmsg(s->link.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        /* ECONNRESET says once that it closed with packets of ours unread: its own still come. */
    } while (got < 0 && (errno == EINTR || errno == ECONNRESET));
    if (got < 0 && errno == EAGAIN) {
        return MU_EAGAIN;
    }
    if (got <= 0) {
        *why_out = "its connection has ended";
        return MU_EPEER;
    }
    HOOK();
    parcel_take_fds(p, &msg);
    if ((msg.msg_flags & MSG_CTRUNC) != 0) {
        *why_out = "no file descriptor is left for its shared memory: raise the limit of open "
                   "files (ulimit -n)";
        parcel_close(p);
        return MU_ELIMIT;
    }
    if (got != (ssize_t)sizeof(p->packet) || (msg.msg_flags & MSG_TRUNC) != 0) {
        *why_out = "a packet of another length than packets have";
        parcel_close(p);
        return MU_EPROTO;
    }
    return MU_OK;
}

/* Nobody can make us wait by it: not a file, and writing never blocks. */
static bool is_event(int fd)
{
    const int flags = fcntl(fd, F_GETFL);
    struct stat st;

    return flags >= 0 && (flags & O_NONBLOCK) != 0 && (flags & O_ACCMODE) == O_RDWR &&
           fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0;
}

static int take_board(struct shm_link *s, struct parcel *p, const char **why_out)
{
    const struct board *board;
    int rc;

    *why_out = "its board is not what this build has";
    if (s->in_board != NULL || p->fds_n != 2 || p->packet.id >= BOARD_LANES ||
        p->packet.bytes != sizeof(struct board) || !is_event(p->fds[1])) {
        return MU_EPROTO;
    }
    rc = memfd_check(p->fds[0], shm_board_bytes(), why_out);
    if (rc != MU_OK) {
        return rc;
    }
    board = mmap(NULL, shm_board_bytes(), PROT_READ, MAP_SHARED, p->fds[0], 0);
    if (board == MAP_FAILED) {
        *why_out = "its board can't be mapped";
        return MU_ENOMEM;
    }
    if (board->magic != BOARD_MAGIC || board->bytes != sizeof(struct board) ||
        board->owner != s->link.session.peer) {
        munmap((void *)(uintptr_t)board, shm_board_bytes());
        return MU_EPROTO;
    }
    s->in_board = board;
    s->in_event = p->fds[1];
    p->fds[1] = -1;
    s->in_start = s->head_seen = p->packet.start;
    atomic_store_explicit(&s->in, &board->lanes[p->packet.id], memory_order_release);
    comm_ring(s->link.comm);
    return MU_OK;
}

static int take_segment(struct shm_link *s, struct parcel *p, const char **why_out)
{
    int rc;

    if (p->fds_n != 1) {
        *why_out = "shared memory that is not there";
        return MU_EPROTO;
    }
    rc = shm_peer_add(&s->peer, p->packet.id, p->fds[0], p->packet.bytes, why_out);
    if (rc == MU_OK) {
        p->fds[0] = -1;
        comm_ring(s->link.comm); /* The engine may have met a note about it already. */
    }
    return rc;
}

static int take(struct shm_link *s, struct parcel *p, const char **why_out)
{
    if (p->packet.kind != PACKET_BOARD && s->in_board == NULL) {
        *why_out = "its board did not come first";
        return MU_EPROTO;
    }
    switch (p->packet.kind) {
    case PACKET_BOARD:
        return take_board(s, p, why_out);
    case PACKET_SEGMENT:
        return take_segment(s, p, why_out);
    case PACKET_GONE:
        shm_peer_gone(&s->peer, p->packet.id);
        return MU_OK;
    case PACKET_MOVE:
        link_claim(&s->link, p->packet.generation, p->packet.proof);
        return MU_OK;
    default:
        *why_out = "a packet of an unknown kind";
        return MU_EPROTO;
    }
}

static bool has_ended(int pidfd)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};

    return pidfd >= 0 && poll(&fd, 1, 0) > 0;
}

void shm_link_hear(struct link *l)
{
    struct shm_link *s = shm_of(l);
    const char *why = NULL;
    int rc = MU_OK;

    if (atomic_load(&s->out.due)) {
        shm_out_flush(s);
    }
    for (int i = 0; i < HEAR_MAX && rc == MU_OK && atomic_load(&l->lost) == MU_OK; i++) {
        struct parcel p;

        rc = parcel_receive(s, &p, &why);
        if (rc == MU_OK) {
            rc = take(s, &p, &why);
            parcel_close(&p);
        }
    }
    if (rc == MU_EAGAIN) {
        /* A child of it may hold the socket; what it said before its end has been heard. */
        rc = has_ended(s->pidfd) ? MU_EPEER : MU_OK;
        why = "its process has ended";
    }
    if (rc != MU_OK) {
        link_lose(l, rc, why);
    }
}
