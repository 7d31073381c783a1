/* Trains a small network on Fashion-MNIST, alone or with others, through joins, leaves and crashes:
 * the digest that it ends with is the same.
 *
 *     cc -O2 -ffp-contract=off -o mnist $(find examples/mnist examples/common -name '*.c') \
 *         $(pkg-config --cflags --libs muster openblas zlib libcrypto) -lm
 *
 *     ./mnist                                           alone: a job of one
 *     muster run --nnodes 1:4 ./mnist                   on several nodes; kill some, start more
 *
 * Its images are those of Debian's package dataset-fashion-mnist. The last line, on stdout, of
 * every worker that is there at the end:
 *
 *     digest=<SHA-256 of weights and momentum> steps=<n> samples=<n> accuracy=<of the test images>
 */
#include "../common/args.h"
#include "../common/ending.h"
#include "../common/progress.h"
#include "mlp.h"

#include <muster.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FOLDER "/usr/share/datasets/fashion-mnist"
#define KEEP 0.9f /* of the momentum */

struct trainer {
    uint64_t hidden, slices, global_batch, epochs, steps, seed, sleep_ms, digest_every, check_every;
    double lr;
    const char *folder, *report;

    uint64_t steps_n; /* of the run; 0: without end */
    struct idx images, tests;
    struct mlp mlp;
    float *weights, *momentum;
    mu_run *run;
    struct progress progress;
};

static const char *const metrics[] = {"loss", "accuracy"};

static void parse(struct trainer *t, int argc, char **argv)
{
    const struct arg args[] = {
        {"hidden", ARG_COUNT, &t->hidden, 1, 1 << 16, "neurons in the middle"},
        {"global-batch", ARG_COUNT, &t->global_batch, 1, 1 << 20, "samples of a step"},
        {"slices", ARG_COUNT, &t->slices, 1, 1024, "parts of each step's batch: a power of two"},
        {"epochs", ARG_COUNT, &t->epochs, 0, 1 << 20, "times through the data; 0: without end"},
        {"steps", ARG_COUNT, &t->steps, 0, 1 << 30, "end after so many; 0: when the epochs do"},
        {"lr", ARG_REAL, &t->lr, 0, 100, "learning rate at first; it goes down to 0 at the end"},
        {"seed", ARG_COUNT, &t->seed, 0, 1e15, "of first weights and the order of samples"},
        {"sleep-ms", ARG_COUNT, &t->sleep_ms, 0, 1 << 20, "added to each slice, for experiments"},
        {"digest-every", ARG_COUNT, &t->digest_every, 0, 1 << 30,
         "steps between comparisons of all states; 0: never"},
        {"check-every", ARG_COUNT, &t->check_every, 0, 1 << 30,
         "steps between slices that two workers compute"},
        {"data", ARG_TEXT, &t->folder, 0, 0, "where the images are"},
        {"report", ARG_TEXT, &t->report, 0, 0, "JSON about this worker: a file or a folder"},
    };

    args_parse("mnist", "a small network on Fashion-MNIST, elastic", args,
               sizeof(args) / sizeof(args[0]), argc, argv);
}

/* ---- before training: this worker warms up while others train ---- */

static int prepare(struct trainer *t)
{
    /* A slice has its share of the batch, rounded up; tests go in larger pieces. */
    size_t slice_max = (size_t)((t->global_batch + t->slices - 1) / t->slices);

    if (idx_open(t->folder, "train", &t->images) != 0 ||
        idx_open(t->folder, "t10k", &t->tests) != 0) {
        return -1;
    }
    if (t->tests.pixels_n != t->images.pixels_n) {
        fprintf(stderr, "mnist: the test images in %s have another size\n", t->folder);
        return -1;
    }
    if (mlp_open(&t->mlp, t->images.pixels_n, (size_t)t->hidden,
                 slice_max > 256 ? slice_max : 256) != 0) {
        fprintf(stderr, "mnist: no memory for %" PRIu64 " neurons\n", t->hidden);
        return -1;
    }
    t->weights = malloc(t->mlp.weights_n * sizeof(float));
    t->momentum = calloc(t->mlp.weights_n, sizeof(float));
    if (t->weights == NULL || t->momentum == NULL) {
        fprintf(stderr, "mnist: no memory for %zu weights\n", t->mlp.weights_n);
        return -1;
    }
    mlp_init(&t->mlp, t->seed, t->weights);
    t->steps_n = ending_steps(t->steps, t->images.n, t->global_batch, t->epochs);
    return 0;
}

