/* Addresses of members that are names: an agent may have been given one (--address), and the data
 * plane wants numbers. Looking one up may take long, so it is done by whoever can wait. */
#include "run/run.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const char *host)
{
    struct in_addr v4;

    return host[0] == '[' || inet_pton(AF_INET, host, &v4) == 1;
}

/* Left as it is if nobody knows it: it can't be reached then, and who is missing is said. */
static void resolve(char addr[ADDR_MAX_LEN])
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char host[ADDR_MAX_LEN], number[ADDR_MAX_LEN];
    char *port = strrchr(addr, ':');
    struct addrinfo *found;
    bool ok, v6;

    if (port == NULL) {
        return;
    }
    snprintf(host, sizeof(host), "%.*s", (int)(port - addr), addr);
    if (is_number(host) || getaddrinfo(host, NULL, &hints, &found) != 0) {
        return;
    }
    ok = getnameinfo(found->ai_addr, found->ai_addrlen, number, sizeof(number), NULL, 0,
                     NI_NUMERICHOST) == 0;
    v6 = found->ai_family == AF_INET6;
    freeaddrinfo(found);
    snprintf(host, sizeof(host), "%s", port);
    if (ok && strlen(number) + strlen(host) + 2 < ADDR_MAX_LEN) {
        snprintf(addr, ADDR_MAX_LEN, v6 ? "[%.50s]%.10s" : "%.50s%.10s", number, host);
    }
}

void run_resolve(struct generation *g)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        resolve(g->members[i].addr);
    }
}

const char *run_who(wid worker, char text[WHO_MAX])
{
    snprintf(text, WHO_MAX, "n%" PRIu32 ".%" PRIu32 "#%" PRIu32, wid_node(worker), wid_slot(worker),
             wid_incarnation(worker));
    return text;
}
