/* A folder in memory for the newest state of the job's workers (--keep-in-memory). It outlives
 * them, and this agent; not the run. Agents of one job on one host have the same one. */
#include "agent/node_state.h"
#include "base/log.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
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

const char *node_memory_dir(struct node *n)
{
    if (!n->config->ckpt.memory) {
        return NULL;
    }
    if (n->memory_dir[0] != '\0') {
        return n->memory_dir;
    }
    snprintf(n->memory_dir, sizeof(n->memory_dir), MEMORY "/muster-%u-%016" PRIx64 "-%" PRIu32,
             (unsigned)geteuid(), n->agent.store, n->agent.run);
    if ((mkdir(n->memory_dir, 0700) != 0 && errno != EEXIST) || !is_ours(n->memory_dir)) {
        log_warn(NODE_AREA, "--keep-in-memory: %s can't be used (%s): nothing is kept there",
                 n->memory_dir, errno != 0 ? strerror(errno) : "it is somebody else's");
        n->memory_dir[0] = '\0';
        return NULL;
    }
    return n->memory_dir;
}

static int take_away(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path) == 0 || errno == ENOENT ? 0 : -1;
}

void node_memory_close(struct node *n)
{
    if (n->memory_dir[0] == '\0' || !n->ended) {
        return;
    }
    if (nftw(n->memory_dir, take_away, 16, FTW_DEPTH | FTW_PHYS) != 0 && errno != ENOENT) {
        log_warn(NODE_AREA, "%s stays, and the memory it takes: %s", n->memory_dir,
                 strerror(errno));
    }
}
