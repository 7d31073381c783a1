#include "net/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

static void set(int fd, int level, int option, int value)
{
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

void socket_tune(int fd)
{
    int domain = AF_UNSPEC;
    socklen_t n = sizeof(domain);

    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) != 0 || domain == AF_UNIX) {
        return;
    }
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 10);
    set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
    set(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
    set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
}

int socket_dial(const struct sockaddr *sa, socklen_t n, int *fd_out)
{
    int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc;

    if (fd < 0) {
        return errno;
    }
    socket_tune(fd);
    do {
        rc = connect(fd, sa, n);
    } while (rc != 0 && errno == EINTR);
    if (rc != 0 && errno != EINPROGRESS && errno != EALREADY) {
        const int error = errno;

        close(fd);
        return error;
    }
    *fd_out = fd;
    return 0;
}

int socket_outcome(int fd)
{
    int error = 0;
    socklen_t n = sizeof(error);

    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0 ? errno : error;
}

const char *socket_why(int error)
{
    switch (error) {
    case ECONNREFUSED:
        return "nobody listens there (is the orchestrator running?)";
    case ECONNRESET:
    case EPIPE:
        return "the connection was cut off";
    case ETIMEDOUT:
        return "no answer (is it the right address, and open in the firewall?)";
    default:
        return strerror(error);
    }
}
