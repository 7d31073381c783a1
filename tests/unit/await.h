/* Waiting for what comes about while a loop runs. */
#ifndef UNIT_AWAIT_H
#define UNIT_AWAIT_H

#include "net/net.h"
#include "unit/unit.h"

/* Does `turn` until cond holds; fails the test, with cond as text, when that takes a minute. */
#define unit_await(cond, text, turn)                         \
    do {                                                     \
        const uint64_t await_end_ms = net_now_ms() + 60000;  \
        while (!(cond)) {                                    \
            if (net_now_ms() > await_end_ms) {               \
                fail_msg("waited for a minute until " text); \
            }                                                \
            turn;                                            \
        }                                                    \
    } while (0)

#endif
