/* What commits cost when nothing fails: the elastic step and a bare all-reduce, in turn, in one
 * process.
 *
 * usage: pairs FOLDER WORLD GRADIENT_BYTES SLICES STEP_US BLOCK_STEPS PAIRS
 *
 * The workers of a job (muster run --nproc-per-node WORLD) do blocks of steps: one with mu_next()
 * and mu_put(), one with an all-reduce over links of its own between the same processes, and so on.
 * The gradients, the additions and the updates are the same in both; the additions of the bare loop
 * are libmuster's kernels. A slice takes so long, spinning, that a bare step takes STEP_US.
 *
 * Each writes to FOLDER/blocks.SLOT a line for each block: "elastic" or "bare", and the µs of each
 * step. */
#include "comm/comm.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define RANKS_MAX 16
#define PATH_BYTES 4096
#define TIMEOUT_MS 60000
#define TRIAL_STEPS 20
#define SAMPLES 1000
#define BATCH 64
#define SEED 7

struct bencher {
    mu_run *run;
    struct comm *bare;
    const char *folder;
    int rank, world;
    FILE *out;
    uint32_t slices_n, steps_n, pairs_n;
    size_t count;
    double step_us, spin_us;
    float *weights;
    float *sum, *slice; /* of the bare loop, memory that travels without a copy */
};

static double now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- what both loops do ---- */

static void gradient(const struct bencher *b, float *out)
{
    double until_us;

    for (size_t i = 0; i < b->count; i++) {
        out[i] = b->weights[i] * 0.5f + 1;
    }
    until_us = now_us() + b->spin_us;
    while (now_us() < until_us) {
    }
}

static void update(const struct bencher *b, const float *mean)
{
    for (size_t i = 0; i < b->count; i++) {
        b->weights[i] -= 0.125f * mean[i];
    }
}

/* ---- the bare loop ---- */

static int bare_reduce(struct bencher *b)
{
    const struct comm_call call = {.op = COMM_ALLREDUCE,
                                   .in = b->sum,
                                   .count = b->count,
                                   .dtype = DTYPE_F32,
                                   .reduce = REDUCE_MEAN,
                                   .divisor = b->slices_n,
                                   .flags = COMM_VIEW,
                                   .timeout_ms = TIMEOUT_MS};
    struct comm_result result;
    int rc = comm_run(b->bare, &call, &result);

    if (rc != MU_OK) {
        fprintf(stderr, "pairs: the bare all-reduce: %s\n", result.error);
        return rc;
    }
    update(b, result.view);
    comm_release(b->bare, result.view);
    return MU_OK;
}

static int bare_step(struct bencher *b)
{
    const uint32_t mine = b->slices_n / (uint32_t)b->world;
    const void *both[] = {b->sum, b->slice};

    gradient(b, b->sum);
    for (uint32_t i = 1; i < mine; i++) {
        gradient(b, b->slice);
        reduce_fold(NULL, DTYPE_F32, REDUCE_SUM, 1, b->sum, NULL, both, NULL, 2, b->count);
    }
    return bare_reduce(b);
}

/* ---- the elastic loop ---- */

static int elastic_step(struct bencher *b)
{
    mu_work work;
    int rc;

    while ((rc = mu_next(b->run, &work)) == MU_OK && work.kind == MU_SLICE) {
        gradient(b, work.out);
        rc = mu_put(b->run, work.out, NULL);
        if (rc != MU_OK) {
            break;
        }
    }
    if (rc != MU_OK) {
        fprintf(stderr, "pairs: the elastic step: %s\n", mu_error());
        return rc;
    }
    update(b, work.gradient);
    return MU_OK;
}

/* ---- blocks ---- */

typedef int one_step(struct bencher *b);

