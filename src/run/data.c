/* The data plane's life: opened when the agent has said who this worker is and where it listens,
 * told what the agent says, and a thread that finds out whether a newcomer can reach everybody. */
#include "base/log.h"
#include "base/thread.h"
#include "run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    PROBE_MS = 500, /* then whoever is newest by then is probed */
    NUDGE_MS = 1000
};

#define AREA "run"

/* ---- what it is to be ---- */

int data_config(struct mu_run *run, const mu_config *config)
{
    const char *transport = getenv("MUSTER_TRANSPORT");
    const char *tls = getenv("MUSTER_TLS");
    struct data *d = &run->data;

    if (transport == NULL || transport[0] == '\0' || strcmp(transport, "auto") == 0) {
        d->paths = COMM_SHM | COMM_TCP;
    } else if (strcmp(transport, "shm") == 0) {
        d->paths = COMM_SHM;
    } else if (strcmp(transport, "tcp") == 0) {
        d->paths = COMM_TCP;
    } else {
        return run_fail(MU_EINVAL, "MUSTER_TRANSPORT is '%.60s'; it may be auto, shm or tcp",
                        transport);
    }
    if (tls != NULL && tls[0] != '\0' && strcmp(tls, "0") != 0 && strcmp(tls, "1") != 0) {
        return run_fail(MU_EINVAL, "MUSTER_TLS is '%.60s'; it may be 0 or 1", tls);
    }
    d->tls = tls != NULL && strcmp(tls, "1") == 0;
    if (config->address != NULL) {
        snprintf(d->asked, sizeof(d->asked), "%s", config->address);
    }
    return MU_OK;
}

/* "host" of "host:port", "[a:b]" of "[a:b]:port"; at: what follows. */
static void split(const char *addr, char host[ADDR_MAX_LEN], const char **at)
{
    const char *end = strrchr(addr, ':');

    *at = end != NULL ? end : addr + strlen(addr);
    snprintf(host, ADDR_MAX_LEN, "%.*s", (int)(*at - addr), addr);
}

/* Where the agent has said that it is. That may be a name or an address of something before this
 * host, which is for others to use: then it listens everywhere, on that port. */
static int open_told(struct mu_run *run, struct comm_config *cc, char *error)
{
    char host[ADDR_MAX_LEN], any[ADDR_MAX_LEN], again[COMM_ERROR_MAX];
    const char *told = run->life.addr, *port;
    int rc;

    cc->address = told[0] != '\0' ? told : NULL;
    cc->iface = getenv("MUSTER_IFACE");
    rc = comm_open(cc, &run->data.comm, error);
    if (rc == MU_OK || rc == MU_ENOMEM || told[0] == '\0') {
        return rc;
    }
    split(told, host, &port);
    cc->address = host;
    if (comm_open(cc, &run->data.comm, again) == MU_OK) {
        log_warn(AREA, "can't listen on %s: %s; this worker is at %s instead", told, error,
                 comm_address(run->data.comm));
        return MU_OK;
    }
    snprintf(any, sizeof(any), "%s%s", host[0] == '[' ? "[::]" : "0.0.0.0", port);
    cc->address = any;
    cc->iface = NULL;
    if (comm_open(cc, &run->data.comm, again) == MU_OK) {
        log_info(AREA, "%s is no address of this host: listening on %s", host, any);
        snprintf(run->addr, sizeof(run->addr), "%s", told);
        return MU_OK;
    }
    return rc;
}

/* ---- newcomers: can everybody be reached? ---- */

static bool is_over(const struct mu_run *run)
{
    return run->leaving || run->ended || run->lost != MU_OK;
}

/* Members know each other by moving their group; whoever has parked is asked for nothing. */
static bool probe_due(const struct mu_run *run)
{
    return run->attached && run->rank < 0 && told_entered(run) == 0 && !run->forgetting &&
           run->newest.number > run->data.reached;
}

/* One who trains wants to be linked to the newcomers of the next generation before it moves. */
static bool link_due(const struct mu_run *run)
{
    return run->data.link > run->data.linked && run->data.link == run->newest.number;
}

static void probe(struct mu_run *run)
{
    char who[WHO_MAX];
    struct generation g;
    wid self = run->life.worker;
    wid missing = 0;
    int rc;

    if (!run_newest(run, &g)) {
        (void)call_wait(run, run_now_ms() + PROBE_MS);
        return;
    }
    pthread_mutex_unlock(&run->lock);
    run_resolve(&g);
    rc = comm_probe(run->data.comm, &g, PROBE_MS, &missing);
    free(g.members);
    pthread_mutex_lock(&run->lock);
    if (rc == MU_OK && self == run->life.worker) {
        run->data.reached = MAX(run->data.reached, g.number);
        run->data.linked = MAX(run->data.linked, run->data.link == g.number ? g.number : 0);
        run->news++;
        pthread_cond_broadcast(&run->changed);
        comm_poke(run->data.comm);
        told_again(run);
    } else if (rc != MU_OK && rc != MU_EDONE && missing != 0) {
        log_debug(AREA, "%s of generation %" PRIu64 " does not answer yet", run_who(missing, who),
                  g.number);
    }
    if (rc != MU_OK && rc != MU_ETIMEDOUT) {
        (void)call_wait(run, run_now_ms() + PROBE_MS); /* Not again at once. */
    }
}

