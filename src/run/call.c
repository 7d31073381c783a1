#include "base/thread.h"
#include "run/run.h"

#include <unistd.h>

int call_enter(struct mu_run *run)
{
    if (run == NULL) {
        return run_fail(MU_EINVAL, "there is no run: mu_join() gives one");
    }
    if (run->pid != getpid()) {
        return run_fail(MU_EINVAL,
                        "this run belongs to process %d: a forked child is not that worker, and "
                        "can't use its run",
                        (int)run->pid);
    }
    pthread_mutex_lock(&run->lock);
    run->callers_n++;
    return MU_OK;
}

int call_exit(struct mu_run *run, int rc)
{
    run->callers_n--;
    if (run->leaving) {
        pthread_cond_broadcast(&run->changed);
    }
    pthread_mutex_unlock(&run->lock);
    return rc;
}

int call_state(const struct mu_run *run)
{
    if (run->leaving) {
        return run_fail(MU_EDONE, "this worker has left the run");
    }
    if (run->given_up) {
        return run_fail(MU_EDONE, "this worker has given up");
    }
    if (run->ended) {
        return run_fail(MU_EDONE, "the run has %s%s%s", run->end.failed ? "failed" : "ended",
                        run->end.why[0] != '\0' ? ": " : "", run->end.why);
    }
    if (run->lost != MU_OK) {
        return run_fail(run->lost, "%s", run->why);
    }
    return MU_OK;
}

bool call_wait(struct mu_run *run, uint64_t due_ms)
{
    return thread_wait(&run->changed, &run->lock, due_ms);
}

void call_news(struct mu_run *run)
{
    run->news++;
    pthread_cond_broadcast(&run->changed);
    if (run->data.comm != NULL) {
        comm_poke(run->data.comm);
    }
}

void call_over(struct mu_run *run)
{
    if (run->data.comm != NULL) {
        comm_stop(run->data.comm);
    }
    asks_over(run);
    call_news(run);
}
