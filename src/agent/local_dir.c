#include "agent/local_dir.h"

#include "net/net.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define SOCKET_NAME "agent"
#define RANDOM_NAME "XXXXXX"
#define NEW_S 60 /* An agent makes the directory first, and listens in it a moment later. */

/* What the names begin with in each of the two places. */
static void name_head(bool shared, char *head, size_t cap)
{
    if (shared) {
        snprintf(head, cap, "muster-%u-", (unsigned)geteuid());
    } else {
        snprintf(head, cap, "muster-");
    }
}

static bool make_in(const char *place, bool shared, char dir[LOCAL_PATH_MAX])
{
    char head[32], path[512];
    int n;

    name_head(shared, head, sizeof(head));
    n = snprintf(path, sizeof(path), "%s/%s%d-" RANDOM_NAME, place, head, (int)getpid());
    if (n < 0 || (size_t)n + sizeof("/" SOCKET_NAME) > LOCAL_PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (mkdtemp(path) == NULL) {
        return false;
    }
    memcpy(dir, path, (size_t)n + 1);
    return true;
}

static const char *private_place(void)
{
    const char *place = getenv("XDG_RUNTIME_DIR");

    return place != NULL && place[0] == '/' ? place : NULL;
}

int local_dir_make(char dir[LOCAL_PATH_MAX], char *error)
{
    if ((private_place() != NULL && make_in(private_place(), false, dir)) ||
        make_in("/tmp", true, dir)) {
        return MU_OK;
    }
    snprintf(error, NET_ERROR_MAX,
             "could not make a directory for the agent's socket in %s: %s; is there room, and may "
             "this user write there?",
             private_place() != NULL ? "$XDG_RUNTIME_DIR or /tmp" : "/tmp", strerror(errno));
    return MU_EIO;
}

void local_dir_socket(const char dir[LOCAL_PATH_MAX], char path[LOCAL_PATH_MAX])
{
    char whole[LOCAL_PATH_MAX + sizeof("/" SOCKET_NAME)];
    int n = snprintf(whole, sizeof(whole), "%s/" SOCKET_NAME, dir);

    mu_assert(n > 0 && n < LOCAL_PATH_MAX);
    memcpy(path, whole, (size_t)n + 1);
}

void local_dir_remove(const char *dir)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/" SOCKET_NAME, dir);
    unlink(path);
    rmdir(dir);
}

static bool somebody_listens(const char *dir)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd, n = snprintf(at.sun_path, sizeof(at.sun_path), "%s/" SOCKET_NAME, dir);
    bool refused;

    if (n < 0 || (size_t)n >= sizeof(at.sun_path)) {
        return true;
    }
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return true;
    }
    refused = connect(fd, (struct sockaddr *)&at, sizeof(at)) != 0 &&
              (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    return !refused;
}

/* Numbers of processes are not enough: containers that share a /tmp have each their own. */
static void remove_if_stale(const char *place, const char *name, const char *head)
{
    size_t head_n = strlen(head);
    struct timespec now;
    struct stat st;
    char path[512], *end;
    long pid;

    if (strncmp(name, head, head_n) != 0) {
        return;
    }
    pid = strtol(name + head_n, &end, 10);
    if (pid <= 0 || *end != '-' || strlen(end + 1) != sizeof(RANDOM_NAME) - 1 ||
        snprintf(path, sizeof(path), "%s/%s", place, name) >= (int)sizeof(path)) {
        return;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid() &&
        now.tv_sec - st.st_mtim.tv_sec > NEW_S && kill((pid_t)pid, 0) != 0 && errno == ESRCH &&
        !somebody_listens(path)) {
        local_dir_remove(path);
    }
}

static void clean_in(const char *place, bool shared)
{
    const struct dirent *e;
    DIR *dir = opendir(place);
    char head[32];

    if (dir == NULL) {
        return;
    }
    name_head(shared, head, sizeof(head));
    while ((e = readdir(dir)) != NULL) {
        remove_if_stale(place, e->d_name, head);
    }
    closedir(dir);
}

void local_dir_clean(void)
{
    if (private_place() != NULL) {
        clean_in(private_place(), false);
    }
    clean_in("/tmp", true);
}
