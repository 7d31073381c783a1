/* Trains nothing: a state of any size, gradients as fast as memory can be copied, and time that it
 * sleeps. For experiments with muster itself; the digest depends on every gradient, so one that is
 * lost, counted twice or added in another order shows.
 *
 *     cc -O2 -o fake $(find examples/fake examples/common -name '*.c') \
 *         $(pkg-config --cflags --libs muster libcrypto)
 *
 *     ./fake --steps 20                                            alone: a job of one
 *     muster run --nnodes 1:4 ./fake --bytes 10M --sleep-ms 5      on several nodes
 *     muster run --standalone --nproc-per-node 64 ./fake --slices 64 --bytes 64K
 *
 * The last line, on stdout, of every worker that is there at the end:
 *
 *     digest=<SHA-256 of the state> steps=<n> samples=<n> */
#include "../common/args.h"
#include "../common/ending.h"
#include "../common/progress.h"

#include <muster.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOISE_N 65521 /* numbers: a prime, so that no two elements always go together */

struct trainer {
    uint64_t bytes, slices, global_batch, samples, epochs, steps, seed, sleep_ms;
    uint64_t digest_every, check_every;
    const char *report;

    uint64_t steps_n; /* of the run; 0: without end */
    size_t count;     /* elements of the state, and of a gradient */
    uint32_t *state;
    float *noise; /* NOISE_N numbers */
    mu_run *run;
    struct progress progress;
};

static const char *const metrics[] = {"loss"};

static void parse(struct trainer *t, int argc, char **argv)
{
    const struct arg args[] = {
        {"bytes", ARG_COUNT, &t->bytes, 4, 1e12, "of the state, and of a gradient: 10M, 1G"},
        {"sleep-ms", ARG_COUNT, &t->sleep_ms, 0, 1 << 20, "that each slice takes"},
        {"slices", ARG_COUNT, &t->slices, 1, 1024, "parts of each step's batch: a power of two"},
        {"steps", ARG_COUNT, &t->steps, 0, 1e15, "end after so many; 0: when the epochs do"},
        {"samples", ARG_COUNT, &t->samples, 1, 1e15, "that there are"},
        {"global-batch", ARG_COUNT, &t->global_batch, 1, 1 << 20, "samples of a step"},
        {"epochs", ARG_COUNT, &t->epochs, 0, 1 << 20, "times through the samples; 0: without end"},
        {"seed", ARG_COUNT, &t->seed, 0, 1e15, "of the state and the order of samples"},
        {"digest-every", ARG_COUNT, &t->digest_every, 0, 1 << 30,
         "steps between comparisons of all states; 0: never"},
        {"check-every", ARG_COUNT, &t->check_every, 0, 1 << 30,
         "steps between slices that two workers compute"},
        {"report", ARG_TEXT, &t->report, 0, 0, "JSON about this worker: a file or a folder"},
    };

    args_parse("fake", "a trainer without a model, elastic", args, sizeof(args) / sizeof(args[0]),
               argc, argv);
}

/* ---- what stands for a model ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int prepare(struct trainer *t)
{
    t->count = (size_t)(t->bytes / sizeof(uint32_t));
    t->state = malloc(t->count * sizeof(uint32_t));
    t->noise = malloc(NOISE_N * sizeof(float));
    if (t->state == NULL || t->noise == NULL) {
        fprintf(stderr, "fake: no memory for %" PRIu64 " bytes\n", t->bytes);
        return -1;
    }
    for (size_t i = 0; i < t->count; i++) {
        t->state[i] = (uint32_t)(t->seed + i) * 0x9e3779b1u;
    }
    /* Between -1 and 1, with all their bits: the order in which they are added can be seen. */
    for (size_t i = 0; i < NOISE_N; i++) {
        t->noise[i] = (float)(mix(t->seed + i + 1) >> 40) / (float)(1 << 23) - 1.0f;
    }
    t->steps_n = ending_steps(t->steps, t->samples, t->global_batch, t->epochs);
    return 0;
}

