/* The end of a process that did not leave its run. Whether its work is finished is said by its exit
 * code, which Python tells nobody: so the run is left behind Python, when the C library exits. By
 * then nothing calls back. */
#include "module.h"

#include <stdlib.h>
#include <unistd.h>

enum { STATUS_MASK = 0xff }; /* of which others hear */

static struct {
    mu_run *run;
    pid_t pid;
    int64_t meet_ms;
} last;

/* One that is gone is lost for those who are still in their last call, also if it has had its own
 * result. */
static void meet(mu_run *run, int64_t timeout_ms)
{
    mu_result result;
    mu_call call;

    mu_call_init(&call, MU_MEET);
    call.timeout_ms = timeout_ms;
    (void)mu_make(run, &call, &result); /* Or the others have ended, or are elsewhere. */
}

/* Whoever has failed is missed by the others, as its agent tells them. */
static void on_end(int status, void *unused)
{
    if ((status & STATUS_MASK) != 0 || last.pid != getpid()) {
        return;
    }
    if (last.meet_ms > 0) {
        meet(last.run, last.meet_ms);
    }
    (void)mu_leave(last.run);
}

int py_exit_leave(mu_run *run, int64_t meet_ms)
{
    last.run = run;
    last.pid = getpid();
    last.meet_ms = meet_ms;
    if (on_exit(on_end, NULL) != 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}
