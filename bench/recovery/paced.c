/* A trainer of a given size and pace, which writes down what happens to it and when.
 *
 * usage: paced FOLDER NODE GRADIENT_BYTES STATE_BYTES SLICES SLICE_US
 *
 * A slice takes SLICE_US, asleep: so many trainers on few cores do not disturb each other. It never
 * ends by itself. FOLDER/NODE.PID.log gets a line for each thing, times in ns of CLOCK_MONOTONIC:
 *
 *     start NS
 *     slice NS ASKED_NS UNTIL_NS GENERATION STEP RANK WORLD SLICE
 *     step  NS ASKED_NS UNTIL_NS GENERATION STEP RANK WORLD AGAIN PAUSE_US PAUSES_US GOT_BYTES
 *
 * mu_next() was called at ASKED_NS and gave this at NS; it was done with at UNTIL_NS. Of a step, NS
 * is when this worker learned that it is committed; the numbers after WORLD are mu_training's. */
#include <muster.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES 1000 /* 16 steps make an epoch, the last a smaller one */
#define BATCH 64
#define SEED 7
#define LINE_MAX_BYTES 256

static int log_fd;
static size_t gradient_n, state_bytes;
static uint32_t slices_n;
static uint64_t slice_ns;
static float *weights;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void put(const char *line, int n)
{
    if (write(log_fd, line, (size_t)n) != n) {
        perror("paced: its log");
        exit(1);
    }
}

static int fail(const char *what, int rc)
{
    fprintf(stderr, "paced: %s: %s\n", what, rc < 0 ? mu_error() : "no memory");
    return 1;
}

/* A gradient that depends on the weights and the samples, in the memory that travels. */
static void compute(const mu_work *work, uint64_t from_ns)
{
    struct timespec until = {.tv_sec = (time_t)((from_ns + slice_ns) / 1000000000u),
                             .tv_nsec = (long)((from_ns + slice_ns) % 1000000000u)};
    float *out = work->out;
    float shift = (float)(work->seed % 1024) / 1024;

    for (size_t i = 0; i < gradient_n; i++) {
        out[i] = weights[i] * 0.5f + shift;
    }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0) {
    }
}

static void apply(const mu_work *work)
{
    const float *mean = work->gradient;

    for (size_t i = 0; i < gradient_n; i++) {
        weights[i] -= 0.125f * mean[i];
    }
}

static void note(mu_run *run, const mu_work *work, uint64_t asked_ns, uint64_t ns)
{
    char line[LINE_MAX_BYTES];
    mu_training t = {0};
    int n = snprintf(line, sizeof(line),
                     "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d %d",
                     work->kind == MU_SLICE ? "slice" : "step", ns, asked_ns, now_ns(),
                     work->generation, work->step, work->rank, work->world);

    if (work->kind == MU_SLICE) {
        n += snprintf(line + n, sizeof(line) - (size_t)n, " %" PRIu32 "\n", work->slice);
    } else {
        (void)mu_training_get(run, &t);
        n += snprintf(line + n, sizeof(line) - (size_t)n,
                      " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", t.slices_again,
                      t.pause_us, t.pause_all_us, t.state_got);
    }
    put(line, n);
}

static int train(mu_run *run)
{
    mu_work work;
    int rc;

    for (;;) {
        uint64_t asked_ns = now_ns(), ns;

        rc = mu_next(run, &work);
        if (rc != MU_OK) {
            return rc;
        }
        ns = now_ns();
        if (work.kind == MU_SLICE) {
            compute(&work, ns);
        } else {
            apply(&work);
        }
        note(run, &work, asked_ns, ns);
        if (work.kind == MU_SLICE && (rc = mu_put(run, work.out, NULL)) != MU_OK) {
            return rc;
        }
    }
}

/* Its state is touched: memory that a system has yet to find would be part of the figures. */
static int prepare(mu_run *run)
{
    int rc;

    weights = malloc(state_bytes);
    if (weights == NULL) {
        return MU_ENOMEM;
    }
    memset(weights, 0, state_bytes);
    rc = mu_state(run, "weights", weights, state_bytes);
    if (rc == MU_OK) {
        rc = mu_gradient(run, gradient_n, MU_F32);
    }
    if (rc == MU_OK) {
        rc = mu_data(run, SAMPLES, BATCH, 0, SEED);
    }
    return rc;
}

static int read_arguments(int argc, char **argv)
{
    char path[4096], line[LINE_MAX_BYTES];

    if (argc != 7) {
        fprintf(stderr, "usage: paced FOLDER NODE GRADIENT_BYTES STATE_BYTES SLICES SLICE_US\n");
        return 2;
    }
    gradient_n = strtoull(argv[3], NULL, 10) / sizeof(float);
    state_bytes = strtoull(argv[4], NULL, 10);
    slices_n = (uint32_t)strtoul(argv[5], NULL, 10);
    slice_ns = strtoull(argv[6], NULL, 10) * 1000;
    if (state_bytes < gradient_n * sizeof(float)) {
        fprintf(stderr, "paced: the state is at least as large as the gradient\n");
        return 2;
    }
    snprintf(path, sizeof(path), "%s/%s.%d.log", argv[1], argv[2], (int)getpid());
    log_fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log_fd < 0) {
        perror(path);
        return 2;
    }
    put(line, snprintf(line, sizeof(line), "start %" PRIu64 "\n", now_ns()));
    return 0;
}

int main(int argc, char **argv)
{
    mu_config config;
    mu_run *run;
    int rc = read_arguments(argc, argv);

    if (rc != 0) {
        return rc;
    }
    mu_config_init(&config);
    config.slices = slices_n;
    rc = mu_join(&config, &run);
    if (rc != MU_OK) {
        return rc == MU_EDONE ? 0 : fail("joining", rc);
    }
    rc = prepare(run);
    if (rc == MU_OK) {
        rc = train(run);
    }
    if (rc != MU_EDONE && rc != MU_ELEFT) {
        return fail("training", rc);
    }
    mu_leave(run);
    free(weights);
    return 0;
}
