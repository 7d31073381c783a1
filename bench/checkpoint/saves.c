/* A trainer with a state of any size, which measures what its checkpoints cost it.
 *
 * usage: saves save OUT STATE_BYTES SAVES
 *        saves load OUT STATE_BYTES
 *        saves cost OUT STATE_BYTES SLICE_US BLOCK_STEPS PAIRS
 *
 * Of several workers the one in slot 0 measures, and the others take part. Where it saves,
 * MUSTER_CKPT_DIR says, or `muster run --ckpt-dir`; when, it says itself. OUT gets lines, times in
 * us of CLOCK_MONOTONIC:
 *
 *     save STALL TOLD WRITTEN COPY   mu_next() took so long where it took the copy; as mu_training
 *                                    has it; from then until the checkpoint was there; and one
 *                                    memcpy() of the whole state
 *     load TIME SAVED                the first mu_next(), and the step that it began with
 *     with TIME…, without TIME…      the steps of a block in which the state was saved once, or not
 *
 * A slice of `cost` is a fixed amount of work, as much as takes SLICE_US here when nobody disturbs:
 * whatever the writing takes from it shows. */
#include <muster.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SAMPLES 4096
#define BATCH 64
#define SEED 7
#define COUNT 1024 /* of a gradient: the state is what matters here */
#define WARM_STEPS 10
#define ROOM_US 5000000 /* before the first: memory for a copy is made; new pages may be slow */
#define REST_US 500000  /* the one before is taken away */
#define SAVE_US_MAX 100000000

static mu_run *run;
static FILE *out;
static uint8_t *state, *copy;
static size_t state_bytes;
static uint64_t spins; /* of a slice */
static float gradient[COUNT];

static uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

static void fail(const char *what)
{
    fprintf(stderr, "saves: %s: %s\n", what, mu_error());
    exit(1);
}

/* ---- work ---- */

static void spin(uint64_t n)
{
    static volatile uint64_t sink;
    uint64_t x = sink + 1;

    for (uint64_t i = 0; i < n; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    sink = x;
}

/* How much is done in so many us, at best. */
static uint64_t spins_of(uint64_t us)
{
    const uint64_t n = 2000000;
    uint64_t best_us = UINT64_MAX;

    for (int i = 0; i < 20; i++) {
        const uint64_t began_us = now_us();

        spin(n);
        best_us = now_us() - began_us < best_us ? now_us() - began_us : best_us;
    }
    return us * n / (best_us > 0 ? best_us : 1);
}

/* Noise: nothing in it can be left out or packed. */
static void fill_state(void)
{
    uint64_t x = 88172645463325252u;

    state = malloc(state_bytes);
    copy = malloc(state_bytes);
    if (state == NULL || copy == NULL) {
        fprintf(stderr, "saves: no memory for twice %zu bytes\n", state_bytes);
        exit(1);
    }
    memset(copy, 1, state_bytes);
    for (size_t i = 0; i + 8 <= state_bytes; i += 8) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(state + i, &x, 8);
    }
}

/* Until the next step; when it was there. 0: there is none, the run is over. */
static uint64_t step(void)
{
    mu_work work;

    for (;;) {
        int rc = mu_next(run, &work);

        if (rc == MU_EDONE || rc == MU_ELEFT) {
            return 0;
        }
        if (rc != MU_OK) {
            fail("mu_next");
        }
        if (work.kind == MU_STEP) {
            state[work.step % state_bytes]++;
            return now_us();
        }
        spin(spins);
        if (mu_put(run, gradient, NULL) != MU_OK) {
            fail("mu_put");
        }
    }
}

static mu_training told(void)
{
    mu_training t;

    if (mu_training_get(run, &t) != MU_OK) {
        fail("mu_training_get");
    }
    return t;
}

/* As one of several, until the first ends it. */
static void take_part(void)
{
    while (step() != 0) {
    }
}

/* ---- what is measured ---- */

static void nap_us(long us)
{
    const struct timespec nap = {us / 1000000, us % 1000000 * 1000};

    nanosleep(&nap, NULL);
}

/* Nothing else is to be done meanwhile. */
static uint64_t wait_saved(uint64_t saves)
{
    const uint64_t began_us = now_us();

    while (told().saves == saves) {
        if (now_us() - began_us > SAVE_US_MAX) {
            fprintf(stderr, "saves: it was not saved\n");
            exit(1);
        }
        nap_us(500);
    }
    return now_us();
}

static uint64_t copy_us(void)
{
    const uint64_t began_us = now_us();

    memcpy(copy, state, state_bytes);
    return now_us() - began_us;
}

