/* How an example ends: its last line, what it has to report, its exit status. */
#ifndef EXAMPLES_COMMON_ENDING_H
#define EXAMPLES_COMMON_ENDING_H

#include "progress.h"

#include <muster.h>

struct ending_part {
    const void *data;
    size_t bytes;
};

#define ENDING_HEX 65

/* The SHA-256 of the parts, one after the other, in hexadecimal. */
int ending_digest(const struct ending_part *parts, size_t parts_n, char hex_out[ENDING_HEX]);

/* So many steps make so many samples, as mu_data() cuts them. */
uint64_t ending_samples(uint64_t steps, uint64_t samples_n, uint64_t global_batch);

/* How many steps a run has; 0: it has no end. */
uint64_t ending_steps(uint64_t steps, uint64_t samples_n, uint64_t global_batch, uint64_t epochs);

/* What mu_training_get() has of this worker, the changes that it saw and how its loop ended, as
 * JSON: into the file `path`, or, if that is a folder, into NODE.PID.json in it. It is there whole
 * or not at all. */
int ending_report(const char *path, mu_run *run, const struct progress *progress, int rc);

/* What mu_next() ended with is said, the report written if path is not NULL, and the run left. The
 * exit status: 0 for MU_EDONE and MU_ELEFT. After anything else the run is not left, for that would
 * say that the work is done: the process is to end. *step_out (always set) is the last committed
 * step that this worker knows. */
int ending_leave(const char *program, const char *path, mu_run *run,
                 const struct progress *progress, int rc, uint64_t *step_out);

#endif
