#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int refuse(char *error, const char *text, const char *why)
{
    snprintf(error, ADDRESS_ERROR_MAX,
             "\"%.200s\" is no address: %s; it should look like 10.0.0.1:5556, host:5556 or "
             "[::1]:5556",
             text, why);
    return MU_EINVAL;
}

static bool parse_port(const char *p, size_t n, uint16_t *port_out)
{
    unsigned long value = 0;

    if (n == 0 || n > 5) {
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (p[i] < '0' || p[i] > '9') {
            return false;
        }
        value = value * 10 + (unsigned long)(p[i] - '0');
    }
    if (value > UINT16_MAX) {
        return false;
    }
    *port_out = (uint16_t)value;
    return true;
}

static bool is_v6(const char *host)
{
    struct in6_addr a;
    char bare[HOST_MAX_LEN];
    size_t n = strcspn(host, "%"); /* fe80::1%eth0 */

    memcpy(bare, host, n);
    bare[n] = '\0';
    return inet_pton(AF_INET6, bare, &a) == 1;
}

static bool is_host_char(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           strchr(".-_:%", ch) != NULL;
}

const char *address_split(const char *text, size_t n, const char **host, size_t *host_n)
{
    const char *colon = memrchr(text, ':', n);

    *host = text;
    *host_n = n;
    if (n > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', n);

        if (close == NULL) {
            return NULL;
        }
        *host = text + 1;
        *host_n = (size_t)(close - text) - 1;
        return close + 1 < text + n && close[1] == ':' ? close + 2 : NULL;
    }
    if (colon == NULL || memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return NULL; /* none, or a bare v6 address */
    }
    *host_n = (size_t)(colon - text);
    return colon + 1;
}

static int parse(const char *text, size_t n, uint32_t default_port, struct endpoint *e_out,
                 char *error)
{
    char shown[HOST_MAX_LEN];
    struct endpoint e = {.port = (uint16_t)default_port};
    const char *host;
    size_t host_n;

    snprintf(shown, sizeof(shown), "%.*s", (int)MIN(n, sizeof(shown) - 1), text);
    for (char *p = shown; *p != '\0'; p++) {
        *p = (unsigned char)*p < ' ' ? '?' : *p;
    }
    if (n == 0) {
        return refuse(error, shown, "it is empty");
    }
    const char *port = address_split(text, n, &host, &host_n);
    const bool bracketed = text[0] == '[';

    if (host_n >= sizeof(e.host)) {
        return refuse(error, shown, "the name is too long");
    }
    memcpy(e.host, host, host_n);
    if (bracketed && (host + host_n == text + n || !is_v6(e.host) ||
                      (port == NULL && host + host_n + 1 != text + n))) {
        return refuse(error, shown, "what is in brackets must be an IPv6 address");
    }
    for (size_t i = 0; i < host_n; i++) {
        if (!is_host_char(host[i])) {
            return refuse(error, shown, "a host name has no such characters");
        }
    }
    if (!bracketed && strchr(e.host, ':') != NULL && !is_v6(e.host)) {
        return refuse(error, shown, "there are too many colons");
    }
    if (port != NULL && !parse_port(port, (size_t)(text + n - port), &e.port)) {
        return refuse(error, shown, "the port is a number up to 65535");
    }
    if (port == NULL && default_port == 0) {
        return refuse(error, shown, "the port is missing");
    }
    if (host_n == 0) {
        snprintf(e.host, sizeof(e.host), "127.0.0.1");
    }
    *e_out = e;
    return MU_OK;
}

int endpoint_parse(const char *text, uint32_t default_port, struct endpoint *e_out, char *error)
{
    return parse(text, strlen(text), default_port, e_out, error);
}

int endpoints_parse(const char *text, uint16_t default_port, struct endpoints *e_out, char *error)
{
    struct endpoints list = {0};

    for (;;) {
        const size_t n = strcspn(text, ",");

        if (list.n == ENDPOINTS_MAX) {
            snprintf(error, ADDRESS_ERROR_MAX, "there are more than %d addresses in the list",
                     ENDPOINTS_MAX);
            return MU_EINVAL;
        }
        int rc = parse(text, n, default_port, &list.at[list.n], error);

        if (rc != MU_OK) {
            return rc;
        }
        list.n++;
        if (text[n] == '\0') {
            *e_out = list;
            return MU_OK;
        }
        text += n + 1;
    }
}

void endpoint_print(const struct endpoint *e, char *buf, size_t cap)
{
    snprintf(buf, cap, strchr(e->host, ':') != NULL ? "[%s]:%u" : "%s:%u", e->host,
             (unsigned)e->port);
}

uint16_t address_port(const struct sockaddr *sa)
{
    return ntohs(sa->sa_family == AF_INET6
                     ? ((const struct sockaddr_in6 *)(const void *)sa)->sin6_port
                     : ((const struct sockaddr_in *)(const void *)sa)->sin_port);
}

