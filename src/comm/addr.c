/* Data addresses: as text, as the kernel wants them, and which one to choose. */
#include "comm/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_TEXT_MAX 256

/* "host", "host:port", "[v6]", "[v6]:port", "v6". False: it is none of them. */
static bool split(const char *text, char host[HOST_TEXT_MAX], uint16_t *port_out)
{
    const size_t n = strlen(text);
    const char *end = text + n, *from = text, *port = NULL;

    if (text[0] == '[') {
        from = text + 1;
        end = strchr(text, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':')) {
            return false;
        }
        port = end[1] == ':' ? end + 2 : NULL;
    } else if (strchr(text, ':') != NULL && strchr(text, ':') == strrchr(text, ':')) {
        end = strchr(text, ':');
        port = end + 1;
    }
    if ((size_t)(end - from) >= HOST_TEXT_MAX) {
        return false;
    }
    memcpy(host, from, (size_t)(end - from));
    host[end - from] = '\0';
    *port_out = 0;
    if (port != NULL) {
        const size_t digits_n = strspn(port, "0123456789");
        const unsigned long value = strtoul(port, NULL, 10);

        if (digits_n == 0 || digits_n > 5 || port[digits_n] != '\0' || value > UINT16_MAX) {
            return false;
        }
        *port_out = (uint16_t)value;
    }
    return true;
}

/* IPv4 before IPv6: "localhost" means 127.0.0.1 to most. 0 or what getaddrinfo() says. */
static int resolve(const char *host, uint16_t port, int flags, struct addr *addr_out)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags};
    struct addrinfo *list = NULL;
    const int rc = getaddrinfo(host, NULL, &hints, &list);

    if (rc != 0) {
        return rc;
    }
    const struct addrinfo *best = list;

    for (const struct addrinfo *a = list; a != NULL; a = a->ai_next) {
        if (a->ai_family == AF_INET) {
            best = a;
            break;
        }
    }
    memset(addr_out, 0, sizeof(*addr_out));
    addr_out->n = best->ai_addrlen;
    memcpy(&addr_out->sa, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(list);
    if (addr_out->sa.sa_family == AF_INET6) {
        addr_out->v6.sin6_port = htons(port);
    } else {
        addr_out->v4.sin_port = htons(port);
    }
    return 0;
}

int addr_parse(const char *text, struct addr *addr_out)
{
    char host[HOST_TEXT_MAX];
    struct addr a;
    uint16_t port;

    if (!split(text, host, &port) || host[0] == '\0' || port == 0 ||
        resolve(host, port, AI_NUMERICHOST, &a) != 0) {
        return MU_EINVAL;
    }
    *addr_out = a;
    return MU_OK;
}

static bool is_any(const struct addr *a)
{
    return a->sa.sa_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr)
                                       : a->v4.sin_addr.s_addr == htonl(INADDR_ANY);
}

static int choose_by_address(const char *text, struct addr *addr_out, char *error)
{
    char host[HOST_TEXT_MAX];
    struct addr a;
    uint16_t port;

    if (!split(text, host, &port) || host[0] == '\0') {
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on \"%.100s\": that is no address; it should look like 10.0.0.1, "
                 "10.0.0.1:4711, [fd00::1]:4711 or a host's name",
                 text);
        return MU_EINVAL;
    }
    int rc = resolve(host, port, AI_NUMERICHOST, &a);

    rc = rc == EAI_NONAME ? resolve(host, port, 0, &a) : rc;
    if (rc != 0) {
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on %.100s: the name was not found (%s); check the spelling, or give "
                 "an address of this host",
                 host, gai_strerror(rc));
        return MU_ENOENT;
    }
    if (is_any(&a)) {
        snprintf(error, COMM_ERROR_MAX,
                 "can't listen on %.100s: other workers need one address to reach this one at; "
                 "give that, or the name of an interface (MUSTER_IFACE)",
                 host);
        return MU_EINVAL;
    }
    *addr_out = a;
    return MU_OK;
}

/* IPv4 first, then IPv6, but not one that is valid on its link only. */
static bool usable(const struct ifaddrs *i, const char *name, int family)
{
    if (strcmp(i->ifa_name, name) != 0 || i->ifa_addr == NULL || i->ifa_addr->sa_family != family) {
        return false;
    }
    return family != AF_INET6 ||
           !IN6_IS_ADDR_LINKLOCAL(
               &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr);
}

