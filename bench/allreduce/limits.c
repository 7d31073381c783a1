/* What the machine can do at most. Beside shared memory: so many processes add buffers that all
 * have mapped, each its share, and never say a word to each other. Beside TCP: they pass on round a
 * ring as many bytes as an all-reduce must, with send() and recv() alone. */
#include "bench/allreduce/allreduce.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define PASS_BYTES (256u << 10) /* of one send() or recv(), at most */

static uint64_t largest(const struct bench_options *o)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < o->bytes_n; i++) {
        most = MAX(most, o->bytes[i]);
    }
    return most;
}

/* ---- additions ---- */

struct adder {
    const void *in[BENCH_RANKS_MAX];
    void *out;
    enum dtype dtype;
    bool far;
    uint32_t in_n;
    size_t n;
};

static int add_round(void *arg)
{
    struct adder *a = arg;

    (a->far ? reduce_fold_far : reduce_fold)(NULL, a->dtype, REDUCE_SUM, 1, a->out, NULL, a->in,
                                             NULL, a->in_n, a->n);
    return MU_OK;
}

static double fastest(const struct bench_options *o, const struct bench_cell *cell)
{
    double us = cell->us[0];

    for (uint32_t i = 1; i < o->repeats; i++) {
        us = MIN(us, cell->us[i]);
    }
    return us;
}

/* Into the caches and past them: what is better depends on the size, and on the machine. */
static int add_both(struct bench_group *g, uint32_t rank, uint32_t size, struct adder *a)
{
    struct bench_cell *cell = &g->shared->cells[size], near;
    int rc = bench_measure(g, rank, size, add_round, a);

    if (rc != MU_OK) {
        return rc;
    }
    near = *cell;
    a->far = true;
    rc = bench_measure(g, rank, size, add_round, a);
    if (rc == MU_OK && rank == 0 && fastest(g->options, &near) < fastest(g->options, cell)) {
        *cell = near;
    }
    return rc;
}

/* Buffer i of group.memory: each rank's contribution, then the result. */
static int add_body(struct bench_group *g, uint32_t rank)
{
    const struct bench_options *o = g->options;
    const uint64_t most = largest(o), elements = most / dtype_size(o->dtype);
    int rc = MU_OK;

    memset(g->memory + rank * most, 0, most);
    memset(g->memory + g->ranks_n * most + elements * rank / g->ranks_n, 0, most / g->ranks_n);
    for (uint32_t i = 0; rc == MU_OK && i < o->bytes_n; i++) {
        uint64_t n = o->bytes[i] / dtype_size(o->dtype);
        uint64_t from = n * rank / g->ranks_n, to = n * (rank + 1) / g->ranks_n;
        struct adder a = {.dtype = (enum dtype)o->dtype, .in_n = g->ranks_n, .n = to - from};

        for (uint32_t r = 0; r < g->ranks_n; r++) {
            a.in[r] = g->memory + r * most + from * dtype_size(o->dtype);
        }
        a.out = g->memory + g->ranks_n * most + from * dtype_size(o->dtype);
        rc = add_both(g, rank, i, &a);
    }
    return rc;
}

static int limit_add(struct bench_group *g, char *error)
{
    const size_t bytes = (size_t)largest(g->options) * (g->ranks_n + 1);
    int rc;

    g->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (g->memory == MAP_FAILED) {
        snprintf(error, BENCH_ERROR_MAX, "no memory for %u buffers to add", g->ranks_n + 1);
        return MU_ENOMEM;
    }
    rc = bench_group_run(g, add_body, error);
    munmap(g->memory, bytes);
    return rc;
}

/* ---- traffic ---- */

struct passer {
    int out, in;
    uint64_t bytes; /* each way */
    uint8_t *from, *to;
};

