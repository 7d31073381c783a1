/* From a request to a running program: the fork, and the child's way to exec. */
#include "agent/keeper_state.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CODE_NOT_FOUND 127
#define CODE_NOT_RUN 126

_Noreturn static void give_up(int report_fd, uint32_t code, const char *verb, const char *what,
                              const char *hint)
{
    struct keep_failure f = {.code = code};
    ssize_t ignored;

    snprintf(f.why, sizeof(f.why), "could not %s %.96s: %s; %s", verb, what, strerror(errno), hint);
    ignored = write(report_fd, &f, sizeof(f)); /* Shorter than PIPE_BUF: all or nothing. */
    (void)ignored;
    _exit((int)code);
}

/* The keeper ignores and blocks signals; its workers start with a clean sheet. By the system call,
 * because libc keeps two signals to itself, which some that start us leave ignored. All zero is
 * SIG_DFL, no flags, no mask. */
static void reset_signals(void)
{
    unsigned long dfl[8] = {0};
    sigset_t none;

    for (int s = 1; s < NSIG; s++) {
        syscall(SYS_rt_sigaction, s, dfl, NULL, NSIG / 8);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static const char *exec_hint(const char *program, int error)
{
    switch (error) {
    case ENOENT:
        return strchr(program, '/') == NULL ? "check its name and PATH"
               : faccessat(AT_FDCWD, program, F_OK, 0) == 0
                   ? "the interpreter that it names is missing"
                   : "check its path";
    case EACCES:
        return "make it executable (chmod +x), or give its interpreter";
    case E2BIG:
        return "its arguments and environment are too long";
    default:
        return "see whether it runs by itself";
    }
}

_Noreturn static void child(const int fds[KEEPER_FDS], int report_fd, pid_t keeper)
{
    struct keeper_command c;
    uint32_t code;
    int null;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(CODE_NOT_RUN); /* It died before we asked to be told. */
    }
    reset_signals();
    if (!keeper_unpack(fds[0], &c)) {
        errno = ENOMEM;
        give_up(report_fd, CODE_NOT_RUN, "read", "its command", "free some memory");
    }
    null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(fds[1], 1) < 0 || dup2(fds[2], 2) < 0) {
        give_up(report_fd, CODE_NOT_RUN, "set up", "its stdin and stdout",
                "raise the limit of open files");
    }
    close_range(3, UINT_MAX, CLOSE_RANGE_CLOEXEC);
    if (c.dir != NULL && chdir(c.dir) != 0) {
        give_up(report_fd, CODE_NOT_RUN, "enter", c.dir, "does it exist on this node?");
    }
    environ = c.env; /* So that PATH is the worker's. */
    execvp(c.argv[0], c.argv);
    code = errno == ENOENT || errno == ENOTDIR ? CODE_NOT_FOUND : CODE_NOT_RUN;
    give_up(report_fd, code, "run", c.argv[0], exec_hint(c.argv[0], errno));
}

void keep_start(struct keep *kp, uint32_t slot, const struct keeper_message *m,
                const int fds[KEEPER_FDS])
{
    struct place *p = &kp->places[slot];
    pid_t keeper = getpid();
    int report[2];

    *p = (struct place){.cookie = m->cookie, .marker = m->marker, .report_fd = -1};
    if (pipe2(report, O_CLOEXEC | O_NONBLOCK) != 0) {
        goto err;
    }
    p->pid = fork();
    if (p->pid == 0) {
        child(fds, report[1], keeper);
    }
    close(report[1]);
    if (p->pid < 0) {
        close(report[0]);
        goto err;
    }
    p->report_fd = report[0];
    p->state = PLACE_STARTING;
    return;
err:
    p->state = PLACE_EXITED;
    p->code = CODE_NOT_RUN;
    snprintf(p->why, sizeof(p->why),
             "could not start a process: %s; look at the limits of this user and machine",
             strerror(errno));
}
