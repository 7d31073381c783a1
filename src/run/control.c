/* The control thread: one connection, poll(), no allocation but for the frames themselves. */
#include "base/thread.h"
#include "run/run.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LAST_WORDS_POLL_MS = 50, /* while they are on their way */
    BEAT_MIN_MS = 10,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much gets no more beats */
};

void control_wake(struct mu_run *run)
{
    uint64_t one = 1;

    /* It can fail only if the thread was woken 2^64 - 2 times and did not look. */
    (void)!write(run->wake_fd, &one, sizeof(one));
}

int control_say(struct mu_run *run, enum wire_type type, const void *msg)
{
    int rc = agent_line_say(&run->line, type, msg, 0);

    if (rc == MU_OK) {
        control_wake(run);
    }
    return rc;
}

void control_lost(struct mu_run *run, int status, const char *fmt, ...)
{
    va_list args;

    if (run->lost != MU_OK) {
        return;
    }
    va_start(args, fmt);
    (void)vsnprintf(run->why, sizeof(run->why), fmt, args);
    va_end(args);
    run->lost = status;
    run->line.out_n = 0;
    data_stop(run);
    values_end(run, status, run->why);
    settings_end(run, status, run->why);
    pthread_cond_broadcast(&run->changed);
}

static void send_out(struct mu_run *run)
{
    if (run->lost == MU_OK && agent_line_send(&run->line, MSG_DONTWAIT) == MU_EPEER) {
        control_lost(run, MU_EPEER, "the agent of this node is gone: %s", strerror(errno));
    }
}

/* Takes what has come. */
static void receive(struct mu_run *run)
{
    struct intake *in = &run->line.in;
    struct wire_fault fault = {0};
    struct wire_header h;
    int rc;

    pthread_mutex_lock(&run->lock);
    rc = agent_line_receive(&run->line);
    if (rc == MU_EPEER) {
        control_lost(run, rc, "the agent of this node is gone%s%s", errno != 0 ? ": " : "",
                     errno != 0 ? strerror(errno) : "");
    }
    while (rc == MU_OK && run->lost == MU_OK) {
        rc = intake_next(in, &h, &fault);
        if (rc == MU_OK) {
            told_frame(run, &h, &in->desk.msg);
        }
    }
    if (rc != MU_OK && rc != MU_EAGAIN) { /* Unless it is lost already. */
        control_lost(run, rc, "the agent of this node can't be understood: %s", fault.text);
    }
    pthread_mutex_unlock(&run->lock);
}

/* Says that we live, if it is time to; gives how long poll() may wait. */
static int beat(struct mu_run *run)
{
    uint64_t now_ms = run_now_ms();

    if (!run->attached || run->lost != MU_OK) {
        return -1;
    }
    if (run->beat_ms <= now_ms) {
        struct msg_beat m = {run->life.worker};

        run->beat_ms = now_ms + MAX(run->life.lease_ms / 4, (uint32_t)BEAT_MIN_MS);
        if (run->line.out_n < BACKLOG_MAX && control_say(run, WIRE_BEAT, &m) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a beat");
        }
    }
    return (int)MIN(run->beat_ms - now_ms, 60000u);
}

/* What is due; gives how long poll() may wait. */
static int tend(struct mu_run *run)
{
    int wait_ms = beat(run);
    int step_ms = told_progress(run);
    int metrics_ms = metrics_tend(run);

    wait_ms = step_ms < 0 ? wait_ms : MIN(wait_ms, step_ms);
    return metrics_ms < 0 ? wait_ms : MIN(wait_ms, metrics_ms);
}

/* The last words: once they are sent this side is closed, and that the agent closes its own tells
 * that it has read them all. The process may exit then, and its agent knows that it has finished.
 * True: it is over, or took too long. */
static bool last_words(struct mu_run *run)
{
    if (!run->stop) {
        return false;
    }
    if (!run->shut) {
        metrics_flush(run);
        send_out(run);
    }
    if (run->line.out_n == 0 && !run->shut) {
        run->shut = true;
        shutdown(run->line.fd, SHUT_WR);
    }
    return run->lost != MU_OK || run_now_ms() >= run->stop_ms;
}

static void *control_main(void *arg)
{
    struct mu_run *run = arg;
    bool over = false;

    while (!over) {
        struct pollfd fds[2] = {{.fd = run->wake_fd, .events = POLLIN}, {.events = POLLIN}};
        uint64_t woken;
        int wait_ms;

        pthread_mutex_lock(&run->lock);
        wait_ms = run->stop ? LAST_WORDS_POLL_MS : tend(run);
        send_out(run);
        over = last_words(run);
        fds[1].fd = run->lost == MU_OK ? run->line.fd : -1;
        fds[1].events |= run->line.out_n > 0 ? POLLOUT : 0;
        pthread_mutex_unlock(&run->lock);

        if (over || poll(fds, 2, wait_ms) < 0) {
            continue; /* EINTR; all else would be our own fault. */
        }
        if (fds[0].revents != 0) {
            (void)!read(run->wake_fd, &woken, sizeof(woken));
        }
        if ((fds[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) {
            receive(run);
        }
    }
    return NULL;
}

int control_start(struct mu_run *run)
{
    int rc = thread_start(&run->thread, control_main, run);

    return rc == MU_OK ? rc : run_fail(rc, "can't start a thread: are there too many?");
}

void control_stop(struct mu_run *run, uint32_t flush_ms)
{
    pthread_mutex_lock(&run->lock);
    run->stop = true;
    run->stop_ms = run_now_ms() + flush_ms;
    control_wake(run);
    pthread_mutex_unlock(&run->lock);
    pthread_join(run->thread, NULL);
}