static void measure_saves(int n)
{
    mu_work work;

    step();
    step(); /* The first is applied, and libmuster begins to make room for a copy. */
    for (int i = 0; i < n; i++) {
        const uint64_t saves = told().saves;
        uint64_t stall_us, stalled_us, written_us;

        nap_us(i == 0 ? ROOM_US : REST_US);
        /* It is wanted in one step, and made after the next. */
        if (mu_checkpoint(run) != MU_OK) {
            fail("mu_checkpoint");
        }
        step();
        stalled_us = now_us();
        if (mu_next(run, &work) != MU_OK || work.kind != MU_SLICE) {
            fail("mu_next");
        }
        stall_us = now_us() - stalled_us;
        written_us = wait_saved(saves) - stalled_us - stall_us;
        fprintf(out, "save %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", stall_us,
                told().save_us, written_us, copy_us());
        if (mu_put(run, gradient, NULL) != MU_OK) {
            fail("mu_put");
        }
        step();
    }
}

static void measure_load(void)
{
    const uint64_t began_us = now_us();
    mu_work work;

    if (mu_next(run, &work) != MU_OK) {
        fail("mu_next");
    }
    fprintf(out, "load %" PRIu64 " %" PRIu64 "\n", now_us() - began_us, work.step - 1);
}

static void measure_block(int steps, bool saves)
{
    uint64_t *took_us = calloc((size_t)steps, sizeof(*took_us)), last_us = now_us();

    for (int i = 0; took_us != NULL && i < steps; i++) {
        uint64_t us;

        if (i == 0 && saves && mu_checkpoint(run) != MU_OK) {
            fail("mu_checkpoint");
        }
        us = step();
        took_us[i] = us - last_us;
        last_us = us;
    }
    fprintf(out, saves ? "with" : "without");
    for (int i = 0; took_us != NULL && i < steps; i++) {
        fprintf(out, " %" PRIu64, took_us[i]);
    }
    fprintf(out, "\n");
    free(took_us);
}

static void measure_cost(int steps, int pairs)
{
    for (int i = 0; i < WARM_STEPS; i++) {
        step();
    }
    for (int i = 0; i < pairs; i++) {
        measure_block(steps, i % 2 == 0);
        measure_block(steps, i % 2 == 1);
    }
    take_part();
}

/* ---- set up ---- */

static void join(uint32_t slices, uint64_t steps)
{
    mu_config config;

    mu_config_init(&config);
    config.slices = slices;
    config.steps = steps;
    config.digest_every = 0;
    config.ckpt_ms = 0; /* by mu_checkpoint() only */
    if (mu_join(&config, &run) != MU_OK || mu_state(run, "state", state, state_bytes) != MU_OK ||
        mu_gradient(run, COUNT, MU_F32) != MU_OK ||
        mu_data(run, SAMPLES, BATCH, 0, SEED) != MU_OK) {
        fail("mu_join");
    }
}

/* One more than are measured: after the last of all it is saved in any case. */
static uint64_t cost_steps(const char *block, const char *pairs)
{
    return WARM_STEPS + 2 * strtoull(block, NULL, 10) * strtoull(pairs, NULL, 10) + 1;
}

static uint64_t save_steps(const char *saves)
{
    return 2 + 2 * strtoull(saves, NULL, 10) + 1;
}

static bool is_first(void)
{
    const char *slot = getenv("MUSTER_SLOT");

    return slot == NULL || strcmp(slot, "0") == 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 3 ? argv[1] : "";
    const bool cost = strcmp(mode, "cost") == 0 && argc == 7;
    const bool save = strcmp(mode, "save") == 0 && argc == 5;

    if (!cost && !save && !(strcmp(mode, "load") == 0 && argc == 4)) {
        fprintf(stderr, "usage: saves save|load|cost OUT STATE_BYTES …\n");
        return 2;
    }
    state_bytes = strtoull(argv[3], NULL, 10);
    fill_state();
    out = fopen(is_first() ? argv[2] : "/dev/null", "w");
    if (out == NULL) {
        perror(argv[2]);
        return 1;
    }
    spins = cost ? spins_of(strtoull(argv[4], NULL, 10)) : 0;
    join(cost ? 8 : 2, cost ? cost_steps(argv[5], argv[6]) : save ? save_steps(argv[4]) : 0);
    if (cost) {
        measure_cost(atoi(argv[5]), atoi(argv[6]));
    } else if (!is_first()) {
        take_part();
    } else if (save) {
        measure_saves(atoi(argv[4]));
        take_part();
    } else {
        measure_load();
    }
    fclose(out);
    if (mu_leave(run) != MU_OK) {
        fail("mu_leave");
    }
    free(state);
    free(copy);
    return 0;
}
