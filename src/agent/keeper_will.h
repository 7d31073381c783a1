/* What a keeper says to the orchestrator in its agent's place, if that is killed: that the node is
 * gone and nothing of it is left. */
#ifndef AGENT_KEEPER_WILL_H
#define AGENT_KEEPER_WILL_H

#include "core/message.h"
#include "net/token.h"

/* Also a packet from the agent to the keeper. The token is the agent's own; it stays on this host.
 */
struct keeper_will {
    struct msg_bye bye; /* node 0: nothing is to be said */
    struct endpoints endpoints;
    struct token token;
};

/* One try, for a second at most: whoever does not hear it finds out by the lease. */
void keeper_will_execute(const struct keeper_will *will);

#endif
