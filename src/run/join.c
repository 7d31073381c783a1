/* mu_join and mu_leave. */
#include "base/env.h"
#include "base/log.h"
#include "base/thread.h"
#include "run/run.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { JOIN_MS = 10000, LEAVE_MS = 5000, LOADED_MS = 1000 };

static atomic_int joined_pid; /* of the process that has a run; 0 */

void mu_config_init(mu_config *config)
{
    *config = (mu_config){.size = sizeof(*config),
                          .join_ms = JOIN_MS,
                          .slices = 8,
                          .digest_every = 100,
                          .step_ms = MU_FOREVER,
                          .ckpt_ms = MU_FOREVER};
}

/* ---- the environment ---- */

static int parse(const char *name, int base, uint64_t max, uint64_t *out)
{
    const char *set = getenv(name), *text = set != NULL ? set : "";
    unsigned long long value;
    char *end;

    errno = 0;
    value = strtoull(text, &end, base);
    if (text[0] == '\0' || text[0] == '-' || *end != '\0' || errno != 0 || value > max) {
        return run_fail(MU_EINVAL,
                        "MUSTER_SOCKET is set, but %s is '%s': only `muster run` sets them", name,
                        text);
    }
    *out = value;
    return MU_OK;
}

static int find_place(struct agent_place *p)
{
    const char *socket = env_text("MUSTER_SOCKET");
    uint64_t slot, cookie;
    int rc;

    if (socket == NULL) {
        return MU_OK;
    }
    if (strlen(socket) >= sizeof(p->socket)) {
        return run_fail(MU_EINVAL, "MUSTER_SOCKET is too long for a socket: '%s'", socket);
    }
    if ((rc = parse("MUSTER_SLOT", 10, SLOTS_MAX - 1, &slot)) == MU_OK &&
        (rc = parse("MUSTER_COOKIE", 16, UINT64_MAX, &cookie)) == MU_OK) {
        strcpy(p->socket, socket);
        p->attach = (struct msg_attach){
            .slot = (uint32_t)slot, .cookie = cookie, .pid = (uint32_t)getpid()};
    }
    return rc;
}

/* As soon as the library is loaded the agent is told that this script is one of ours, though it may
 * be long before it joins. Whatever goes wrong is said by mu_join(). */
__attribute__((constructor)) static void say_loaded(void)
{
    struct agent_place place = {0};
    struct agent_line line;

    agent_line_init(&line, &place);
    if (find_place(&place) == MU_OK && place.socket[0] != '\0' &&
        agent_line_dial(&line, LOADED_MS, ATTACH_LOADED) == MU_OK) {
        (void)agent_line_send(&line, 0);
    }
    agent_line_close(&line);
}

/* ---- making and unmaking ---- */

static void run_close(struct mu_run *run)
{
    struct train *train;

    pthread_mutex_lock(&run->lock); /* The prober may still look at it. */
    train = run->train;
    run->train = NULL;
    pthread_mutex_unlock(&run->lock);
    if (train != NULL) {
        run->trainer->close(train);
    }
    regroup_close(run);
    data_close(run);
    agent_line_close(&run->line);
    if (run->wake_fd >= 0) {
        close(run->wake_fd);
    }
    membership_close(run->newest);
    roster_close(run);
    free(run->ckpt_dir);
    config_close(&run->settings);
    pthread_mutex_destroy(&run->lock);
    pthread_cond_destroy(&run->changed);
    free(run);
}

static int run_open(const mu_config *config, struct mu_run **run_out)
{
    struct mu_run *run = calloc(1, sizeof(*run));
    int rc;

    if (run == NULL) {
        return run_fail(MU_ENOMEM, "out of memory for a run");
    }
    pthread_mutex_init(&run->lock, NULL);
    thread_condition(&run->changed);
    run->config = *config;
    run->config.address = run->config.ckpt_dir = NULL;
    run->pid = getpid();
    run->wake_fd = -1;
    agent_line_init(&run->line, &run->place);
    /* Numbers of requests grow even if a worker's process starts again in the same life. */
    run->request = clock_boot_us();
    if (config->address != NULL) {
        snprintf(run->now.addr, sizeof(run->now.addr), "%s", config->address);
    }
    rc = find_place(&run->place);
    run->now.slot = run->place.attach.slot;
    if (rc == MU_OK) {
        rc = data_config(run);
    }
    if (rc == MU_OK && config->ckpt_dir != NULL) {
        run->ckpt_dir = strdup(config->ckpt_dir);
        rc = run->ckpt_dir != NULL ? MU_OK : run_fail(MU_ENOMEM, "out of memory for a run");
    }
    if (rc != MU_OK) {
        run_close(run);
        return rc;
    }
    *run_out = run;
    return MU_OK;
}

/* ---- a job of one ---- */

