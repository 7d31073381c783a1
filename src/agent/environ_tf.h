/* Addresses of members, and TF_CONFIG, which is made of them. */
#ifndef AGENT_ENVIRON_TF_H
#define AGENT_ENVIRON_TF_H

#include "core/message.h"

/* The host of a member's address, without brackets or port; "127.0.0.1" if it has none. */
void environ_host(const struct member *m, char host[ADDR_MAX_LEN]);

/* Its port for this generation: the one it found free, or else that of its address; 0 if neither.
 */
uint32_t environ_port(const struct member *m);

#endif
