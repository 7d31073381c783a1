/* The side of the ranks: what a child of the test does. */
#include "base/log.h"
#include "base/prng.h"
#include "comm/ranks.h"
#include "comm/ranks_words.h"
#include "lib/move.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static void tell(struct rank *r, const struct ranks_told *told)
{
    if (send(r->fd, told, sizeof(*told), MSG_NOSIGNAL) != (ssize_t)sizeof(*told)) {
        _exit(1); /* The test is gone. */
    }
}

void rank_say(struct rank *r, uint32_t kind, uint64_t value, uint64_t value2)
{
    struct ranks_told told = {.kind = kind, .value = value, .value2 = value2};

    tell(r, &told);
}

void rank_fail(struct rank *r, const char *fmt, ...)
{
    struct ranks_told told = {.kind = RANKS_TOLD_FAILED};
    va_list args;

    va_start(args, fmt);
    vsnprintf(told.text, sizeof(told.text), fmt, args);
    va_end(args);
    tell(r, &told);
    _exit(1);
}

/* ---- the control thread: the agent's words ---- */

static void keep_generation(struct rank *r, const struct ranks_order *order)
{
    uint32_t i = r->generations_n;

    mu_assert(i < RANKS_GENERATIONS_MAX);
    r->generations[i] = order->generation;
    memcpy(r->members[i], order->members, sizeof(order->members));
    r->generations[i].members = r->members[i];
    r->generations_n++;
}

static void *control(void *arg)
{
    struct rank *r = arg;
    struct ranks_order order;

    for (;;) {
        ssize_t n = recv(r->fd, &order, sizeof(order), 0);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n != (ssize_t)sizeof(order)) {
            return NULL; /* The test has closed it. */
        }
        pthread_mutex_lock(&r->lock);
        if (order.is_word) {
            r->words[r->words_n++ % ARRAY_LEN(r->words)] = order.word;
        } else {
            keep_generation(r, &order);
            if (order.generation.kind == GENERATION_FAILURE) {
                comm_fence(r->comm, order.generation.number);
            }
        }
        pthread_cond_broadcast(&r->changed);
        pthread_mutex_unlock(&r->lock);
    }
}

static void await_change(struct rank *r, uint64_t end_ns, const char *what)
{
    struct timespec end = {(time_t)(end_ns / 1000000000), (long)(end_ns % 1000000000)};

    if (pthread_cond_clockwait(&r->changed, &r->lock, CLOCK_MONOTONIC, &end) != 0) {
        pthread_mutex_unlock(&r->lock);
        rank_fail(r, "waited too long for %s", what);
    }
}

const struct generation *rank_await(struct rank *r, uint64_t after)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    const struct generation *g;

    pthread_mutex_lock(&r->lock);
    while (r->generations_n == 0 || r->generations[r->generations_n - 1].number <= after) {
        await_change(r, end_ns, "a generation");
    }
    g = &r->generations[r->generations_n - 1];
    pthread_mutex_unlock(&r->lock);
    return g;
}

uint64_t rank_word(struct rank *r)
{
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);
    uint64_t word;

    pthread_mutex_lock(&r->lock);
    while (r->words_taken == r->words_n) {
        await_change(r, end_ns, "a word");
    }
    word = r->words[r->words_taken++ % ARRAY_LEN(r->words)];
    pthread_mutex_unlock(&r->lock);
    return word;
}

bool rank_has_word(struct rank *r)
{
    bool has;

    pthread_mutex_lock(&r->lock);
    has = r->words_taken != r->words_n;
    pthread_mutex_unlock(&r->lock);
    return has;
}

const struct generation *rank_enter(struct rank *r, uint64_t after)
{
    const struct generation *g = rank_await(r, after);
    wid missing = 0;
    int rc = move_to(r->comm, g, 0, RANKS_LIMIT_MS / 2, &missing);

    rank_check(r, rc == MU_OK, "moving to generation %llu: %s; %llx is missing",
               (unsigned long long)g->number, mu_strerror(rc), (unsigned long long)missing);
    rank_check(
        r,
        comm_generation(r->comm) == g->number && comm_size(r->comm) == g->members_n &&
            comm_rank(r->comm) < g->members_n && g->members[comm_rank(r->comm)].worker == r->self,
        "generation %llu of %u, rank %u is not what it moved to",
        (unsigned long long)comm_generation(r->comm), comm_size(r->comm), comm_rank(r->comm));
    return g;
}

