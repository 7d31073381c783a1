/* What the workers write: from their pipes to the console, to files, or to both.
 *
 * On the console whole lines leave at once, each with "[rank] " before it; what is no whole line
 * waits for its end, 200 ms or 64 KiB, whichever comes first. In a file there is what the worker
 * wrote and nothing else: DIR/<job>/<node>/attempt_<generation>/<rank>/stdout.log and stderr.log.
 *
 * The loop never waits for a console or a disk: threads write, their queues are bounded, and a
 * worker whose output can't be taken finds its pipe full. What can't be written at all is dropped
 * and reported once: training goes on. */
#ifndef AGENT_OUTPUT_H
#define AGENT_OUTPUT_H

#include "agent/node.h"

#include <uv.h>

struct output;

struct output_config {
    int fds[2]; /* the console: 1 and 2 */
    bool prefix;
    const char *log_dir; /* NULL: none, and everything goes to the console */
    const char *job;
    const char *node;
    void (*news)(void *data); /* output_start_is_done() may say another thing; NULL: nobody asks */
    void *data;
};

/* Strings are copied. Colours are used where fds[i] is a terminal and NO_COLOR is not set. */
int output_open(uv_loop_t *loop, const struct output_config *config, struct output **o_out);

/* torchrun's meaning: tee is to both, redirects to the file alone. */
static inline enum stream_to output_to(bool redirect, bool tee)
{
    return tee ? STREAM_BOTH : redirect ? STREAM_FILE : STREAM_CONSOLE;
}

#define OUTPUT_NO_RANK UINT32_MAX /* a newcomer that warms up: "[s0] ", attempt_0/slot_0 */

struct output_start {
    uint32_t slot;
    uint32_t rank;
    uint64_t generation; /* 0: none yet */
    uint8_t to[2];       /* enum stream_to; [0] stdout, [1] stderr */
};

/* The ends for the next process of a slot to write to: give them to keeper_start(), then close
 * them, whatever it said. What the process before it wrote is still read to its end. */
int output_start(struct output *o, const struct output_start *start, int fds_out[2]);

/* The slot's process goes on as another rank; only what is on the console shows it. */
void output_set_rank(struct output *o, uint32_t slot, uint32_t rank);

/* Everything that any process of the slot wrote has been written, or nobody writes any more. A
 * process that has ended (`exited`) and is not yet done has output on its way. */
bool output_is_done(const struct output *o, uint32_t slot);

/* The number of the slot's newest process, and whether all that this one wrote has been written. */
uint32_t output_starts(const struct output *o, uint32_t slot);
bool output_start_is_done(const struct output *o, uint32_t slot, uint32_t start);

/* Reads and writes what is left, for at most flush_ms; then it is freed from the loop. A console
 * that is stuck holds up nothing else. */
void output_close(struct output *o, uint32_t flush_ms);

#endif
