#include "agent/local.h"

#include "agent/local_dir.h"
#include "base/log.h"
#include "core/text.h"
#include "net/listen.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ATTACH_MS 5000
#define REFUSED_FLUSH_MS 1000
#define CONNS_MAX (4 * SLOTS_MAX)

/* One per slot, another for its line to the orchestrator's checkpoints, and one for all who have
 * not said yet whose they are. A connection's data is the seat that it has. */
struct seat {
    struct local *local;
    struct conn *conn;
    struct relay *relay; /* of a line */
    uint64_t cookie;
    bool expected;
};

struct local {
    const struct local_handler *handler;
    void *data;
    struct listener *listener;
    char dir[LOCAL_PATH_MAX];
    char path[LOCAL_PATH_MAX];
    const struct relay_dial *dial; /* NULL: there are no lines */
    struct seat nobody;
    struct seat seats[SLOTS_MAX];
    struct seat lines[SLOTS_MAX];
};

static bool is_line(const struct seat *s)
{
    return s >= s->local->lines && s < s->local->lines + SLOTS_MAX;
}

static uint32_t slot_of(const struct seat *s)
{
    return (uint32_t)(s - s->local->seats);
}

static bool is_nobody(const struct seat *s)
{
    return s == &s->local->nobody;
}

static void refuse(struct conn *c, int status, const char *text)
{
    struct msg_refused m = {.status = status};

    log_warn("local", "%s was refused: %s", conn_peer(c), text);
    text_say(m.text, sizeof(m.text), "%s", text);
    conn_say(c, WIRE_REFUSED, &m, 0, 0);
    conn_close(c, REFUSED_FLUSH_MS);
}

/* Closes what a slot has, if it has; `detached` is up to the caller. */
static void empty(struct seat *s, uint32_t flush_ms)
{
    if (s->conn != NULL) {
        conn_close(s->conn, flush_ms);
        s->conn = NULL;
    }
    relay_close(s->relay);
    s->relay = NULL;
}

/* Its connection is gone. */
static void leave(struct seat *s)
{
    if (is_nobody(s)) {
        return;
    }
    s->conn = NULL;
    if (is_line(s)) {
        empty(s, 0);
    } else {
        s->local->handler->detached(s->local->data, slot_of(s));
    }
}

/* The peer's fault: it loses its connection. */
static void expel(struct conn *c, struct seat *s, const char *why)
{
    log_warn("local", "%s is cut off: %s", conn_peer(c), why);
    conn_close(c, 0);
    leave(s);
}

static void on_opened(struct conn *c)
{
    uint32_t uid = 0, pid;

    if (conn_peer_cred(c, &uid, &pid) != MU_OK || uid != (uint32_t)geteuid()) {
        expel(c, conn_data(c), "it belongs to another user");
    }
}

/* ---- lines ---- */

static void on_relay_ended(void *arg, int status, const char *why)
{
    struct seat *s = arg;
    struct conn *c = s->conn;
    struct msg_refused m = {.status = status != MU_OK ? status : MU_EIO};

    s->relay = NULL;
    s->conn = NULL;
    log_debug("local", "the line of %s is closed: %s", conn_peer(c), why);
    text_say(m.text, sizeof(m.text), "%s", why);
    conn_set_data(c, &s->local->nobody);
    conn_say(c, WIRE_REFUSED, &m, 0, 0);
    conn_close(c, REFUSED_FLUSH_MS);
}

/* Of two of one slot the newer counts: the worker has given up the other, and that may not be known
 * here yet. */
static void attach_line(struct conn *c, struct local *l, uint32_t slot)
{
    struct seat *s = &l->lines[slot];
    int rc;

    if (l->dial == NULL) {
        refuse(
            c, MU_EREFUSED,
            "its orchestrator keeps no checkpoints: the one inside --standalone is gone with the "
            "run. Start \"muster serve\", or name a folder");
        return;
    }
    empty(s, 0);
    rc = relay_open(l->dial, c, on_relay_ended, s, &s->relay);
    if (rc != MU_OK) {
        refuse(c, rc, "no connection to the orchestrator can be made");
        return;
    }
    s->conn = c;
    conn_set_data(c, s);
}

static void pass_up(struct conn *c, struct seat *s, const struct wire_header *h,
                    const union wire_any *msg)
{
    const char *why;

    if (relay_up(s->relay, h, msg, &why) != MU_OK) {
        expel(c, s, why);
    }
}

/* ---- workers ---- */

