/* A folder in memory for the newest state of the job's workers (--keep-in-memory). It outlives
 * them, and an agent that dies; not the run, nor the last node of it that leaves this host. Agents
 * of one job on one host have the same one, and each holds a lock on it, which the kernel drops
 * when the agent dies. What agents that were killed have left is swept by the next one. */
#include "agent/node_state.h"
#include "base/log.h"
#include "base/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MEMORY "/dev/shm"
/* So long nothing was written: an agent that was killed is not started again to go on from it. */
#define UNUSED_S 3600

/* Whose folder one is. */
struct owner {
    uint64_t store;
    uint32_t run;
    char job[NAME_MAX_LEN];
};

static void put_path(const struct owner *o, char *path_out, size_t cap)
{
    snprintf(path_out, cap, MEMORY "/muster-%u-%016" PRIx64 "-%" PRIu32 "-%s", (unsigned)geteuid(),
             o->store, o->run, o->job);
}

/* Anybody may make folders there: only one of ours will do. */
static bool is_ours(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
           (st.st_mode & 077) == 0;
}

/* Whether what is locked is what is there: another may have taken it away, and made it again. */
static bool is_there(int fd, const char *path)
{
    struct stat held, there;

    return fstat(fd, &held) == 0 && stat(path, &there) == 0 && held.st_ino == there.st_ino;
}

/* Held for as long as this agent may need it: whoever leaves takes it away if nobody holds it. One
 * that is being taken away is waited for, and made again. errno. */
static int hold(const char *path)
{
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
        if (fd >= 0 && flock(fd, LOCK_SH) == 0 && is_there(fd, path)) {
            return fd;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
}

const char *node_memory_dir(struct node *n)
{
    struct owner owner;

    if (!n->config->ckpt.memory) {
        return NULL;
    }
    if (n->memory_dir[0] != '\0') {
        return n->memory_dir;
    }
    owner = (struct owner){.store = n->agent.store, .run = n->agent.run};
    snprintf(owner.job, sizeof(owner.job), "%s", n->config->job);
    put_path(&owner, n->memory_dir, sizeof(n->memory_dir));
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

/* ---- what others have left ---- */

static _Thread_local time_t newest_s; /* nftw() passes nothing on. */

static int look_at(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    if (kind != FTW_NS) {
        newest_s = MAX(newest_s, st->st_mtime);
    }
    return 0;
}

/* An earlier run of this agent's job is over: nobody comes back to it. Of other jobs an agent that
 * was killed may be started again soon, and go on from there. */
static bool is_useless(const char *path, const struct owner *whose, const struct owner *mine)
{
    if (whose->store == mine->store && strcmp(whose->job, mine->job) == 0) {
        return whose->run < mine->run;
    }
    newest_s = 0;
    return nftw(path, look_at, 16, FTW_PHYS) == 0 && newest_s < time(NULL) - UNUSED_S;
}

static void sweep_one(const char *name, const struct owner *mine)
{
    char path[NAME_MAX_LEN + 80];
    struct owner whose = {0};
    unsigned user;
    int at = 0, fd;

    if (sscanf(name, "muster-%u-%16" SCNx64 "-%" SCNu32 "-%n", &user, &whose.store, &whose.run,
               &at) != 3 ||
        at == 0 || user != geteuid() || strlen(name + at) >= NAME_MAX_LEN) {
        return;
    }
    strcpy(whose.job, name + at);
    put_path(&whose, path, sizeof(path));
    fd = is_ours(path) ? open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    if (fd < 0) {
        return;
    }
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && is_there(fd, path) && is_useless(path, &whose, mine) &&
        nftw(path, take_away, 16, FTW_DEPTH | FTW_PHYS) == 0) {
        log_info(NODE_AREA, "%s is taken away: who kept states there was killed", path);
    }
    close(fd);
}

static void *sweep(void *arg)
{
    struct owner *mine = arg;
    DIR *dir = opendir(MEMORY);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        sweep_one(entry->d_name, mine);
    }
    if (dir != NULL) {
        closedir(dir);
    }
    log_debug(NODE_AREA, "what others have left in " MEMORY " was looked through");
    free(mine);
    return NULL;
}

/* In a thread of its own: to give back much memory takes longer than a lease may wait. It touches
 * nothing of the node's, so nobody waits for it; the next agent goes on where it was cut off. */
void node_memory_sweep(const struct node *n, const struct msg_welcome *m)
{
    struct owner *mine = calloc(1, sizeof(*mine));
    pthread_t thread;

    if (mine == NULL) {
        return;
    }
    mine->store = m->store;
    mine->run = m->run;
    snprintf(mine->job, sizeof(mine->job), "%s", n->config->job);
    if (thread_start(&thread, sweep, mine) != MU_OK) {
        free(mine);
        return;
    }
    pthread_detach(thread);
}
