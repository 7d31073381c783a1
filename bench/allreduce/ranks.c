/* All-reduces over the data plane: each rank a worker of one generation, made by hand. */
#include "base/random.h"
#include "bench/allreduce/allreduce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 60000
#define CHECK_BYTES (64u << 10)
#define PAGE_BYTES 4096u

/* One rank, for one size. */
struct bencher {
    struct bench_group *g;
    uint32_t rank;
    struct comm *comm;
    struct comm_call call;
    struct comm_result result;
    void *in, *out; /* out: NULL if the result is a view */
};

/* ---- the group ---- */

static int open_comm(struct bench_group *g, uint32_t rank, struct comm **comm_out)
{
    struct comm_config config = {.job = "bench",
                                 .run = 1,
                                 .self = wid_make(rank + 1, 0, 1),
                                 .host = 1,
                                 .paths = g->transport == BENCH_SHM ? COMM_SHM : COMM_TCP};
    char error[COMM_ERROR_MAX] = "";
    int rc;

    memcpy(config.run_key, g->key, sizeof(config.run_key));
    rc = comm_open(&config, comm_out, error);
    return rc == MU_OK ? MU_OK : bench_fail(g, rank, rc, "%s", error);
}

/* All have told their addresses when this returns. */
static int move(struct bench_group *g, uint32_t rank, struct comm *comm)
{
    struct member members[BENCH_RANKS_MAX] = {0};
    struct generation generation = {.job = "bench",
                                    .run = 1,
                                    .number = 1,
                                    .kind = GENERATION_FRESH,
                                    .members_n = g->ranks_n,
                                    .members = members};
    struct membership *m;
    int rc;

    snprintf(g->shared->addresses[rank], ADDR_MAX_LEN, "%s", comm_address(comm));
    bench_meet(g);
    memcpy(generation.key, g->key, sizeof(generation.key));
    for (uint32_t r = 0; r < g->ranks_n; r++) {
        members[r] = (struct member){.worker = wid_make(r + 1, 0, 1), .host = 1};
        strcpy(members[r].addr, g->shared->addresses[r]);
    }
    rc = membership_open(&generation, &m);
    if (rc == MU_OK) {
        rc = comm_move(comm, m, 0, TIMEOUT_MS, NULL);
        membership_close(m);
    }
    return rc == MU_OK
               ? MU_OK
               : bench_fail(g, rank, rc, "could not link to the others: %s", mu_strerror(rc));
}

/* ---- numbers, and what they add up to ---- */

/* Floats of one binade, either sign, so that sums are rounded; whole numbers of any size. */
static void fill(enum dtype dtype, uint32_t rank, uint64_t at, void *to, size_t bytes)
{
    static const struct {
        uint64_t random, fixed;
    } FORMS[DTYPE_N] = {
        [DTYPE_F32] = {UINT64_C(0x807fffff807fffff), UINT64_C(0x3f0000003f000000)},
        [DTYPE_F64] = {UINT64_C(0x800fffffffffffff), UINT64_C(0x3fe0000000000000)},
        [DTYPE_BF16] = {UINT64_C(0x807f807f807f807f), UINT64_C(0x3f003f003f003f00)},
        [DTYPE_F16] = {UINT64_C(0x83ff83ff83ff83ff), UINT64_C(0x3800380038003800)},
        [DTYPE_I32] = {UINT64_MAX, 0},
        [DTYPE_I64] = {UINT64_MAX, 0},
        [DTYPE_U8] = {UINT64_MAX, 0},
    };

    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t h = (at + i + 1) * UINT64_C(0x9e3779b97f4a7c15) + rank;

        h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
        h = ((h ^ h >> 32) & FORMS[dtype].random) | FORMS[dtype].fixed;
        memcpy((uint8_t *)to + i, &h, MIN(8, bytes - i));
    }
}