static void attach(struct conn *c, struct local *l, const struct msg_attach *m)
{
    struct seat *s = m->slot < SLOTS_MAX ? &l->seats[m->slot] : NULL;
    uint32_t uid, pid = 0;

    if (s == NULL || !s->expected) {
        refuse(c, MU_ENOENT, "no worker of this agent is started in that slot");
    } else if (s->cookie != m->cookie) {
        refuse(c, MU_ESTALE, "its MUSTER_COOKIE is that of another start of its slot");
    } else if (m->why == ATTACH_DEPOT) {
        attach_line(c, l, m->slot);
    } else if (m->why == ATTACH_LOADED) {
        conn_close(c, 0);
        l->handler->loaded(l->data, m->slot);
    } else if (s->conn != NULL) {
        refuse(c, MU_EEXIST,
               "the worker of that slot is connected already; only one process of it can join");
    } else {
        s->conn = c;
        conn_set_data(c, s);
        (void)conn_peer_cred(c, &uid, &pid);
        l->handler->attached(l->data, m->slot, pid);
    }
}

static bool is_for_agent(unsigned type)
{
    switch (type) {
    case WIRE_REPORT:
    case WIRE_BEAT:
    case WIRE_FORGET:
    case WIRE_ASK:
        return true;
    default:
        return false;
    }
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct seat *s = conn_data(c);
    struct local *l = s->local;
    char why[80];

    if (is_nobody(s) && h->type == WIRE_ATTACH) {
        attach(c, l, &msg->attach);
    } else if (is_line(s)) {
        pass_up(c, s, h, msg);
    } else if (!is_nobody(s) && is_for_agent(h->type)) {
        l->handler->frame(l->data, slot_of(s), h, msg);
    } else {
        snprintf(why, sizeof(why), "a worker does not say %s here", wire_name(h->type));
        expel(c, s, why);
    }
}

static void on_closed(struct conn *c, int status, const char *why)
{
    log_debug("local", "the connection of %s is closed: %s", conn_peer(c), why);
    leave(conn_data(c));
}

static const struct conn_handler conn_handler = {
    .opened = on_opened,
    .frame = on_frame,
    .closed = on_closed,
};

int local_open(uv_loop_t *loop, const struct local_handler *handler, void *data,
               struct local **l_out, char *error)
{
    struct listen_config config = {
        .limits = {.handshake_ms = ATTACH_MS,
                   .frame_max =
                       2 * MAX(wire_payload_max(WIRE_ASK), wire_payload_max(WIRE_DEPOT)) + 1024},
        .conns_max = CONNS_MAX,
    };
    struct local *l = calloc(1, sizeof(*l));
    int rc;

    if (l == NULL) {
        snprintf(error, NET_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    l->handler = handler;
    l->data = data;
    l->nobody.local = l;
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        l->seats[i].local = l->lines[i].local = l;
    }
    local_dir_clean();
    rc = local_dir_make(l->dir, error);
    if (rc != MU_OK) {
        goto err_memory;
    }
    local_dir_socket(l->dir, l->path);
    rc = listen_unix(loop, l->path, &conn_handler, &config, &l->nobody, &l->listener, error);
    if (rc != MU_OK) {
        goto err_dir;
    }
    *l_out = l;
    return MU_OK;
err_dir:
    local_dir_remove(l->dir);
err_memory:
    free(l);
    return rc;
}

const char *local_path(const struct local *l)
{
    return l->path;
}

void local_relay(struct local *l, const struct relay_dial *dial)
{
    l->dial = dial;
}

void local_expect(struct local *l, uint32_t slot, uint64_t cookie)
{
    local_forget(l, slot);
    l->seats[slot].expected = true;
    l->seats[slot].cookie = cookie;
}

void local_forget(struct local *l, uint32_t slot)
{
    mu_assert(slot < SLOTS_MAX);
    empty(&l->seats[slot], 0);
    empty(&l->lines[slot], 0);
    l->seats[slot].expected = false;
}

bool local_is_attached(const struct local *l, uint32_t slot)
{
    mu_assert(slot < SLOTS_MAX);
    return l->seats[slot].conn != NULL;
}

void local_say(struct local *l, uint32_t slot, enum wire_type type, const void *msg,
               uint64_t generation, uint64_t request)
{
    mu_assert(slot < SLOTS_MAX);
    if (l->seats[slot].conn != NULL) {
        conn_say(l->seats[slot].conn, type, msg, generation, request);
    }
}

void local_close(struct local *l, uint32_t flush_ms)
{
    if (l == NULL) {
        return;
    }
    for (uint32_t i = 0; i < SLOTS_MAX; i++) {
        empty(&l->seats[i], flush_ms);
        empty(&l->lines[i], 0);
    }
    listen_close(l->listener);
    local_dir_remove(l->dir);
    free(l);
}