static int block(struct bencher *b, const char *name, one_step *step, uint32_t steps_n)
{
    double *us = calloc(steps_n, sizeof(*us)), from_us = now_us();
    int rc = us != NULL ? MU_OK : MU_ENOMEM;

    for (uint32_t i = 0; rc == MU_OK && i < steps_n; i++) {
        double until_us;

        rc = step(b);
        until_us = now_us();
        us[i] = until_us - from_us;
        from_us = until_us;
    }
    if (rc == MU_OK && name != NULL) {
        fprintf(b->out, "%s", name);
        for (uint32_t i = 0; i < steps_n; i++) {
            fprintf(b->out, " %.1f", us[i]);
        }
        fprintf(b->out, "\n");
    }
    free(us);
    return rc;
}

/* How long to spin, from how long a step takes without: the same for all ranks. */
static int calibrate(struct bencher *b)
{
    double from_us, spare_us, spins[2] = {0};
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = &spins[0],
                             .out = &spins[1],
                             .count = 1,
                             .dtype = DTYPE_F64,
                             .reduce = REDUCE_MEAN,
                             .timeout_ms = TIMEOUT_MS};
    int rc = block(b, NULL, bare_step, TRIAL_STEPS);

    from_us = now_us();
    if (rc == MU_OK) {
        rc = block(b, NULL, bare_step, TRIAL_STEPS);
    }
    spare_us = b->step_us - (now_us() - from_us) / TRIAL_STEPS;
    spins[0] = MAX(0, spare_us) * b->world / b->slices_n;
    if (rc == MU_OK) {
        rc = comm_run(b->bare, &call, NULL);
    }
    b->spin_us = spins[1];
    return rc;
}

static int measure(struct bencher *b)
{
    int rc = calibrate(b);

    if (rc == MU_OK) { /* Once each without writing it down. */
        rc = block(b, NULL, elastic_step, b->steps_n);
    }
    for (uint32_t i = 0; rc == MU_OK && i < b->pairs_n; i++) {
        bool first = i % 2 == 0; /* who comes first changes, too */

        rc = block(b, first ? "bare" : "elastic", first ? bare_step : elastic_step, b->steps_n);
        if (rc == MU_OK) {
            rc = block(b, first ? "elastic" : "bare", first ? elastic_step : bare_step, b->steps_n);
        }
    }
    return rc;
}

/* ---- the links of the bare loop ----
 *
 * Its ranks are slots, and they find each other by files: libmuster is to know of training alone.
 */

static int tell_address(const struct bencher *b)
{
    char path[PATH_BYTES], part[PATH_BYTES + 8];
    FILE *file;

    snprintf(path, sizeof(path), "%s/address.%d", b->folder, b->rank);
    snprintf(part, sizeof(part), "%s.part", path);
    file = fopen(part, "w");
    if (file == NULL) {
        return MU_EIO;
    }
    fprintf(file, "%s", comm_address(b->bare));
    return fclose(file) == 0 && rename(part, path) == 0 ? MU_OK : MU_EIO;
}

static int find_address(const struct bencher *b, int rank, char addr[ADDR_MAX_LEN])
{
    double until_us = now_us() + TIMEOUT_MS * 1e3;
    char path[PATH_BYTES];
    size_t n = 0;

    snprintf(path, sizeof(path), "%s/address.%d", b->folder, rank);
    while (n == 0 && now_us() < until_us) {
        FILE *file = fopen(path, "r");

        if (file != NULL) {
            n = fread(addr, 1, ADDR_MAX_LEN - 1, file);
            fclose(file);
        }
        usleep(1000);
    }
    return n > 0 ? MU_OK : MU_ETIMEDOUT;
}

static int move(struct bencher *b)
{
    struct member members[RANKS_MAX] = {0};
    struct generation g = {.job = "bare",
                           .run = 1,
                           .number = 1,
                           .kind = GENERATION_FRESH,
                           .members_n = (uint32_t)b->world,
                           .members = members};
    struct membership *m;
    int rc = MU_OK;

    for (int r = 0; rc == MU_OK && r < b->world; r++) {
        members[r] = (struct member){.worker = wid_make((uint32_t)r + 1, 0, 1), .host = 1};
        rc = find_address(b, r, members[r].addr);
    }
    rc = rc == MU_OK ? membership_open(&g, &m) : rc;
    if (rc == MU_OK) {
        rc = comm_move(b->bare, m, 0, TIMEOUT_MS, NULL);
        membership_close(m);
    }
    return rc;
}