/* A new life goes by a new name. Links of the old one are no more. */
static void rename_comm(struct mu_run *run)
{
    wid self = run->life.worker;

    pthread_mutex_unlock(&run->lock);
    comm_rename(run->data.comm, self);
    pthread_mutex_lock(&run->lock);
    run->data.named = self;
    run->news++;
    pthread_cond_broadcast(&run->changed);
}

/* The caller is away: those who wait for it are told again, well before they lose patience. */
static void nudge(struct mu_run *run)
{
    const int64_t step_ms = run->config.step_ms;
    const uint64_t every_ms = step_ms < 0 ? NUDGE_MS : (uint64_t)MAX(MIN(step_ms / 4, NUDGE_MS), 1);
    const uint64_t due_ms = run_now_ms() + every_ms;

    pthread_mutex_unlock(&run->lock);
    comm_nudge(run->data.comm);
    pthread_mutex_lock(&run->lock);
    while (run->data.away && !is_over(run) && !probe_due(run) && !link_due(run) &&
           call_wait(run, due_ms)) {
    }
}

static void *prober_main(void *arg)
{
    struct mu_run *run = arg;

    pthread_mutex_lock(&run->lock);
    while (!is_over(run)) {
        if (run->data.named != run->life.worker) {
            rename_comm(run);
        } else if (probe_due(run) || link_due(run)) {
            probe(run);
        } else if (run->data.away) {
            nudge(run);
        } else {
            pthread_cond_wait(&run->changed, &run->lock);
        }
    }
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

/* ---- its life ---- */

static int open_comm(struct mu_run *run, struct comm_config *cc, char *error)
{
    struct data *d = &run->data;
    int rc;

    if (run->alone) { /* Nobody can come: nobody has the key. */
        return comm_open(cc, &d->comm, error);
    }
    if (d->asked[0] == '\0') {
        rc = open_told(run, cc, error);
    } else {
        cc->address = d->asked;
        rc = comm_open(cc, &d->comm, error);
    }
    if (rc == MU_OK && (run->addr[0] == '\0' || d->asked[0] != '\0')) {
        snprintf(run->addr, sizeof(run->addr), "%s", comm_address(d->comm));
    }
    return rc;
}

int data_open(struct mu_run *run, char *error)
{
    struct data *d = &run->data;
    struct comm_config cc = {.run = run->life.run,
                             .self = run->life.worker,
                             .host = run->life.host,
                             .paths = d->paths,
                             .tls = d->tls};
    int rc;

    if (d->comm != NULL) {
        return MU_OK;
    }
    memcpy(cc.job, run->life.job, sizeof(cc.job));
    memcpy(cc.run_key, run->life.key, sizeof(cc.run_key));
    if (run->alone && getrandom(cc.run_key, sizeof(cc.run_key), 0) != (ssize_t)sizeof(cc.run_key)) {
        snprintf(error, COMM_ERROR_MAX, "no randomness for a key: %s", strerror(errno));
        return MU_EIO;
    }
    rc = open_comm(run, &cc, error);
    if (rc != MU_OK) {
        return rc;
    }
    d->named = run->life.worker;
    if (!run->alone && thread_start(&d->prober, prober_main, run) != MU_OK) {
        comm_close(d->comm);
        d->comm = NULL;
        snprintf(error, COMM_ERROR_MAX, "can't start a thread");
        return MU_ENOMEM;
    }
    d->has_prober = !run->alone;
    return MU_OK;
}

void data_stop(struct mu_run *run)
{
    if (run->data.comm != NULL) {
        comm_stop(run->data.comm);
    }
    pthread_cond_broadcast(&run->changed);
}

void data_close(struct mu_run *run)
{
    struct data *d = &run->data;

    if (d->has_prober) {
        pthread_mutex_lock(&run->lock);
        run->leaving = true;
        data_stop(run);
        pthread_mutex_unlock(&run->lock);
        pthread_join(d->prober, NULL);
    }
    comm_close(d->comm);
    *d = (struct data){0};
}

/* After a loss nothing more can be done in the groups before it: whoever waits there hears so. A
 * planned change waits until the members have regrouped; agreed calls say who knows of it. */
void data_generation(struct mu_run *run)
{
    const struct generation *g = &run->newest;

    if (run->data.comm == NULL) {
        return;
    }
    if (g->kind != GENERATION_BOUNDARY) {
        comm_fence(run->data.comm, g->number);
    }
    comm_newest(run->data.comm, g->number);
}
