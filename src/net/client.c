/* Blocking, with deadlines: one of the loop's connections, on a loop that runs only in these calls.
 */
#include "net/client.h"

#include "net/conn.h"
#include "net/inbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#define HANDSHAKE_MS 60000u /* the caller's own time ends first, unless it has no end */
#define SAY_MS 30000u       /* until the other side must have read it */

/* A frame that has come and was not asked for yet. */
struct heard {
    STAILQ_ENTRY(heard) link;
    struct wire_header h;
    uint8_t payload[];
};

struct client {
    uv_loop_t loop;
    uv_timer_t timer;
    struct tls *tls;
    bool open;         /* was, ever */
    struct conn *conn; /* NULL: it is closed, and this is why: */
    int status;
    char why[NET_ERROR_MAX];
    bool unsent; /* closed: before all that was said had left */
    STAILQ_HEAD(, heard) heard;
    struct heard *now; /* what desk.msg points into */
    struct inbox_desk desk;
};

static int fail(char *error, int status, const char *why)
{
    snprintf(error, NET_ERROR_MAX, "%s", why);
    return status;
}

static int fail_at(char *error, int status, const char *where, const char *why)
{
    snprintf(error, NET_ERROR_MAX, "%s: %s", where, why);
    return status;
}

/* ---- what the connection says ---- */

static void on_opened(struct conn *c)
{
    ((struct client *)conn_data(c))->open = true;
}

/* To a command, any end is too early. A dial that failed has said where. */
static void on_closed(struct conn *c, int status, const char *why)
{
    struct client *cl = conn_data(c);

    cl->conn = NULL;
    cl->unsent = conn_queued(c) > 0;
    cl->status = status == MU_OK ? MU_EIO : status;
    if (cl->open) {
        fail_at(cl->why, status, conn_peer(c), why);
    } else {
        fail(cl->why, status, why);
    }
}

static void on_raw(struct conn *c, const struct wire_header *h, const uint8_t *payload)
{
    struct client *cl = conn_data(c);
    struct heard *f = malloc(sizeof(*f) + h->length);

    if (f == NULL) {
        on_closed(c, MU_ENOMEM, "out of memory");
        conn_close(c, 0);
        return;
    }
    f->h = *h;
    if (h->length > 0) {
        memcpy(f->payload, payload, h->length);
    }
    STAILQ_INSERT_TAIL(&cl->heard, f, link);
}

static const struct conn_handler handler = {
    .opened = on_opened, .raw = on_raw, .closed = on_closed};

/* ---- waiting ---- */

/* UINT64_MAX: never. */
static uint64_t deadline(uint32_t wait_ms)
{
    return wait_ms == 0 ? UINT64_MAX : net_now_ms() + wait_ms;
}

static void on_timer(uv_timer_t *timer)
{
}

/* Lets the loop run until something has happened. MU_ETIMEDOUT, or why there is no connection. */
static int turn(struct client *cl, uint64_t end_ms, char *error)
{
    const uint64_t now_ms = net_now_ms();

    if (now_ms >= end_ms) {
        return fail_at(error, MU_ETIMEDOUT, conn_peer(cl->conn), "no answer in time");
    }
    uv_update_time(&cl->loop);
    if (end_ms != UINT64_MAX) {
        uv_timer_start(&cl->timer, on_timer, end_ms - now_ms, 0);
    }
    uv_run(&cl->loop, UV_RUN_ONCE);
    uv_timer_stop(&cl->timer);
    return cl->conn != NULL ? MU_OK : fail(error, cl->status, cl->why);
}

/* ---- for commands ---- */

int client_open(const struct endpoints *to, const struct token *token, uint32_t wait_ms,
                struct client **cl_out, char *error)
{
    const struct conn_limits limits = {.handshake_ms = HANDSHAKE_MS};
    const uint64_t end_ms = deadline(wait_ms);
    struct client *cl = calloc(1, sizeof(*cl));
    int rc;

    if (to->n == 0) {
        free(cl);
        return fail(error, MU_EINVAL, "no address to connect to");
    }
    if (cl == NULL || uv_loop_init(&cl->loop) != 0) {
        free(cl);
        return fail(error, MU_ENOMEM, "out of memory or of file descriptors");
    }
    STAILQ_INIT(&cl->heard);
    uv_timer_init(&cl->loop, &cl->timer);
    rc = tls_client_open(token, &cl->tls, error);
    if (rc == MU_OK) {
        rc = conn_connect(&cl->loop, to, cl->tls, &handler, &limits, cl, &cl->conn);
        fail(error, rc, mu_strerror(rc));
    }
    while (rc == MU_OK && !conn_is_open(cl->conn)) {
        rc = turn(cl, end_ms, error);
    }
    if (rc != MU_OK) {
        client_close(cl);
        return rc;
    }
    *cl_out = cl;
    return MU_OK;
}

int client_say(struct client *cl, enum wire_type type, const void *msg, uint64_t request,
               char *error)
{
    const uint64_t end_ms = deadline(SAY_MS);
    int rc = MU_OK;

    if (cl->conn == NULL) {
        return fail(error, cl->status, cl->why);
    }
    conn_say(cl->conn, type, msg, 0, request);
    uv_run(&cl->loop, UV_RUN_NOWAIT); /* Most often all of it leaves now. */
    while (rc == MU_OK && cl->conn != NULL && conn_queued(cl->conn) > 0) {
        rc = turn(cl, end_ms, error);
    }
    if (cl->conn != NULL) {
        return rc;
    }
    /* What has left may have been answered before the end: client_next() tells both. */
    return cl->unsent ? fail(error, cl->status, cl->why) : MU_OK;
}

int client_next(struct client *cl, uint32_t wait_ms, struct wire_header *h_out,
                const union wire_any **msg_out, char *error)
{
    const uint64_t end_ms = deadline(wait_ms);
    struct wire_fault fault = {0};
    int rc;

    desk_clear(&cl->desk);
    free(cl->now);
    cl->now = NULL;
    while (STAILQ_EMPTY(&cl->heard)) {
        rc = cl->conn != NULL ? turn(cl, end_ms, error) : fail(error, cl->status, cl->why);
        if (rc != MU_OK && STAILQ_EMPTY(&cl->heard)) {
            return rc;
        }
    }
    cl->now = STAILQ_FIRST(&cl->heard);
    STAILQ_REMOVE_HEAD(&cl->heard, link);
    rc = desk_decode(&cl->desk, &cl->now->h, cl->now->payload, &fault);
    if (rc != MU_OK) {
        return fail(error, rc, fault.text);
    }
    *h_out = cl->now->h;
    *msg_out = &cl->desk.msg;
    return MU_OK;
}

void client_close(struct client *cl)
{
    struct heard *f;

    if (cl == NULL) {
        return;
    }
    if (cl->conn != NULL) {
        conn_close(cl->conn, 0);
    }
    uv_close((uv_handle_t *)&cl->timer, NULL);
    uv_run(&cl->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&cl->loop);
    while ((f = STAILQ_FIRST(&cl->heard)) != NULL) {
        STAILQ_REMOVE_HEAD(&cl->heard, link);
        free(f);
    }
    free(cl->now);
    desk_close(&cl->desk);
    tls_close(cl->tls);
    free(cl);
}
