#include "agent/ports.h"

#include "base/random.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LIKED_LO 20000
#define LIKED_HI 32767
#define ANY_LO 1024
#define ANY_HI 65535
#define WIDE_ENOUGH 1024

/* The wider of what is left of [lo, hi] below and above [first, last]. */
static uint32_t widest(uint32_t first, uint32_t last, uint32_t lo, uint32_t hi, uint32_t *lo_out,
                       uint32_t *hi_out)
{
    uint32_t below = first > lo ? MIN(first - lo, hi - lo + 1) : 0;
    uint32_t above = last < hi ? MIN(hi - last, hi - lo + 1) : 0;

    if (below >= above) {
        *lo_out = lo;
        *hi_out = lo + below - 1;
        return below;
    }
    *lo_out = hi - above + 1;
    *hi_out = hi;
    return above;
}

void ports_range(uint32_t first, uint32_t last, uint32_t *lo_out, uint32_t *hi_out)
{
    if (widest(first, last, LIKED_LO, LIKED_HI, lo_out, hi_out) >= WIDE_ENOUGH ||
        widest(first, last, ANY_LO, ANY_HI, lo_out, hi_out) >= WIDE_ENOUGH) {
        return;
    }
    *lo_out = LIKED_LO; /* The kernel gives away all of them: no place is better than another. */
    *hi_out = LIKED_HI;
}

void ports_init(struct ports *p)
{
    uint32_t first = 32768, last = 60999;
    FILE *file = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

    *p = (struct ports){.given_n = 0};
    if (file != NULL) {
        if (fscanf(file, "%u %u", &first, &last) != 2) {
            first = 32768;
            last = 60999;
        }
        fclose(file);
    }
    ports_range(first, last, &p->lo, &p->hi);
}

static bool can_bind(int family, const struct sockaddr *at, socklen_t at_n)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int one = 1;
    bool ok;

    if (fd < 0) {
        return family == AF_INET6; /* A host without IPv6 can't use the port for it either. */
    }
    if (family == AF_INET6) {
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    }
    ok = bind(fd, at, at_n) == 0;
    close(fd);
    return ok;
}

static bool is_free(uint16_t port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

    return can_bind(AF_INET, (const struct sockaddr *)&v4, sizeof(v4)) &&
           can_bind(AF_INET6, (const struct sockaddr *)&v6, sizeof(v6));
}

/* Until its worker binds it a port looks free to the other agents of this host, too: whoever holds
 * the name has it. A descriptor; -1: somebody else has. */
static int claim(uint16_t port)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX}; /* The name begins with 0: it is no file. */
    const int n = snprintf(at.sun_path + 1, sizeof(at.sun_path) - 1, "muster/port/%u", port);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at,
                        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0) {
        close(fd);
        fd = -1;
    }
    return fd;
}

int ports_pick(struct ports *p, uint16_t *port_out)
{
    const uint32_t n = p->hi - p->lo + 1, at = p->given_n % PORTS_REMEMBERED;
    uint32_t start;

    random_bytes(&start, sizeof(start));
    for (uint32_t i = 0; i < n; i++) {
        uint16_t port = (uint16_t)(p->lo + (start + i) % n);
        int fd = is_free(port) ? claim(port) : -1;

        if (fd >= 0) {
            if (p->given_n >= PORTS_REMEMBERED) {
                close(p->claims[at]);
            }
            p->claims[at] = fd;
            p->given_n++;
            *port_out = port;
            return MU_OK;
        }
    }
    return MU_EBUSY;
}

void ports_close(struct ports *p)
{
    for (uint32_t i = 0; i < MIN(p->given_n, (uint32_t)PORTS_REMEMBERED); i++) {
        close(p->claims[i]);
    }
    p->given_n = 0;
}
