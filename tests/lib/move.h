/* comm_move() for a test that has a generation, and no need to keep it. */
#ifndef LIB_MOVE_H
#define LIB_MOVE_H

#include "comm/comm.h"

static inline int move_to(struct comm *c, const struct generation *g, uint32_t round,
                          int64_t timeout_ms, wid *missing_out)
{
    struct membership *m;
    int rc = membership_open(g, &m);

    if (rc == MU_OK) {
        rc = comm_move(c, m, round, timeout_ms, missing_out);
        membership_close(m);
    }
    return rc;
}

#endif
