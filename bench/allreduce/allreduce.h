/* `muster bench`, which is a program of its own, muster-bench: what is measured, and how.
 *
 *   main.c    runs it all; the table, the JSON
 *   flags.c   the options
 *   group.c   forks the ranks, and times what they do together
 *   ranks.c   all-reduces over src/comm
 *   limits.c  what the machine itself can do: the same additions and the same traffic, alone
 *
 * Ranks are processes; what they tell each other about the measurement goes through memory that
 * they share with the command. */
#ifndef BENCH_ALLREDUCE_ALLREDUCE_H
#define BENCH_ALLREDUCE_ALLREDUCE_H

#include "bench/bench.h"
#include "cli/opts.h"
#include "comm/comm.h"

#include <pthread.h>

#define BENCH_RANKS_MAX 64
#define BENCH_LIST_MAX 16
#define BENCH_REPEATS_MAX 64
#define BENCH_BYTES_MAX (UINT64_C(8) << 30)
#define BENCH_ERROR_MAX 512

enum bench_transport { BENCH_SHM, BENCH_TCP, BENCH_TRANSPORT_N };

/* What is wanted. */
struct bench_options {
    uint32_t ranks[BENCH_LIST_MAX], ranks_n;
    uint64_t bytes[BENCH_LIST_MAX];
    uint32_t bytes_n;
    uint8_t transports[BENCH_LIST_MAX];
    uint32_t transports_n;
    uint8_t dtype;
    bool plain_buffers, agree, limits, json;
    uint32_t seconds_ms; /* of one repeat, about */
    uint32_t rounds;     /* of one repeat; 0: as many as seconds_ms wants */
    uint32_t repeats;
};

/* Fills a struct bench_options. */
extern const struct opts bench_opts;
extern const char *const bench_transports[BENCH_TRANSPORT_N]; /* names */

/* What was found for one size. */
struct bench_cell {
    uint64_t bytes;
    uint64_t rounds;
    double us[BENCH_REPEATS_MAX]; /* per round: of the slowest rank, by repeat */
};

/* Some ranks, and what they share. */
struct bench_group {
    const struct bench_options *options;
    enum bench_transport transport;
    uint32_t ranks_n;
    uint8_t key[KEY_BYTES];
    struct bench_shared *shared;
    uint8_t *memory; /* MAP_SHARED, of the limits */
    int fds[BENCH_RANKS_MAX][2];
};

struct bench_shared {
    pthread_barrier_t barrier;
    double took_s[BENCH_RANKS_MAX];
    char addresses[BENCH_RANKS_MAX][ADDR_MAX_LEN];
    struct bench_cell cells[BENCH_LIST_MAX]; /* by size */
    char errors[BENCH_RANKS_MAX][BENCH_ERROR_MAX];
};

/* options, transport and ranks_n are set. MU_ENOMEM. */
int bench_group_open(struct bench_group *g);
void bench_group_close(struct bench_group *g);

/* What a rank does: MU_OK, or a status, with a sentence in shared->errors[rank]. */
typedef int bench_body(struct bench_group *g, uint32_t rank);

/* Runs it in so many processes, and waits for them. When one fails the others are killed. error:
 * BENCH_ERROR_MAX; what happened. */
int bench_group_run(struct bench_group *g, bench_body *body, char *error);

/* Not part of what is timed. */
void bench_meet(struct bench_group *g);

/* Sets the rank's error; gives rc. */
int bench_fail(struct bench_group *g, uint32_t rank, int rc, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Every rank calls it with the same: finds out how many rounds make a repeat, then times the
 * repeats into shared->cells[size]. Ranks meet between repeats, not between rounds. */
typedef int bench_round(void *arg);
int bench_measure(struct bench_group *g, uint32_t rank, uint32_t size, bench_round *round,
                  void *arg);

/* All sizes of the options, for this transport and number of ranks, into shared->cells. */
int bench_ranks(struct bench_group *g, char *error);
int bench_limit(struct bench_group *g, char *error);

#endif
