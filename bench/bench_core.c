/* The orchestrator's mind alone: what registering, renewing, reporting and losing workers costs,
 * by their number. Records are applied as soon as they are handed out.
 *
 * Medians over several repetitions, with the spread between the fastest and the slowest. Nodes
 * are visited in random order, as their messages would come; that is where the caches of the
 * processor come in, so figures for nodes in order are there too.
 *
 * Then data tasks: what it costs to give one out and to count its report, by the number of tasks of
 * the data set, with 8 workers that hold 16 each. Records are applied at once.
 *
 * usage: bench_core [tasks | NODES SLOTS]   those, or that many alone, once: for callgrind, which
 * counts instructions, and those do not depend on caches */
#include "bench.h"

#include "base/prng.h"
#include "core/cluster.h"
#include "core/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPEATS 5
#define EARLY_EVENTS 200u

struct shape {
    uint32_t nodes, slots;
};

/* What is measured: ns or ms per event, by name. */
enum figure {
    REGISTER,
    WARM,
    FORM,
    ENTER,
    EARLY,
    RENEW,
    RENEW_ORDERED,
    REPORT,
    REPORT_ORDERED,
    TICK,
    LOSS,
    MEMORY,
    FIGURES_N
};

static const struct {
    const char *name, *unit;
    double scale; /* of seconds */
} FIGURES[FIGURES_N] = {
    [REGISTER] = {"register all", "ms", 1e3},
    [WARM] = {"all warm", "ms", 1e3},
    [FORM] = {"first generation published", "ms", 1e3},
    [ENTER] = {"all enter, until active", "ms", 1e3},
    [EARLY] = {"report ahead of a renewal", "ns/event", 1e9},
    [RENEW] = {"renewal", "ns/event", 1e9},
    [RENEW_ORDERED] = {"renewal, nodes in order", "ns/event", 1e9},
    [REPORT] = {"report", "ns/event", 1e9},
    [REPORT_ORDERED] = {"report, nodes in order", "ns/event", 1e9},
    [TICK] = {"tick", "ns/event", 1e9},
    [LOSS] = {"a loss, until published", "ms", 1e3},
    [MEMORY] = {"memory", "bytes/worker", 1},
};

/* One cluster, driven. */
struct run {
    struct effects fx;
    struct cluster *c;
    struct shape shape;
    uint64_t now_ms;
    uint64_t clock_us; /* of all events: a renewal per node and second, or faster */
    uint64_t seq, held;
    uint64_t sent_n;
    struct record waiting[8];
    uint32_t waiting_n;
    struct member *members; /* of the generation that is waiting */
    uint32_t *order;
    struct report reports[SLOTS_MAX];
};

static uint32_t steady_n = 500000; /* events of a steady figure */

/* ---- the driver ---- */

static void emit(struct effects *fx, const struct effect *e)
{
    struct run *r = (struct run *)fx;

    if (e->kind != EFFECT_RECORD) {
        r->sent_n += e->kind != EFFECT_NOTE;
        return;
    }
    mu_assert(r->waiting_n < ARRAY_LEN(r->waiting));
    r->waiting[r->waiting_n] = *e->u.record;
    if (e->u.record->kind == RECORD_GENERATION) {
        struct generation *g = &r->waiting[r->waiting_n].u.generation;

        memcpy(r->members, g->members, g->members_n * sizeof(*r->members));
        g->members = r->members;
    }
    r->waiting_n++;
}

static void fill_key(struct effects *fx, uint8_t *out, size_t n)
{
    memset(out, 0x5a, n);
}

static void step(struct run *r, struct event *e)
{
    e->now_ms = r->now_ms;
    cluster_step(r->c, e, &r->fx);
    for (uint32_t i = 0; i < r->waiting_n; i++) {
        mu_assert(cluster_apply(r->c, &r->waiting[i], &r->fx) == MU_OK);
    }
    r->waiting_n = 0;
}

/* Time goes on so that every node is heard about once a second. */
static void pass(struct run *r)
{
    r->clock_us += 1000000 / r->shape.nodes + 1;
    r->now_ms = 1000 + r->clock_us / 1000;
}

static void hello(struct run *r, uint32_t i)
{
    struct msg_hello m = {.job = "job",
                          .incarnation = i + 1,
                          .host = i / 4 + 1,
                          .min = r->shape.nodes,
                          .max = r->shape.nodes,
                          .slots = r->shape.slots,
                          .mode = MODE_INPROCESS,
                          .max_restarts = 3};

    snprintf(m.name, sizeof(m.name), "node-%u", i);
    step(r, &(struct event){.kind = EVENT_HELLO, .conn = i + 1, .u.hello = &m});
}

