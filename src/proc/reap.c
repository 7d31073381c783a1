/* How processes end: those that do, those that are told to, and those that hide.
 *
 * Whoever loses its parent becomes a child of the keeper, so the keeper signals its own children
 * only, and those can't be mistaken: the number of a child that was not yet waited for is not used
 * again. A group is killed while its leader still has its number, for the same reason; that is one
 * act to the kernel, so nobody forks out of it. The rest is a loop: kill all children that are to
 * go, wait for them, look who has become a child by that. */
#include "base/clock.h"
#include "proc/keep.h"
#include "proc/procfs.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_AGAIN_MS 10
#define UNSETTLED_MAX 100
#define SIGRTMAX_ANY 64

static bool is_alive(const struct place *p)
{
    return p->state == PLACE_STARTING || p->state == PLACE_RUNNING;
}

static struct place *place_of_leader(struct keep *kp, pid_t pid)
{
    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        if (is_alive(&kp->places[i]) && kp->places[i].pid == pid) {
            return &kp->places[i];
        }
    }
    return NULL;
}

static void tell_to_end(struct place *p)
{
    kill(-p->pid, SIGTERM);
    kill(-p->pid, SIGCONT); /* One that is stopped could not act on it. */
    p->told_to_end = true;
}

static void close_report(struct place *p)
{
    close(p->report_fd);
    p->report_fd = -1;
}

void keep_listen(struct place *p)
{
    struct keep_failure f;
    ssize_t n = read(p->report_fd, &f, sizeof(f));

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    close_report(p);
    if (n == (ssize_t)sizeof(f)) {
        p->code = f.code;
        memcpy(p->why, f.why, sizeof(p->why));
        return; /* It exits, and that is told when it has. */
    }
    p->state = PLACE_RUNNING;
    p->tell_started = true;
    if (p->stopping && p->kill_ms > clock_ms()) {
        tell_to_end(p);
    }
}

void keep_stop(struct place *p, uint32_t grace_ms)
{
    uint64_t kill_ms = clock_ms() + grace_ms;

    if (!is_alive(p) || (p->stopping && kill_ms >= p->kill_ms)) {
        return; /* A second wish can only shorten the first; kill_ms is 0 after the end of it. */
    }
    p->stopping = true;
    p->kill_ms = kill_ms;
    /* Before exec it ignores signals as the keeper does: then it is told in keep_listen(). */
    if (p->state == PLACE_RUNNING && !p->told_to_end && grace_ms > 0) {
        tell_to_end(p);
    }
}

/* Shells pass on a signal as 128 + its number, and we do the same. What is above 127 and names no
 * signal, as from exit(-1), is a failure of the program's own. */
static uint32_t code_of(const siginfo_t *info)
{
    uint32_t status = (uint32_t)info->si_status;

    if (info->si_code != CLD_EXITED) {
        return 128 + status;
    }
    return status > 128 + SIGRTMAX_ANY || status == 128 ? 1 : status;
}

static void note_end(struct place *p, const siginfo_t *info)
{
    if (p->report_fd >= 0) {
        keep_listen(p);
        if (p->report_fd >= 0) {
            close_report(p);
        }
    }
    if (p->why[0] == '\0') {
        p->code = code_of(info);
    }
    kill(-p->pid, SIGKILL);
    p->state = PLACE_ENDED;
}

/* Waits for all that have ended. False: there are no children at all. */
static bool take_the_ended(struct keep *kp)
{
    for (;;) {
        siginfo_t info = {0};
        struct place *p;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
            if (errno == EINTR) {
                continue;
            }
            return false;
        }
        if (info.si_pid == 0) {
            return true;
        }
        p = place_of_leader(kp, info.si_pid);
        if (p != NULL) {
            note_end(p, &info);
        }
        waitpid(info.si_pid, NULL, WNOHANG);
    }
}

/* The ended place that a child is left over from: by session, or by marker; and if nothing else
 * runs here, it is of one of them anyway. */