/* What muster must know: the state, the gradient's size, the metrics, the data. */
static int describe(struct trainer *t)
{
    size_t bytes = t->mlp.weights_n * sizeof(float);
    int rc = mu_state(t->run, "weights", t->weights, bytes);

    if (rc == MU_OK) {
        rc = mu_state(t->run, "momentum", t->momentum, bytes);
    }
    if (rc == MU_OK) {
        rc = mu_gradient(t->run, t->mlp.weights_n, MU_F32);
    }
    for (int i = 0; i < 2 && rc == MU_OK; i++) {
        rc = mu_metric(t->run, metrics[i]);
    }
    if (rc == MU_OK) {
        rc = mu_data(t->run, t->images.n, t->global_batch, t->epochs, t->seed);
    }
    return rc;
}

/* ---- training ---- */

/* A pure function of the step: every worker has the same, also one that came late. */
static float rate(const struct trainer *t, uint64_t step)
{
    if (t->steps_n == 0) {
        return (float)t->lr;
    }
    return (float)(t->lr * (1.0 - (double)(step - 1) / (double)t->steps_n));
}

static int compute(struct trainer *t, const mu_work *work)
{
    const struct timespec more = {(time_t)(t->sleep_ms / 1000),
                                  (long)(t->sleep_ms % 1000 * 1000000)};
    double means[2];

    mlp_gradient(&t->mlp, t->weights, &t->images, work->samples, work->samples_n, work->out,
                 &means[0], &means[1]);
    if (t->sleep_ms > 0) {
        nanosleep(&more, NULL);
    }
    return mu_put(t->run, work->out, means);
}

/* Until the run is over (MU_EDONE), or this worker is to leave (MU_ELEFT). */
static int train(struct trainer *t)
{
    mu_work work;
    int rc;

    progress_init(&t->progress, t->run, t->steps_n, metrics, 2);
    while ((rc = mu_next(t->run, &work)) == MU_OK) {
        progress_saw(&t->progress, &work);
        if (work.kind == MU_SLICE) {
            rc = compute(t, &work);
        } else {
            mlp_update(&t->mlp, t->weights, t->momentum, work.gradient, rate(t, work.step), KEEP);
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
    size_t bytes = t->mlp.weights_n * sizeof(float);
    const struct ending_part parts[] = {{t->weights, bytes}, {t->momentum, bytes}};
    char digest[ENDING_HEX];

    if (steps != t->steps_n) {
        fprintf(stderr, "the run ended while this worker waited as a spare\n");
        return 0;
    }
    if (ending_digest(parts, 2, digest) != 0) {
        fprintf(stderr, "mnist: there is no SHA-256\n");
        return 1;
    }
    printf("digest=%s steps=%" PRIu64 " samples=%" PRIu64 " accuracy=%.4f\n", digest, steps,
           ending_samples(steps, t->images.n, t->global_batch),
           mlp_accuracy(&t->mlp, t->weights, &t->tests));
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
        fprintf(stderr, "mnist: %s\n", mu_error());
        return 1;
    }
    if (prepare(t) != 0) {
        return 1;
    }
    rc = describe(t);
    if (rc == MU_OK) {
        rc = train(t);
    }
    status = ending_leave("mnist", t->report, t->run, &t->progress, rc, &steps);
    return rc == MU_EDONE && status == 0 ? say_result(t, steps) : status;
}

int main(int argc, char **argv)
{
    static struct trainer t = {.hidden = 256,
                               .slices = 8,
                               .global_batch = 256,
                               .epochs = 10,
                               .seed = 1,
                               .lr = 0.1,
                               .digest_every = 100,
                               .folder = FOLDER};
    int status;

    parse(&t, argc, argv);
    status = work(&t);
    mlp_close(&t.mlp);
    idx_close(&t.images);
    idx_close(&t.tests);
    free(t.weights);
    free(t.momentum);
    return status;
}