static int open_bare(struct bencher *b)
{
    const char *transport = getenv("MUSTER_TRANSPORT");
    bool tcp = transport != NULL && strcmp(transport, "tcp") == 0;
    struct comm_config config = {.job = "bare",
                                 .run = 1,
                                 .self = wid_make((uint32_t)b->rank + 1, 0, 1),
                                 .host = 1,
                                 .paths = tcp ? COMM_TCP : COMM_SHM};
    char error[COMM_ERROR_MAX];
    int rc = comm_open(&config, &b->bare, error);

    if (rc != MU_OK) {
        fprintf(stderr, "pairs: %s\n", error);
        return rc;
    }
    rc = tell_address(b);
    if (rc == MU_OK) {
        rc = move(b);
    }
    b->sum = comm_alloc(b->bare, b->count * sizeof(float));
    b->slice = comm_alloc(b->bare, b->count * sizeof(float));
    return rc == MU_OK && (b->sum == NULL || b->slice == NULL) ? MU_ENOMEM : rc;
}

/* ---- all of it ---- */

static int prepare(struct bencher *b)
{
    int rc = open_bare(b);

    b->weights = calloc(b->count, sizeof(float));
    if (rc == MU_OK && b->weights == NULL) {
        rc = MU_ENOMEM;
    }
    if (rc == MU_OK) {
        rc = mu_state(b->run, "weights", b->weights, b->count * sizeof(float));
    }
    if (rc == MU_OK) {
        rc = mu_gradient(b->run, b->count, MU_F32);
    }
    return rc == MU_OK ? mu_data(b->run, SAMPLES, BATCH, 0, SEED) : rc;
}

static bool read_arguments(struct bencher *b, int argc, char **argv)
{
    const char *slot = getenv("MUSTER_SLOT");
    char path[PATH_BYTES];

    if (argc != 8 || slot == NULL) {
        return false;
    }
    b->folder = argv[1];
    b->world = atoi(argv[2]);
    b->rank = atoi(slot);
    b->count = strtoull(argv[3], NULL, 10) / sizeof(float);
    b->slices_n = (uint32_t)strtoul(argv[4], NULL, 10);
    b->step_us = strtod(argv[5], NULL);
    b->steps_n = (uint32_t)strtoul(argv[6], NULL, 10);
    b->pairs_n = (uint32_t)strtoul(argv[7], NULL, 10);
    snprintf(path, sizeof(path), "%s/blocks.%d", b->folder, b->rank);
    b->out = fopen(path, "w");
    return b->out != NULL && b->world > 0 && b->world <= RANKS_MAX &&
           b->slices_n % (uint32_t)b->world == 0;
}

/* All steps are done: libmuster must agree. */
static int finish(struct bencher *b)
{
    mu_work work;

    return mu_next(b->run, &work) == MU_EDONE ? MU_OK : MU_EPROTO;
}

int main(int argc, char **argv)
{
    struct bencher b = {0};
    mu_config config;
    int rc;

    if (!read_arguments(&b, argc, argv)) {
        fprintf(stderr, "usage: muster run --nproc-per-node WORLD … pairs FOLDER WORLD "
                        "GRADIENT_BYTES SLICES STEP_US BLOCK_STEPS PAIRS\n");
        return 2;
    }
    mu_config_init(&config);
    config.slices = b.slices_n;
    config.steps = (uint64_t)b.steps_n * (b.pairs_n + 1);
    rc = mu_join(&config, &b.run);
    if (rc == MU_OK) {
        rc = prepare(&b);
    }
    if (rc == MU_OK) {
        rc = measure(&b);
    }
    if (rc == MU_OK) {
        rc = finish(&b);
    }
    if (rc != MU_OK) {
        fprintf(stderr, "pairs: %s; %s\n", mu_strerror(rc), mu_error());
        return 1;
    }
    comm_close(b.bare);
    mu_leave(b.run);
    return fclose(b.out) == 0 ? 0 : 1;
}
