/* The kinds of questions, as ask.def has them. */
#ifndef WIRE_ASK_H
#define WIRE_ASK_H

#include "wire/wire.h"

enum ask_kind {
#define ASK(number, NAME, what, server, request, answer, policy, who, max) ASK_##NAME = (number),
#include "wire/ask.def"
    ASK_KINDS_N = 64 /* numbers are below */
};

enum ask_policy { ASK_REPEAT, ASK_ONCE, ASK_READ, ASK_LATEST, ASK_STREAM };

struct ask_rule {
    const char *what; /* "setting" */
    enum ask_policy policy;
    bool workers;     /* not people alone */
    uint16_t request; /* WIRE_BODY_…; 0: it has none */
    uint16_t answer;
    uint32_t max; /* bytes of its body */
};

/* NULL: there is no such kind. */
const struct ask_rule *ask_rule(unsigned kind);

#endif