/* By one process, from the numbers themselves, with kernels that need nothing of the machine. */
static int check(struct bencher *b, const uint8_t *result)
{
    const struct reduce_kernels *plain = NULL;
    const enum dtype dtype = b->call.dtype;
    const uint64_t bytes = b->call.count * dtype_size(dtype);
    const uint32_t n = b->g->ranks_n;
    uint8_t *work = malloc((size_t)(n + 1) * CHECK_BYTES);
    const void *in[BENCH_RANKS_MAX];
    int rc = MU_OK;

    for (unsigned i = 0; reduce_kernels(i) != NULL; i++) {
        plain = reduce_kernels(i);
    }
    if (work == NULL) {
        return bench_fail(b->g, b->rank, MU_ENOMEM, "no memory to check the result");
    }
    for (uint64_t at = 0; rc == MU_OK && at < bytes; at += CHECK_BYTES) {
        size_t part = (size_t)MIN(CHECK_BYTES, bytes - at);

        for (uint32_t r = 0; r < n; r++) {
            in[r] = work + (size_t)(r + 1) * CHECK_BYTES;
            fill(dtype, r, at, work + (size_t)(r + 1) * CHECK_BYTES, part);
        }
        reduce_fold(plain, dtype, REDUCE_SUM, 1, work, NULL, in, NULL, n, part / dtype_size(dtype));
        if (memcmp(work, result + at, part) != 0) {
            rc = bench_fail(b->g, b->rank, MU_EIO,
                            "the result of %llu bytes is wrong after byte %llu: this is a fault of "
                            "muster's, please report it",
                            (unsigned long long)bytes, (unsigned long long)at);
        }
    }
    free(work);
    return rc;
}

/* ---- one size ---- */

static int run(struct bencher *b)
{
    int rc = comm_run(b->comm, &b->call, &b->result);

    return rc == MU_OK ? MU_OK
                       : bench_fail(b->g, b->rank, rc, "the all-reduce failed: %s",
                                    b->result.error[0] != '\0' ? b->result.error : mu_strerror(rc));
}

static int round_of(void *arg)
{
    struct bencher *b = arg;
    int rc = run(b);

    if (rc == MU_OK && b->out == NULL) {
        comm_release(b->comm, b->result.view);
    }
    return rc;
}

static int first_round(struct bencher *b)
{
    int rc = run(b);

    if (rc == MU_OK) {
        rc = check(b, b->out != NULL ? b->out : b->result.view);
    }
    if (rc == MU_OK && b->out == NULL) {
        comm_release(b->comm, b->result.view);
    }
    return rc;
}

static void *plain(size_t bytes)
{
    size_t room = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    void *memory = aligned_alloc(PAGE_BYTES, room);

    if (memory != NULL) {
        memset(memory, 0, room);
    }
    return memory;
}

static int measure_size(struct bencher *b, uint32_t size)
{
    const struct bench_options *o = b->g->options;
    const size_t bytes = (size_t)o->bytes[size];
    int rc;

    b->in = o->plain_buffers ? plain(bytes) : comm_alloc(b->comm, bytes);
    b->out = o->plain_buffers ? plain(bytes) : NULL;
    if (b->in == NULL || (o->plain_buffers && b->out == NULL)) {
        rc = bench_fail(b->g, b->rank, MU_ENOMEM, "no memory for buffers of %zu bytes", bytes);
        goto out;
    }
    b->call = (struct comm_call){.op = COMM_ALLREDUCE,
                                 .in = b->in,
                                 .out = b->out,
                                 .count = bytes / dtype_size(o->dtype),
                                 .dtype = (enum dtype)o->dtype,
                                 .reduce = REDUCE_SUM,
                                 .flags = (o->agree ? COMM_AGREE : 0) |
                                          (o->plain_buffers ? 0 : COMM_VIEW),
                                 .timeout_ms = TIMEOUT_MS};
    fill(b->call.dtype, b->rank, 0, b->in, bytes);
    rc = first_round(b);
    if (rc == MU_OK) {
        rc = bench_measure(b->g, b->rank, size, round_of, b);
    }
out:
    if (o->plain_buffers) {
        free(b->in);
        free(b->out);
    } else {
        comm_free(b->comm, b->in);
    }
    return rc;
}

static int body(struct bench_group *g, uint32_t rank)
{
    struct bencher b = {.g = g, .rank = rank};
    int rc = open_comm(g, rank, &b.comm);

    if (rc != MU_OK) {
        return rc;
    }
    rc = move(g, rank, b.comm);
    for (uint32_t i = 0; rc == MU_OK && i < g->options->bytes_n; i++) {
        rc = measure_size(&b, i);
    }
    if (rc == MU_OK) {
        bench_meet(g); /* Nobody is gone while others are in their last call. */
        comm_close(b.comm);
    }
    return rc; /* After a failure this process ends at once, and all it had with it. */
}

int bench_ranks(struct bench_group *g, char *error)
{
    random_bytes(g->key, sizeof(g->key));
    return bench_group_run(g, body, error);
}
