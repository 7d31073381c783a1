/* The flags of `muster run` for checkpoints. Workers see them as MUSTER_CKPT_*. */
#include "cli/run_flags.h"

#include "ckpt/ckpt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEPS_MAX 1000000000000ull
#define TIME_MAX_MS (30 * 86400000ull)

#define DEPOT "orchestrator:"

int run_ckpt_read_dir(const char *text, void *to, char *error)
{
    if (*text == '\0') {
        return MU_EINVAL;
    }
    if (strncmp(text, DEPOT, strlen(DEPOT)) == 0 && strcmp(text, DEPOT) != 0) {
        snprintf(error, OPTS_ERROR_MAX,
                 "what the orchestrator keeps is '" DEPOT "' and no more, each job by its name, "
                 "got '%.100s'; for a folder of that name, write './%.100s'",
                 text, text);
        return MU_EINVAL;
    }
    *(const char **)to = text;
    return MU_OK;
}

int run_ckpt_read_every(const char *text, void *to, char *error)
{
    struct ckpt_every every;

    (void)error;
    if (!ckpt_every_read(text, &every) || every.steps > STEPS_MAX || every.ms > TIME_MAX_MS) {
        return MU_EINVAL;
    }
    *(const char **)to = text;
    return MU_OK;
}

/* The first that is a flag, and not one of the variables: those may be for a script that names the
 * folder itself. */
static const char *given(const struct environ_ckpt *c)
{
    const struct {
        bool said;
        const char *flag, *variable;
    } all[] = {
        {c->every != NULL, "--ckpt-every", "MUSTER_CKPT_EVERY"},
        {c->keep != 0, "--ckpt-keep", "MUSTER_CKPT_KEEP"},
        {c->keep_every != 0, "--ckpt-keep-every", "MUSTER_CKPT_KEEP_EVERY"},
        {c->shared, "--ckpt-shared", "MUSTER_CKPT_SHARED"},
        {c->zstd, "--ckpt-zstd", "MUSTER_CKPT_ZSTD"},
    };

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        const char *variable = getenv(all[i].variable);

        if (all[i].said && (variable == NULL || *variable == '\0')) {
            return all[i].flag;
        }
    }
    return NULL;
}

/* Workers may change their directory before they save. */
static int make_absolute(struct run_flags *f, char *error)
{
    const char *dir = f->node.ckpt.dir;
    size_t here_n = 0;

    if (dir[0] != '/') {
        if (getcwd(f->ckpt_dir, sizeof(f->ckpt_dir) - 1) == NULL) {
            snprintf(error, OPTS_ERROR_MAX,
                     "--ckpt-dir: the current directory is not known (%s); give an absolute path",
                     strerror(errno));
            return MU_EINVAL;
        }
        here_n = strlen(f->ckpt_dir);
        if (f->ckpt_dir[here_n - 1] != '/') {
            f->ckpt_dir[here_n++] = '/';
        }
        while (dir[0] == '.' && dir[1] == '/') {
            dir += 2 + strspn(dir + 2, "/");
        }
    }
    if (here_n + strlen(dir) >= sizeof(f->ckpt_dir)) {
        snprintf(error, OPTS_ERROR_MAX, "--ckpt-dir: %.100s… is longer than a path may be", dir);
        return MU_EINVAL;
    }
    strcpy(f->ckpt_dir + here_n, dir);
    f->node.ckpt.dir = f->ckpt_dir;
    return MU_OK;
}

static bool is_depot(const char *dir)
{
    return strcmp(dir, DEPOT) == 0;
}

/* It keeps them where it keeps everything else: no folder of this node's is needed. */
static int check_depot(const struct run_flags *f, char *error)
{
    if (f->node.standalone) {
        snprintf(error, OPTS_ERROR_MAX,
                 "--ckpt-dir " DEPOT " needs an orchestrator that stays; the one inside "
                 "--standalone is gone with the run. Start \"muster serve\", or name a folder");
        return MU_EINVAL;
    }
    if (f->node.ckpt.shared) {
        snprintf(error, OPTS_ERROR_MAX,
                 "--ckpt-shared is for a folder that all nodes see; with --ckpt-dir " DEPOT
                 " leave it out: the orchestrator gives all nodes the same one");
        return MU_EINVAL;
    }
    return MU_OK;
}

int run_ckpt_settle(struct run_flags *f, char *error)
{
    const char *flag = given(&f->node.ckpt);

    if (f->node.ckpt.dir == NULL) {
        if (flag == NULL) {
            return MU_OK;
        }
        snprintf(error, OPTS_ERROR_MAX, "%s needs --ckpt-dir, the folder to save to", flag);
        return MU_EINVAL;
    }
    if (f->node.job[0] == '.') {
        snprintf(error, OPTS_ERROR_MAX,
                 "--ckpt-dir: a job that saves checkpoints has a name that does not begin with "
                 "'.', got '%.100s'",
                 f->node.job);
        return MU_EINVAL;
    }
    return is_depot(f->node.ckpt.dir) ? check_depot(f, error) : make_absolute(f, error);
}

/* As mkdir -p. */
static int make_folders(const char *dir)
{
    char path[RUN_CKPT_DIR_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s", dir);
    for (char *at = path + 1;; at++) {
        char was = *at;

        if (was != '/' && was != '\0') {
            continue;
        }
        *at = '\0';
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            int why = errno; /* EACCES, EROFS: it may be there for all that */

            if (stat(path, &st) != 0) {
                return why;
            }
        }
        if (was == '\0') {
            return 0;
        }
        *at = was;
    }
}

int run_ckpt_prepare(const struct run_flags *f, char *error)
{
    const char *dir = f->node.ckpt.dir;
    struct stat st;
    int why;

    if (dir == NULL || is_depot(dir)) {
        return MU_OK;
    }
    why = make_folders(dir);
    if (why != 0) {
        snprintf(error, OPTS_ERROR_MAX,
                 "--ckpt-dir: the folder %.300s can't be made: %s; make it, or name another", dir,
                 strerror(why));
        return MU_EIO;
    }
    if (stat(dir, &st) != 0 || !S_ISDIR(st.st_mode)) {
        snprintf(error, OPTS_ERROR_MAX, "--ckpt-dir: %.300s is no folder; name another", dir);
        return MU_EIO;
    }
    if (access(dir, R_OK | W_OK | X_OK) != 0) {
        snprintf(error, OPTS_ERROR_MAX,
                 "--ckpt-dir: nothing can be saved in %.300s: %s; change that, or name another",
                 dir, strerror(errno));
        return MU_EIO;
    }
    return MU_OK;
}
