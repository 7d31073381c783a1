/* The name of a node that was given none: the host's, with a number if another agent of this
 * host has it. A name is held by a socket that the kernel takes back when the process dies, so
 * that an agent which is started again finds its old name free. */
#ifndef AGENT_NODE_NAME_H
#define AGENT_NODE_NAME_H

#include "core/message.h"

struct node_name {
    char name[NAME_MAX_LEN];
    char scope[NAME_MAX_LEN * 2]; /* names are apart in each: the orchestrator and the job */
    uint32_t number;              /* 1: the plain host name */
    int fd;                       /* holds it; -1: nothing does */
};

/* Takes the first free one. Never fails: a name that can't be held is given all the same. */
void node_name_open(struct node_name *nn, const char *scope);

/* The orchestrator knows another node of that name: takes the next free one. */
void node_name_next(struct node_name *nn);

void node_name_close(struct node_name *nn);

/* `host` up to its first dot, with '-' for whatever a name can't have; "node" if nothing is
 * left; with "-2" and so on from number 2. */
void node_name_make(const char *host, uint32_t number, char name[NAME_MAX_LEN]);

#endif
