/* Calls that were started are made by a thread of their own, in the order in which they were. */
#include "base/thread.h"
#include "comm/op.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

struct comm_started {
    struct comm_started *next;  /* in the queue */
    struct comm_started *other; /* of all that are not finished yet */
    struct comm *c;
    struct comm_call call;
    struct comm_result result;
    int status;
    bool done;
};

struct moving {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on the monotonic clock */
    struct comm_started *first, **last;
    struct comm_started *all;
    pthread_t thread;
    bool has_thread, stop;
    _Atomic uint32_t pending_n; /* queued or under way */
};

int moving_open(struct comm *c)
{
    struct moving *m = calloc(1, sizeof(*m));
    pthread_condattr_t attr;

    if (m == NULL) {
        return MU_ENOMEM;
    }
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&m->lock, NULL);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
    m->last = &m->first;
    c->moving = m;
    return MU_OK;
}

/* What is still queued fails at once: comm_close() has said that it closes. What nobody has
 * finished is freed. */
void moving_close(struct comm *c)
{
    struct moving *m = c->moving;

    if (m == NULL) {
        return;
    }
    pthread_mutex_lock(&m->lock);
    m->stop = true;
    pthread_cond_broadcast(&m->changed);
    pthread_mutex_unlock(&m->lock);
    if (m->has_thread) {
        pthread_join(m->thread, NULL);
    }
    while (m->all != NULL) {
        struct comm_started *s = m->all;
        m->all = s->other;
        free(s);
    }
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m);
    c->moving = NULL;
}

bool moving_busy(struct comm *c)
{
    return atomic_load_explicit(&c->moving->pending_n, memory_order_acquire) > 0;
}

static struct comm_started *next_one(struct moving *m)
{
    struct comm_started *s;

    pthread_mutex_lock(&m->lock);
    while (m->first == NULL && !m->stop) {
        pthread_cond_wait(&m->changed, &m->lock);
    }
    s = m->first;
    if (s != NULL) {
        m->first = s->next;
        if (m->first == NULL) {
            m->last = &m->first;
        }
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

static void *mover(void *arg)
{
    struct comm *c = arg;
    struct moving *m = c->moving;
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
    struct moving *m = c->moving;
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
        *m->last = s;
        m->last = &s->next;
        s->other = m->all;
        m->all = s;
        pthread_cond_broadcast(&m->changed);
        *started_out = s;
    }
    pthread_mutex_unlock(&m->lock);
    if (rc != MU_OK) {
        free(s);
    }
    return rc;
}

static struct timespec in_ms(int64_t timeout_ms)
{
    uint64_t at_ns = wait_now_ns() + (uint64_t)timeout_ms * 1000000;

    return (struct timespec){.tv_sec = (time_t)(at_ns / 1000000000),
                             .tv_nsec = (long)(at_ns % 1000000000)};
}

static void take_out(struct moving *m, struct comm_started *s)
{
    struct comm_started **at = &m->all;

    while (*at != s) {
        at = &(*at)->other;
    }
    *at = s->other;
}

static int finish(struct comm_started *s, int64_t timeout_ms, struct comm_result *result)
{
    struct moving *m = s->c->moving;
    struct timespec due = in_ms(MAX(timeout_ms, 0));
    int rc = 0;
    bool done;

    pthread_mutex_lock(&m->lock);
    while (!s->done && rc == 0) {
        rc = timeout_ms < 0 ? pthread_cond_wait(&m->changed, &m->lock)
                            : pthread_cond_timedwait(&m->changed, &m->lock, &due);
    }
    done = s->done;
    if (done) {
        take_out(m, s);
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