static bool again(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static int pass_round(void *arg)
{
    struct passer *p = arg;
    uint64_t sent = 0, got = 0;

    while (sent < p->bytes || got < p->bytes) {
        struct pollfd fds[2] = {{.fd = sent < p->bytes ? p->out : -1, .events = POLLOUT},
                                {.fd = got < p->bytes ? p->in : -1, .events = POLLIN}};
        ssize_t out_n = 0, in_n = 0;

        if (sent < p->bytes) {
            out_n = send(p->out, p->from, (size_t)MIN(PASS_BYTES, p->bytes - sent), MSG_NOSIGNAL);
        }
        if (got < p->bytes) {
            in_n = recv(p->in, p->to, (size_t)MIN(PASS_BYTES, p->bytes - got), 0);
        }
        if ((out_n < 0 && !again(out_n)) || (in_n < 0 && !again(in_n)) ||
            (in_n == 0 && got < p->bytes)) {
            return MU_EIO;
        }
        sent += out_n > 0 ? (uint64_t)out_n : 0;
        got += in_n > 0 ? (uint64_t)in_n : 0;
        if (out_n <= 0 && in_n <= 0) {
            poll(fds, 2, -1);
        }
    }
    return MU_OK;
}

/* Every element goes from each rank to the one that adds it, and back: (N - 1) / N twice. */
static int pass_body(struct bench_group *g, uint32_t rank)
{
    const struct bench_options *o = g->options;
    struct passer p = {.out = g->fds[rank][0],
                       .in = g->fds[rank][1],
                       .from = calloc(1, PASS_BYTES),
                       .to = calloc(1, PASS_BYTES)};
    int rc = p.from != NULL && p.to != NULL ? MU_OK : MU_ENOMEM;

    for (uint32_t r = 0; r < g->ranks_n; r++) { /* So that a rank that ends is noticed. */
        if (r != rank) {
            close(g->fds[r][0]);
            close(g->fds[r][1]);
        }
    }
    for (uint32_t i = 0; rc == MU_OK && i < o->bytes_n; i++) {
        p.bytes = o->bytes[i] * 2 * (g->ranks_n - 1) / g->ranks_n;
        rc = bench_measure(g, rank, i, pass_round, &p);
    }
    free(p.from);
    free(p.to);
    return rc == MU_OK ? MU_OK : bench_fail(g, rank, rc, "plain TCP failed: %s", mu_strerror(rc));
}

/* As the links of the data plane are set up (link/stream_open.c). */
static void set_up(int fd)
{
    const char *congestion = getenv("MUSTER_TCP_CONGESTION");

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    if (congestion != NULL && *congestion != '\0') {
        setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, congestion, (socklen_t)strlen(congestion));
    }
}

static int connect_pair(int listener, const struct sockaddr_in *to, int *out_out, int *in_out)
{
    int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), in;

    if (out < 0) {
        return MU_EIO;
    }
    if (connect(out, (const struct sockaddr *)to, sizeof(*to)) != 0) {
        close(out);
        return MU_EIO;
    }
    in = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (in < 0) {
        close(out);
        return MU_EIO;
    }
    mu_assert(fcntl(out, F_SETFL, O_NONBLOCK) == 0);
    set_up(out);
    set_up(in);
    *out_out = out;
    *in_out = in;
    return MU_OK;
}

static int listen_any(struct sockaddr_in *at_out)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) != 0 || listen(fd, 1) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    *at_out = at;
    return fd;
}

/* Rank r sends to r + 1, and the last to the first. */
static int limit_pass(struct bench_group *g, char *error)
{
    struct sockaddr_in at;
    int listener = listen_any(&at), rc = listener >= 0 ? MU_OK : MU_EIO;
    uint32_t n = 0;

    for (; rc == MU_OK && n < g->ranks_n; n++) {
        rc = connect_pair(listener, &at, &g->fds[n][0], &g->fds[(n + 1) % g->ranks_n][1]);
        if (rc != MU_OK) {
            break;
        }
    }
    if (rc != MU_OK) {
        snprintf(error, BENCH_ERROR_MAX, "can't connect to this machine by TCP: %s",
                 strerror(errno));
    } else {
        rc = bench_group_run(g, pass_body, error);
    }
    for (uint32_t i = 0; i < n; i++) {
        close(g->fds[i][0]);
        close(g->fds[(i + 1) % g->ranks_n][1]);
    }
    if (listener >= 0) {
        close(listener);
    }
    return rc;
}

int bench_limit(struct bench_group *g, char *error)
{
    return g->transport == BENCH_SHM ? limit_add(g, error) : limit_pass(g, error);
}
