/* A job's wanted size by step, from the text "size:steps,size:steps,...": the first size for that
 * many steps, then the next. The last one holds on for ever after, and may be written without
 * steps.
 *
 * "1:10,2:10,3:20,4:10,1" begins with 1 and changes to 2 at step 10, to 3 at 20, to 4 at 40 and
 * back to 1 at 50, where step t is the one that t committed steps precede. */
#ifndef CORE_SCHEDULE_H
#define CORE_SCHEDULE_H

#include "core/message.h"

#define SCHEDULE_PARTS_MAX 64
#define SCHEDULE_STEPS_MAX (UINT64_C(1) << 48)

struct schedule_part {
    uint32_t size;  /* in nodes */
    uint64_t until; /* the step at which the next part begins; UINT64_MAX in the last */
};

/* Plain data. */
struct schedule {
    uint32_t parts_n;
    struct schedule_part parts[SCHEDULE_PARTS_MAX];
};

/* Blanks may follow a comma. MU_EINVAL with a sentence in why (cap bytes; it may be 0) that names
 * the part and what is wrong with it; then *out is untouched. */
int schedule_parse(const char *text, size_t text_n, struct schedule *out, char *why, size_t cap);

uint32_t schedule_size(const struct schedule *schedule, uint64_t step);

#endif
