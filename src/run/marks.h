/* Which round of each tag this worker has the answer of: it says so with its next value under that
 * tag, so that the orchestrator never mixes values of different rounds. The tags that were used
 * last are remembered; for the others nothing is claimed. */
#ifndef RUN_MARKS_H
#define RUN_MARKS_H

#include "core/message.h"

#define MARKS_N 64

struct mark {
    char tag[SYNC_TAG_MAX]; /* "": free */
    uint64_t generation;
    uint32_t n;
};

struct marks {
    struct mark items[MARKS_N]; /* the last that was set comes first */
    bool forgot;                /* a tag that is not here may have been used */
};

/* NULL: it was never used, or (forgot) that can't be told any more. */
const struct mark *marks_find(const struct marks *marks, const char *tag);

void marks_set(struct marks *marks, const char *tag, uint64_t generation, uint32_t n);

#endif
