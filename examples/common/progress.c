#include "progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define LINE_EVERY_US 1000000
#define REDRAW_EVERY_US 100000
#define BAR 20

struct line {
    char text[256];
    size_t n;
};

__attribute__((format(printf, 2, 3))) static void add(struct line *l, const char *format, ...)
{
    va_list list;
    int n;

    va_start(list, format);
    n = vsnprintf(l->text + l->n, sizeof(l->text) - l->n, format, list);
    va_end(list);
    l->n += (size_t)n < sizeof(l->text) - l->n ? (size_t)n : sizeof(l->text) - l->n - 1;
}

static int64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

void progress_init(struct progress *p, mu_run *run, uint64_t steps_n, const char *const *metrics,
                   int metrics_n)
{
    memset(p, 0, sizeof(*p));
    p->run = run;
    p->steps_n = steps_n;
    p->metrics = metrics;
    p->metrics_n = metrics_n;
    p->terminal = isatty(STDERR_FILENO) == 1;
    p->said_us = now_us();
}

/* ---- what is written ---- */

static int columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Over what is there. One write for each line: lines of several workers do not mix. */
static void draw(struct progress *p, struct line *l)
{
    int most = columns() - 1;
    int n = (int)l->n < most ? (int)l->n : most;
    int wipe = p->width > n ? p->width - n : 0;

    dprintf(STDERR_FILENO, "\r%.*s%*s", n, l->text, wipe, "");
    p->width = n;
}

static void say(struct progress *p, const struct line *l)
{
    dprintf(STDERR_FILENO, "%s%*s%s%s\n", p->width > 0 ? "\r" : "", p->width, "",
            p->width > 0 ? "\r" : "", l->text);
    p->width = 0;
}

static void add_bar(struct line *l, uint64_t done, uint64_t all)
{
    char bar[BAR + 1];
    size_t full = (size_t)((double)done / (double)all * BAR);

    memset(bar, '.', BAR);
    memset(bar, '#', full);
    bar[BAR] = '\0';
    add(l, "[%s] ", bar);
}

/* 41200 as "41,200": people compare it. */
static void add_rate(struct line *l, double rate)
{
    uint64_t n = (uint64_t)(rate + 0.5);

    if (n >= 1000000) {
        add(l, "  %" PRIu64 ",%03" PRIu64 ",%03" PRIu64, n / 1000000, n / 1000 % 1000, n % 1000);
    } else if (n >= 1000) {
        add(l, "  %" PRIu64 ",%03" PRIu64, n / 1000, n % 1000);
    } else {
        add(l, "  %" PRIu64, n);
    }
    add(l, " samples/s");
}

static void show(struct progress *p, const mu_work *work, int64_t now)
{
    struct line l = {.n = 0};
    int64_t took_us = now - p->said_us > 0 ? now - p->said_us : 1;

    if (p->steps_n > 0) {
        if (p->terminal) {
            add_bar(&l, work->step, p->steps_n);
        }
        add(&l, "step %" PRIu64 "/%" PRIu64, work->step, p->steps_n);
    } else {
        add(&l, "step %" PRIu64, work->step);
    }
    for (int i = 0; i < p->metrics_n; i++) {
        add(&l, "  %s %.4f", p->metrics[i], p->sums[i] / (double)p->steps);
    }
    add_rate(&l, (double)p->samples * 1e6 / (double)took_us);
    add(&l, "  %d worker%s, generation %" PRIu64, work->world, work->world == 1 ? "" : "s",
        work->generation);
    if (p->terminal) {
        draw(p, &l);
    } else {
        say(p, &l);
    }
}

/* ---- what happens ---- */

static void remember(struct progress *p, const mu_work *work, uint64_t pause_us)
{
    if (p->changes_n < PROGRESS_CHANGES_MAX) {
        p->changes[p->changes_n++] = (struct progress_change){.generation = work->generation,
                                                              .step = work->step,
                                                              .rank = work->rank,
                                                              .world = work->world,
                                                              .pause_us = pause_us};
    }
}

static void tell_change(struct progress *p, const mu_work *work, uint64_t pause_us)
{
    struct line l = {.n = 0};
    int more = work->world - p->change_from;

    add(&l, "generation %" PRIu64 ": %d worker%s", work->generation, work->world,
        work->world == 1 ? "" : "s");
    if (more != 0) {
        add(&l, ", %d %s", more > 0 ? more : -more, more > 0 ? "more" : "fewer");
    }
    add(&l, ", at step %" PRIu64 ", after a pause of %.1f ms", work->step, (double)pause_us / 1e3);
    say(p, &l);
}

static void saw_generation(struct progress *p, const mu_work *work)
{
    struct line l = {.n = 0};

    if (p->generation == 0 && work->step > 1) {
        add(&l, "taken in at step %" PRIu64 ": rank %d of %d, generation %" PRIu64, work->step,
            work->rank, work->world, work->generation);
        say(p, &l);
    } else if (p->generation != 0) {
        p->changing = true;
        p->change_step = work->step;
        p->change_from = p->world;
    }
    p->generation = work->generation;
    p->world = work->world;
}

/* A step that is committed may be the last of the old generation, and its update comes first. */
static void end_change(struct progress *p, const mu_work *work)
{
    mu_training training;

    if (work->kind == MU_STEP && work->step == p->change_step) {
        return;
    }
    p->changing = false;
    if (mu_training_get(p->run, &training) == MU_OK) {
        remember(p, work, training.pause_us);
        if (work->rank == 0) {
            tell_change(p, work, training.pause_us);
        }
    }
}

void progress_saw(struct progress *p, const mu_work *work)
{
    int64_t now;

    if (work->generation != p->generation) {
        saw_generation(p, work);
    }
    if (p->changing) {
        end_change(p, work);
    }
    if (work->kind != MU_STEP) {
        return;
    }
    p->steps++;
    p->samples += work->step_samples;
    for (int i = 0; i < p->metrics_n; i++) {
        p->sums[i] += work->metrics[i];
    }
    now = now_us();
    if (now - p->said_us < (p->terminal ? REDRAW_EVERY_US : LINE_EVERY_US) &&
        work->step != p->steps_n) {
        return;
    }
    if (work->rank == 0) {
        show(p, work, now);
    }
    p->said_us = now;
    p->samples = 0;
    p->steps = 0;
    memset(p->sums, 0, sizeof(p->sums));
}

void progress_end(struct progress *p)
{
    if (p->width > 0) {
        dprintf(STDERR_FILENO, "\n");
        p->width = 0;
    }
}
