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

static int bind_tcp(const struct address *a, int *fd_out)
{
    int fd = socket(a->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1, off = 0;

    if (fd < 0) {
        return -1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (a->sa.sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    }
    if (bind(fd, &a->sa, a->n) != 0 || listen(fd, BACKLOG) != 0) {
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
    struct address a = {.n = sizeof(a.v6)};

    return getsockname(fd, &a.sa, &a.n) == 0 ? address_port(&a.sa) : 0;
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
    struct address a;
    char where[HOST_MAX_LEN + 16];
    int rc = endpoint_address(at, true, &a, error);

    if (rc != MU_OK) {
        return rc;
    }
    endpoint_print(at, where, sizeof(where));
    if (not_open != NULL && !address_is_loopback(&a.sa)) {
        snprintf(error, NET_ERROR_MAX, "refused to listen on %s %s", where, not_open);
        return MU_EREFUSED;
    }
    if (bind_tcp(&a, fd_out) != 0) {
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
