/* Calls that may wait: without the GIL, and with Ctrl-C.
 *
 * Python's handler of SIGINT only makes a note, which the main thread finds when it runs Python
 * again. While that thread waits in the library, somebody has to wake it: a handler in front of
 * Python's, and a small thread, for a handler may call next to nothing. That thread calls
 * mu_stop(); the call returns, and KeyboardInterrupt is raised. */
#include "module.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

/* One run per process, so one of each. */
static struct {
    pthread_mutex_t lock; /* of run */
    mu_run *run;          /* to be stopped; NULL */
    pthread_t thread;
    sem_t wake;
    struct sigaction before; /* Python's handler */
    unsigned long main_ident;
    atomic_ulong turn;  /* odd: the main thread waits, for the (turn / 2)th time */
    atomic_ulong heard; /* in which turn the last signal came */
    atomic_bool over;
    bool hooked;
} ctrl_c = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_sigint(int number, siginfo_t *info, void *context)
{
    const int error = errno;

    atomic_store(&ctrl_c.heard, atomic_load(&ctrl_c.turn));
    (void)sem_post(&ctrl_c.wake);
    if ((ctrl_c.before.sa_flags & SA_SIGINFO) != 0) {
        ctrl_c.before.sa_sigaction(number, info, context);
    } else if (ctrl_c.before.sa_handler != SIG_DFL && ctrl_c.before.sa_handler != SIG_IGN) {
        ctrl_c.before.sa_handler(number);
    }
    errno = error;
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) != 0 && action->sa_sigaction == on_sigint;
}

static void *watch(void *arg)
{
    for (;;) {
        while (sem_wait(&ctrl_c.wake) != 0) {
        }
        if (atomic_load(&ctrl_c.over)) {
            return NULL;
        }
        const unsigned long heard = atomic_load(&ctrl_c.heard);

        pthread_mutex_lock(&ctrl_c.lock);
        if ((heard & 1) != 0 && heard == atomic_load(&ctrl_c.turn) && ctrl_c.run != NULL) {
            (void)mu_stop(ctrl_c.run);
        }
        pthread_mutex_unlock(&ctrl_c.lock);
    }
}

/* Whether Python would raise KeyboardInterrupt: nobody has put another handler there. */
static int is_default(bool *default_out)
{
    PyObject *module = PyImport_ImportModule("signal");
    PyObject *now = NULL, *usual = NULL;
    int rc = -1;

    if (module != NULL) {
        now = PyObject_CallMethod(module, "getsignal", "i", SIGINT);
        usual = PyObject_GetAttrString(module, "default_int_handler");
    }
    if (now != NULL && usual != NULL) {
        *default_out = now == usual;
        rc = 0;
    }
    Py_XDECREF(module);
    Py_XDECREF(now);
    Py_XDECREF(usual);
    return rc;
}

static int is_main(bool *main_out)
{
    PyObject *module = PyImport_ImportModule("threading");
    PyObject *thread = module != NULL ? PyObject_CallMethod(module, "main_thread", NULL) : NULL;
    PyObject *ident = thread != NULL ? PyObject_GetAttrString(thread, "ident") : NULL;
    int rc = -1;

    if (ident != NULL) {
        ctrl_c.main_ident = PyLong_AsUnsignedLong(ident);
        *main_out = ctrl_c.main_ident == PyThread_get_thread_ident();
        rc = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(module);
    Py_XDECREF(thread);
    Py_XDECREF(ident);
    return rc;
}

static bool start_watch(void)
{
    sigset_t all, old;
    bool ok;

    atomic_store(&ctrl_c.over, false);
    if (sem_init(&ctrl_c.wake, 0, 0) != 0) {
        return false;
    }
    sigfillset(&all); /* Signals are the main thread's. */
    pthread_sigmask(SIG_BLOCK, &all, &old);
    ok = pthread_create(&ctrl_c.thread, NULL, watch, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return ok;
}

int py_wait_hook(struct run *run)
{
    struct sigaction action = {.sa_sigaction = on_sigint, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    struct sigaction now;
    bool usual, here;

    if (is_main(&here) < 0 || is_default(&usual) < 0) {
        return -1;
    }
    if (!here || !usual) {
        return 0;
    }
    ctrl_c.run = run->mu;
    if (!start_watch()) {
        PyErr_SetString(PyExc_MemoryError, "there is no thread for Ctrl-C");
        return -1;
    }
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGINT, NULL, &now) == 0 && !is_ours(&now)) { /* as it is in a forked child */
        ctrl_c.before = now;
        (void)sigaction(SIGINT, &action, NULL);
    }
    ctrl_c.hooked = true;
    return 0;
}

/* Whoever has put another handler there since keeps it. */
void py_wait_unhook(struct run *run)
{
    struct sigaction now;

    if (!ctrl_c.hooked || run->pid != getpid()) {
        return;
    }
    pthread_mutex_lock(&ctrl_c.lock);
    ctrl_c.run = NULL;
    pthread_mutex_unlock(&ctrl_c.lock);
    if (sigaction(SIGINT, NULL, &now) == 0 && is_ours(&now)) {
        (void)sigaction(SIGINT, &ctrl_c.before, NULL);
    }
    atomic_store(&ctrl_c.over, true);
    (void)sem_post(&ctrl_c.wake);
    pthread_join(ctrl_c.thread, NULL);
    ctrl_c.hooked = false;
}

/* ---- in and out ---- */

mu_run *py_run_get(struct run *run)
{
    if (run->mu == NULL) {
        py_error_raise_text(MU_EINVAL, "this run has been left");
    }
    return run->mu;
}

int py_run_check(int status)
{
    if (status < 0) {
        py_error_raise(status);
        return -1;
    }
    return 0;
}

int py_wait_begin(struct waiting *w, struct run *run)
{
    *w = (struct waiting){.run = run, .mu = py_run_get(run)};
    if (w->mu == NULL) {
        return -1;
    }
    w->main = ctrl_c.hooked && PyThread_get_thread_ident() == ctrl_c.main_ident;
    if (w->main) {
        atomic_fetch_add(&ctrl_c.turn, 1);
        if (PyErr_CheckSignals() < 0) { /* One that came before this turn wakes nobody. */
            atomic_fetch_add(&ctrl_c.turn, 1);
            return -1;
        }
    }
    run->users++;
    Py_INCREF((PyObject *)run);
    w->saved = PyEval_SaveThread();
    return 0;
}

int py_wait_end_rank(struct waiting *w, int status, int lost_rank)
{
    struct run *run = w->run;
    int rc = 0;

    PyEval_RestoreThread(w->saved);
    run->users--;
    if (w->main) {
        atomic_fetch_add(&ctrl_c.turn, 1);
    }
    if (status < 0) {
        if (PyErr_CheckSignals() == 0) {
            py_error_raise_rank(status, lost_rank);
        }
        rc = -1;
    }
    Py_DECREF(run);
    return rc;
}

int py_wait_end(struct waiting *w, int status)
{
    return py_wait_end_rank(w, status, -1);
}

/* An error that is raised here already gives way to what caused it. */
int py_wait_end_calls(struct waiting *w, int status)
{
    struct run *run = w->run; /* The caller has a reference. */
    int rc = py_wait_end(w, status);

    if (run->error[0] != NULL) {
        PyErr_Restore(run->error[0], run->error[1], run->error[2]);
        run->error[0] = run->error[1] = run->error[2] = NULL;
        rc = -1;
    }
    return rc;
}
