#include "proc/procfs.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXITING 4u /* the kernel's PF_EXITING */

static int proc_open(pid_t pid, const char *what)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, what);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool proc_stat(pid_t pid, struct proc_stat *st_out)
{
    int fd = proc_open(pid, "stat"), parent, group, session;
    char text[512], state;
    const char *after;
    unsigned flags;
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    n = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (n <= 0) {
        return false;
    }
    text[n] = '\0';
    after = strrchr(text, ')'); /* The name before it may hold anything. */
    if (after == NULL || sscanf(after + 1, " %c %d %d %d %*d %*d %u", &state, &parent, &group,
                                &session, &flags) != 5) {
        return false;
    }
    *st_out = (struct proc_stat){.ended = state == 'Z' || state == 'X' || (flags & EXITING) != 0,
                                 .parent = parent,
                                 .session = session};
    return true;
}

/* The environment is read piece by piece: it may be large. What has been seen of the current entry
 * is at text[0]; more of it than the marker needs is skipped. */
bool proc_marker(pid_t pid, uint64_t *marker_out)
{
    static const char name[] = KEEPER_MARKER "=";
    char chunk[4096], entry[KEEPER_MARKER_LEN + 1];
    int fd = proc_open(pid, "environ");
    size_t entry_n = 0;
    bool found = false;
    ssize_t n;

    if (fd < 0) {
        return false;
    }
    while (!found && (n = read(fd, chunk, sizeof(chunk))) > 0) {
        for (ssize_t i = 0; i < n && !found; i++) {
            if (chunk[i] != '\0') {
                if (entry_n < sizeof(entry) - 1) {
                    entry[entry_n++] = chunk[i];
                }
                continue;
            }
            entry[entry_n] = '\0';
            found = entry_n == KEEPER_MARKER_LEN - 1 && strncmp(entry, name, sizeof(name) - 1) == 0;
            entry_n = 0;
        }
    }
    close(fd);
    if (found) {
        *marker_out = strtoull(entry + sizeof(name) - 1, NULL, 16);
    }
    return found;
}

void proc_each(void (*fn)(void *data, pid_t pid), void *data)
{
    DIR *dir = opendir("/proc");
    const struct dirent *e;

    if (dir == NULL) {
        return;
    }
    while ((e = readdir(dir)) != NULL) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);

        if (*end == '\0' && pid > 0) {
            fn(data, (pid_t)pid);
        }
    }
    closedir(dir);
}

struct by_parent {
    void (*fn)(void *data, pid_t pid);
    void *data;
    pid_t self;
};

static void if_child(void *data, pid_t pid)
{
    const struct by_parent *by = data;
    struct proc_stat st;

    if (proc_stat(pid, &st) && st.parent == by->self) {
        by->fn(by->data, pid);
    }
}

void proc_each_child_by_parent(void (*fn)(void *data, pid_t pid), void *data)
{
    struct by_parent by = {.fn = fn, .data = data, .self = getpid()};

    proc_each(if_child, &by);
}

void proc_each_child(void (*fn)(void *data, pid_t pid), void *data)
{
    char path[64], chunk[4096];
    long pid = 0;
    ssize_t n;
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        proc_each_child_by_parent(fn, data);
        return;
    }
    while ((n = read(fd, chunk, sizeof(chunk))) > 0) {
        for (ssize_t i = 0; i < n; i++) {
            if (chunk[i] >= '0' && chunk[i] <= '9') {
                pid = pid * 10 + (chunk[i] - '0');
            } else if (pid > 0) {
                fn(data, (pid_t)pid);
                pid = 0;
            }
        }
    }
    close(fd);
}