static int join_alone(struct mu_run *run)
{
    struct member self = {.worker = wid_make(1, 0, 1)};
    const struct generation g = {.number = 1, .run = 1, .members_n = 1, .members = &self};

    memcpy(self.addr, run->now.addr, sizeof(self.addr));
    if (membership_open(&g, &run->newest) != MU_OK) {
        return run_fail(MU_ENOMEM, "out of memory for a run");
    }
    run->alone = true;
    run->life = (struct msg_life){.worker = self.worker, .run = 1, .slots = 1};
    snprintf(run->life.job, sizeof(run->life.job), "alone");
    snprintf(run->life.node, sizeof(run->life.node), "alone");
    run->active = 1;
    return MU_OK;
}

/* ---- with an agent ---- */

/* Waits for the agent's answer. */
static int wait_for_life(struct mu_run *run, uint64_t due_ms)
{
    bool in_time = true;
    int rc;

    pthread_mutex_lock(&run->lock);
    while ((rc = call_state(run)) == MU_OK && !run->attached && in_time) {
        in_time = call_wait(run, due_ms);
    }
    if (rc == MU_OK && !run->attached) {
        rc = run_fail(MU_ETIMEDOUT, "the agent of this node does not answer");
    }
    pthread_mutex_unlock(&run->lock);
    return rc;
}

static int join_agent(struct mu_run *run, uint64_t due_ms)
{
    int rc;

    run->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rc = run->wake_fd >= 0 ? agent_line_dial(&run->line, run_left_ms(due_ms), ATTACH_JOINS)
                           : run_fail(MU_ELIMIT, "can't make a socket: %s", strerror(errno));
    if (rc == MU_OK) {
        rc = control_start(run);
    }
    if (rc != MU_OK) {
        return rc;
    }
    rc = wait_for_life(run, due_ms);
    if (rc != MU_OK) {
        control_stop(run, 0);
    }
    return rc;
}

/* ---- the calls ---- */

static int check_config(const mu_config *config)
{
    if (config->size != sizeof(*config)) {
        return run_fail(MU_EINVAL, "the mu_config was not made by mu_config_init()");
    }
    if (config->address != NULL && strnlen(config->address, ADDR_MAX_LEN) == ADDR_MAX_LEN) {
        return run_fail(MU_EINVAL, "the address '%.100s' is longer than %d bytes", config->address,
                        ADDR_MAX_LEN - 1);
    }
    return MU_OK;
}

int mu_join(const mu_config *config, mu_run **run_out)
{
    mu_config defaults;
    struct mu_run *run = NULL;
    int rc;

    log_init();
    mu_config_init(&defaults);
    config = config != NULL ? config : &defaults;
    if (run_out == NULL) {
        return run_fail(MU_EINVAL, "there is nowhere to put the run");
    }
    rc = check_config(config);
    if (rc != MU_OK) {
        return rc;
    }
    /* One run per process: its agent knows it by one connection. */
    if (atomic_exchange(&joined_pid, getpid()) == getpid()) {
        return run_fail(MU_EBUSY, "this process has joined already: mu_leave() first");
    }
    rc = run_open(config, &run);
    if (rc != MU_OK) {
        goto err_claim;
    }
    rc = run->place.socket[0] != '\0' ? join_agent(run, run_due_ms(config->join_ms))
                                      : join_alone(run);
    if (rc != MU_OK) {
        goto err_run;
    }
    *run_out = run;
    return MU_OK;

err_run:
    run_close(run);
err_claim:
    atomic_store(&joined_pid, 0);
    return rc;
}

/* Other threads leave their calls; a worker that was left out is let go. */
static void wait_to_leave(struct mu_run *run)
{
    const uint64_t due_ms = run_due_ms(LEAVE_MS);
    bool in_time = true;

    while (run->callers_n > 1) {
        pthread_cond_wait(&run->changed, &run->lock);
    }
    while (in_time && told_is_needed(run) && !run->ended && !run->given_up && run->lost == MU_OK) {
        in_time = call_wait(run, due_ms);
    }
}

/* The lock is never held for long: whoever waits gives it away. */
int mu_stop(mu_run *run)
{
    int rc = call_enter(run);

    if (rc != MU_OK) {
        return rc;
    }
    run->given_up = true;
    call_over(run);
    return call_exit(run, MU_OK);
}

int mu_leave(mu_run *run)
{
    bool left_out;
    int rc;

    if (run == NULL) {
        return MU_OK;
    }
    rc = call_enter(run);
    if (rc != MU_OK) {
        return rc;
    }
    if (run->train != NULL) {
        run->trainer->leave(run->train);
    }
    if (run->leaving) {
        return call_exit(run, run_fail(MU_EBUSY, "another thread is leaving already"));
    }
    run->leaving = true;
    left_out = run_rank(run) < 0;
    call_over(run);
    wait_to_leave(run);
    /* One that was left out and taken in again meanwhile has not finished: its work goes on
     * elsewhere. */
    if (!run->given_up && (!left_out || run_rank(run) < 0)) {
        told_last(run);
    }
    (void)call_exit(run, MU_OK);
    if (!run->alone) {
        control_stop(run, LEAVE_MS);
    }
    run_close(run);
    atomic_store(&joined_pid, 0);
    return MU_OK;
}
