#include "link/addr.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int addr_parse(const char *text, struct address *addr_out)
{
    char error[ADDRESS_ERROR_MAX];
    struct endpoint e;

    return endpoint_parse(text, 0, &e, error) == MU_OK && e.port != 0 &&
                   endpoint_address(&e, false, addr_out, error) == MU_OK
               ? MU_OK
               : MU_EINVAL;
}

static bool is_any(const struct address *a)
{
    return a->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr)
                                       : a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

static int choose(const char *address, const char *iface, struct address *addr_out, char *error)
{
    const char *text = address != NULL ? address : "127.0.0.1";
    struct endpoint e;
    int rc;

    if (iface != NULL && iface[0] != '\0') {
        return interface_address(iface, addr_out, error);
    }
    rc = endpoint_parse(text, PORT_ANY, &e, error);
    if (rc == MU_OK) {
        rc = endpoint_address(&e, true, addr_out, error);
    }
    if (rc == MU_OK && is_any(addr_out)) {
        snprintf(error, ADDRESS_ERROR_MAX,
                 "%.100s: other workers need one address to reach this one at; give that, or the "
                 "name of an interface (MUSTER_IFACE)",
                 text);
        rc = MU_EINVAL;
    }
    return rc;
}

int addr_choose(const char *address, const char *iface, struct address *addr_out, char *error)
{
    char why[ADDRESS_ERROR_MAX];
    const int rc = choose(address, iface, addr_out, why);

    if (rc != MU_OK) {
        snprintf(error, LINK_ERROR_MAX, "can't listen: %.240s", why);
    }
    return rc;
}

int addr_local_type(enum link_class class)
{
    return class == LINK_GROUP ? SOCK_SEQPACKET : SOCK_STREAM;
}

void addr_local(enum link_class class, uint16_t port, struct address *addr_out)
{
    struct address a = {.local.sun_family = AF_UNIX};
    const int n = snprintf(a.local.sun_path + 1, sizeof(a.local.sun_path) - 1, "muster-%s-%u",
                           class == LINK_GROUP ? "data" : "help", (unsigned)port);

    a.n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    *addr_out = a;
}

static int close_with(int fd)
{
    const int error = errno;

    close(fd);
    errno = error;
    return -1;
}

int addr_bind(const struct address *a, int type)
{
    const int fd = socket(a->sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0) {
        return -1;
    }
    if (a->sa.sa_family != AF_UNIX && address_port(&a->sa) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    return bind(fd, &a->sa, a->n) == 0 ? fd : close_with(fd);
}

int addr_connect(const struct address *a, int type)
{
    const int fd = socket(a->sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    return connect(fd, &a->sa, a->n) == 0 || errno == EINPROGRESS ? fd : close_with(fd);
}
