/* A trainer for tests: a small model whose weights depend on every gradient, so that a step which
 * was lost, made twice, or made of other samples shows in the digest at the end.
 *
 * usage: trainer [--steps N] [--slices N] [--samples N] [--global-batch N] [--epochs N] [--seed N]
 *                [--count N] [--sleep-us N] [--warm-ms N] [--digest-every N] [--check-every N]
 *                [--parts N] [--shard TEXT]
 *
 * --sleep-us: each slice takes that much longer. --warm-ms: it is that long until it is warm.
 * --parts: the gradient is given in N parts, one after the other while it "computes".
 * --shard: one character of TEXT per worker and step, by mu_shard().
 *
 * It says what it does, a line each:
 *     pid=12
 *     step=3 generation=2 rank=0 world=3 samples=16 us=99      (by CLOCK_MONOTONIC)
 *     element=3 value=2 generation=1      (--shard: the element that it had in that step)
 *     heard=3 saved=1                     (while it waits for its limit: the newest generation, and
 *                                         how many checkpoints it has ended, each time that
 * changes) digest=0123456789abcdef steps=40 samples=640 slices=99 again=3 pause_us=9 saves=2
 * status=-17 and it does what its environment says: TRAINER_LIMIT=FILE       8 bytes: it computes
 * no slice of a step after that number TRAINER_CORRUPT=STEP     it changes its state, as a broken
 * machine would, … TRAINER_CORRUPT_TIMES=N  … N times, if it comes there so often (0: each time)
 *     TRAINER_ROUND=STEP       from then on it rounds otherwise than the others do
 *     TRAINER_HANG=STEP        it does nothing any more in that step, once
 *     TRAINER_AWAY=STEP        after that step it does something else for three seconds: mu_away()
 *     TRAINER_SAVE=STEP        in that step it wants the state to be saved
 *     TRAINER_CKPT=DIR         where it has checkpoints saved, by mu_config
 *     TRAINER_LEAVE=STEP       after that step it leaves, by mu_leave() …
 *     TRAINER_EXIT=STEP        … or just exits with 0; "left=STEP" first
 *     TRAINER_SLOT=N           … if it is in that slot of its node
 *     TRAINER_ROSTER=1         it says who helps while it waits for its limit:
 *                              "roster ps 0 ID serving HOST:PORT" for each, then "roster=VERSION"
 *     TRAINER_SERVES=1         it helps, and trains nothing: "refused=STATUS" is what training says
 *                              to that, "served=STATUS" how it ended
 *     TRAINER_LEADS=N          and it ends by itself when it has found N workers that serve
 *     TRAINER_MARK=FILE        written with its pid when it is about to call mu_next() first */
#include "muster.h"

#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LOOK_US_MAX 4000

struct trainer {
    mu_run *run;
    uint64_t steps, slices, samples, batch, epochs, seed, count, sleep_us, warm_ms, digest_every;
    uint64_t check_every, parts;
    const char *shard;
    const volatile uint64_t *limit;
    uint64_t corrupt_at, corrupt_times, corrupted_n, round_from, hang_at, save_at;
    uint64_t away_at, leave_at, exit_at, heard, saves, asks, roster;
    float *weights, *momentum, *gradient;
};

static int give_up(const char *what, int rc)
{
    printf("failed=%s status=%d why=%s\n", what, rc, mu_error());
    fflush(stdout);
    fprintf(stderr, "trainer: %s: %s\n", what, mu_error());
    return 1;
}

static void pause_us(uint64_t us)
{
    struct timespec ts = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};

    while (us > 0 && nanosleep(&ts, &ts) != 0) {
    }
}

static uint64_t now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000 + (uint64_t)ts.tv_nsec / 1000;
}

