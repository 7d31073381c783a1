/* A command's line to the checkpoints that the orchestrator keeps. */
#ifndef CLI_DEPOT_LINE_H
#define CLI_DEPOT_LINE_H

#include "cli/ask.h"
#include "depot/depot.h"

struct depot_call {
    const struct ask_where *where; /* borrowed */
    struct client *client;         /* NULL: none */
    bool fresh;                    /* nothing was said yet */
    uint64_t since_ms;             /* when the last was said or heard */
};

/* Connects; an exit status as of ask_open(). On success it is what depot_open() needs; *d is the
 * caller's: depot_close(). call must outlive it. */
int depot_call_open(const char *command, const struct ask_where *where, struct depot_call *call,
                    struct depot **d_out);

#endif
