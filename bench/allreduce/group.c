/* Forks the ranks of a measurement, and times what they do. */
#include "bench/allreduce/allreduce.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_ROUNDS 3
#define ROUNDS_MAX (UINT64_C(1) << 30)

/* ---- in a rank ---- */

void bench_meet(struct bench_group *g)
{
    pthread_barrier_wait(&g->shared->barrier);
}

int bench_fail(struct bench_group *g, uint32_t rank, int rc, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(g->shared->errors[rank], BENCH_ERROR_MAX, fmt, ap);
    va_end(ap);
    return rc;
}

/* Some rounds; *slowest_out: the seconds of the slowest rank, the same for all. */
static int repeat(struct bench_group *g, uint32_t rank, uint64_t rounds, bench_round *round,
                  void *arg, double *slowest_out)
{
    double start_s, slowest_s = 0;
    int rc = MU_OK;

    bench_meet(g);
    start_s = bench_now();
    for (uint64_t i = 0; rc == MU_OK && i < rounds; i++) {
        rc = round(arg);
    }
    if (rc != MU_OK) {
        return rc;
    }
    g->shared->took_s[rank] = bench_now() - start_s;
    bench_meet(g);
    for (uint32_t r = 0; r < g->ranks_n; r++) {
        slowest_s = MAX(slowest_s, g->shared->took_s[r]);
    }
    bench_meet(g); /* All have read it. */
    *slowest_out = slowest_s;
    return MU_OK;
}

/* As many as take the wanted time: by doubling, until it is near enough to tell. */
static int choose_rounds(struct bench_group *g, uint32_t rank, bench_round *round, void *arg,
                         uint64_t *rounds_out)
{
    double wanted_s = g->options->seconds_ms / 1e3, took_s;
    uint64_t rounds = 1;
    int rc;

    if (g->options->rounds > 0) {
        *rounds_out = g->options->rounds;
        return MU_OK;
    }
    while ((rc = repeat(g, rank, rounds, round, arg, &took_s)) == MU_OK && took_s < wanted_s / 4 &&
           rounds < ROUNDS_MAX) {
        rounds *= 2;
    }
    if (rc == MU_OK) {
        *rounds_out = (uint64_t)((double)rounds * wanted_s / MAX(took_s, 1e-9)) + 1;
    }
    return rc;
}

int bench_measure(struct bench_group *g, uint32_t rank, uint32_t size, bench_round *round,
                  void *arg)
{
    struct bench_cell *cell = &g->shared->cells[size];
    uint64_t rounds;
    double took_s;
    int rc = repeat(g, rank, WARM_ROUNDS, round, arg, &took_s);

    if (rc == MU_OK) {
        rc = choose_rounds(g, rank, round, arg, &rounds);
    }
    for (uint32_t i = 0; rc == MU_OK && i < g->options->repeats; i++) {
        rc = repeat(g, rank, rounds, round, arg, &took_s);
        if (rc == MU_OK && rank == 0) {
            cell->us[i] = took_s / (double)rounds * 1e6;
            cell->rounds = rounds;
            cell->bytes = g->options->bytes[size];
        }
    }
    return rc;
}

/* ---- in the command ---- */

int bench_group_open(struct bench_group *g)
{
    pthread_barrierattr_t attr;

    g->shared =
        mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (g->shared == MAP_FAILED) {
        return MU_ENOMEM;
    }
    mu_assert(pthread_barrierattr_init(&attr) == 0);
    mu_assert(pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0);
    mu_assert(pthread_barrier_init(&g->shared->barrier, &attr, g->ranks_n) == 0);
    pthread_barrierattr_destroy(&attr);
    return MU_OK;
}

void bench_group_close(struct bench_group *g)
{
    munmap(g->shared, sizeof(*g->shared));
}

static _Noreturn void live(struct bench_group *g, uint32_t rank, pid_t parent, bench_body *body)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(1);
    }
    _exit(body(g, rank) == MU_OK ? 0 : 1);
}

static void kill_all(const pid_t *pids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (pids[i] > 0) {
            kill(pids[i], SIGKILL);
        }
    }
}

static void say_failed(const struct bench_group *g, uint32_t rank, int status, char *error)
{
    const char *why = g->shared->errors[rank];

    if (WIFSIGNALED(status)) {
        snprintf(error, BENCH_ERROR_MAX, "rank %u was killed by signal %d (%s)", rank,
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    } else {
        snprintf(error, BENCH_ERROR_MAX, "rank %u: %.400s", rank, why[0] != '\0' ? why : "ended");
    }
}

/* The first that fails is the one to be told of: the others fail because it did. */
static int wait_all(const struct bench_group *g, pid_t *pids, uint32_t n, char *error)
{
    int rc = MU_OK;

    for (uint32_t left = n; left > 0;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        if (pid < 0 && errno == EINTR) {
            continue;
        }
        mu_assert(pid > 0);
        for (uint32_t i = 0; i < n; i++) {
            if (pids[i] == pid) {
                pids[i] = 0;
                left--;
                if (status != 0 && rc == MU_OK) {
                    rc = MU_EIO;
                    say_failed(g, i, status, error);
                    kill_all(pids, n);
                }
            }
        }
    }
    return rc;
}

int bench_group_run(struct bench_group *g, bench_body *body, char *error)
{
    pid_t pids[BENCH_RANKS_MAX], self = getpid();
    uint32_t n = 0;
    int rc = MU_OK;

    fflush(stdout);
    for (; n < g->ranks_n; n++) {
        pids[n] = fork();
        if (pids[n] == 0) {
            live(g, n, self, body);
        }
        if (pids[n] < 0) {
            snprintf(error, BENCH_ERROR_MAX, "can't start rank %u: %s", n, strerror(errno));
            kill_all(pids, n);
            rc = MU_EIO;
            break;
        }
    }
    if (rc != MU_OK) {
        char others[BENCH_ERROR_MAX];

        wait_all(g, pids, n, others);
        return rc;
    }
    return wait_all(g, pids, n, error);
}