void address_host(const struct sockaddr *sa, char *buf, size_t cap)
{
    const void *in = sa->sa_family == AF_INET6
                         ? (const void *)&((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr
                         : &((const struct sockaddr_in *)(const void *)sa)->sin_addr;

    if (inet_ntop(sa->sa_family, in, buf, (socklen_t)cap) == NULL) {
        snprintf(buf, cap, "?");
    }
}

void address_print(const struct sockaddr *sa, char *buf, size_t cap)
{
    char host[INET6_ADDRSTRLEN];

    if (sa->sa_family != AF_INET && sa->sa_family != AF_INET6) {
        snprintf(buf, cap, "this host");
        return;
    }
    address_host(sa, host, sizeof(host));
    snprintf(buf, cap, sa->sa_family == AF_INET6 ? "[%s]:%u" : "%s:%u", host,
             (unsigned)address_port(sa));
}

bool address_is_loopback(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)sa;

        return ntohl(in->sin_addr.s_addr) >> 24 == 127;
    }
    if (sa->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;

        return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
    }
    return sa->sa_family == AF_UNIX;
}

/* On success *list_out is for freeaddrinfo(). */
static int look_up(const struct endpoint *e, bool names, struct addrinfo **list_out, char *error)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char port[8];

    snprintf(port, sizeof(port), "%u", (unsigned)e->port);
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    int rc = getaddrinfo(e->host, port, &hints, list_out);

    if (rc == EAI_NONAME && names) {
        hints.ai_flags = AI_NUMERICSERV;
        rc = getaddrinfo(e->host, port, &hints, list_out);
    }
    if (rc != 0) {
        snprintf(error, ADDRESS_ERROR_MAX,
                 "the name %s was not found (%s); check the spelling, or give its address", e->host,
                 gai_strerror(rc));
        return rc == EAI_MEMORY ? MU_ENOMEM : MU_ENOENT;
    }
    return MU_OK;
}

int endpoint_resolve(const struct endpoint *e, struct sockaddr_storage *out, socklen_t *out_len,
                     uint32_t max, uint32_t *n_out, char *error)
{
    struct addrinfo *list;
    uint32_t n = 0;
    const int rc = look_up(e, true, &list, error);

    if (rc != MU_OK) {
        return rc;
    }
    for (const struct addrinfo *a = list; a != NULL && n < max; a = a->ai_next) {
        if (a->ai_addrlen <= sizeof(out[n])) {
            memset(&out[n], 0, sizeof(out[n]));
            memcpy(&out[n], a->ai_addr, a->ai_addrlen);
            out_len[n++] = a->ai_addrlen;
        }
    }
    freeaddrinfo(list);
    *n_out = n;
    return MU_OK;
}

static void address_set(struct address *a, const struct sockaddr *sa, socklen_t n)
{
    memset(a, 0, sizeof(*a));
    a->n = n;
    memcpy(&a->sa, sa, n);
}

int endpoint_address(const struct endpoint *e, bool names, struct address *a_out, char *error)
{
    struct addrinfo *list;
    const int rc = look_up(e, names, &list, error);

    if (rc != MU_OK) {
        return rc;
    }
    const struct addrinfo *best = list;

    while (best != NULL && best->ai_family != AF_INET) {
        best = best->ai_next;
    }
    best = best != NULL ? best : list;
    address_set(a_out, best->ai_addr, best->ai_addrlen);
    freeaddrinfo(list);
    return MU_OK;
}

/* ---- interfaces ---- */

static bool is_usable(const struct ifaddrs *i, int family)
{
    const struct sockaddr_in6 *v6 = (const void *)i->ifa_addr;

    return v6 != NULL && v6->sin6_family == family &&
           (family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr));
}

static bool has_address(const struct ifaddrs *i)
{
    return is_usable(i, AF_INET) || is_usable(i, AF_INET6);
}

/* Says which interfaces could be used instead. */
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
    snprintf(error, ADDRESS_ERROR_MAX, "interface \"%.32s\": %s; use one of %s, or give an address",
             name, known ? "it has no address" : "there is none of that name", names);
    return MU_ENOENT;
}

int interface_address(const char *name, struct address *a_out, char *error)
{
    struct ifaddrs *list = NULL;
    static const int families[] = {AF_INET, AF_INET6};
    int rc = MU_EAGAIN;

    if (getifaddrs(&list) != 0) {
        snprintf(error, ADDRESS_ERROR_MAX,
                 "can't list this host's interfaces (%s); give an address instead",
                 strerror(errno));
        return MU_EIO;
    }
    for (size_t f = 0; f < ARRAY_LEN(families) && rc != MU_OK; f++) {
        for (const struct ifaddrs *i = list; i != NULL && rc != MU_OK; i = i->ifa_next) {
            if (strcmp(i->ifa_name, name) == 0 && is_usable(i, families[f])) {
                address_set(a_out, i->ifa_addr,
                            families[f] == AF_INET ? sizeof(a_out->v4) : sizeof(a_out->v6));
                rc = MU_OK;
            }
        }
    }
    rc = rc == MU_OK ? rc : no_interface(list, name, error);
    freeifaddrs(list);
    return rc;
}

void address_look_up(char *addr, size_t cap)
{
    char error[ADDRESS_ERROR_MAX];
    struct endpoint e;
    struct address a;

    if (endpoint_parse(addr, 0, &e, error) == MU_OK &&
        endpoint_address(&e, false, &a, error) != MU_OK &&
        endpoint_address(&e, true, &a, error) == MU_OK) {
        address_print(&a.sa, addr, cap);
    }
}
