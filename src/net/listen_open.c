/* Listening sockets: TCP, and unix sockets with the remains of those who died. */
#include "net/listen_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 4096

static int fail(char *error, const char *where)
{
    const int status = errno == EADDRINUSE ? MU_EBUSY : MU_EIO;

    switch (errno) {
    case EADDRINUSE:
        snprintf(error, NET_ERROR_MAX,
                 "can't listen on %s: it is in use; is another orchestrator running? Stop it or "
                 "choose another port",
                 where);
        break;
    case EADDRNOTAVAIL:
        snprintf(error, NET_ERROR_MAX, "can't listen on %s: this host has no such address", where);
        break;
    case EACCES:
        snprintf(error, NET_ERROR_MAX, "can't listen on %s: not permitted%s", where,
                 where[0] != '/' ? "; ports below 1024 are for root" : "");
        break;
    default:
        snprintf(error, NET_ERROR_MAX, "can't listen on %s: %s", where, strerror(errno));
    }
    return status;
}

/* IPv4 first: "localhost" means 127.0.0.1 to most who connect. */
static int pick(const struct endpoint *at, struct sockaddr_storage *sa, socklen_t *n, char *error)
{
    struct sockaddr_storage all[8];
    socklen_t all_n[8];
    uint32_t found = 0, best = 0;
    int rc = endpoint_resolve(at, all, all_n, ARRAY_LEN(all), &found, error);

    if (rc != MU_OK) {
        return rc;
    }
    mu_assert(found > 0);
    while (best < found && all[best].ss_family != AF_INET) {
        best++;
    }
    best = best == found ? 0 : best;
    *sa = all[best];
    *n = all_n[best];
    return MU_OK;
}

static int bind_tcp(const struct sockaddr_storage *sa, socklen_t n, int *fd_out)
{
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1, off = 0;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (sa->ss_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, (const struct sockaddr *)sa, n) != 0 || listen(fd, BACKLOG) != 0) {
        const int error = errno;

        close(fd);
        errno = error;
        return -1;
    }
    *fd_out = fd;
    return 0;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage sa = {0};
    socklen_t n = sizeof(sa);

    if (getsockname(fd, (struct sockaddr *)&sa, &n) != 0) {
        return 0;
    }
    return ntohs(sa.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&sa)->sin6_port
                                          : ((struct sockaddr_in *)&sa)->sin_port);
}

/* Only those who may have thousands of connections need it, and children inherit it. */
static void raise_files(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int listen_socket(const struct endpoint *at, const char *not_open, int *fd_out, uint16_t *port_out,
                  char *error)
{
    struct sockaddr_storage sa;
    char where[HOST_MAX_LEN + 16];
    socklen_t n;
    int rc = pick(at, &sa, &n, error);

    if (rc != MU_OK) {
        return rc;
    }
    endpoint_print(at, where, sizeof(where));
    if (not_open != NULL && !address_is_loopback((struct sockaddr *)&sa)) {
        snprintf(error, NET_ERROR_MAX, "refused to listen on %s %s", where, not_open);
        return MU_EREFUSED;
    }
    if (bind_tcp(&sa, n, fd_out) != 0) {
        return fail(error, where);
    }
    *port_out = port_of(*fd_out);
    return MU_OK;
}

int listen_tcp(uv_loop_t *loop, const struct endpoint *at, struct tls *tls,
               const struct conn_handler *handler, const struct listen_config *config, void *data,
               struct listener **l_out, char *error)
{
    const char *not_open =
        tls == NULL ? "without a token: whoever reaches it could run programs" : NULL;
    uint16_t port;
    int fd, rc = listen_socket(at, not_open, &fd, &port, error);

    if (rc != MU_OK) {
        return rc;
    }
    raise_files();
    rc = listen_start(loop, fd, tls, handler, config, data, l_out, error);
    if (rc != MU_OK) {
        close(fd);
        return rc;
    }
    (*l_out)->port = port;
    return MU_OK;
}

/* Whether somebody answers at the path. What nobody answers at is what a crash left. */
static int clear_path(const struct sockaddr_un *sa, char *error)
{
    struct stat st;

    if (lstat(sa->sun_path, &st) != 0) {
        return MU_OK; /* bind() will tell if there is more to it. */
    }
    if (!S_ISSOCK(st.st_mode)) {
        snprintf(error, NET_ERROR_MAX, "can't listen on %s: a file of that name is there",
                 sa->sun_path);
        return MU_EEXIST;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return fail(error, sa->sun_path);
    }
    const bool dead = connect(fd, (const struct sockaddr *)sa, sizeof(*sa)) != 0 &&
                      (errno == ECONNREFUSED || errno == ENOENT);

    close(fd);
    if (!dead) {
        snprintf(error, NET_ERROR_MAX, "can't listen on %s: another process does", sa->sun_path);
        return MU_EBUSY;
    }
    (void)unlink(sa->sun_path);
    return MU_OK;
}

int listen_unix(uv_loop_t *loop, const char *path, const struct conn_handler *handler,
                const struct listen_config *config, void *data, struct listener **l_out,
                char *error)
{
    struct sockaddr_un sa = {.sun_family = AF_UNIX};
    struct stat st;

    if (strlen(path) >= sizeof(sa.sun_path)) {
        snprintf(error, NET_ERROR_MAX,
                 "the path of the socket is longer than %zu bytes, which is all the system takes: "
                 "%.200s",
                 sizeof(sa.sun_path) - 1, path);
        return MU_EINVAL;
    }
    strcpy(sa.sun_path, path);
    int rc = clear_path(&sa, error);

    if (rc != MU_OK) {
        return rc;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    /* The mode of the socket becomes that of its file: it is never open to others, not even for a
     * moment. */
    if (fd < 0 || fchmod(fd, 0600) != 0 || bind(fd, (struct sockaddr *)&sa, sizeof(sa)) != 0) {
        rc = fail(error, path);
        goto err_fd;
    }
    if (listen(fd, BACKLOG) != 0 || stat(path, &st) != 0) {
        rc = fail(error, path);
        goto err_path;
    }
    rc = listen_start(loop, fd, NULL, handler, config, data, l_out, error);
    if (rc != MU_OK) {
        goto err_path;
    }
    strcpy((*l_out)->path, path);
    (*l_out)->path_dev = st.st_dev;
    (*l_out)->path_ino = st.st_ino;
    return MU_OK;
err_path:
    (void)unlink(path);
err_fd:
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}
