#include "unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#define PANICKED 86

static int kept_stderr = -1, read_end = -1;

/* CASE=NAME runs that one alone. */
__attribute__((constructor)) static void choose_case(void)
{
    const char *name = getenv("CASE");

    if (name != NULL && name[0] != '\0') {
        cmocka_set_test_filter(name);
    }
}

static void leave_as_panicked(void)
{
    _exit(PANICKED);
}

bool unit_panics(void (*body)(void *arg), void *arg)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO);
        base_on_panic = leave_as_panicked;
        body(arg);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == PANICKED;
}

bool unit_full(void)
{
    const char *text = getenv("MUSTER_TEST_FULL");

    return text != NULL && text[0] != '\0';
}

const char *unit_fast_dir(void)
{
    const uint64_t room = (uint64_t)4 << 30;
    struct statvfs st;

    return access("/dev/shm", W_OK) == 0 && statvfs("/dev/shm", &st) == 0 &&
                   (uint64_t)st.f_bavail * st.f_frsize >= room
               ? "/dev/shm"
               : "/tmp";
}

void unit_stderr_begin(void)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    kept_stderr = dup(STDERR_FILENO);
    assert_true(kept_stderr >= 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    close(ends[1]);
    read_end = ends[0];
}

void unit_stderr_end(char *text, size_t cap)
{
    size_t n = 0;
    ssize_t got;

    dup2(kept_stderr, STDERR_FILENO); /* The last writer's end closes here. */
    close(kept_stderr);
    while (n < cap - 1 && (got = read(read_end, text + n, cap - 1 - n)) > 0) {
        n += (size_t)got;
    }
    close(read_end);
    text[n] = '\0';
}
