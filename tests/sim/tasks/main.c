/* usage: sim_tasks [--seeds N] [--first N] [--failures N] [--mutation RULE | --mutations] */
#include "sim/tasks/world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define UNREST_MS 20000u
#define HEAL_MS 400000u

static jmp_buf panic_jump;

static void on_panic(void)
{
    longjmp(panic_jump, 1);
}

void world_fail(struct world *w, const char *fmt, ...)
{
    va_list args;

    if (!w->failed) {
        va_start(args, fmt);
        vsnprintf(w->why, sizeof(w->why), fmt, args);
        va_end(args);
        w->failed = true;
    }
}

uint64_t world_between(struct world *w, uint64_t lo, uint64_t hi)
{
    return prng_between(&w->prng, lo, hi);
}

/* ---- what arrives at the orchestrator ---- */

static void on_get(struct world *w, const struct message *m)
{
    struct task tasks[HELD_MAX];
    struct tasks_given given;

    tasks_acked(w->tasks, m->worker, m->acked, &disk_out);
    if (tasks_get(w->tasks, m->worker, m->number, m->n, w->now_ms, &disk_out, tasks, &given) !=
        MU_OK) {
        return;
    }
    for (uint32_t i = 0; i < given.tasks_n; i++) {
        check_given(w, m->worker, &tasks[i]);
    }
    if (given.tasks_n > 0) { /* Otherwise it asks again. */
        struct message *to = world_send(w, MSG_GIVEN, m->worker);

        if (to != NULL) {
            to->number = m->number;
            to->n = given.tasks_n;
            memcpy(to->tasks, tasks, sizeof(tasks));
        }
    }
}

static void on_report(struct world *w, const struct message *m)
{
    static const struct task_metric mean = {"loss", TASKS_METRIC_MEAN, 2};
    uint8_t values[16] = {0};
    struct tasks_report r = {.worker = m->worker,
                             .number = m->number,
                             .acked = m->acked,
                             .items_n = m->n,
                             .items = m->items,
                             .text = "it always fails",
                             .metrics_n = m->metrics,
                             .metrics = &mean,
                             .values_n = sizeof(values),
                             .values = values};
    struct message said = *m;
    bool pending;

    if (tasks_report(w->tasks, &r, w->now_ms, &disk_out, said.verdicts, &pending, NULL, 0) !=
        MU_OK) {
        return;
    }
    said.kind = MSG_VERDICTS;
    if (pending) {
        check_counts(w, &r, said.verdicts);
        said.record = w->disk.log_n + w->disk.queue_n; /* the last that was put */
        mu_assert(w->waiting_n < ARRAY_LEN(w->waiting));
        w->waiting[w->waiting_n++] = said;
        return;
    }
    struct message *to = world_send(w, MSG_VERDICTS, m->worker);
    if (to != NULL) {
        said.at_ms = to->at_ms;
        *to = said;
    }
}

static void deliver(struct world *w, const struct message *m)
{
    bool *gone = &w->gone[wid_incarnation(m->worker)];

    if (*gone && m->kind != MSG_GONE) {
        return; /* It has no connection. */
    }
    if (m->kind == MSG_GONE || m->kind == MSG_LOST) {
        *gone = !worker_alive(w, m->worker);
    }
    switch (m->kind) {
    case MSG_GET:
        on_get(w, m);
        break;
    case MSG_REPORT:
        on_report(w, m);
        break;
    case MSG_CLAIM:
        tasks_claim(w->tasks, m->worker, m->number, m->held, m->n, w->now_ms);
        break;
    case MSG_LOST:
        worker_lost(w, m->worker);
        tasks_lost(w->tasks, m->worker, &disk_out);
        break;
    case MSG_GONE:
        tasks_gone(w->tasks, m->worker, &disk_out);
        break;
    case MSG_GIVEN:
    case MSG_VERDICTS:
        worker_hear(w, m);
        break;
    }
}

static void messages_turn(struct world *w)
{
    for (uint32_t i = 0; i < w->messages_n; i++) {
        if (w->messages[i].at_ms == 0 || w->messages[i].at_ms > w->now_ms) {
            continue;
        }
        struct message m = w->messages[i];
        if (!w->healed && prng_chance(&w->prng, w->repeat_ppm)) {
            w->messages[i].at_ms += world_between(w, 0, 2 * w->late_ms);
        } else {
            w->messages[i].at_ms = 0;
        }
        deliver(w, &m);
    }
}

