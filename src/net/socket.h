/* Small things about sockets that dialing and listening share. */
#ifndef NET_SOCKET_H
#define NET_SOCKET_H

#include "net/net.h"

#define SOCKET_CONNECT_MS 3000u /* for one address */

/* Sets up a TCP connection: no delay, and a peer that vanished is noticed within half a minute even
 * if nobody has anything to say. Best effort; nothing happens to a unix socket. */
void socket_tune(int fd);

/* Starts to connect without blocking. *fd_out is the caller's. Else errno, and no socket. */
int socket_dial(const struct sockaddr *sa, socklen_t n, int *fd_out);

/* What became of it, once it is writable: 0 or an errno. */
int socket_outcome(int fd);

/* "nobody listens there (is the orchestrator running?)" and the like. */
const char *socket_why(int error);

#endif
