/* `muster run --standalone`: an orchestrator of its own inside the agent, on its loop, with a
 * token and a directory that nobody else knows and that are gone when it ends. */
#ifndef AGENT_NODE_ALONE_H
#define AGENT_NODE_ALONE_H

#include "net/token.h"

#include <uv.h>

struct alone;

/* Sets how to reach it. Directories that agents left behind when they were killed are removed.
 * error: NET_ERROR_MAX. */
int alone_open(uv_loop_t *loop, struct alone **al_out, struct endpoints *at_out,
               struct token *token_out, char *error);

/* The orchestrator ends while the loop runs on. */
void alone_stop(struct alone *al);

/* After the loop has ended: removes the directory. NULL is fine. */
void alone_close(struct alone *al);

/* Removes the directories in `parent` that no living agent holds; gives how many. */
uint32_t alone_sweep(const char *parent);

#endif
