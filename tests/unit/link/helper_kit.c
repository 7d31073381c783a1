#include "unit/link/helper_kit.h"

#include "base/random.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

void kit_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void *place(void *arg, struct helper_request *r)
{
    struct kit_worker *w = arg;

    if (r->kind == KIT_REFUSE) {
        return NULL;
    }
    atomic_fetch_add(&w->placed_n, 1);
    r->data = malloc(r->bytes);
    return r->data;
}

static void drop(void *arg, struct helper_request *r)
{
    struct kit_worker *w = arg;

    atomic_fetch_add(&w->dropped_n, 1);
    free(r->data);
}

/* Of an answer that is under way. */
struct sending {
    struct kit_worker *w;
    struct iovec part;
    void *memory;
};

static void sent(void *arg, bool whole)
{
    struct sending *s = arg;

    atomic_fetch_add(whole ? &s->w->sent_n : &s->w->unsent_n, 1);
    free(s->memory);
    free(s);
}

static void answer(struct kit_worker *w, struct helper_request *r)
{
    const uint64_t bytes = r->bytes;
    const struct iovec length = {(void *)(uintptr_t)&bytes, sizeof(bytes)};
    struct sending *s;

    switch (r->kind) {
    case KIT_LENGTH:
        free(r->data);
        helper_answer(r, MU_OK, &length, 1, NULL, NULL);
        return;
    case KIT_FAIL:
        free(r->data);
        helper_answer(r, MU_ENOENT, NULL, 0, NULL, NULL);
        return;
    }
    s = calloc(1, sizeof(*s));
    s->w = w;
    s->part.iov_len = r->kind == KIT_BIG ? KIT_BIG_BYTES : r->bytes;
    s->memory = r->data;
    s->part.iov_base = r->data;
    if (s->memory == NULL) { /* Small ones lie in the request, which goes before they have left. */
        s->memory = s->part.iov_base = calloc(1, MAX(s->part.iov_len, 1));
        memcpy(s->memory, r->body, MIN(r->bytes, s->part.iov_len));
    }
    helper_answer(r, MU_OK, &s->part, 1, sent, s);
}

static void take(void *arg, struct helper_request *r)
{
    struct kit_worker *w = arg;

    atomic_fetch_add(&w->taken_n, 1);
    if (r->kind == KIT_KEEP) {
        pthread_mutex_lock(&w->lock);
        assert_true(w->kept_n < ARRAY_LEN(w->kept));
        w->kept[w->kept_n++] = r;
        pthread_mutex_unlock(&w->lock);
        return;
    }
    answer(w, r);
}

uint32_t kit_answer_kept(struct kit_worker *w)
{
    pthread_mutex_lock(&w->lock);
    const uint32_t n = w->kept_n;

    for (uint32_t i = 0; i < n; i++) {
        answer(w, w->kept[i]);
    }
    w->kept_n = 0;
    pthread_mutex_unlock(&w->lock);
    return n;
}

static struct hello_config hello_of(wid self, uint8_t key)
{
    return (struct hello_config){.job = "test", .run = 1, .run_key = {key}, .self = self};
}

void kit_open(struct kit_worker *w, uint32_t i, struct kit_config config)
{
    const struct tender_config listen = {.hello = hello_of(wid_make(i + 1, 0, 1), config.key),
                                         .host = 7,
                                         .paths = config.paths != 0 ? config.paths
                                                                    : LINK_UNIX | LINK_TCP};
    const struct helper_config helper = {
        .ops = {.arg = w, .place = place, .take = config.mute ? NULL : take, .drop = drop},
        .tls = config.tls};
    char error[LINK_ERROR_MAX] = "";

    memset(w, 0, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    w->member = (struct member){.worker = listen.hello.self, .host = 7};
    if (tender_open(&listen, &w->tender, error) != MU_OK) {
        fail_msg("%s", error);
    }
    snprintf(w->member.addr, sizeof(w->member.addr), "%s", tender_address(w->tender));
    assert_int_equal(helper_open(w->tender, &helper, &w->helper), MU_OK);
}

void kit_close(struct kit_worker *w)
{
    helper_close(w->helper);
    w->helper = NULL;
    if (w->tender != NULL) {
        tender_close(w->tender);
        w->tender = NULL;
        kit_answer_kept(w);
        pthread_mutex_destroy(&w->lock);
    }
}

void kit_meet(struct kit_worker *a, const struct kit_worker *b)
{
    assert_int_equal(helper_peers(a->helper, &b->member, 1), MU_OK);
}

int kit_ask(struct kit_worker *a, const struct kit_worker *b, uint16_t kind, const void *bytes,
            size_t n, void *to, size_t room, uint32_t timeout_ms)
{
    const struct iovec part = {(void *)(uintptr_t)bytes, n};
    struct helper_call call = {.peer = b->member.worker,
                               .kind = kind,
                               .timeout_ms = timeout_ms,
                               .parts = &part,
                               .parts_n = 1,
                               .answer = to,
                               .room = room};
    struct helper_call *calls[] = {&call};
    const int rc = helper_ask(a->helper, calls, 1);

    return rc != MU_OK ? rc : call.status;
}

struct helper_stats kit_stats(const struct kit_worker *w)
{
    struct helper_stats stats;

    helper_stats(w->helper, &stats);
    return stats;
}

static bool say(int fd, const uint8_t *bytes)
{
    return send(fd, bytes, HELLO_BYTES, MSG_NOSIGNAL) == HELLO_BYTES;
}

int kit_stranger(const struct kit_worker *w, wid self, enum link_class class, uint8_t key)
{
    const struct hello_config config = hello_of(self, key);
    uint8_t nonce[HELLO_NONCE_BYTES], out[HELLO_BYTES], in[HELLO_BYTES];
    struct address to;
    struct hello h;
    size_t n;
    int fd;

    assert_int_equal(addr_parse(w->member.addr, &to), MU_OK);
    fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, &to.sa, to.n), 0);
    random_bytes(nonce, sizeof(nonce));
    hello_dial(&h, &config, class, w->member.worker, nonce, out);
    if (say(fd, out) && recv(fd, in, HELLO_BYTES, MSG_WAITALL) == HELLO_BYTES) {
        hello_take(&h, in, HELLO_BYTES, out, &n);
        if (h.state == HELLO_DONE && say(fd, out)) {
            return fd;
        }
    }
    close(fd);
    return -1;
}
