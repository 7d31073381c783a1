/* Addresses of members that are names: an agent may have been given one (--address), and the data
 * plane wants numbers. Looking one up may take long, so it is done by whoever can wait. */
#include "base/address.h"
#include "run/run.h"

/* A number stays as it is. So does a name that nobody knows: that worker can't be reached then, and
 * whoever waits for it says who is missing. */
static void resolve(char addr[ADDR_MAX_LEN])
{
    char error[ADDRESS_ERROR_MAX];
    struct endpoint e;
    struct address a;

    if (endpoint_parse(addr, 0, &e, error) == MU_OK &&
        endpoint_address(&e, false, &a, error) != MU_OK &&
        endpoint_address(&e, true, &a, error) == MU_OK) {
        address_print(&a.sa, addr, ADDR_MAX_LEN);
    }
}

void run_resolve(struct generation *g)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        resolve(g->members[i].addr);
    }
}
