#include "agent/node_alone.h"

#include "agent/node_tmp.h"
#include "base/log.h"
#include "orchestrator/orchestrator.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define AREA "agent"
#define DIR_PREFIX "muster-standalone-"
#define TRIES 16

struct alone {
    struct orchestrator *orchestrator;
    char dir[PATH_MAX_LEN];
    int dir_fd; /* locked: whoever can lock it has found one that was left behind */
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    if (remove(path) != 0 && errno != ENOENT) {
        log_warn(AREA, "could not remove %s: %s", path, strerror(errno));
    }
    return 0;
}

static void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* Opened and locked, and ours; -1 otherwise. */
static int lock_dir(const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return -1;
    }
    if (fstat(fd, &st) != 0 || st.st_uid != getuid() || flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

uint32_t alone_sweep(const char *parent)
{
    DIR *d = opendir(parent);
    struct dirent *e;
    uint32_t removed_n = 0;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[PATH_MAX_LEN];
        int fd;

        if (strncmp(e->d_name, DIR_PREFIX, strlen(DIR_PREFIX)) != 0 ||
            snprintf(path, sizeof(path), "%s/%s", parent, e->d_name) >= (int)sizeof(path)) {
            continue;
        }
        fd = lock_dir(path);
        if (fd >= 0) {
            remove_tree(path);
            close(fd);
            removed_n++;
        }
    }
    if (d != NULL) {
        closedir(d);
    }
    return removed_n;
}

/* Another agent's sweep may come between making the directory and locking it: then it is gone, or
 * locked by that one, and the next try makes another. */
static int make_dir(struct alone *al, char *error)
{
    for (int i = 0; i < TRIES; i++) {
        struct stat held, named;

        if (snprintf(al->dir, sizeof(al->dir), "%s/" DIR_PREFIX "%u-XXXXXX", node_tmp_dir(),
                     (unsigned)getuid()) >= (int)sizeof(al->dir)) {
            snprintf(error, NET_ERROR_MAX, "TMPDIR is too long a path: %.64s…", node_tmp_dir());
            return MU_EINVAL;
        }
        if (mkdtemp(al->dir) == NULL) {
            snprintf(error, NET_ERROR_MAX,
                     "could not make a directory for the standalone orchestrator in %s: %s "
                     "(set TMPDIR to a directory that can be written)",
                     node_tmp_dir(), strerror(errno));
            return MU_EIO;
        }
        al->dir_fd = lock_dir(al->dir);
        if (al->dir_fd < 0) {
            continue;
        }
        if (fstat(al->dir_fd, &held) == 0 && lstat(al->dir, &named) == 0 &&
            held.st_ino == named.st_ino && held.st_dev == named.st_dev) {
            return MU_OK;
        }
        close(al->dir_fd);
        al->dir_fd = -1;
    }
    snprintf(error, NET_ERROR_MAX, "could not lock a directory in %s", node_tmp_dir());
    return MU_EBUSY;
}

int alone_open(uv_loop_t *loop, struct alone **al_out, struct endpoints *at_out,
               struct token *token_out, char *error)
{
    struct orchestrator_config config = {.cluster = cluster_defaults()};
    char text[MAX(STORE_ERROR_MAX, NET_ERROR_MAX)] = "";
    struct alone *al = calloc(1, sizeof(*al));
    int status;

    if (al == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    al->dir_fd = -1;
    alone_sweep(node_tmp_dir());
    status = make_dir(al, error);
    if (status != MU_OK) {
        goto err_alone;
    }
    strcpy(config.listen.host, "127.0.0.1");
    config.data_dir = al->dir;
    config.quiet = true; /* Our own lines tell the same, of the only job and node that there is. */
    config.cluster.jobs_max = 1;
    config.cluster.nodes_max = 16;
    config.cluster.workers_max = 1024;
    config.cluster.join_window_ms = 1;
    random_bytes(config.token.secret, sizeof(config.token.secret));
    status = orchestrator_open(loop, &config, &al->orchestrator, text);
    if (status != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "the standalone orchestrator: %.*s", NET_ERROR_MAX - 40,
                 text);
        goto err_dir;
    }
    *token_out = config.token;
    *at_out = (struct endpoints){.n = 1};
    at_out->at[0] = config.listen;
    at_out->at[0].port = orchestrator_port(al->orchestrator);
    *al_out = al;
    return MU_OK;

err_dir:
    remove_tree(al->dir);
    close(al->dir_fd);
err_alone:
    free(al);
    return status;
}

void alone_stop(struct alone *al)
{
    if (al->orchestrator != NULL) {
        orchestrator_close(al->orchestrator);
        al->orchestrator = NULL;
    }
}

void alone_close(struct alone *al)
{
    if (al == NULL) {
        return;
    }
    mu_assert(al->orchestrator == NULL);
    remove_tree(al->dir);
    close(al->dir_fd);
    free(al);
}
