#include "base/hook.h"
#include "comm/shm.h"
#include "comm/shm_packet.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* What is static here: shm_out.lock is held. */

/* MU_EAGAIN: the socket is full, or too many descriptors are under way. */
static int packet_send(struct shm_link *s, const struct packet *packet, const int *fds, size_t n)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(PACKET_FDS_MAX * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)packet, .iov_len = sizeof(*packet)};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (n > 0) {
        struct cmsghdr *c;

        msg.msg_control = control.bytes;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    HOOK();
    do {
        sent = sendmsg(s->link.fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent == (ssize_t)sizeof(*packet)) {
        return MU_OK;
    }
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)) {
        return MU_EAGAIN;
    }
    s->out.broken = true;
    shutdown(s->link.fd, SHUT_RDWR); /* The tender hears of it, and loses the link. */
    return MU_EPEER;
}

static int say_board(struct shm_link *s)
{
    const int fds[] = {s->out_lane.fd, s->link.comm->alarm_fd};
    const struct packet packet = {.kind = PACKET_BOARD,
                                  .id = s->out_lane.index,
                                  .bytes = sizeof(struct board),
                                  .start = s->out_lane.start};
    int rc = s->out.board_due ? packet_send(s, &packet, fds, 2) : MU_OK;

    s->out.board_due &= rc != MU_OK;
    return rc;
}

static int say_move(struct shm_link *s)
{
    struct packet packet = {.kind = PACKET_MOVE, .generation = s->out.move_generation};
    int rc;

    if (!s->out.move_due) {
        return MU_OK;
    }
    memcpy(packet.proof, s->out.move_proof, HELLO_PROOF_BYTES);
    rc = packet_send(s, &packet, NULL, 0);
    s->out.move_due = rc != MU_OK;
    return rc;
}

static int say_segment(void *arg, uint32_t id, int fd, size_t bytes)
{
    struct shm_link *s = arg;
    const struct packet packet = {.kind = PACKET_SEGMENT, .id = id, .bytes = bytes};
    int rc = packet_send(s, &packet, &fd, 1);

    if (rc == MU_OK) {
        atomic_store(&s->out.told, id);
    }
    return rc;
}

static int say_gone(struct shm_link *s)
{
    while (s->out.gone_n > 0) {
        const struct packet packet = {.kind = PACKET_GONE, .id = s->out.gone[s->out.gone_n - 1]};
        int rc = packet_send(s, &packet, NULL, 0);

        if (rc != MU_OK) {
            return rc;
        }
        s->out.gone_n--;
    }
    return MU_OK;
}

/* The ends of segments come last: they are of segments that have been told of, or never will. */
static int say_all(struct shm_link *s)
{
    int rc = s->out.broken ? MU_EPEER : say_board(s);

    rc = rc == MU_OK ? say_move(s) : rc;
    rc = rc == MU_OK
             ? segment_each(s->link.comm->segments, atomic_load(&s->out.told), say_segment, s)
             : rc;
    rc = rc == MU_OK ? say_gone(s) : rc;
    atomic_store(&s->out.due, rc == MU_EAGAIN);
    return rc;
}

int shm_out_flush(struct shm_link *s)
{
    int rc;

    pthread_mutex_lock(&s->out.lock);
    rc = say_all(s);
    pthread_mutex_unlock(&s->out.lock);
    return rc;
}

void shm_out_move(struct shm_link *s, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    pthread_mutex_lock(&s->out.lock);
    s->out.move_due = true;
    s->out.move_generation = generation;
    memcpy(s->out.move_proof, proof, HELLO_PROOF_BYTES);
    say_all(s);
    pthread_mutex_unlock(&s->out.lock);
}

void shm_link_tell(struct link *l, uint32_t segment)
{
    if (segment > atomic_load(&shm_of(l)->out.told)) {
        shm_out_flush(shm_of(l));
    }
}

void shm_link_tell_gone(struct link *l, uint32_t segment)
{
    struct shm_link *s = shm_of(l);
    struct shm_out *out = &s->out;

    pthread_mutex_lock(&out->lock);
    if (out->gone_n == out->gone_cap) {
        const uint32_t cap = out->gone_cap == 0 ? 16 : 2 * out->gone_cap;
        uint32_t *more = realloc(out->gone, cap * sizeof(*more));

        if (more == NULL) {
            /* The peer would keep that memory for ever; it is better off without this link. */
            out->broken = true;
            shutdown(s->link.fd, SHUT_RDWR);
            pthread_mutex_unlock(&out->lock);
            return;
        }
        out->gone = more;
        out->gone_cap = cap;
    }
    out->gone[out->gone_n++] = segment;
    say_all(s);
    pthread_mutex_unlock(&out->lock);
}

short shm_link_events(struct link *l)
{
    return atomic_load(&shm_of(l)->out.due) ? POLLIN | POLLOUT : POLLIN;
}