void rank_meet(struct rank *r, _Atomic uint32_t *come_n)
{
    const uint32_t n = r->config->n;
    const uint32_t until = atomic_fetch_add(come_n, 1) / n * n + n;
    const uint64_t end_ns = ranks_now_ns() + RANKS_LIMIT_MS * UINT64_C(1000000);

    for (uint32_t i = 0; (int32_t)(atomic_load(come_n) - until) < 0; i++) {
        if (i < 100) {
            sched_yield();
        } else {
            nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
        }
        rank_check(r, ranks_now_ns() < end_ns, "the others did not come");
    }
}

/* ---- its life ---- */

static void enter_netns(struct rank *r, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    rank_check(r, fd >= 0 && setns(fd, CLONE_NEWNET) == 0, "entering %s: %s", path,
               strerror(errno));
    close(fd);
}

static void open_comm(struct rank *r, const struct ranks_config *config, uint64_t key_seed)
{
    struct comm_config c = {.job = "test", .run = 1, .self = r->self, .paths = config->paths};
    struct ranks_told told = {.kind = RANKS_TOLD_ADDRESS};
    char error[COMM_ERROR_MAX] = "";
    int rc;

    for (size_t i = 0; i < sizeof(c.run_key); i++) {
        c.run_key[i] = (uint8_t)prng_mix(key_seed + i);
    }
    c.host = config->hosts[r->index] != 0 ? config->hosts[r->index] : 1;
    c.address = config->addresses[r->index];
    c.tls = config->tls;
    rc = comm_open(&c, &r->comm, error);
    rank_check(r, rc == MU_OK, "comm_open: %s: %s", mu_strerror(rc), error);
    snprintf(told.text, sizeof(told.text), "%s", comm_address(r->comm));
    tell(r, &told);
}

void rank_live(struct rank *r, const struct ranks_config *config, uint64_t key_seed)
{
    log_init();
    if (getenv("MUSTER_LOG") == NULL) {
        log_set_level(LOG_ERROR);
    }
    r->config = config;
    r->arg = config->arg;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->changed, NULL);
    if (config->netns[r->index] != NULL) {
        enter_netns(r, config->netns[r->index]);
    }
    open_comm(r, config, key_seed);
    if (pthread_create(&r->control, NULL, control, r) != 0) {
        rank_fail(r, "no thread: %s", strerror(errno));
    }
    config->body(r);
    shutdown(r->fd, SHUT_RD); /* The thread sees it and ends. */
    pthread_join(r->control, NULL);
    comm_close(r->comm);
    free(r);
    exit(0); /* not _exit(): a sanitizer looks for leaks here */
}

/* ---- layouts ---- */

uint64_t ranks_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

bool ranks_full(void)
{
    const char *full = getenv("MUSTER_TEST_FULL");

    return full != NULL && *full != '\0' && strcmp(full, "0") != 0;
}

uint64_t ranks_seed(void)
{
    const char *seed = getenv("MUSTER_COMM_SEED");

    return seed != NULL ? strtoull(seed, NULL, 0) : 1;
}

const char *ranks_layout_name(enum ranks_layout layout)
{
    static const char *const names[] = {"shm", "tcp", "mixed"};

    return names[layout];
}

/* Mixed: the first half of the ranks on one host, the second on another. */
static uint64_t host_of(enum ranks_layout layout, uint32_t index, uint32_t n)
{
    return layout == RANKS_SHM ? 1 : layout == RANKS_TCP ? index + 1 : index < (n + 1) / 2 ? 1 : 2;
}

void ranks_lay_out(struct ranks_config *config, enum ranks_layout layout)
{
    config->paths = COMM_SHM | COMM_TCP;
    for (uint32_t i = 0; i < config->n; i++) {
        config->hosts[i] = host_of(layout, i, config->n);
    }
}

void ranks_check_links(struct rank *r, enum ranks_layout layout)
{
    uint32_t shm = 0, tcp = 0;
    struct comm_stats stats;

    for (uint32_t i = 0; i < r->config->n; i++) {
        bool same = host_of(layout, i, r->config->n) == host_of(layout, r->index, r->config->n);

        shm += i != r->index && same;
        tcp += i != r->index && !same;
    }
    comm_stats(r->comm, &stats);
    rank_check(r, stats.shm_links == shm && stats.tcp_links == tcp,
               "%llu links by shm, %llu by tcp; %u and %u were expected",
               (unsigned long long)stats.shm_links, (unsigned long long)stats.tcp_links, shm, tcp);
}