static uint64_t number_of(const char *variable)
{
    const char *text = getenv(variable);

    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

/* ---- the model ---- */

static void compute(struct trainer *t, const mu_work *work, double *loss)
{
    *loss = 0;
    memset(t->gradient, 0, t->count * sizeof(float));
    for (size_t s = 0; s < work->samples_n; s++) {
        float x = (float)(work->samples[s] % 101) / 101 + (float)(work->seed % 13) / 64;

        for (uint64_t i = 0; i < t->count; i++) {
            t->gradient[i] += 0.3f * t->weights[i] - x * (float)(i % 7 + 1) / 9;
        }
        *loss += (double)(x * t->weights[work->samples[s] % t->count]);
    }
    for (uint64_t i = 0; i < t->count; i++) {
        t->gradient[i] /= (float)work->samples_n;
    }
    if (t->round_from != 0 && work->step >= t->round_from) {
        t->gradient[0] *= 1.0001f;
    }
    *loss /= (double)work->samples_n;
}

static void update(struct trainer *t, uint64_t lo, uint64_t hi, const float *mean)
{
    for (uint64_t i = lo; i < hi; i++) {
        t->momentum[i] = 0.9f * t->momentum[i] + mean[i - lo];
        t->weights[i] -= 0.01f * t->momentum[i];
    }
}

static uint64_t digest(const struct trainer *t)
{
    const float *const parts[] = {t->weights, t->momentum};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (int p = 0; p < 2; p++) {
        const uint8_t *bytes = (const uint8_t *)parts[p];

        for (size_t i = 0; i < t->count * sizeof(float); i++) {
            hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
        }
    }
    return hash;
}

/* ---- what tests want of it ---- */

/* What comes by itself, when it is not what was said last. */
static void say_heard(struct trainer *t)
{
    mu_world_info world;
    mu_training told = {0};

    if (mu_world(t->run, &world) != MU_OK) {
        return;
    }
    mu_training_get(t->run, &told);
    if (world.generation != t->heard || told.saves != t->saves) {
        t->heard = world.generation;
        t->saves = told.saves;
        printf("heard=%" PRIu64 " saved=%" PRIu64 "\n", t->heard, t->saves);
        fflush(stdout);
    }
    mu_world_free(&world);
}

/* The same of the roster. */
static void say_roster(struct trainer *t)
{
    static const char *const roles[] = {"worker", "chief", "ps", "evaluator"};
    static const char *const standings[] = {"warming", "serving", "member"};
    mu_roster_info roster;

    if (t->asks == 0 || mu_roster(t->run, t->roster, 0, &roster) != MU_OK) {
        return;
    }
    t->roster = roster.version;
    for (size_t i = 0; i < roster.n; i++) {
        const mu_peer *p = &roster.items[i];

        printf("roster %s %d %" PRIu64 " %s %s\n", roles[p->role], p->number, p->id,
               standings[p->standing], p->address);
    }
    printf("roster=%" PRIu64 "\n", t->roster);
    fflush(stdout);
    mu_roster_free(&roster);
}

/* It looks less often after a while: many may wait on few cores. */
static void obey_limit(struct trainer *t, uint64_t step)
{
    uint64_t us = 250;

    while (t->limit != NULL && step > *t->limit) {
        say_heard(t);
        say_roster(t);
        pause_us(us);
        us = us < LOOK_US_MAX ? us * 2 : us;
    }
}

static int open_limit(struct trainer *t)
{
    const char *path = getenv("TRAINER_LIMIT");
    void *memory;
    int fd;

    if (path == NULL) {
        return 0;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    memory = fd >= 0 ? mmap(NULL, sizeof(uint64_t), PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED) {
        fprintf(stderr, "trainer: can't read %s\n", path);
        return -1;
    }
    close(fd);
    t->limit = memory;
    return 0;
}

static void say_warm(const struct trainer *t)
{
    const char *path = getenv("TRAINER_MARK");
    FILE *file;

    pause_us(t->warm_ms * 1000);
    file = path != NULL ? fopen(path, "w") : NULL;
    if (file != NULL) {
        fprintf(file, "%d", (int)getpid());
        fclose(file);
    }
}

static void hang(struct trainer *t, uint64_t step)
{
    if (step == t->hang_at) {
        t->hang_at = 0;
        for (;;) {
            pause_us(1000000);
        }
    }
}

/* ---- training ---- */

static uint64_t part_at(const struct trainer *t, uint64_t part)
{
    return t->count * part / t->parts;
}

static int put_parts(struct trainer *t, const mu_work *work, const double *loss)
{
    for (uint64_t p = 0; p < t->parts; p++) {
        int rc;

        memcpy(work->outs[p], t->gradient + part_at(t, p),
               (part_at(t, p + 1) - part_at(t, p)) * sizeof(float));
        rc = p % 3 == 2 ? MU_OK : mu_part(t->run, (uint32_t)p); /* mu_put() says the others. */
        if (rc != MU_OK) {
            return rc;
        }
        pause_us(t->sleep_us / t->parts);
    }
    return mu_put(t->run, work->out, loss);
}

static int on_slice(struct trainer *t, const mu_work *work)
{
    double loss;

    if (t->shard != NULL) {
        printf("element=%" PRIu64 " value=%c generation=%" PRIu64 " step=%" PRIu64 "\n",
               work->samples[0], t->shard[work->samples[0]], work->generation, work->step);
        fflush(stdout);
    }
    obey_limit(t, work->step);
    hang(t, work->step);
    compute(t, work, &loss);
    if (t->parts > 1) {
        return put_parts(t, work, &loss);
    }
    pause_us(t->sleep_us);
    return mu_put(t->run, t->gradient, &loss);
}

static void on_step(struct trainer *t, const mu_work *work)
{
    for (uint64_t p = 0; p < t->parts; p++) {
        update(t, part_at(t, p), part_at(t, p + 1), work->gradients[p]);
    }
    if (work->step == t->corrupt_at &&
        (t->corrupt_times == 0 || t->corrupted_n++ < t->corrupt_times)) {
        t->weights[t->count / 2] += 1;
    }
    printf("step=%" PRIu64 " generation=%" PRIu64 " rank=%d world=%d samples=%" PRIu64
           " us=%" PRIu64 "\n",
           work->step, work->generation, work->rank, work->world, work->step_samples, now_us());
    if (work->step == t->save_at && mu_checkpoint(t->run) != MU_OK) {
        printf("unsaved=%" PRIu64 " why=%s\n", work->step, mu_error());
    }
    fflush(stdout);
    if (work->step == t->away_at && mu_away(t->run) == MU_OK) {
        pause_us(3000000);
    }
}

static int declare(struct trainer *t)
{
    int rc = mu_state(t->run, "weights", t->weights, t->count * sizeof(float));

    if (rc == MU_OK) {
        rc = mu_state(t->run, "momentum", t->momentum, t->count * sizeof(float));
    }
    for (uint64_t p = 0; p < t->parts && rc == MU_OK; p++) {
        rc = mu_gradient(t->run, part_at(t, p + 1) - part_at(t, p), MU_F32);
    }
    if (rc == MU_OK) {
        rc = mu_metric(t->run, "loss");
    }
    if (rc == MU_OK) {
        rc = t->shard != NULL ? mu_shard(t->run, strlen(t->shard))
                              : mu_data(t->run, t->samples, t->batch, t->epochs, t->seed);
    }
    return rc;
}

/* 0: it stays. */
static int goes(struct trainer *t, uint64_t step)
{
    const char *slot = getenv("TRAINER_SLOT");

    if ((step != t->leave_at && step != t->exit_at) ||
        (slot != NULL && strcmp(slot, getenv("MUSTER_SLOT")) != 0)) {
        return 0;
    }
    printf("left=%" PRIu64 "\n", step);
    fflush(stdout);
    if (step == t->exit_at) {
        _exit(0);
    }
    return 1;
}

static int train(struct trainer *t)
{
    mu_training told = {0};
    mu_work work;
    int rc;

    say_warm(t);
    while ((rc = mu_next(t->run, &work)) == MU_OK) {
        if (work.kind == MU_STEP) {
            on_step(t, &work);
            if (goes(t, work.step)) {
                return 0;
            }
        } else if ((rc = on_slice(t, &work)) != MU_OK) {
            return give_up("mu_put", rc);
        }
    }
    if (rc != MU_EDONE && rc != MU_ELEFT) {
        return give_up("mu_next", rc);
    }
    mu_training_get(t->run, &told);
    printf("%s=%016" PRIx64 " steps=%" PRIu64 " samples=%" PRIu64 " slices=%" PRIu64
           " again=%" PRIu64 " pause_us=%" PRIu64 " saves=%" PRIu64 " status=%d\n",
           rc == MU_EDONE ? "digest" : "left", digest(t), told.step, told.samples, told.slices,
           told.slices_again, told.pause_max_us, told.saves, rc);
    fflush(stdout);
    return 0;
}

/* Until so many workers serve. */
static int lead(struct trainer *t, uint64_t want)
{
    mu_roster_info roster = {0};
    uint64_t found = 0;
    int rc = MU_OK;

    while (rc == MU_OK && found < want) {
        const uint64_t after = roster.version;

        mu_roster_free(&roster);
        rc = mu_roster(t->run, after, MU_FOREVER, &roster);
        found = 0;
        for (size_t i = 0; rc == MU_OK && i < roster.n; i++) {
            found += roster.items[i].role == MU_WORKER && roster.items[i].standing == MU_SERVING;
        }
    }
    mu_roster_free(&roster);
    printf("led=%" PRIu64 "\n", found);
    fflush(stdout);
    return rc == MU_OK ? 0 : give_up("mu_roster", rc);
}

static int serve(struct trainer *t)
{
    int rc = mu_serve(t->run, 0);

    printf("refused=%d\n", mu_gradient(t->run, 1, MU_F32));
    fflush(stdout);
    if (rc == MU_OK && getenv("TRAINER_LEADS") != NULL) {
        return lead(t, number_of("TRAINER_LEADS"));
    }
    while (rc == MU_OK) {
        rc = mu_serve(t->run, MU_FOREVER);
    }
    printf("served=%d\n", rc);
    fflush(stdout);
    return rc == MU_EDONE || rc == MU_ELEFT ? 0 : 1;
}

static int allocate(struct trainer *t)
{
    t->weights = calloc(t->count, sizeof(float));
    t->momentum = calloc(t->count, sizeof(float));
    t->gradient = calloc(t->count, sizeof(float));
    for (uint64_t i = 0; t->weights != NULL && i < t->count; i++) {
        t->weights[i] = (float)(i % 11) / 11;
    }
    return t->weights != NULL && t->momentum != NULL && t->gradient != NULL ? 0 : -1;
}

static int join(struct trainer *t)
{
    mu_config config;

    mu_config_init(&config);
    config.slices = (uint32_t)t->slices;
    config.steps = t->steps;
    config.digest_every = t->digest_every;
    config.check_every = t->check_every;
    config.ckpt_dir = getenv("TRAINER_CKPT");
    return mu_join(&config, &t->run);
}

static int read_options(struct trainer *t, int argc, char **argv)
{
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"steps", &t->steps},
                   {"slices", &t->slices},
                   {"samples", &t->samples},
                   {"global-batch", &t->batch},
                   {"epochs", &t->epochs},
                   {"seed", &t->seed},
                   {"count", &t->count},
                   {"sleep-us", &t->sleep_us},
                   {"warm-ms", &t->warm_ms},
                   {"digest-every", &t->digest_every},
                   {"check-every", &t->check_every},
                   {"parts", &t->parts}};
    enum { N = sizeof(numbers) / sizeof(numbers[0]) };
    struct option options[N + 2] = {{0}};
    int at;

    for (int i = 0; i < N; i++) {
        options[i] = (struct option){numbers[i].name, required_argument, NULL, i};
    }
    options[N] = (struct option){"shard", required_argument, NULL, N};
    while ((at = getopt_long(argc, argv, "", options, NULL)) >= 0) {
        if (at == N) {
            t->shard = optarg;
        } else if (at < N) {
            *numbers[at].value = strtoull(optarg, NULL, 10);
        } else {
            return -1;
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct trainer t = {.slices = 8,
                        .samples = 1000,
                        .batch = 32,
                        .seed = 1,
                        .count = 500,
                        .digest_every = 10,
                        .parts = 1,
                        .corrupt_at = number_of("TRAINER_CORRUPT"),
                        .corrupt_times = number_of("TRAINER_CORRUPT_TIMES"),
                        .round_from = number_of("TRAINER_ROUND"),
                        .hang_at = number_of("TRAINER_HANG"),
                        .away_at = number_of("TRAINER_AWAY"),
                        .leave_at = number_of("TRAINER_LEAVE"),
                        .exit_at = number_of("TRAINER_EXIT"),
                        .save_at = number_of("TRAINER_SAVE"),
                        .asks = number_of("TRAINER_ROSTER")};
    int rc;

    if (read_options(&t, argc, argv) != 0 || open_limit(&t) != 0 || allocate(&t) != 0) {
        return 2;
    }
    printf("pid=%d\n", (int)getpid());
    fflush(stdout);
    rc = join(&t);
    if (rc == MU_EDONE) {
        return 0; /* It came too late. */
    }
    if (rc != MU_OK) {
        return give_up("mu_join", rc);
    }
    if (getenv("TRAINER_SERVES") != NULL) {
        rc = serve(&t);
    } else {
        rc = declare(&t);
        rc = rc != MU_OK ? give_up("mu_data", rc) : train(&t);
    }
    if (rc == 0) { /* Otherwise that would say that the work is done. */
        mu_leave(t.run);
    }
    free(t.weights);
    free(t.momentum);
    free(t.gradient);
    return rc;
}
