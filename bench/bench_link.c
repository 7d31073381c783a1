/* Requests and answers between workers (class HELPER): 64 MiB there and back beside the same over
 * bare sockets of this host, small calls from one to 1, 2 and 8 workers, and the time of one alone.
 * Each worker is a process. Medians over several rounds, in each of which everything is measured
 * once, with the spread between the best and the worst; ratios are made within a round.
 *
 * usage: bench_link [ROUNDS] */
#include "bench.h"

#include "base/clock.h"
#include "link/helper.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LARGE ((size_t)64 << 20)
#define PEERS_MAX 8
#define FLIGHT 256 /* small calls under way to each */
#define SMALL_MS 1000
#define ALONE_N 4000
#define ROUNDS_MAX 64
#define WAIT_MS 600000

enum figure {
    BARE_TCP,
    BARE_UNIX,
    HELPER_TCP,
    HELPER_UNIX,
    RATIO_TCP,
    RATIO_UNIX,
    RATIO_LOCAL,
    CALLS_1,
    CALLS_2,
    CALLS_8,
    P50,
    P99,
    FIGURES_N
};

static const struct {
    const char *name, *unit;
} FIGURES[FIGURES_N] = {
    [BARE_TCP] = {"64 MiB there and back, bare TCP", "GB/s"},
    [BARE_UNIX] = {"64 MiB there and back, bare unix socket", "GB/s"},
    [HELPER_TCP] = {"64 MiB request and answer, TCP", "GB/s"},
    [HELPER_UNIX] = {"64 MiB request and answer, one host", "GB/s"},
    [RATIO_TCP] = {"TCP, of bare TCP", "ratio"},
    [RATIO_UNIX] = {"one host, of a bare unix socket", "ratio"},
    [RATIO_LOCAL] = {"one host, of bare TCP", "ratio"},
    [CALLS_1] = {"small calls to 1 worker", "calls/s"},
    [CALLS_2] = {"small calls to 2 workers", "calls/s"},
    [CALLS_8] = {"small calls to 8 workers", "calls/s"},
    [P50] = {"one small call alone, p50", "us"},
    [P99] = {"one small call alone, p99", "us"},
};

static double samples[FIGURES_N][ROUNDS_MAX];
static uint8_t *large;

static void check(bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "bench_link: %s failed\n", what);
        exit(1);
    }
}

/* ---- a worker ---- */

static void *place(void *arg, struct helper_request *r)
{
    return r->bytes <= LARGE ? large : NULL; /* One at a time. */
}

static void left(void *arg, bool whole)
{
}

static void take(void *arg, struct helper_request *r)
{
    static struct iovec part; /* of the large one */
    uint64_t number = 0;

    if (r->bytes > HELPER_SMALL) {
        part = (struct iovec){large, r->bytes};
        helper_answer(r, MU_OK, &part, 1, left, NULL);
        return;
    }
    memcpy(&number, r->body, MIN(r->bytes, sizeof(number)));
    const struct iovec same = {&number, sizeof(number)};

    helper_answer(r, MU_OK, &same, 1, NULL, NULL);
}

static struct helper *open_worker(uint32_t i, unsigned paths, struct tender **tender_out)
{
    const struct tender_config listen = {
        .hello = {.job = "bench", .run = 1, .run_key = {1}, .self = wid_make(i + 1, 0, 1)},
        .host = 1,
        .paths = paths};
    const struct helper_config config = {.ops = {.place = place, .take = take}};
    char error[LINK_ERROR_MAX] = "";
    struct helper *h = NULL;

    check(tender_open(&listen, tender_out, error) == MU_OK, error);
    check(helper_open(*tender_out, &config, &h) == MU_OK, "opening a helper");
    return h;
}

/* Until `until` ends. */
static void be_worker(uint32_t i, unsigned paths, int tell, int until)
{
    struct tender *t = NULL;
    struct helper *h = open_worker(i, paths, &t);
    char text[ADDR_MAX_LEN] = "", end;

    snprintf(text, sizeof(text), "%s", tender_address(t));
    check(write(tell, text, sizeof(text)) == sizeof(text), "telling an address");
    (void)!read(until, &end, 1);
    helper_close(h);
    tender_close(t);
    _exit(0);
}

struct workers {
    uint32_t n;
    struct member members[PEERS_MAX];
    int until;
};

