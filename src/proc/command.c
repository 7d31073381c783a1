/* From a request to a running program: the command as bytes, the fork, and the child's way to exec.
 *
 * A command is a head, then strings one after the other, each with its terminator: the directory if
 * there is one, the arguments, the environment with the marker first. */
#include "proc/keep.h"
#include "proc/procfs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CODE_NOT_FOUND 127
#define CODE_NOT_RUN 126

/* ---- the command as bytes ---- */

struct head {
    uint32_t has_dir;
    uint32_t argv_n;
    uint32_t env_n;
};

struct command {
    char **argv;
    char **env;
    const char *dir; /* NULL: stay */
};

static void put(FILE *f, const char *text)
{
    fwrite(text, 1, strlen(text) + 1, f);
}

/* An owner may itself run under a keeper: that one's marker is not for its processes. */
static void put_environment(FILE *f, const struct keeper_start *start, struct head *head)
{
    static const char name[] = KEEPER_MARKER "=";
    char marker[KEEPER_MARKER_LEN];

    snprintf(marker, sizeof(marker), "%s%016" PRIx64, name, start->cookie);
    put(f, marker);
    head->env_n = 1;
    for (char *const *at = start->env; *at != NULL; at++) {
        if (strncmp(*at, name, sizeof(name) - 1) != 0) {
            put(f, *at);
            head->env_n++;
        }
    }
}

int keeper_pack(const struct keeper_start *start, int *fd_out)
{
    struct head head = {.has_dir = start->dir != NULL};
    int fd = memfd_create("muster-command", MFD_CLOEXEC), kept;
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool done;

    if (f == NULL) {
        const int rc = errno == EMFILE || errno == ENFILE ? MU_ELIMIT : MU_ENOMEM;

        if (fd >= 0) {
            close(fd);
        }
        return rc;
    }
    fwrite(&head, sizeof(head), 1, f);
    if (start->dir != NULL) {
        put(f, start->dir);
    }
    for (; start->argv[head.argv_n] != NULL; head.argv_n++) {
        put(f, start->argv[head.argv_n]);
    }
    put_environment(f, start, &head);
    done = fseek(f, 0, SEEK_SET) == 0 && fwrite(&head, sizeof(head), 1, f) == 1 && fflush(f) == 0 &&
           ferror(f) == 0;
    kept = done ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    fclose(f);
    if (kept < 0) {
        return done ? MU_ELIMIT : MU_ENOMEM;
    }
    *fd_out = kept;
    return MU_OK;
}

/* Points n entries at the strings from `at` on; NULL if they go beyond `end`. */
static char *get_list(char *at, const char *end, uint32_t n, char **list)
{
    for (uint32_t i = 0; i < n; i++) {
        char *stop = memchr(at, '\0', (size_t)(end - at));

        if (stop == NULL) {
            return NULL;
        }
        list[i] = at;
        at = stop + 1;
    }
    list[n] = NULL;
    return at;
}

/* Maps it for good: meant for a process that is about to exec. False: not from keeper_pack(). */
static bool unpack(int fd, struct command *c_out)
{
    struct command c = {0};
    char *dir[2] = {NULL}, *at, *end;
    struct head head;
    struct stat st;

    if (fstat(fd, &st) != 0 || st.st_size < (off_t)sizeof(head)) {
        return false;
    }
    at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
        return false;
    }
    memcpy(&head, at, sizeof(head));
    end = at + st.st_size;
    at += sizeof(head);
    if (head.has_dir > 1 || head.argv_n == 0 || head.argv_n > (size_t)st.st_size ||
        head.env_n > (size_t)st.st_size) {
        return false;
    }
    c.argv = calloc((size_t)head.argv_n + 1, sizeof(*c.argv));
    c.env = calloc((size_t)head.env_n + 1, sizeof(*c.env));
    if (c.argv == NULL || c.env == NULL || (at = get_list(at, end, head.has_dir, dir)) == NULL ||
        (at = get_list(at, end, head.argv_n, c.argv)) == NULL ||
        get_list(at, end, head.env_n, c.env) == NULL) {
        free(c.argv);
        free(c.env);
        return false;
    }
    c.dir = dir[0];
    *c_out = c;
    return true;
}

/* ---- the child ---- */

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

/* The keeper ignores and blocks signals; its processes start with a clean sheet. By the system
 * call, because libc keeps two signals to itself, which some that start us leave ignored. All zero
 * is SIG_DFL, no flags, no mask. */
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
    struct command c;
    uint32_t code;
    int null;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(CODE_NOT_RUN); /* It died before we asked to be told. */
    }
    reset_signals();
    if (!unpack(fds[0], &c)) {
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
    environ = c.env; /* So that PATH is its own. */
    execvp(c.argv[0], c.argv);
    code = errno == ENOENT || errno == ENOTDIR ? CODE_NOT_FOUND : CODE_NOT_RUN;
    give_up(report_fd, code, "run", c.argv[0], exec_hint(c.argv[0], errno));
}

void keep_start(struct place *p, uint64_t cookie, const int fds[KEEPER_FDS])
{
    pid_t keeper = getpid();
    int report[2];

    *p = (struct place){.cookie = cookie, .report_fd = -1};
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
