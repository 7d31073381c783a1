/* A folder in memory for the newest state of the job's workers (--keep-in-memory). It outlives
 * them, and an agent that dies; not the run, nor the last node of it that leaves this host. Agents
 * of one job on one host have the same one. */
#include "agent/node_state.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY "/dev/shm"

/* Anybody may make folders there: only one of ours will do. */
static bool is_ours(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

/* Held for as long as this agent may need it: whoever leaves takes it away if nobody holds it. One
 * that is being taken away is waited for, and made again. errno. */
static int hold(const char *path)
{
    struct stat held, there;
    int fd;

    for (;;) {
        if (mkdir(path, 0700) != 0 && errno != EEXIST) {
            return -1;
        }
        if (!is_ours(path)) {
            errno = EPERM;
            return -1;
        }
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) {
            return -1;
        }
        if (fd >= 0 && flock(fd, LOCK_SH) == 0 && fstat(fd, &held) == 0 &&
            stat(path, &there) == 0 && held.st_ino == there.st_ino) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

const char *node_memory_dir(struct node *n)
{
    if (!n->config->ckpt.memory) {
        return NULL;
    }
    if (n->memory_dir[0] != '\0') {
        return n->memory_dir;
    }
    snprintf(n->memory_dir, sizeof(n->memory_dir),
             MEMORY "/muster-%u-%016" PRIx64 "-%" PRIu32 "-%s", (unsigned)geteuid(), n->agent.store,
             n->agent.run, n->config->job);
    n->memory_fd = hold(n->memory_dir);
    if (n->memory_fd < 0) {
        log_warn(NODE_AREA, "--keep-in-memory: %s can't be used (%s): nothing is kept there",
                 n->memory_dir, errno != EPERM ? strerror(errno) : "it is somebody else's");
        n->memory_dir[0] = '\0';
        return NULL;
    }
    return n->memory_dir;
}

/* A worker of this node was let go, because others have the state: then what is kept here is of no
 * use, unless there is another node on this host. */
static bool has_left(const struct node *n)
{
    bool left = false;

    for (uint32_t i = 0; i < n->config->slots; i++) {
        left |= n->agent.draining && n->slots[i].told_ended;
    }
    return left && flock(n->memory_fd, LOCK_EX | LOCK_NB) == 0;
}

static int take_away(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void node_memory_close(struct node *n)
{
    if (n->memory_dir[0] == '\0') {
        return;
    }
    if ((n->ended || has_left(n)) &&
        nftw(n->memory_dir, take_away, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        log_warn(NODE_AREA, "%s stays, and the memory it takes: %s", n->memory_dir,
                 strerror(errno));
    }
    close(n->memory_fd);
    n->memory_dir[0] = '\0';
}
