/* A blocking client of the orchestrator, for commands that ask once. */
#ifndef NET_CLIENT_H
#define NET_CLIENT_H

#include "net/frame.h"
#include "net/tls.h"

struct client;

/* Connects and authenticates; tries the endpoints in order. error (NET_ERROR_MAX) says what
 * happened and what to do: nobody listens there, wrong token, another protocol. */
int client_open(const struct endpoints *to, const struct token *token, uint32_t wait_ms,
                struct client **cl_out, char *error);
int client_say(struct client *cl, enum wire_type type, const void *msg, uint64_t request,
               char *error);

/* The next frame. *msg points into the client, valid until the next call. wait_ms 0: for ever.
 * MU_ETIMEDOUT, MU_EIO (closed), MU_EPROTO … */
int client_next(struct client *cl, uint32_t wait_ms, struct wire_header *h_out,
                const union wire_any **msg_out, char *error);
void client_close(struct client *cl); /* NULL is fine */

#endif