static void start_workers(struct workers *w, uint32_t n, unsigned paths)
{
    int tell[2], until[2];

    check(pipe(tell) == 0 && pipe(until) == 0, "a pipe");
    w->n = n;
    for (uint32_t i = 0; i < n; i++) {
        const pid_t pid = fork();

        check(pid >= 0, "fork");
        if (pid == 0) {
            close(until[1]);
            be_worker(i + 1, paths, tell[1], until[0]);
        }
        w->members[i] = (struct member){.worker = wid_make(i + 2, 0, 1), .host = 1};
        check(read(tell[0], w->members[i].addr, ADDR_MAX_LEN) == ADDR_MAX_LEN, "an address");
    }
    close(tell[0]);
    close(tell[1]);
    close(until[0]);
    w->until = until[1];
}

static void end_workers(struct workers *w)
{
    close(w->until);
    for (uint32_t i = 0; i < w->n; i++) {
        wait(NULL);
    }
}

/* ---- bare sockets ---- */

static void move_all(int fd, bool out)
{
    for (size_t at = 0; at < LARGE;) {
        const ssize_t n =
            out ? send(fd, large + at, LARGE - at, 0) : recv(fd, large + at, LARGE - at, 0);

        if (n <= 0) {
            _exit(0);
        }
        at += (size_t)n;
    }
}

static void make_pair(bool tcp, int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const char *congestion = getenv("MUSTER_TCP_CONGESTION");
    socklen_t n = sizeof(a);

    if (!tcp) {
        check(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "a pair of sockets");
        return;
    }
    const int listener = socket(AF_INET, SOCK_STREAM, 0);

    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    for (int i = 0; i < 2 && congestion != NULL; i++) {
        setsockopt(i == 0 ? listener : fds[0], IPPROTO_TCP, TCP_CONGESTION, congestion,
                   (socklen_t)strlen(congestion));
    }
    check(bind(listener, (struct sockaddr *)&a, n) == 0 && listen(listener, 1) == 0 &&
              getsockname(listener, (struct sockaddr *)&a, &n) == 0 &&
              connect(fds[0], (struct sockaddr *)&a, n) == 0,
          "a connection");
    fds[1] = accept(listener, NULL, NULL);
    close(listener);
}

static double bare(bool tcp)
{
    int fds[2];
    double best = 0;

    make_pair(tcp, fds);
    const pid_t pid = fork();

    if (pid == 0) {
        close(fds[0]);
        for (;;) {
            move_all(fds[1], false);
            move_all(fds[1], true);
        }
    }
    close(fds[1]);
    for (int i = 0; i < 4; i++) {
        const double since = bench_now();

        move_all(fds[0], true);
        move_all(fds[0], false);
        best = MAX(best, 2 * (double)LARGE / (bench_now() - since) / 1e9);
    }
    close(fds[0]);
    waitpid(pid, NULL, 0);
    return best;
}

/* ---- calls ---- */

static int ask(struct helper *h, wid peer, void *bytes, size_t n, void *answer)
{
    const struct iovec part = {bytes, n};
    struct helper_call call = {.peer = peer,
                               .timeout_ms = WAIT_MS,
                               .parts = &part,
                               .parts_n = 1,
                               .answer = answer,
                               .room = n};
    struct helper_call *calls[] = {&call};
    const int rc = helper_ask(h, calls, 1);

    return rc != MU_OK ? rc : call.status;
}

static double large_calls(struct helper *h, const struct workers *w)
{
    double best = 0;

    for (int i = 0; i < 4; i++) {
        const double since = bench_now();

        check(ask(h, w->members[0].worker, large, LARGE, large) == MU_OK, "a large call");
        best = MAX(best, 2 * (double)LARGE / (bench_now() - since) / 1e9);
    }
    return best;
}

struct small {
    struct helper_call call;
    struct iovec part;
    uint64_t number, answer;
};

static struct helper *asks;
static _Atomic uint64_t done_n, open_n;
static _Atomic bool over;

static void again(struct helper_call *call)
{
    check(call->status == MU_OK, "a small call");
    atomic_fetch_add(&done_n, 1);
    if (atomic_load(&over)) {
        atomic_fetch_sub(&open_n, 1);
    } else {
        check(helper_call(asks, &call, 1) == MU_OK, "calling again");
    }
}

