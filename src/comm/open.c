/* Birth, another life, and death of a worker's data plane. */
#include "base/thread.h"
#include "comm/links.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static uint32_t count_cores(void)
{
    cpu_set_t set;
    const int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;

    return n > 0 ? (uint32_t)n : 1;
}

static void init_locks(struct comm *c)
{
    pthread_mutex_init(&c->engine, NULL);
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->views.lock, NULL);
    pthread_mutex_init(&c->moving.lock, NULL);
    thread_condition(&c->changed);
    thread_condition(&c->moving.changed);
    TAILQ_INIT(&c->moving.all);
}

static void init_config(struct comm *c, const struct comm_config *config)
{
    c->config = *config;
    c->config.address = c->config.iface = NULL;
    if (c->config.paths == 0) {
        c->config.paths = COMM_SHM | COMM_TCP;
    }
    c->hello.run = config->run;
    c->hello.self = config->self;
    memcpy(c->hello.job, config->job, sizeof(c->hello.job));
    memcpy(c->hello.run_key, config->run_key, KEY_BYTES);
    c->cores_n = count_cores();
    c->group.broken_by = COMM_NOBODY;
}

static int open_parts(struct comm *c, const struct comm_config *config, char *error)
{
    c->alarm_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (c->alarm_fd < 0) {
        snprintf(error, COMM_ERROR_MAX, "no event descriptor: %s; raise the limit of open files",
                 strerror(errno));
        return MU_EIO;
    }
    c->waiter.fds = calloc(WAIT_FDS_MAX, sizeof(*c->waiter.fds));
    int rc = c->waiter.fds == NULL ? MU_ENOMEM : segments_open(&c->segments);

    rc = rc == MU_OK ? exchange_open(c) : rc;
    if (rc != MU_OK) {
        snprintf(error, COMM_ERROR_MAX, "the data plane can't be set up: %s", mu_strerror(rc));
        return rc;
    }
    return links_open(c, config, error);
}

int comm_open(const struct comm_config *config, struct comm **comm_out, char *error)
{
    struct comm *c;

    if (config->self == 0 || (config->paths & ~(COMM_SHM | COMM_TCP)) != 0 ||
        memchr(config->job, '\0', sizeof(config->job)) == NULL) {
        snprintf(error, COMM_ERROR_MAX,
                 "the data plane needs a worker's id, a job and known paths");
        return MU_EINVAL;
    }
    c = calloc(1, sizeof(*c));
    if (c == NULL) {
        snprintf(error, COMM_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    init_locks(c);
    init_config(c, config);
    const int rc = open_parts(c, config, error);

    if (rc != MU_OK) {
        comm_close(c);
        return rc;
    }
    *comm_out = c;
    return MU_OK;
}

void comm_stop(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    atomic_store(&c->closing, true);
    pthread_mutex_unlock(&c->lock);
    comm_ring(c);
}

static bool is_any(const struct link *l)
{
    return l != NULL;
}

void comm_rename(struct comm *c, wid self)
{
    const struct comm_group none = {.broken_by = COMM_NOBODY};

    if (comm_enter(c) != MU_OK) {
        return;
    }
    comm_fence(c, comm_generation(c) + 1);
    pthread_mutex_lock(&c->engine);
    pthread_mutex_lock(&c->lock);
    c->hello.self = c->config.self = self; /* No link is made for the old one from here on. */
    tender_rename(c->tender, self);
    wants_unname(c->tended);
    pthread_mutex_unlock(&c->lock);
    group_set(c, &none);
    links_put_away(c, is_any);
    agreed_forget(c);
    pthread_mutex_unlock(&c->engine);
    comm_leave(c);
}

/* Whoever waits is let out first; then the threads end; then what they used is freed. Memory of
 * calls may be told of to peers, so links go after it. */
void comm_close(struct comm *c)
{
    if (c == NULL) {
        return;
    }
    comm_stop(c);
    pthread_mutex_lock(&c->lock);
    while (c->inside_n > 0) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    moving_close(c); /* Nobody waits for a started call any more. */
    if (c->tender != NULL) {
        tender_stop(c->tender);
    }
    mailbox_close(c);
    agreed_forget(c);
    if (c->tender != NULL) {
        pthread_mutex_lock(&c->engine);
        links_put_away(c, is_any);
        pthread_mutex_unlock(&c->engine);
    }
    views_close(c);
    exchange_close(c);
    links_close(c);
    segments_close(c->segments);
    group_free(&c->group);
    free(c->waiter.fds);
    if (c->alarm_fd >= 0) {
        close(c->alarm_fd);
    }
    pthread_cond_destroy(&c->moving.changed);
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->moving.lock);
    pthread_mutex_destroy(&c->views.lock);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->engine);
    free(c);
}
