/* Where other nodes reach the workers of this one. */
#include "agent/node_state.h"
#include "base/env.h"
#include "base/log.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MUSTER_IFACE: the host is that interface's address. */
static int use_iface(struct node *n, char *error)
{
    const char *name = env_text("MUSTER_IFACE");
    char why[ADDRESS_ERROR_MAX];
    struct address a;

    if (name == NULL) {
        return MU_OK;
    }
    const int rc = interface_address(name, &a, why);

    if (rc != MU_OK) {
        snprintf(error, NET_ERROR_MAX, "MUSTER_IFACE is '%.60s': %.400s", name, why);
        return rc == MU_ENOENT ? MU_EINVAL : rc;
    }
    address_host(&a.sa, n->addr.host, sizeof(n->addr.host));
    n->addr.fixed = true;
    return MU_OK;
}

int node_addr_open(struct node *n, char *error)
{
    const char *text = n->config->address;
    struct endpoint e;
    int rc;

    ports_init(&n->ports);
    if (text == NULL) {
        return use_iface(n, error);
    }
    rc = endpoint_parse(text, PORT_ANY, &e, error);
    if (rc != MU_OK) {
        return rc;
    }
    n->addr.port = e.port;
    if (n->addr.port != 0 && (uint32_t)n->addr.port + n->config->slots > 65536) {
        snprintf(error, NET_ERROR_MAX, "--address %s: there are not %u ports from %u on", text,
                 n->config->slots, n->addr.port);
        return MU_EINVAL;
    }
    if (text[0] == ':') {
        return use_iface(n, error); /* A port alone: the host is found out. */
    }
    if (strlen(e.host) >= sizeof(n->addr.host)) {
        snprintf(error, NET_ERROR_MAX, "--address %.100s…: a host of up to %zu letters, please",
                 text, sizeof(n->addr.host) - 1);
        return MU_EINVAL;
    }
    strcpy(n->addr.host, e.host);
    n->addr.fixed = true;
    return MU_OK;
}

/* No packet is sent: connecting a datagram socket only looks up the way there. */
static bool local_address(const struct sockaddr *to, socklen_t to_n, char host[ADDR_MAX_LEN])
{
    struct sockaddr_storage own;
    socklen_t own_n = sizeof(own);
    int fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool ok;

    if (fd < 0) {
        return false;
    }
    ok = connect(fd, to, to_n) == 0 && getsockname(fd, (struct sockaddr *)&own, &own_n) == 0 &&
         getnameinfo((struct sockaddr *)&own, own_n, host, ADDR_MAX_LEN, NULL, 0, NI_NUMERICHOST) ==
             0;
    close(fd);
    return ok;
}

static bool find_host(const char *peer, char host[ADDR_MAX_LEN])
{
    char error[NET_ERROR_MAX];
    struct sockaddr_storage sa;
    struct endpoint e;
    socklen_t sa_n;
    uint32_t found_n;

    return endpoint_parse(peer, 0, &e, error) == MU_OK &&
           endpoint_resolve(&e, &sa, &sa_n, 1, &found_n, error) == MU_OK && found_n == 1 &&
           local_address((struct sockaddr *)&sa, sa_n, host);
}

void node_addr_learn(struct node *n, const char *peer)
{
    char host[ADDR_MAX_LEN] = "127.0.0.1";
    bool first = n->slots[0].addr[0] == '\0';

    if (!n->addr.fixed) {
        if (!find_host(peer, host)) {
            log_warn(NODE_AREA, "could not find out this node's address; say it with --address");
        }
        if (!first && strcmp(host, n->addr.host) == 0) {
            return;
        }
        strcpy(n->addr.host, host);
    } else if (!first) {
        return;
    }
    for (uint32_t i = 0; i < n->config->slots; i++) {
        node_addr_next(n, i);
    }
}

void node_addr_next(struct node *n, uint32_t slot)
{
    struct node_slot *s = &n->slots[slot];
    struct report r = {.slot = slot};
    uint16_t port = 0;

    /* Its own address, and a place to meet if it is rank 0: both new for each start, so that nobody
     * of the generation before is mistaken for a peer. */
    if (n->addr.port != 0) {
        port = (uint16_t)(n->addr.port + slot);
    } else if (ports_pick(&n->ports, &port) != MU_OK) {
        log_warn(NODE_AREA, "no free port for slot %u: others can't connect to it", slot);
    }
    snprintf(s->addr, sizeof(s->addr), strchr(n->addr.host, ':') != NULL ? "[%s]:%u" : "%s:%u",
             n->addr.host, port);
    if (ports_pick(&n->ports, &port) == MU_OK) {
        s->port = port;
    } else {
        log_warn(NODE_AREA, "no free port for slot %u; MASTER_PORT stays %u", slot, s->port);
    }
    strcpy(r.addr, s->addr);
    r.port = s->port;
    node_queue(n, AGENT_ON_ADDR, slot, 0, &r);
}

void node_addr_check(struct node *n, const struct generation *g)
{
    bool loopback = strncmp(n->addr.host, "127.", 4) == 0 || strcmp(n->addr.host, "::1") == 0 ||
                    strcmp(n->addr.host, "localhost") == 0;

    if (!loopback || n->addr.warned) {
        return;
    }
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (g->members[i].host != n->agent.config.hello.host) {
            log_warn(NODE_AREA,
                     "this node's address is %s, where the other hosts of the job can't reach it; "
                     "give --address, or connect to the orchestrator by its real address",
                     n->addr.host);
            n->addr.warned = true;
            return;
        }
    }
}
