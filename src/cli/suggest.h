/* "Did you mean": of the words offered, the one nearest to what was typed. */
#ifndef CLI_SUGGEST_H
#define CLI_SUGGEST_H

#include "base/base.h"

struct suggestion {
    const char *typed; /* without its leading '-' */
    const char *best;  /* NULL: nothing is near */
    size_t distance;
};

/* Strings are borrowed as long as the suggestion is used. */
void suggest_begin(struct suggestion *s, const char *typed);
void suggest_offer(struct suggestion *s, const char *name);

#endif
