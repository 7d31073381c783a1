/* A line for people, on stderr, about training that goes on: in place on a terminal, otherwise one
 * a second. Only rank 0 has it, and tells of changes; a newcomer says once that it was taken in.
 * Everyone remembers the changes, for its report. */
#ifndef EXAMPLES_COMMON_PROGRESS_H
#define EXAMPLES_COMMON_PROGRESS_H

#include <muster.h>

#include <stdbool.h>

#define PROGRESS_CHANGES_MAX 256

struct progress_change {
    uint64_t generation, step; /* the first in it */
    int rank, world;
    uint64_t pause_us; /* that this worker did nothing meanwhile */
};

struct progress {
    mu_run *run;
    uint64_t steps_n; /* of the run; 0: without end */
    const char *const *metrics;
    int metrics_n;

    bool terminal;
    int width; /* of what is on the terminal's line now */
    uint64_t generation;
    int world;
    int64_t said_us; /* when, and since then … */
    uint64_t samples, steps;
    double sums[MU_METRICS_MAX];

    bool changing; /* … to the generation: how long it takes is known when work goes on */
    uint64_t change_step;
    int change_from;                                      /* so many workers */
    struct progress_change changes[PROGRESS_CHANGES_MAX]; /* the first ones */
    size_t changes_n;
};

/* metrics: their names, by the order of mu_metric(); borrowed, as the run is. */
void progress_init(struct progress *p, mu_run *run, uint64_t steps_n, const char *const *metrics,
                   int metrics_n);

/* To be told of everything that mu_next() gives. */
void progress_saw(struct progress *p, const mu_work *work);

/* Leaves the terminal's line as it is, so that others can write. */
void progress_end(struct progress *p);

#endif
