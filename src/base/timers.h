/* A heap of deadlines that lie in what they are for. Owners arm and disarm them; a driver asks when
 * the next is due, and takes those that are. Nothing is allocated, so there may be any number. */
#ifndef BASE_TIMERS_H
#define BASE_TIMERS_H

#include "base/base.h"

/* All zero is one that is off. It must be off before its memory goes away. */
struct timer {
    uint64_t at_ms; /* 0: off */
    void (*fn)(void *data, struct timer *t);
    struct timer *child, *next;
    struct timer **link; /* what points to this one */
};

/* All zero is an empty one. */
struct timers {
    struct timer *top;
};

/* Due at at_ms, not 0, instead of whatever it was armed for. fn is the driver's to call. */
void timers_arm(struct timers *ts, struct timer *t, uint64_t at_ms,
                void (*fn)(void *data, struct timer *t));

void timers_disarm(struct timers *ts, struct timer *t); /* one that is off is fine */
bool timer_is_on(const struct timer *t);

/* When the first is due; UINT64_MAX: there is none. */
uint64_t timers_next_ms(const struct timers *ts);

/* The first of those that are due by then, off now; NULL: none is. */
struct timer *timers_take(struct timers *ts, uint64_t now_ms);

#endif
