/* A line to the orchestrator that stays: dialled, authenticated, and made again whenever it is
 * lost. The first try is at once, and so is the first one after a welcome; then there are pauses
 * that grow to a second. One thread, the loop's. */
#ifndef NET_LINE_H
#define NET_LINE_H

#include "net/conn.h"

struct line;

/* Calls go to these, from the loop only. None of them may close the line. */
struct line_handler {
    /* There is a connection: the time to say hello. `peer` is "1.2.3.4:5". */
    void (*opened)(void *data, const char *peer);
    /* Everything is borrowed for the call. */
    void (*frame)(void *data, const struct wire_header *h, const union wire_any *msg);
    /* A connection that was opened is lost. Another will be made. */
    void (*lost)(void *data);
    /* Nothing more will be tried: before any welcome, somebody answered who does not take our
     * token, speaks another version, or is no orchestrator. `why` is a sentence for people. */
    void (*failed)(void *data, int status, const char *why);
};

struct line_config {
    const struct endpoints *to; /* borrowed until line_close() */
    struct tls *tls;            /* borrowed, too */
    struct conn_limits limits;
    const char *area;      /* of the lines in the log; a literal */
    const char *meanwhile; /* how they end: what goes on without a connection; a literal */
};

/* Starts to connect. handler is borrowed until line_close(). MU_ENOMEM. */
int line_open(uv_loop_t *loop, const struct line_config *config, const struct line_handler *handler,
              void *data, struct line **l_out);

/* Dropped in silence if there is no connection. */
void line_say(struct line *l, enum wire_type type, const void *msg);

/* The other side has taken us in, or knows us again. Until then a connection counts as a try. */
void line_welcome(struct line *l);

bool line_is_away(const struct line *l);      /* lost, or never made, and not welcomed since */
const char *line_where(const struct line *l); /* the endpoints, for people */

/* No more callbacks; freed from the loop. What was said may still leave for flush_ms. NULL is fine.
 */
void line_close(struct line *l, uint32_t flush_ms);

#endif
