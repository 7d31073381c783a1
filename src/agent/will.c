#include "agent/will.h"

#include "net/client.h"
#include "proc/keeper.h"

#include <string.h>

#define WILL_MS 1000

_Static_assert(sizeof(struct will) <= KEEPER_WILL_MAX, "a keeper takes a whole will");

/* One try, for a second at most: whoever does not hear it finds out by the lease. */
static void execute(const void *bytes, size_t n)
{
    char error[NET_ERROR_MAX];
    struct client *cl;
    struct will will;

    if (n != sizeof(will)) {
        return;
    }
    memcpy(&will, bytes, n);
    if (client_open(&will.endpoints, &will.token, WILL_MS, &cl, error) != MU_OK) {
        return;
    }
    client_say(cl, WIRE_BYE, &will.bye, 0, error);
    client_close(cl);
}

int will_keeper_main(int argc, char **argv)
{
    return keeper_main(argc, argv, execute);
}
