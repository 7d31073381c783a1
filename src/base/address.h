/* Addresses: as text, as the kernel wants them, and those that this host has. */
#ifndef BASE_ADDRESS_H
#define BASE_ADDRESS_H

#include "base/base.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#define ADDRESS_ERROR_MAX 512
#define HOST_MAX_LEN 256

/* "host:port", "[v6]:port", "host" or ":port", which is 127.0.0.1:port. */
struct endpoint {
    char host[HOST_MAX_LEN];
    uint16_t port;
};

#define ENDPOINTS_MAX 8

struct endpoints {
    uint32_t n;
    struct endpoint at[ENDPOINTS_MAX];
};

/* As the kernel wants it. */
struct address {
    socklen_t n;
    union {
        struct sockaddr sa;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    };
};

/* Splits the n bytes of `text`. Gives where the port begins, or NULL if there is none; the host is
 * *host_n bytes at *host, without brackets. */
const char *address_split(const char *text, size_t n, const char **host, size_t *host_n);

/* On failure `error` (ADDRESS_ERROR_MAX) says what is wrong with `text` and how it should look.
 * default_port 0: a port must be given. PORT_ANY: it may be missing, and is 0 then. */
#define PORT_ANY 65536u
int endpoint_parse(const char *text, uint32_t default_port, struct endpoint *e_out, char *error);

/* A list with commas. */
int endpoints_parse(const char *text, uint16_t default_port, struct endpoints *e_out, char *error);

/* "127.0.0.1:5556", "[::1]:5556" */
void endpoint_print(const struct endpoint *e, char *buf, size_t cap);
void address_print(const struct sockaddr *sa, char *buf, size_t cap);

/* Blocking; numeric addresses need no resolver. Sets at most `max` addresses. */
int endpoint_resolve(const struct endpoint *e, struct sockaddr_storage *out, socklen_t *out_len,
                     uint32_t max, uint32_t *n_out, char *error);

/* One address of it, IPv4 if it has one: "localhost" means 127.0.0.1 to most. names: the host may
 * be a name, and looking that up may take long. */
int endpoint_address(const struct endpoint *e, bool names, struct address *a_out, char *error);

/* "name:port" becomes an address in numbers, which may take long. Numbers stay as they are, and so
 * does a name that nobody knows. */
void address_look_up(char *addr, size_t cap);

/* The address of a network interface, with port 0: IPv4 before IPv6, and none that is valid on its
 * link only. MU_ENOENT: there is none, and `error` names the interfaces that have one. MU_EIO. */
int interface_address(const char *name, struct address *a_out, char *error);

uint16_t address_port(const struct sockaddr *sa);
void address_host(const struct sockaddr *sa, char *buf, size_t cap); /* without its port */
bool address_is_loopback(const struct sockaddr *sa);

#endif