static void renew(struct run *r, uint32_t i)
{
    struct msg_renew m = {.seq = ++r->seq, .held = r->held, .active = r->held};

    step(r, &(struct event){.kind = EVENT_RENEW, .conn = i + 1, .u.renew = &m});
}

static void report(struct run *r, uint32_t i)
{
    struct msg_reports m = {.seq = ++r->seq, .reports_n = r->shape.slots, .reports = r->reports};

    step(r, &(struct event){.kind = EVENT_REPORTS, .conn = i + 1, .u.reports = &m});
}

static void set_reports(struct run *r, enum phase phase, uint64_t entered)
{
    for (uint32_t s = 0; s < r->shape.slots; s++) {
        r->reports[s] = (struct report){.slot = s,
                                        .incarnation = 1,
                                        .phase = (uint8_t)phase,
                                        .entered = entered,
                                        .reached = entered,
                                        .addr = "10.0.0.1:4000"};
    }
}

static struct job_view view(const struct run *r)
{
    struct job_view v;

    mu_assert(cluster_job(r->c, "job", &v) == MU_OK);
    return v;
}

/* ---- beginning and end ---- */

static void shuffle(uint32_t *order, uint32_t n)
{
    struct prng p;

    prng_init(&p, n);
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
    }
    for (uint32_t i = n; i > 1; i--) {
        uint32_t k = (uint32_t)prng_below(&p, i), t = order[i - 1];

        order[i - 1] = order[k];
        order[k] = t;
    }
}

static void run_open(struct run *r, struct shape shape)
{
    struct cluster_config config = cluster_defaults();
    uint32_t workers = shape.nodes * shape.slots;

    memset(r, 0, sizeof(*r));
    config.nodes_max = shape.nodes;
    config.workers_max = workers;
    config.group_max = workers;
    r->fx = (struct effects){emit, fill_key};
    r->shape = shape;
    r->now_ms = 1000;
    r->members = malloc(workers * sizeof(*r->members));
    r->order = malloc(shape.nodes * sizeof(*r->order));
    mu_assert(r->members != NULL && r->order != NULL);
    mu_assert(cluster_init(&config, NULL, &r->c) == MU_OK);
    shuffle(r->order, shape.nodes);
    cluster_start(r->c, r->now_ms, 0, &r->fx);
}

static void run_close(struct run *r)
{
    cluster_close(r->c);
    free(r->members);
    free(r->order);
}

/* ---- the phases of a job's life ---- */

static void measure_form(struct run *r, double *out)
{
    uint32_t last = r->shape.nodes - 1;
    double start = bench_now();

    for (uint32_t i = 0; i < r->shape.nodes; i++) {
        hello(r, i);
    }
    out[REGISTER] = bench_now() - start;
    set_reports(r, PHASE_WARM, 0);
    start = bench_now();
    for (uint32_t i = 0; i < last; i++) {
        report(r, i);
    }
    out[WARM] = bench_now() - start;
    start = bench_now();
    report(r, last);
    out[FORM] = bench_now() - start;
    mu_assert(view(r).generation == 1);
}

/* A report may overtake the renewal that says "I hold it". */
static void measure_enter(struct run *r, double *out)
{
    uint32_t early = MIN(EARLY_EVENTS, r->shape.nodes / 2);
    double start;

    r->held = 1;
    set_reports(r, PHASE_IN, 1);
    start = bench_now();
    for (uint32_t i = 0; i < early; i++) {
        report(r, r->order[i]);
    }
    out[EARLY] = (bench_now() - start) / early;
    start = bench_now();
    for (uint32_t i = 0; i < r->shape.nodes; i++) {
        renew(r, r->order[i]);
        report(r, r->order[i]);
    }
    out[ENTER] = bench_now() - start;
    mu_assert(view(r).active == 1);
}

static double steady(struct run *r, void (*event)(struct run *r, uint32_t i), bool ordered)
{
    double start;

    for (uint32_t warm = 0; warm < 2; warm++) { /* The first time round fills the caches. */
        start = bench_now();
        for (uint32_t k = 0; k < steady_n; k++) {
            uint32_t i = k % r->shape.nodes;

            pass(r);
            event(r, ordered ? i : r->order[i]);
        }
    }
    return (bench_now() - start) / steady_n;
}