/* Of all that names a slice: the noise, from a place that depends on it. */
static void gradient(const struct trainer *t, const mu_work *work, float *g)
{
    uint64_t name = mix(mix(work->step) + work->slice) ^ work->seed;
    size_t from, n;

    for (size_t i = 0; i < work->samples_n; i++) {
        name = mix(name + work->samples[i]);
    }
    from = (size_t)(name % NOISE_N);
    for (size_t at = 0; at < t->count; at += n, from = 0) {
        n = NOISE_N - from < t->count - at ? NOISE_N - from : t->count - at;
        memcpy(g + at, t->noise + from, n * sizeof(float));
    }
}

/* Turns and adds: no difference ever fades away, as it would in a sum of floats. */
static void update(struct trainer *t, const float *g)
{
    for (size_t i = 0; i < t->count; i++) {
        uint32_t bits;

        memcpy(&bits, &g[i], sizeof(bits));
        t->state[i] = (t->state[i] << 7 | t->state[i] >> 25) + bits;
    }
}

/* ---- training ---- */

static int describe(struct trainer *t)
{
    int rc = mu_state(t->run, "state", t->state, t->count * sizeof(uint32_t));

    if (rc == MU_OK) {
        rc = mu_gradient(t->run, t->count, MU_F32);
    }
    if (rc == MU_OK) {
        rc = mu_metric(t->run, metrics[0]);
    }
    if (rc == MU_OK) {
        rc = mu_data(t->run, t->samples, t->global_batch, t->epochs, t->seed);
    }
    return rc;
}

static int compute(struct trainer *t, const mu_work *work)
{
    const struct timespec more = {(time_t)(t->sleep_ms / 1000),
                                  (long)(t->sleep_ms % 1000 * 1000000)};
    double loss = 1.0 / (double)(work->step + work->slice);

    gradient(t, work, work->out);
    if (t->sleep_ms > 0) {
        nanosleep(&more, NULL);
    }
    return mu_put(t->run, work->out, &loss);
}

/* Until the run is over (MU_EDONE), or this worker is to leave (MU_ELEFT). */
static int train(struct trainer *t)
{
    mu_work work;
    int rc;

    progress_init(&t->progress, t->run, t->steps_n, metrics, 1);
    while ((rc = mu_next(t->run, &work)) == MU_OK) {
        progress_saw(&t->progress, &work);
        if (work.kind == MU_SLICE) {
            rc = compute(t, &work);
        } else {
            update(t, work.gradient);
        }
        if (rc != MU_OK) {
            break;
        }
    }
    progress_end(&t->progress);
    return rc;
}

static int say_result(struct trainer *t, uint64_t steps)
{
    const struct ending_part part = {t->state, t->count * sizeof(uint32_t)};
    char digest[ENDING_HEX];

    if (steps != t->steps_n) {
        fprintf(stderr, "the run ended while this worker waited as a spare\n");
        return 0;
    }
    if (ending_digest(&part, 1, digest) != 0) {
        fprintf(stderr, "fake: there is no SHA-256\n");
        return 1;
    }
    printf("digest=%s steps=%" PRIu64 " samples=%" PRIu64 "\n", digest, steps,
           ending_samples(steps, t->samples, t->global_batch));
    return fflush(stdout) == 0 ? 0 : 1;
}

static int work(struct trainer *t)
{
    mu_config config;
    uint64_t steps;
    int rc, status;

    mu_config_init(&config);
    config.slices = (uint32_t)t->slices;
    config.steps = t->steps;
    config.digest_every = t->digest_every;
    config.check_every = t->check_every;
    rc = mu_join(&config, &t->run);
    if (rc == MU_EDONE) {
        fprintf(stderr, "the run has ended already\n");
        return 0;
    }
    if (rc != MU_OK) {
        fprintf(stderr, "fake: %s\n", mu_error());
        return 1;
    }
    if (prepare(t) != 0) {
        return 1;
    }
    rc = describe(t);
    if (rc == MU_OK) {
        rc = train(t);
    }
    status = ending_leave("fake", t->report, t->run, &t->progress, rc, &steps);
    return rc == MU_EDONE && status == 0 ? say_result(t, steps) : status;
}

int main(int argc, char **argv)
{
    static struct trainer t = {.bytes = 1 << 20,
                               .slices = 8,
                               .global_batch = 256,
                               .samples = 60000,
                               .steps = 100,
                               .seed = 1,
                               .digest_every = 100};
    int status;

    parse(&t, argc, argv);
    status = work(&t);
    free(t.state);
    free(t.noise);
    return status;
}
