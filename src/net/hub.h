/* What the connections of one loop share: the buffers that bytes pass through, the desk where
 * frames are decoded, and the list of connections that have something to do before the loop waits.
 * So an idle connection holds no buffer at all, and what is sent to it within one turn of the loop
 * leaves in one write. */
#ifndef NET_HUB_H
#define NET_HUB_H

#include "net/inbox.h"

#include <sys/queue.h>
#include <uv.h>

#define HUB_RAW_BYTES (64u << 10)   /* from a socket */
#define HUB_PLAIN_BYTES (16u << 10) /* one TLS record */

struct conn;
TAILQ_HEAD(conn_list, conn);

struct hub {
    uv_loop_t *loop;
    uint32_t refs;
    struct hub *next;
    uv_prepare_t prepare;
    struct conn_list dirty;
    struct inbox_desk desk;
    uint8_t raw[HUB_RAW_BYTES];
    uint8_t plain[HUB_PLAIN_BYTES];
};

/* The hub of a loop, made by the first who asks; NULL: out of memory. Each get needs a put. */
struct hub *hub_get(uv_loop_t *loop);
void hub_put(struct hub *hub);

#endif
