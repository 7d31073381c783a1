#include "unit/comm/shm_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static struct kit_worker *worker_of(struct link *l)
{
    return (struct kit_worker *)l->comm;
}

void comm_ring(struct comm *c)
{
    wait_ring(&c->alarm, c->alarm_fd);
}

void link_lose(struct link *l, int status, const char *why)
{
    int none = MU_OK;

    if (atomic_compare_exchange_strong(&l->lost, &none, status)) {
        snprintf(worker_of(l)->why, sizeof(worker_of(l)->why), "%s", why);
        shutdown(l->fd, SHUT_RDWR);
        comm_ring(l->comm);
    }
}

void link_claim(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    worker_of(l)->claim = generation;
    memcpy(worker_of(l)->proof, proof, HELLO_PROOF_BYTES);
    comm_ring(l->comm);
}

void kit_open(struct kit_worker *w, uint32_t rank, uint32_t n, uint32_t cores_n)
{
    memset(w, 0, sizeof(*w));
    assert_int_equal(segments_open(&w->c.segments), MU_OK);
    w->c.alarm_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(w->c.alarm_fd >= 0);
    w->c.hello.self = 1 + rank;
    w->c.cores_n = cores_n;
    w->c.config.host = KIT_HOST;
    w->c.group = (struct comm_group){
        .number = 1, .n = n, .me = rank, .members = w->members, .links = w->links};
    for (uint32_t r = 0; r < n; r++) {
        w->members[r].host = KIT_HOST;
    }
    w->c.waiter.fds = calloc(WAIT_FDS_MAX, sizeof(*w->c.waiter.fds));
    assert_non_null(w->c.waiter.fds);
}

void kit_close(struct kit_worker *w)
{
    for (uint32_t r = 0; r < KIT_PEERS_MAX; r++) {
        if (w->links[r] != NULL) {
            w->links[r]->ops->close(w->links[r]);
            w->links[r] = NULL;
        }
    }
    segments_close(w->c.segments);
    close(w->c.alarm_fd);
    free(w->c.waiter.fds);
}

struct link *kit_link(struct kit_worker *w, uint32_t peer, int fd)
{
    const struct hello_session session = {.peer = 1 + peer};
    struct link *l;

    assert_int_equal(shm_link_open(&w->c, fd, &session, &l), MU_OK);
    l->rank = peer;
    l->proved = 1;
    w->links[peer] = l;
    return l;
}

void kit_meet(struct link *l)
{
    while (shm_in(shm_of(l)) == NULL) {
        assert_int_equal(poll(&(struct pollfd){.fd = l->fd, .events = POLLIN}, 1, 20000), 1);
        shm_link_hear(l);
        assert_int_equal(l->lost, MU_OK);
    }
}

void kit_pair(struct kit_worker pair[2])
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    for (uint32_t i = 0; i < 2; i++) {
        kit_open(&pair[i], i, 2, 2);
        kit_link(&pair[i], !i, fds[i]);
    }
    for (uint32_t i = 0; i < 2; i++) {
        kit_meet(pair[i].links[!i]);
    }
}

void kit_unpair(struct kit_worker pair[2])
{
    kit_close(&pair[0]);
    kit_close(&pair[1]);
}

void *kit_alloc(struct kit_worker *w, size_t bytes)
{
    void *memory;
    uint32_t id;

    assert_int_equal(segment_make(w->c.segments, bytes, &memory, &id), MU_OK);
    for (uint32_t r = 0; r < KIT_PEERS_MAX; r++) {
        if (w->links[r] != NULL) {
            shm_link_tell(w->links[r], id);
        }
    }
    return memory;
}

struct note kit_note(uint64_t number, uint64_t bytes)
{
    return (struct note){.generation = 1,
                         .call = 1,
                         .count = number,
                         .bytes = bytes,
                         .kind = NOTE_DATA,
                         .op = COMM_SEND};
}