/* ---- what the data is: everybody says so, as people do ---- */

static void describe(struct world *w)
{
    for (uint32_t i = 0; i < 2; i++) {
        struct rec_tasks_set other = w->sets[i];
        struct rec_tasks_files part = {.kind = w->sets[i].kind,
                                       .head = tasks_head_digest(&w->sets[i]),
                                       .files_n = w->sets[i].files_n,
                                       .files = w->files};
        bool pending;
        int rc = tasks_describe(w->tasks, &w->sets[i], &disk_out, &pending, NULL, 0);

        if (rc == MU_OK && !pending &&
            tasks_files(w->tasks, &part, &disk_out, &pending, NULL, 0) == MU_OK && !pending) {
            other.per_task++;
            if (tasks_describe(w->tasks, &other, &disk_out, &pending, NULL, 0) != MU_ECONFLICT) {
                world_fail(w, "data that differ from what was described are taken");
            }
        }
    }
}

static void draw(struct world *w, uint64_t seed)
{
    struct prng *p = &w->prng;

    prng_init(p, seed);
    w->now_ms = 1000;
    w->workers_n = (uint32_t)world_between(w, 1, WORKERS_MAX);
    w->sets[0] =
        tasks_set(TASK_TRAINING, "data", (uint32_t)world_between(w, 1, 3), world_between(w, 1, 12));
    w->sets[1] = tasks_set(TASK_EVALUATION, "eval", 1, 5);
    for (uint32_t i = 0; i < 3; i++) {
        w->files[i] = (struct task_file){"f", world_between(w, 0, 99), world_between(w, 1, 60)};
        w->files[i].name[1] = (char)('0' + i);
        if (i < w->sets[0].files_n) {
            w->per_epoch +=
                (uint32_t)((w->files[i].n + w->sets[0].per_task - 1) / w->sets[0].per_task);
        }
    }
    w->eval_n = (uint32_t)((w->files[0].n + 4) / 5);
    w->sets[0].epochs = (int32_t)world_between(w, 1, 3);
    w->sets[0].seed = seed;
    w->sets[0].shuffle_tasks = prng_chance(p, 500000);
    w->sets[0].overlap = prng_chance(p, 300000);
    w->sets[0].loose = prng_chance(p, 100000);
    w->copies = !w->sets[0].loose && prng_chance(p, 300000);
    w->sets[0].copies = w->copies;
    w->sets[0].losses = 0;
    w->sets[0].save = prng_chance(p, 500000);
    w->sets[0].end = prng_chance(p, 500000);
    w->sets[0].eval_steps = prng_chance(p, 500000) ? 10 : 0;
    w->hangs = prng_chance(p, 500000);
    w->sets[0].timeout_ms = w->sets[1].timeout_ms = w->hangs ? 5000 : 3600000;
    w->sets[1].losses = 0;
    w->lose_ppm = w->hangs ? (uint32_t)world_between(w, 0, 200000) : 0;
    w->repeat_ppm = (uint32_t)world_between(w, 0, 200000);
    w->late_ms = (uint32_t)world_between(w, 1, 800);
}

/* ---- a seed ---- */

static void turn(struct world *w)
{
    w->now_ms += STEP_MS;
    if (!w->healed && prng_chance(&w->prng, 8000)) {
        disk_crash(w);
    }
    if (prng_chance(&w->prng, 50000)) {
        describe(w);
    }
    if (w->now_ms < UNREST_MS && prng_chance(&w->prng, 20000)) {
        w->version += world_between(w, 0, 10);
    }
    if (!w->healed && prng_chance(&w->prng, 5000)) { /* people want to know */
        tasks_evaluate(w->tasks, w->version, &disk_out, NULL, 0);
    }
    if (w->healed) {
        tasks_version(w->tasks, w->version, &disk_out);
    } else if (prng_chance(&w->prng, 100000)) {
        tasks_version(w->tasks, world_between(w, w->version / 2, w->version), &disk_out);
    }
    messages_turn(w);
    workers_turn(w);
    if (tasks_deadline(w->tasks) <= w->now_ms) {
        tasks_tick(w->tasks, w->now_ms, &disk_out);
    }
    disk_turn(w);
}

