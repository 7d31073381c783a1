#include "agent/keeper_will.h"

#include "net/client.h"

#define WILL_MS 1000

void keeper_will_execute(const struct keeper_will *will)
{
    char error[NET_ERROR_MAX];
    struct client *cl;

    if (will->bye.node == 0 ||
        client_open(&will->endpoints, &will->token, WILL_MS, &cl, error) != MU_OK) {
        return;
    }
    client_say(cl, WIRE_BYE, &will->bye, 0, error);
    client_close(cl);
}