static struct place *place_of_stray(struct keep *kp, pid_t pid)
{
    pid_t session = getsid(pid);
    struct place *last = NULL;
    uint64_t marker = 0;
    bool marked = proc_marker(pid, &marker), any_alive = false;

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        struct place *p = &kp->places[i];

        any_alive |= is_alive(p);
        if (p->state == PLACE_ENDED) {
            last = p;
            if (session == p->pid || (marked && marker == p->cookie)) {
                return p;
            }
        }
    }
    return any_alive ? NULL : last;
}

static void kill_if_left_over(void *data, pid_t pid)
{
    struct keep *kp = data;
    struct proc_stat st;
    struct place *p;

    if (place_of_leader(kp, pid) != NULL) {
        return;
    }
    p = place_of_stray(kp, pid);
    if (p != NULL) {
        kill(pid, SIGKILL);
        p->strays++;
    } else if (!proc_stat(pid, &st) || st.ended) {
        kp->unsettled = true;
    }
}

/* A place is through once no child of its is found. Nobody is missed: while a stray lives, one of
 * its line is a child of ours, and is killed and counted when we come to it; or it has ended since
 * the list of children was made, and then we look again, because what it had started is our child
 * now and may not be on that list. (A place whose process makes such children all the time must not
 * hold up others for ever.) */
static void clean_up(struct keep *kp)
{
    uint32_t ended_n = 0;

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        kp->places[i].strays = 0;
        ended_n += kp->places[i].state == PLACE_ENDED;
    }
    if (ended_n == 0) {
        return;
    }
    kp->unsettled = false;
    proc_each_child(kill_if_left_over, kp);
    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        struct place *p = &kp->places[i];

        if (p->state == PLACE_ENDED && p->strays == 0 &&
            (!kp->unsettled || ++p->unsettled_n > UNSETTLED_MAX)) {
            p->state = PLACE_EXITED;
        }
    }
}

static void kill_overdue(struct keep *kp)
{
    uint64_t now_ms = clock_ms();

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        struct place *p = &kp->places[i];

        if (is_alive(p) && p->stopping && p->kill_ms != 0 && p->kill_ms <= now_ms) {
            kill(-p->pid, SIGKILL);
            kill(p->pid, SIGKILL); /* It may not have its group yet. */
            p->kill_ms = 0;
        }
    }
}

void keep_reap(struct keep *kp)
{
    kill_overdue(kp);
    take_the_ended(kp);
    clean_up(kp);
}

uint64_t keep_deadline(const struct keep *kp)
{
    uint64_t at_ms = 0;

    for (uint32_t i = 0; i < KEEPER_MAX; i++) {
        const struct place *p = &kp->places[i];
        uint64_t want_ms = 0;

        if (is_alive(p) && p->stopping) {
            want_ms = p->kill_ms;
        } else if (p->state == PLACE_ENDED) {
            want_ms = clock_ms() + LOOK_AGAIN_MS;
        }
        if (want_ms != 0 && (at_ms == 0 || want_ms < at_ms)) {
            at_ms = want_ms;
        }
    }
    return at_ms;
}

static void kill_child(void *data, pid_t pid)
{
    kill(pid, SIGKILL);
}

void keep_bury(struct keep *kp)
{
    struct pollfd wait = {.fd = kp->signal_fd, .events = POLLIN};
    int wait_ms = 1;

    for (;;) {
        for (uint32_t i = 0; i < KEEPER_MAX; i++) {
            if (is_alive(&kp->places[i])) {
                kill(-kp->places[i].pid, SIGKILL);
            }
        }
        proc_each_child(kill_child, NULL);
        if (!take_the_ended(kp)) {
            return;
        }
        /* Whoever can't die now (it hangs in the kernel, or is another user's) is asked again,
         * but not in a tight loop. */
        if (poll(&wait, 1, wait_ms) > 0) {
            uint8_t drop[1024];
            ssize_t ignored = read(kp->signal_fd, drop, sizeof(drop));

            (void)ignored;
            wait_ms = 1;
        } else {
            wait_ms = MIN(wait_ms * 2, 100);
        }
    }
}