static void tick(struct run *r, uint32_t i)
{
    step(r, &(struct event){.kind = EVENT_TICK});
}

/* Nobody is heard while it ticks, so it must be over before a lease is. */
static double measure_tick(struct run *r)
{
    const uint32_t n = 1000000;
    double start = bench_now();

    for (uint32_t k = 0; k < n; k++) {
        if (k % (n / 1000) == 0) {
            r->now_ms++;
        }
        tick(r, 0);
    }
    r->clock_us = (r->now_ms - 1000) * 1000;
    return (bench_now() - start) / n;
}

static double measure_loss(struct run *r)
{
    double start;

    set_reports(r, PHASE_IN, 1);
    r->reports[0].phase = PHASE_EXITED;
    r->reports[0].exit_code = 137;
    start = bench_now();
    report(r, r->order[0]);
    mu_assert(view(r).generation == 2);
    return bench_now() - start;
}

static void measure(struct shape shape, double out[FIGURES_N])
{
    struct run r;

    run_open(&r, shape);
    measure_form(&r, out);
    measure_enter(&r, out);
    out[RENEW] = steady(&r, renew, false);
    out[RENEW_ORDERED] = steady(&r, renew, true);
    out[REPORT] = steady(&r, report, false);
    out[REPORT_ORDERED] = steady(&r, report, true);
    out[TICK] = measure_tick(&r);
    mu_assert(view(&r).generation == 1); /* Nobody was lost on the way. */
    out[LOSS] = measure_loss(&r);
    out[MEMORY] = (double)cluster_memory(r.c) / (shape.nodes * shape.slots);
    run_close(&r);
}

/* ---- the table ---- */

static void publish(struct shape shape, double (*all)[FIGURES_N], int repeats,
                    double medians[FIGURES_N])
{
    double spread_max = 0;
    char name[96];

    for (int f = 0; f < FIGURES_N; f++) {
        double values[REPEATS], spread;

        for (int k = 0; k < repeats; k++) {
            values[k] = all[k][f] * FIGURES[f].scale;
        }
        medians[f] = bench_median(values, (size_t)repeats, &spread);
        if (f == RENEW || f == REPORT || f == TICK) {
            spread_max = MAX(spread_max, spread);
        }
        snprintf(name, sizeof(name), "%u x %u: %s", shape.nodes, shape.slots, FIGURES[f].name);
        bench_result(name, medians[f], FIGURES[f].unit);
        if (f == RENEW || f == REPORT) {
            snprintf(name, sizeof(name), "%u x %u: %ss", shape.nodes, shape.slots, FIGURES[f].name);
            bench_result(name, 1e9 / medians[f], "events/s");
        }
    }
    snprintf(name, sizeof(name), "%u x %u: widest spread", shape.nodes, shape.slots);
    bench_result(name, spread_max, "%");
}

static void compare(uint32_t slots, const double few[FIGURES_N], const double many[FIGURES_N])
{
    static const enum figure STEADY[] = {EARLY, RENEW, RENEW_ORDERED, REPORT, REPORT_ORDERED, TICK};
    char name[96];

    for (size_t i = 0; i < ARRAY_LEN(STEADY); i++) {
        snprintf(name, sizeof(name), "100k : 1k (x %u), %s", slots, FIGURES[STEADY[i]].name);
        bench_result(name, many[STEADY[i]] / few[STEADY[i]], "times");
    }
}

static void all_shapes(void)
{
    static const uint32_t WORKERS[] = {1000, 10000, 100000}, SLOTS[] = {8, 1};
    static double all[REPEATS][FIGURES_N], medians[ARRAY_LEN(WORKERS)][FIGURES_N];

    for (size_t s = 0; s < ARRAY_LEN(SLOTS); s++) {
        for (size_t w = 0; w < ARRAY_LEN(WORKERS); w++) {
            struct shape shape = {WORKERS[w] / SLOTS[s], SLOTS[s]};

            for (int k = 0; k < REPEATS; k++) {
                measure(shape, all[k]);
            }
            publish(shape, all, REPEATS, medians[w]);
        }
        compare(SLOTS[s], medians[0], medians[ARRAY_LEN(WORKERS) - 1]);
    }
}

/* ---- data tasks ---- */

#define TASK_WORKERS 8u
#define TASKS_HELD 16u

struct tasks_bench {
    struct tasks_out out;
    struct tasks *t;
    struct tasks_record waiting[8];
    uint32_t waiting_n;
};

