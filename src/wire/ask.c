#include "wire/ask.h"

enum { BODY_NONE, FROM_PEOPLE = 0, FROM_WORKERS };

#define WIRE_BODY_NONE BODY_NONE

static const struct ask_rule rules[ASK_KINDS_N] = {
#define ASK(number, NAME, what, server, request, answer, policy, who, max) \
    [number] = {what, ASK_##policy, FROM_##who, WIRE_BODY_##request, WIRE_BODY_##answer, max},
#include "wire/ask.def"
};

const struct ask_rule *ask_rule(unsigned kind)
{
    return kind < ASK_KINDS_N && rules[kind].what != NULL ? &rules[kind] : NULL;
}
