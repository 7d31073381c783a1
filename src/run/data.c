/* The data plane's life: opened when the agent has said who this worker is and where it listens,
 * told what the agent says, and a thread by which it follows that where it may have to wait. */
#include "base/address.h"
#include "base/env.h"
#include "base/log.h"
#include "base/random.h"
#include "base/thread.h"
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WANT_MS = 1000, NUDGE_MS = 1000 };

#define AREA "run"

/* ---- what it is to be ---- */

int data_config(struct mu_run *run)
{
    const char *transport = env_text("MUSTER_TRANSPORT");
    const char *tls = env_text("MUSTER_TLS");
    struct data *d = &run->data;

    if (transport == NULL || strcmp(transport, "auto") == 0) {
        d->paths = COMM_SHM | COMM_TCP;
    } else if (strcmp(transport, "shm") == 0) {
        d->paths = COMM_SHM;
    } else if (strcmp(transport, "tcp") == 0) {
        d->paths = COMM_TCP;
    } else {
        return run_fail(MU_EINVAL, "MUSTER_TRANSPORT is '%.60s'; it may be auto, shm or tcp",
                        transport);
    }
    if (tls != NULL && strcmp(tls, "0") != 0 && strcmp(tls, "1") != 0) {
        return run_fail(MU_EINVAL, "MUSTER_TLS is '%.60s'; it may be 0 or 1", tls);
    }
    d->tls = tls != NULL && strcmp(tls, "1") == 0;
    return MU_OK;
}

/* The agent has said that it is at an address that can't be listened on. It may be a name or an
 * address of something before this host, which is for others to use: then it listens everywhere, on
 * that port. why: what is wrong with it. */
static int open_elsewhere(struct mu_run *run, struct comm_config *cc, const char *why)
{
    const char *told = run->life.addr, *end = strrchr(told, ':');
    const char *port = end != NULL ? end : told + strlen(told);
    char host[ADDR_MAX_LEN], any[ADDR_MAX_LEN], again[COMM_ERROR_MAX];
    int rc;

    snprintf(host, sizeof(host), "%.*s", (int)(port - told), told);
    cc->address = host;
    rc = comm_open(cc, &run->data.comm, again);
    if (rc == MU_OK) {
        log_warn(AREA, "can't listen on %s: %s; this worker is at %s instead", told, why,
                 comm_address(run->data.comm));
        return rc;
    }
    snprintf(any, sizeof(any), "%s%s", host[0] == '[' ? "[::]" : "0.0.0.0", port);
    cc->address = any;
    cc->iface = NULL;
    rc = comm_open(cc, &run->data.comm, again);
    if (rc == MU_OK) {
        log_info(AREA, "%s is no address of this host: listening on %s", host, any);
        snprintf(run->now.addr, sizeof(run->now.addr), "%s", told);
    }
    return rc;
}

/* ---- a thread for what may wait: the data plane follows what the agent says ---- */

uint64_t data_linked(const struct mu_run *run)
{
    return data_is_named(run) ? comm_linked(run->data.comm) : 0;
}

bool data_is_named(const struct mu_run *run)
{
    return run->data.comm != NULL && comm_self(run->data.comm) == run->life.worker;
}

/* From the data plane's thread. */
static void on_linked(void *arg)
{
    struct mu_run *run = arg;

    pthread_mutex_lock(&run->lock);
    call_news(run);
    told_again(run);
    pthread_mutex_unlock(&run->lock);
}

/* A new life goes by a new name. Links of the old one are no more. */
static void rename_comm(struct mu_run *run)
{
    wid self = run->life.worker;

    pthread_mutex_unlock(&run->lock);
    comm_rename(run->data.comm, self);
    pthread_mutex_lock(&run->lock);
    call_news(run);
}

/* Links to whomever the newest generation names. An agent may have been given a name (--address),
 * and the data plane wants numbers. A name that nobody knows stays: that worker can't be reached
 * then, and whoever waits for it says who is missing. */
static void want_newest(struct mu_run *run)
{
    char who[WID_TEXT_MAX];
    struct membership *m; /* Its own: addresses that are names become numbers. */
    wid missing;

    if (run->newest == NULL || membership_open(&run->newest->g, &m) != MU_OK) {
        return;
    }
    pthread_mutex_unlock(&run->lock);
    if (comm_unlinked(run->data.comm, WANT_MS, &missing, 1) > 0) {
        log_debug(AREA, "%s does not answer yet", wid_print(missing, who));
    }
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        address_look_up(m->g.members[i].addr, ADDR_MAX_LEN); /* That may take long. */
    }
    (void)comm_want(run->data.comm, &m->g); /* It is asked again while there are none. */
    membership_close(m);
    pthread_mutex_lock(&run->lock);
}

