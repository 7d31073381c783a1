#include "unit/comm/tcp_kit.h"

#include "base/prng.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char why_lost[256];

void link_lose(struct link *l, int status, const char *why)
{
    int none = MU_OK;

    assert_true(status != MU_OK && why != NULL);
    if (atomic_compare_exchange_strong(&l->lost, &none, status)) {
        snprintf(why_lost, sizeof(why_lost), "%s", why);
    }
}

void link_claim(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES])
{
    uint8_t right[HELLO_PROOF_BYTES];

    tcp_kit_proof(generation, right);
    if (generation < l->comm->group.number) {
        link_lose(l, MU_ESTALE, "stale");
    } else if (memcmp(proof, right, sizeof(right)) != 0) {
        link_lose(l, MU_EREFUSED, "wrong proof");
    } else if (generation > l->claim) {
        l->claim = generation;
        l->proved = generation == l->comm->group.number ? generation : l->proved;
    }
}

const char *tcp_kit_why(void)
{
    return why_lost;
}

void tcp_kit_proof(uint64_t generation, uint8_t proof[HELLO_PROOF_BYTES])
{
    tcp_kit_fill(~generation, proof, HELLO_PROOF_BYTES);
}

static void make_pair(bool narrow, int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof(a);
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; narrow && i < 2; i++) {
        const int fd = i == 0 ? listener : fds[0];
        const int segment = 1000, send_buffer = 4096, receive_buffer = 32768;

        /* Segments as they are between hosts: those of the loopback would not fit, and wait. */
        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, sizeof(int));
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof(int));
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(int));
    }
    assert_int_equal(bind(listener, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(connect(fds[0], (struct sockaddr *)&a, n), 0);
    fds[1] = accept(listener, NULL, NULL);
    assert_true(fds[1] >= 0);
    close(listener);
}

static void open_side(struct tcp_side *side, int fd, bool dialed, bool tls, uint8_t key)
{
    const struct hello_session session = {.peer = dialed ? 2 : 1, .dialed = dialed, .id = {7, 7}};

    memset(side, 0, sizeof(*side));
    side->comm.config.tls = tls;
    side->comm.config.run_key[0] = key;
    assert_int_equal(tcp_link_open(&side->comm, fd, &session, &side->link), MU_OK);
}

void tcp_pair_open(struct tcp_pair *p, struct tcp_pair_config config)
{
    int fds[2];

    make_pair(config.narrow, fds);
    open_side(&p->a, fds[0], true, config.tls_a, 1);
    open_side(&p->b, fds[1], false, config.tls_b, config.other_key ? 2 : 1);
}

void tcp_pair_close(struct tcp_pair *p)
{
    tcp_side_close(&p->a);
    tcp_side_close(&p->b);
}

void tcp_raw_open(struct tcp_side *side, bool tls, int *fd_out)
{
    int fds[2];

    make_pair(false, fds);
    open_side(side, fds[0], true, tls, 1);
    *fd_out = fds[1];
}

void tcp_side_close(struct tcp_side *side)
{
    if (side->link != NULL) {
        side->link->ops->close(side->link);
        side->link = NULL;
    }
}

void tcp_side_move(struct tcp_side *side, uint64_t generation)
{
    struct link *l = side->link;
    uint8_t proof[HELLO_PROOF_BYTES];

    side->comm.group.number = generation;
    l->proved = l->claim == generation ? generation : l->proved;
    tcp_kit_proof(generation, proof);
    assert_int_equal(l->ops->prove(l, generation, proof), MU_OK);
}

void tcp_pair_move(struct tcp_pair *p, uint64_t generation)
{
    struct link *a = p->a.link, *b = p->b.link;
    struct note note;

    tcp_side_move(&p->a, generation);
    tcp_side_move(&p->b, generation);
    for (int i = 0; a->proved != generation || b->proved != generation; i++) {
        assert_true(i < 100000);
        a->ops->flush(a);
        b->ops->flush(b);
        assert_int_equal(a->ops->head(a, &note), MU_EAGAIN);
        assert_int_equal(b->ops->head(b, &note), MU_EAGAIN);
    }
    while (a->ops->flush(a) == MU_EAGAIN || b->ops->flush(b) == MU_EAGAIN) {
    }
}

short tcp_kit_awaits(struct link *l, bool rx, bool tx)
{
    static struct pollfd fds[WAIT_FDS_MAX];
    static struct waiter w;

    w.fds = fds;
    wait_begin(&w, l->comm);
    l->ops->await(l, rx, tx, &w);
    assert_true(w.words_n == 0 && w.fds_n <= 1);
    return w.fds_n == 0 ? 0 : fds[0].events;
}

void tcp_kit_wait(struct link *l, bool rx, bool tx)
{
    static struct pollfd fds[WAIT_FDS_MAX];
    static struct waiter w;

    w.fds = fds;
    wait_begin(&w, l->comm);
    l->ops->await(l, rx, tx, &w);
    if (w.fds_n > 0) {
        assert_true(poll(fds, w.fds_n, 20000) > 0);
    }
}

void tcp_kit_fill(uint64_t seed, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)(prng_mix(seed + i / 64) >> (i % 8 * 8)) ^ (uint8_t)i;
    }
}

bool tcp_kit_filled(uint64_t seed, const uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] != ((uint8_t)(prng_mix(seed + i / 64) >> (i % 8 * 8)) ^ (uint8_t)i)) {
            return false;
        }
    }
    return true;
}
