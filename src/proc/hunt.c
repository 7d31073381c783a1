#include "base/log.h"
#include "proc/keep.h"
#include "proc/procfs.h"

#include <signal.h>
#include <sys/pidfd.h>
#include <unistd.h>

#define LOOK_MS 5
#define LOOKS_MAX 1000
/* One look is not proof: a process may start another and end while we are on the way to it. */
#define CLEAN_LOOKS 3

void keeper_hunt_add(struct keeper_hunt *h, pid_t session, uint64_t cookie)
{
    mu_assert(h->prey_n < KEEPER_MAX);
    h->prey[h->prey_n].session = session;
    h->prey[h->prey_n++].cookie = cookie;
}

static bool is_prey(const struct keeper_hunt *h, pid_t pid)
{
    struct proc_stat st;
    uint64_t marker = 0;
    bool marked;

    if (!proc_stat(pid, &st) || st.ended) {
        return false;
    }
    marked = proc_marker(pid, &marker);
    for (uint32_t i = 0; i < h->prey_n; i++) {
        if ((h->prey[i].session != 0 && st.session == h->prey[i].session) ||
            (marked && marker == h->prey[i].cookie)) {
            return true;
        }
    }
    return false;
}

/* They are nobody's children now, so a number may pass to another process between the look and the
 * kill. A pidfd does not: it is taken first. */
static void kill_if_prey(void *data, pid_t pid)
{
    struct keeper_hunt *h = data;
    int fd;

    if (pid == getpid() || !is_prey(h, pid)) {
        return;
    }
    fd = pidfd_open(pid, 0);
    if (fd < 0) {
        return;
    }
    if (is_prey(h, pid)) {
        pidfd_send_signal(fd, SIGKILL, NULL, 0);
        h->found_n++;
    }
    close(fd);
}

static void on_look(uv_timer_t *timer)
{
    struct keeper_hunt *h = timer->data;

    h->found_n = 0;
    proc_each(kill_if_prey, h);
    h->clean_n = h->found_n > 0 ? 0 : h->clean_n + 1;
    if (h->clean_n < CLEAN_LOOKS && ++h->looks_n < LOOKS_MAX) {
        uv_timer_start(&h->timer, on_look, LOOK_MS, 0);
        return;
    }
    if (h->found_n > 0) {
        log_error("keeper", "%u processes could not be killed", h->found_n);
    }
    h->on = false;
    h->done(h->data);
}

void keeper_hunt_start(struct keeper_hunt *h, void (*done)(void *data), void *data)
{
    h->timer.data = h;
    h->done = done;
    h->data = data;
    h->on = true;
    for (uint32_t i = 0; i < h->prey_n; i++) {
        if (h->prey[i].session > 1) {
            kill(-h->prey[i].session, SIGKILL);
        }
    }
    uv_timer_start(&h->timer, on_look, 0, 0);
}
