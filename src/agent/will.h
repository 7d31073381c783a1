/* What a keeper says to the orchestrator in its agent's place, if that is killed: that the node is
 * gone and nothing of it is left. */
#ifndef AGENT_WILL_H
#define AGENT_WILL_H

#include "core/message.h"
#include "net/token.h"

/* Its bytes are what keeper_set_will() is given. The token is the agent's own; it stays on this
 * host. */
struct will {
    struct msg_bye bye;
    struct endpoints endpoints;
    struct token token;
};

/* `muster keeper FD`: the keeper of processes, which executes such a will. */
int will_keeper_main(int argc, char **argv);

#endif