/* The caller is away: those who wait for it are told again, well before they lose patience. */
static uint64_t nudge_every_ms(const struct mu_run *run)
{
    const int64_t step_ms = run->config.step_ms;

    return step_ms < 0 ? NUDGE_MS : (uint64_t)MAX(MIN(step_ms / 4, NUDGE_MS), 1);
}

/* Names of hosts are looked up again while somebody is not there: they may mean another by now.
 * That can take long, so it is not done while others are to be nudged. */
static void *follow_main(void *arg)
{
    struct mu_run *run = arg;
    uint64_t wanted = 0, want_ms = 0, nudge_ms = 0;

    pthread_mutex_lock(&run->lock);
    while (call_state(run) == MU_OK) {
        const uint64_t now_ms = clock_ms();
        const uint64_t newest = roster_helps(run) ? 0 : run_newest(run); /* It links to nobody. */
        const bool away = run->data.away;
        const bool again = newest != 0 && !away && data_linked(run) != newest;

        if (!data_is_named(run)) {
            rename_comm(run);
            wanted = 0;
        } else if (wanted != newest || (again && now_ms >= want_ms)) {
            wanted = newest;
            want_ms = now_ms + WANT_MS;
            want_newest(run);
        } else if (away && now_ms >= nudge_ms) {
            nudge_ms = now_ms + nudge_every_ms(run);
            comm_nudge(run->data.comm);
        } else {
            (void)call_wait(run, away ? nudge_ms : again ? want_ms : UINT64_MAX);
        }
    }
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

/* ---- its life ---- */

static int open_comm(struct mu_run *run, struct comm_config *cc, char *error)
{
    char *addr = run->now.addr; /* mu_config.address; "": where the agent says */
    const char *told = run->life.addr;
    const bool asked = addr[0] != '\0';
    int rc;

    if (run->alone) { /* Nobody can come: nobody has the key. */
        return comm_open(cc, &run->data.comm, error);
    }
    cc->address = asked ? addr : told[0] != '\0' ? told : NULL;
    cc->iface = asked ? NULL : getenv("MUSTER_IFACE");
    rc = comm_open(cc, &run->data.comm, error);
    if (rc != MU_OK && rc != MU_ENOMEM && cc->address == told &&
        open_elsewhere(run, cc, error) == MU_OK) {
        rc = MU_OK;
    }
    if (rc == MU_OK && (asked || addr[0] == '\0')) {
        snprintf(addr, sizeof(run->now.addr), "%s", comm_address(run->data.comm));
    }
    return rc;
}

int data_open(struct mu_run *run)
{
    struct data *d = &run->data;
    struct comm_config cc = {.run = run->life.run,
                             .self = run->life.worker,
                             .host = run->life.host,
                             .paths = d->paths,
                             .tls = d->tls,
                             .on_linked = run->alone ? NULL : on_linked,
                             .arg = run};
    char error[COMM_ERROR_MAX];
    int rc;

    if (d->comm != NULL) {
        return MU_OK;
    }
    memcpy(cc.job, run->life.job, sizeof(cc.job));
    memcpy(cc.run_key, run->life.key, sizeof(cc.run_key));
    if (run->alone) {
        random_bytes(cc.run_key, sizeof(cc.run_key));
    }
    rc = open_comm(run, &cc, error);
    if (rc != MU_OK) {
        return run_fail(rc, "%s", error);
    }
    if (!run->alone && thread_start(&d->follower, follow_main, run) != MU_OK) {
        comm_close(d->comm);
        d->comm = NULL;
        return run_fail(MU_ENOMEM, "can't start a thread");
    }
    return MU_OK;
}

void data_close(struct mu_run *run)
{
    struct data *d = &run->data;

    if (d->comm != NULL && !run->alone) {
        pthread_mutex_lock(&run->lock);
        run->leaving = true;
        call_over(run);
        pthread_mutex_unlock(&run->lock);
        pthread_join(d->follower, NULL);
    }
    comm_close(d->comm);
    *d = (struct data){0};
}

/* After a loss nothing more can be done in the groups before it: whoever waits there hears so. A
 * planned change waits until the members have regrouped; agreed calls say who knows of it. */
void data_generation(struct mu_run *run)
{
    const struct generation *g = &run->newest->g;

    if (run->data.comm == NULL) {
        return;
    }
    if (g->kind != GENERATION_BOUNDARY) {
        comm_fence(run->data.comm, g->number);
    }
    comm_newest(run->data.comm, g->number);
}