static bool has_address(const struct ifaddrs *i)
{
    return usable(i, i->ifa_name, AF_INET) || usable(i, i->ifa_name, AF_INET6);
}

static int no_interface(const struct ifaddrs *list, const char *name, char *error)
{
    char names[96] = "";
    bool known = false;

    for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
        const struct ifaddrs *first = list;
        const size_t n = strlen(names);

        while (first != i && (strcmp(first->ifa_name, i->ifa_name) != 0 || !has_address(first))) {
            first = first->ifa_next;
        }
        known = known || strcmp(i->ifa_name, name) == 0;
        if (first == i && has_address(i)) {
            snprintf(names + n, sizeof(names) - n, "%s%s", n > 0 ? ", " : "", i->ifa_name);
        }
    }
    snprintf(error, COMM_ERROR_MAX,
             "can't listen on interface \"%.32s\": %s; use one of %s, or give an address", name,
             known ? "it has no address" : "there is none of that name", names);
    return MU_ENOENT;
}

static int choose_by_interface(const char *name, struct addr *addr_out, char *error)
{
    struct ifaddrs *list = NULL;
    static const int families[] = {AF_INET, AF_INET6};

    if (getifaddrs(&list) != 0) {
        snprintf(error, COMM_ERROR_MAX,
                 "can't list this host's interfaces (%s); give an address instead",
                 strerror(errno));
        return MU_EIO;
    }
    for (size_t f = 0; f < ARRAY_LEN(families); f++) {
        for (const struct ifaddrs *i = list; i != NULL; i = i->ifa_next) {
            if (usable(i, name, families[f])) {
                memset(addr_out, 0, sizeof(*addr_out));
                addr_out->n = families[f] == AF_INET ? sizeof(addr_out->v4) : sizeof(addr_out->v6);
                memcpy(&addr_out->sa, i->ifa_addr, addr_out->n);
                freeifaddrs(list);
                return MU_OK;
            }
        }
    }
    const int rc = no_interface(list, name, error);

    freeifaddrs(list);
    return rc;
}

int addr_choose(const struct comm_config *config, struct addr *addr_out, char *error)
{
    if (config->iface != NULL && config->iface[0] != '\0') {
        return choose_by_interface(config->iface, addr_out, error);
    }
    return choose_by_address(config->address != NULL ? config->address : "127.0.0.1", addr_out,
                             error);
}

uint16_t addr_port(const struct addr *a)
{
    return ntohs(a->sa.sa_family == AF_INET6 ? a->v6.sin6_port : a->v4.sin_port);
}

void addr_print(const struct addr *a, char text[ADDR_MAX_LEN])
{
    char host[INET6_ADDRSTRLEN] = "?";

    if (a->sa.sa_family == AF_INET6) {
        inet_ntop(AF_INET6, &a->v6.sin6_addr, host, sizeof(host));
        snprintf(text, ADDR_MAX_LEN, "[%s]:%u", host, addr_port(a));
    } else if (a->sa.sa_family == AF_INET) {
        inet_ntop(AF_INET, &a->v4.sin_addr, host, sizeof(host));
        snprintf(text, ADDR_MAX_LEN, "%s:%u", host, addr_port(a));
    } else {
        snprintf(text, ADDR_MAX_LEN, "this host");
    }
}

void addr_local(uint16_t port, struct addr *addr_out)
{
    struct addr a = {0};

    a.local.sun_family = AF_UNIX;
    const int n = snprintf(a.local.sun_path + 1, sizeof(a.local.sun_path) - 1, "muster-data-%u",
                           (unsigned)port);

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

int addr_bind(const struct addr *a, int type)
{
    const int fd = socket(a->sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0) {
        return -1;
    }
    if (a->sa.sa_family != AF_UNIX && addr_port(a) != 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    }
    return bind(fd, &a->sa, a->n) == 0 ? fd : close_with(fd);
}

int addr_connect(const struct addr *a, int type)
{
    const int fd = socket(a->sa.sa_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    return connect(fd, &a->sa, a->n) == 0 || errno == EINPROGRESS ? fd : close_with(fd);
}