static double small_calls(struct helper *h, const struct workers *w, uint32_t peers_n)
{
    static struct small all[PEERS_MAX * FLIGHT];
    struct helper_call *calls[PEERS_MAX * FLIGHT];

    asks = h;
    done_n = 0;
    over = false;
    open_n = peers_n * FLIGHT;
    for (uint32_t i = 0; i < peers_n * FLIGHT; i++) {
        struct small *s = &all[i];

        s->part = (struct iovec){&s->number, sizeof(s->number)};
        s->call = (struct helper_call){.peer = w->members[i % peers_n].worker,
                                       .timeout_ms = WAIT_MS,
                                       .parts = &s->part,
                                       .parts_n = 1,
                                       .answer = &s->answer,
                                       .room = sizeof(s->answer),
                                       .done = again};
        calls[i] = &s->call;
    }
    const double since = bench_now();

    check(helper_call(h, calls, peers_n * FLIGHT) == MU_OK, "calling");
    usleep(SMALL_MS * 1000);
    const double rate = (double)atomic_load(&done_n) / (bench_now() - since);

    over = true;
    while (atomic_load(&open_n) > 0) {
        usleep(1000);
    }
    return rate;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void alone(struct helper *h, const struct workers *w, double *p50, double *p99)
{
    static double us[ALONE_N];
    uint64_t number = 1, answer;

    for (int i = 0; i < ALONE_N; i++) {
        const double since = bench_now();

        check(ask(h, w->members[0].worker, &number, sizeof(number), &answer) == MU_OK, "a call");
        us[i] = (bench_now() - since) * 1e6;
    }
    qsort(us, ALONE_N, sizeof(*us), by_value);
    *p50 = us[ALONE_N / 2];
    *p99 = us[ALONE_N * 99 / 100];
}

/* Workers and whom they serve, in processes of their own: this one forks, so it has no threads. */
static void measure(unsigned paths, uint32_t peers_n, int to)
{
    double got[FIGURES_N] = {0};
    struct workers w;
    struct tender *t = NULL;

    start_workers(&w, peers_n, paths);
    struct helper *h = open_worker(0, paths, &t);

    check(helper_peers(h, w.members, w.n) == MU_OK, "naming workers");
    if (paths == LINK_TCP) {
        got[HELPER_TCP] = large_calls(h, &w);
    } else {
        got[HELPER_UNIX] = large_calls(h, &w);
        got[CALLS_1] = small_calls(h, &w, 1);
        got[CALLS_2] = small_calls(h, &w, 2);
        got[CALLS_8] = small_calls(h, &w, 8);
        alone(h, &w, &got[P50], &got[P99]);
    }
    helper_close(h);
    tender_close(t);
    end_workers(&w);
    check(write(to, got, sizeof(got)) == sizeof(got), "telling figures");
    _exit(0);
}

static void measured(unsigned paths, uint32_t peers_n, double got[FIGURES_N])
{
    int ends[2];

    check(pipe(ends) == 0, "a pipe");
    if (fork() == 0) {
        measure(paths, peers_n, ends[1]);
    }
    close(ends[1]);
    check(read(ends[0], got, FIGURES_N * sizeof(*got)) == FIGURES_N * sizeof(*got), "a round");
    close(ends[0]);
    wait(NULL);
}

static void run_round(uint32_t round)
{
    double tcp[FIGURES_N], unix_[FIGURES_N], all[FIGURES_N];
    const double bare_tcp = bare(true), bare_unix = bare(false);

    measured(LINK_TCP, 1, tcp);
    measured(LINK_UNIX | LINK_TCP, PEERS_MAX, unix_);
    memcpy(all, unix_, sizeof(all));
    all[HELPER_TCP] = tcp[HELPER_TCP];
    all[BARE_TCP] = bare_tcp;
    all[BARE_UNIX] = bare_unix;
    all[RATIO_TCP] = all[HELPER_TCP] / bare_tcp;
    all[RATIO_UNIX] = all[HELPER_UNIX] / bare_unix;
    all[RATIO_LOCAL] = all[HELPER_UNIX] / bare_tcp;
    for (int i = 0; i < FIGURES_N; i++) {
        samples[i][round] = all[i];
    }
}

int main(int argc, char **argv)
{
    const uint32_t rounds = argc > 1 ? (uint32_t)MIN(MAX(atoi(argv[1]), 1), ROUNDS_MAX) : 5;

    large = malloc(LARGE);
    check(large != NULL, "memory");
    memset(large, 1, LARGE);
    for (uint32_t r = 0; r < rounds; r++) {
        run_round(r);
    }
    bench_begin("link");
    for (int i = 0; i < FIGURES_N; i++) {
        char name[128];

        qsort(samples[i], rounds, sizeof(double), by_value);
        bench_result(FIGURES[i].name, samples[i][rounds / 2], FIGURES[i].unit);
        snprintf(name, sizeof(name), "%s, least", FIGURES[i].name);
        bench_result(name, samples[i][0], FIGURES[i].unit);
        snprintf(name, sizeof(name), "%s, most", FIGURES[i].name);
        bench_result(name, samples[i][rounds - 1], FIGURES[i].unit);
    }
    bench_end();
    return 0;
}
