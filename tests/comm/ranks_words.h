/* What the test and its ranks tell each other over a socket pair: one packet each. */
#ifndef COMM_RANKS_WORDS_H
#define COMM_RANKS_WORDS_H

#include "comm/ranks.h"

#define RANKS_TOLD_ADDRESS 0xffff0001u
#define RANKS_TOLD_FAILED 0xffff0002u

struct ranks_told {
    uint32_t kind; /* the test's own, or one of the above */
    uint64_t value, value2;
    char text[RANKS_TEXT_MAX];
};

struct ranks_order {
    bool is_word;
    uint64_t word;
    struct generation generation; /* whose members are these: */
    struct member members[RANKS_MAX];
};

#endif