static void go(struct world *w)
{
    struct tasks_progress p = {0};

    tasks_start(w->tasks, w->now_ms, LEASE_MS);
    while (w->now_ms < UNREST_MS && !w->failed) {
        turn(w);
    }
    w->healed = true;
    while (w->now_ms < UNREST_MS + HEAL_MS && !w->failed && !p.finished) {
        turn(w);
        tasks_look(w->tasks, &p);
    }
    if (!w->failed && !p.finished) {
        char text[256];

        tasks_say(w->tasks, text, sizeof(text));
        world_fail(w, "no end %u s after healing: %s", HEAL_MS / 1000, text);
    }
    for (uint32_t i = 0; i < 200 && !w->failed; i++) { /* All that was said is answered. */
        turn(w);
    }
    if (!w->failed) {
        disk_check(w);
        check_end(w);
    }
}

static const struct tasks_limits limits = {.tasks_n = 256,
                                           .files_n = 4,
                                           .names_bytes = 64,
                                           .held_n = 40,
                                           .workers_n = 64,
                                           .won_n = 64,
                                           .parked_n = 8};

void world_open_tasks(struct tasks **t_out)
{
    mu_assert(tasks_init("job", &limits, t_out) == MU_OK);
}

static bool seed_run(struct world *w, uint64_t seed)
{
    memset(w, 0, sizeof(*w));
    disk_world = w;
    world_open_tasks(&w->tasks);
    world_open_tasks(&w->shadow);
    world_open_tasks(&w->other);
    draw(w, seed);
    base_on_panic = on_panic;
    if (setjmp(panic_jump) == 0) {
        go(w);
    } else {
        world_fail(w, "an assertion failed");
    }
    base_on_panic = NULL;
    tasks_close(w->tasks);
    tasks_close(w->shadow);
    tasks_close(w->other);
    disk_free(&w->disk);
    return !w->failed;
}

static const struct {
    const char *name, *text;
} rules[] = {
#define X(name, text) {#name, text},
    TASKS_MUTATION_MAP(X)
#undef X
};

static int mutate(const char *name)
{
#ifdef MUSTER_MUTATIONS
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (strcmp(rules[i].name, name) == 0) {
            core_mutation = (enum mutation)(MUTATION_FIRST_DESCRIPTION + i);
            return 0;
        }
    }
#endif
    fprintf(stderr, "sim_tasks: no rule '%s' can be taken out of this build\n", name);
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t first = 1, seeds = 2000, failures_max = 8, failures = 0, n = 0, counted = 0,
             crashes = 0;
    uint64_t parked = 0;
    struct world *w = malloc(sizeof(*w));

    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--mutations") == 0) {
            for (size_t k = 0; k < ARRAY_LEN(rules); k++) {
                printf("%s\t%s\n", rules[k].name, rules[k].text);
            }
            return 0;
        }
        if (strcmp(argv[i], "--mutation") == 0 && mutate(value) != 0) {
            return 2;
        }
        first = strcmp(argv[i], "--first") == 0 ? strtoull(value, NULL, 10) : first;
        seeds = strcmp(argv[i], "--seeds") == 0 ? strtoull(value, NULL, 10) : seeds;
        failures_max =
            strcmp(argv[i], "--failures") == 0 ? strtoull(value, NULL, 10) : failures_max;
    }
    for (; w != NULL && n < seeds && failures < failures_max; n++) {
        if (!seed_run(w, first + n)) {
            failures++;
            printf("seed %" PRIu64 " failed: %s\n    replay: %s --first %" PRIu64 " --seeds 1\n",
                   first + n, w->why, argv[0], first + n);
        }
        counted += w->counted_n;
        crashes += w->crashes_n;
        parked += w->parked_n;
    }
    printf("%" PRIu64 " seeds from %" PRIu64 ": %" PRIu64 " results counted, %" PRIu64
           " parked, %" PRIu64 " crashes of the orchestrator; %" PRIu64 " failed\n",
           n, first, counted, parked, crashes, failures);
    free(w);
    return failures != 0;
}
