/* Calls that were started are made by a thread of their own, in the order in which they were. */
#include "base/thread.h"
#include "comm/op.h"

#include <stdlib.h>

struct comm_started {
    TAILQ_ENTRY(comm_started) all;
    struct comm *c;
    struct comm_call call;
    struct comm_result result;
    int status;
    bool done;
};

/* What is not begun yet fails at once: comm_close() has said that it closes. What nobody has
 * finished is freed. */
void moving_close(struct comm *c)
{
    struct moving *m = &c->moving;
    struct comm_started *s;

    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->has_thread) {
        pthread_join(m->thread, NULL);
    }
    while ((s = TAILQ_FIRST(&m->all)) != NULL) {
        TAILQ_REMOVE(&m->all, s, all);
        free(s);
    }
}

bool moving_busy(struct comm *c)
{
    return atomic_load_explicit(&c->moving.pending_n, memory_order_acquire) > 0;
}

static struct comm_started *next_one(struct moving *m)
{
    struct comm_started *s;

    pthread_mutex_lock(&m->lock);
    while (m->next == NULL && !m->stop) {
        pthread_cond_wait(&m->changed, &m->lock);
    }
    s = m->next;
    if (s != NULL) {
        m->next = TAILQ_NEXT(s, all);
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

static void *mover(void *arg)
{
    struct comm *c = arg;
    struct moving *m = &c->moving;
    struct comm_started *s;

    while ((s = next_one(m)) != NULL) {
        pthread_mutex_lock(&c->engine);
        s->status = call_make(c, &s->call, &s->result);
        pthread_mutex_unlock(&c->engine);
        pthread_mutex_lock(&m->lock);
        s->done = true;
        atomic_fetch_sub_explicit(&m->pending_n, 1, memory_order_release);
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
    return NULL;
}

int comm_start(struct comm *c, const struct comm_call *call, struct comm_started **started_out)
{
    struct moving *m = &c->moving;
    struct comm_started *s = calloc(1, sizeof(*s));
    int rc = MU_OK;

    if (s == NULL) {
        return MU_ENOMEM;
    }
    s->c = c;
    s->call = *call;
    pthread_mutex_lock(&m->lock);
    if (m->stop) {
        rc = MU_EDONE;
    } else if (!m->has_thread) {
        m->has_thread = thread_start(&m->thread, mover, c) == MU_OK;
        rc = m->has_thread ? MU_OK : MU_ENOMEM;
    }
    if (rc == MU_OK) {
        atomic_fetch_add_explicit(&m->pending_n, 1, memory_order_acq_rel);
        TAILQ_INSERT_TAIL(&m->all, s, all);
        m->next = m->next != NULL ? m->next : s;
        pthread_cond_broadcast(&m->changed);
        *started_out = s;
    }
    pthread_mutex_unlock(&m->lock);
    if (rc != MU_OK) {
        free(s);
    }
    return rc;
}

static int finish(struct comm_started *s, int64_t timeout_ms, struct comm_result *result)
{
    struct moving *m = &s->c->moving;
    const struct timespec due = wait_time(group_due_ns(timeout_ms));
    int rc = 0;
    bool done;

    pthread_mutex_lock(&m->lock);
    while (!s->done && rc == 0) {
        rc = pthread_cond_timedwait(&m->changed, &m->lock, &due);
    }
    done = s->done;
    if (done) {
        TAILQ_REMOVE(&m->all, s, all);
    }
    pthread_mutex_unlock(&m->lock);
    if (!done) {
        return call_refuse(result, MU_ETIMEDOUT, "the call goes on");
    }
    rc = s->status;
    *result = s->result;
    free(s);
    return rc;
}

int comm_finish(struct comm_started *s, int64_t timeout_ms, struct comm_result *result_out)
{
    struct comm_result unused, *result = result_out != NULL ? result_out : &unused;
    struct comm *c = s->c;
    int rc = comm_enter(c);

    if (rc != MU_OK) {
        return call_refuse(result, rc, "this worker is leaving");
    }
    rc = finish(s, timeout_ms, result);
    comm_leave(c);
    return rc;
}

int moving_run(struct comm *c, const struct comm_call *call, struct comm_result *result)
{
    struct comm_started *s;
    const int rc = comm_start(c, call, &s);

    return rc == MU_OK ? finish(s, -1, result)
                       : call_refuse(result, rc, "there is no memory for a call behind others");
}

void comm_abandon(struct comm_started *s)
{
    struct comm *c = s->c;
    struct comm_result result;

    if (finish(s, -1, &result) == MU_OK) {
        comm_release(c, result.view);
    }
}
