/* What a proved peer sends over a helper's connection, from any bytes: to the one who answers, or
 * to the one who asks and has a call under way. The first byte chooses which, and how the rest is
 * cut. Nothing is written but where it may be; each request is answered or dropped once, and the
 * call ends once. */
#include "link/helper_state.h"

#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLACE_MAX 100000

static uint8_t place_bytes[PLACE_MAX];
static uint32_t open_n, ended_n;

static void *place(void *arg, struct helper_request *r)
{
    if (r->bytes > PLACE_MAX) {
        return NULL;
    }
    open_n++;
    return place_bytes;
}

static void drop(void *arg, struct helper_request *r)
{
    mu_assert(open_n-- > 0);
}

static void take(void *arg, struct helper_request *r)
{
    const struct iovec part = {r->body, MIN(r->bytes, 64)};

    open_n -= r->bytes > HELPER_SMALL;
    helper_answer(r, MU_OK, &part, 1, NULL, NULL);
}

static void on_done(struct helper_call *call)
{
    mu_assert(call->status <= MU_OK && call->bytes <= call->room);
    ended_n++;
}

static struct helper *make_helper(void)
{
    struct helper *h = calloc(1, sizeof(*h));

    mu_assert(h != NULL);
    h->config.ops = (struct helper_ops){.place = place, .take = take, .drop = drop};
    h->epoll_fd = h->wake_fd = -1;
    h->awake = true; /* Nobody is to be woken. */
    h->refs_n = 1;
    TAILQ_INIT(&h->given);
    TAILQ_INIT(&h->cancels);
    TAILQ_INIT(&h->answers);
    pthread_mutex_init(&h->lock, NULL);
    return h;
}

static void feed(struct helper_conn *c, int fd, const uint8_t *data, size_t n)
{
    const char *why = NULL;
    int rc = MU_OK;

    mu_assert(send(fd, data, n, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)n);
    while (rc == MU_OK && !c->lost) {
        rc = helper_read(c, &why);
    }
    helper_take_answers(c->h);
    if (rc == MU_EAGAIN) {
        rc = helper_write(c);
    }
    if (rc != MU_OK && rc != MU_EAGAIN) {
        helper_conn_lose(c, rc, "fuzz");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t body[50000], answer[5000];
    const struct iovec part = {body, sizeof(body)};
    struct helper_call call = {.timeout_ms = 1000,
                               .parts = &part,
                               .parts_n = 1,
                               .size = sizeof(body),
                               .answer = answer,
                               .room = sizeof(answer),
                               .done = on_done};
    struct link_made made = {.session = {.peer = 7}, .path = LINK_UNIX};
    struct helper_peer peer = {.worker = 7, .listed = true, .pending_n = 1};
    struct helper_conn *c;
    int fds[2];

    if (n == 0 || n > 60000) {
        return 0;
    }
    const bool asks = (data[0] & 1) != 0;
    const size_t step = data[0] < 2 ? n : data[0];
    struct helper *h = make_helper();

    open_n = ended_n = 0;
    mu_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    made.fd = fds[0];
    mu_assert(helper_conn_open(h, &made, &c) == MU_OK);
    TAILQ_INIT(&peer.waiting);
    if (asks) {
        c->peer = &peer;
        peer.conn = c;
        call.to = &peer;
        call.state = CALL_TAKEN;
        call.waits = true;
        TAILQ_INSERT_TAIL(&peer.waiting, &call, link);
        helper_go_on(&peer);
        (void)helper_write(c);
    }
    for (size_t at = 1; at < n && !c->lost; at += MIN(step, n - at)) {
        feed(c, fds[1], data + at, MIN(step, n - at));
    }
    helper_conn_lose(c, MU_EPEER, "fuzz");
    helper_take_answers(h);
    mu_assert(open_n == 0 && ended_n == (asks ? 1u : 0u));
    helper_conn_close(c);
    close(fds[1]);
    mu_assert(h->refs_n == 1);
    pthread_mutex_destroy(&h->lock);
    free(h);
    return 0;
}
