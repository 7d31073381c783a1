/* The control thread: one connection, poll(), no allocation but for the frames themselves. */
#include "base/thread.h"
#include "run/run.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    LAST_WORDS_POLL_MS = 50, /* while they are on their way */
    BEAT_MIN_MS = 10,
    /* A trainer's steps may be much faster than anybody wants to know; the newest counts. */
    PROGRESS_MS = 50,
    METRICS_MS = 50,
    IDLE_MS = 60000,
    BACKLOG_MAX = 64 << 10 /* an agent that does not read this much lags behind */
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
    call_over(run);
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

/* Is it time to say this? If it stays due, *next_ms is when to look again. */
static bool is_time(const struct mu_run *run, struct paced *p, uint32_t every_ms, uint64_t now_ms,
                    uint64_t *next_ms)
{
    bool said = false;

    if (p->due && p->at_ms <= now_ms) {
        p->at_ms = now_ms + every_ms;
        said = run->line.out_n < BACKLOG_MAX;
        p->due = !said;
    }
    *next_ms = p->due ? MIN(*next_ms, p->at_ms) : *next_ms;
    return said;
}

/* Says what is due; gives how long poll() may wait. */
static int tend(struct mu_run *run)
{
    const uint32_t beat_ms = MAX(run->life.lease_ms / 4, (uint32_t)BEAT_MIN_MS);
    const struct msg_beat m = {run->life.worker};
    const uint64_t now_ms = clock_ms();
    uint64_t next_ms = now_ms + IDLE_MS;

    if (!run->attached || run->lost != MU_OK) {
        return -1;
    }
    if (is_time(run, &run->beat, beat_ms, now_ms, &next_ms)) {
        run->beat.due = true;
        next_ms = MIN(next_ms, run->beat.at_ms);
        if (control_say(run, WIRE_BEAT, &m) != MU_OK) {
            control_lost(run, MU_ENOMEM, "out of memory for a beat");
        }
    }
    if (is_time(run, &run->progress, PROGRESS_MS, now_ms, &next_ms)) {
        told_again(run);
    }
    if (is_time(run, &run->metrics.pace, METRICS_MS, now_ms, &next_ms)) {
        metrics_say(run);
    }
    return (int)(next_ms - now_ms);
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
        if (run->metrics.pace.due && run->attached && run->lost == MU_OK) {
            metrics_say(run);
        }
        send_out(run);
    }
    if (run->line.out_n == 0 && !run->shut) {
        run->shut = true;
        shutdown(run->line.fd, SHUT_WR);
    }
    return run->lost != MU_OK || clock_ms() >= run->stop_ms;
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
    run->stop_ms = clock_ms() + flush_ms;
    control_wake(run);
    pthread_mutex_unlock(&run->lock);
    pthread_join(run->thread, NULL);
}