static void put_task(struct tasks_out *to, const struct tasks_record *r)
{
    struct tasks_bench *b = (struct tasks_bench *)to;

    mu_assert(b->waiting_n < ARRAY_LEN(b->waiting));
    b->waiting[b->waiting_n++] = *r;
}

static void apply_tasks(struct tasks_bench *b, uint64_t now_ms)
{
    do {
        for (uint32_t i = 0; i < b->waiting_n; i++) {
            mu_assert(tasks_apply(b->t, &b->waiting[i]) == MU_OK);
        }
        b->waiting_n = 0;
        tasks_tick(b->t, now_ms, &b->out);
    } while (b->waiting_n > 0);
}

/* Fewer than n at the end of an epoch. */
static uint32_t give_and_report(struct tasks_bench *b, uint32_t worker, uint64_t number, uint32_t n)
{
    struct task tasks[TASKS_HELD];
    struct task_item items[TASKS_HELD];
    uint8_t verdicts[TASKS_HELD];
    struct tasks_given given;
    wid self = wid_make(worker + 1, 0, 1);
    bool pending;

    mu_assert(tasks_get(b->t, self, number, n, number, &b->out, tasks, &given) == MU_OK);
    n = given.tasks_n;
    for (uint32_t i = 0; i < n; i++) {
        items[i] = (struct task_item){.id = tasks[i].id, .attempt = tasks[i].attempt};
    }
    struct tasks_report r = {
        .worker = self, .number = number, .acked = number - 1, .items_n = n, .items = items};
    mu_assert(n == 0 ||
              tasks_report(b->t, &r, number, &b->out, verdicts, &pending, NULL, 0) == MU_OK);
    apply_tasks(b, number);
    return n;
}

/* Endless epochs, so that the smallest set lasts as long as the largest; the middle of it is what
 * is measured. */
static void measure_tasks(uint64_t tasks_n, uint32_t n)
{
    const struct tasks_limits limits = tasks_limits_default();
    struct tasks_bench b = {.out = {put_task}};
    struct rec_tasks_set set = tasks_set(TASK_TRAINING, "data", 1, 100);
    struct task_file file = {"file", 0, tasks_n * 100};
    const uint32_t rounds = 400000 / n;
    double best = 1e9;
    char name[96];
    bool pending;

    set.epochs = 0;
    set.overlap = true;
    set.shuffle_tasks = true;
    mu_assert(tasks_init("job", &limits, &b.t) == MU_OK);
    tasks_start(b.t, 1, 1);
    mu_assert(tasks_describe(b.t, &set, &b.out, &pending, NULL, 0) == MU_OK);
    apply_tasks(&b, 1);
    struct rec_tasks_files part = {.head = tasks_head_digest(&set), .files_n = 1, .files = &file};
    mu_assert(tasks_files(b.t, &part, &b.out, &pending, NULL, 0) == MU_OK);
    apply_tasks(&b, 1);
    for (uint64_t k = 0, number = 0; k < REPEATS; k++) {
        double start = bench_now();
        uint64_t done_n = 0;

        for (uint32_t i = 0; i < rounds; i++) {
            number += i % TASK_WORKERS == 0;
            done_n += give_and_report(&b, i % TASK_WORKERS, number, n);
        }
        best = MIN(best, (bench_now() - start) / (double)done_n);
    }
    snprintf(name, sizeof(name), "%.0e tasks, %u at a time: give out and report", (double)tasks_n,
             n);
    bench_result(name, best * 1e9, "ns/task");
    tasks_close(b.t);
}

static void all_tasks(void)
{
    for (uint64_t tasks_n = 1000; tasks_n <= 10000000; tasks_n *= 10) {
        measure_tasks(tasks_n, 1);
        measure_tasks(tasks_n, TASKS_HELD);
    }
}

int main(int argc, char **argv)
{
    static double once[1][FIGURES_N], medians[FIGURES_N];

    bench_begin("core");
    if (argc == 2 && strcmp(argv[1], "tasks") == 0) {
        all_tasks();
    } else if (argc > 2) {
        struct shape shape = {(uint32_t)strtoul(argv[1], NULL, 10),
                              (uint32_t)strtoul(argv[2], NULL, 10)};

        steady_n = 2 * shape.nodes;
        measure(shape, once[0]);
        publish(shape, once, 1, medians);
    } else {
        all_shapes();
        all_tasks();
    }
    bench_end();
    return 0;
}
