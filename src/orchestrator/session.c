/* Connections: frames become events. One connection is one node's, or a person's. */
#include "base/log.h"
#include "orchestrator/driver.h"

#include <stdlib.h>
#include <string.h>

#define PLACE_BITS 20
#define PLACES_MAX ((1u << PLACE_BITS) - 1)
#define AGENT_SILENT_MAX 4 /* sweeps, one per lease */
#define PERSON_SILENT_MAX 60
#define NO_PLACE UINT32_MAX

/* ---- numbers ---- */

static uint32_t place_of(uint32_t number)
{
    return (number & PLACES_MAX) - 1;
}

struct session *session_find(struct orchestrator *o, uint32_t number)
{
    uint32_t place = place_of(number);
    struct session *s;

    if (number == NOBODY || place >= o->sessions.seats_n) {
        return NULL;
    }
    s = o->sessions.seats[place].session;
    return s != NULL && s->number == number ? s : NULL;
}

static bool seats_grow(struct sessions *ss)
{
    uint32_t cap = ss->cap == 0 ? 64 : ss->cap * 2;
    struct seat *seats;

    if (ss->seats_n < ss->cap) {
        return true;
    }
    if (ss->seats_n >= PLACES_MAX) {
        return false;
    }
    seats = realloc(ss->seats, cap * sizeof(*seats));
    if (seats == NULL) {
        return false;
    }
    ss->seats = seats;
    ss->cap = cap;
    return true;
}

static bool seat_take(struct sessions *ss, struct session *s)
{
    uint32_t place = ss->first_free;
    struct seat *seat;

    if (ss->now_n == ss->seats_n) { /* none is free */
        if (!seats_grow(ss)) {
            return false;
        }
        place = ss->seats_n++;
        ss->seats[place] = (struct seat){.next_free = NO_PLACE};
    } else {
        ss->first_free = ss->seats[place].next_free;
    }
    seat = &ss->seats[place];
    seat->session = s;
    s->number = seat->times++ << PLACE_BITS | (place + 1);
    ss->now_n++;
    return true;
}

static void seat_free(struct sessions *ss, const struct session *s)
{
    uint32_t place = place_of(s->number);

    ss->seats[place].session = NULL;
    ss->seats[place].next_free = ss->first_free;
    ss->first_free = place;
    ss->now_n--;
}

/* ---- beginning and end ---- */

static void on_opened(struct conn *c)
{
    struct orchestrator *o = conn_data(c);
    struct session *s = calloc(1, sizeof(*s));

    if (s == NULL || !seat_take(&o->sessions, s)) {
        log_warn("orchestrator", "%s: no room for another connection", conn_peer(c));
        free(s);
        conn_close(c, 0);
        return;
    }
    s->o = o;
    s->conn = c;
    conn_set_data(c, s);
}

static void forget(struct session *s)
{
    struct orchestrator *o = s->o;
    struct event e = {.kind = EVENT_CLOSED, .conn = s->number};

    events_unfollow(s);
    values_closed(s);
    settings_closed(s);
    deposits_closed(s);
    seat_free(&o->sessions, s);
    driver_step(o, &e);
    free(s);
}

void session_end(struct session *s, uint32_t flush_ms)
{
    conn_close(s->conn, flush_ms);
    forget(s);
}

static void say_closed(const struct session *s, int status, const char *why)
{
    enum log_level level = status == MU_OK ? LOG_DEBUG : LOG_INFO;

    if (status == MU_EPROTO || status == MU_EVERSION || status == MU_ECORRUPT ||
        status == MU_ELIMIT) {
        level = s->is_agent ? LOG_WARN : LOG_DEBUG; /* The listener has told it, within bounds. */
    }
    if (s->is_agent) {
        log_write(level, "orchestrator", "node '%s' of job '%s' (%s): connection closed: %s",
                  s->node, s->job, conn_peer(s->conn), why);
    } else {
        log_write(level, "orchestrator", "%s: connection closed: %s", conn_peer(s->conn), why);
    }
}

static void on_closed(struct conn *c, int status, const char *why)
{
    struct session *s = conn_data(c);

    say_closed(s, status, why);
    forget(s);
}

/* ---- frames ---- */

static void refuse_identity(struct session *s, const struct msg_hello *h)
{
    struct msg_refused m = {.status = MU_EPROTO};

    strcpy(m.text, "one connection is one node: connect again to say another hello");
    log_warn("orchestrator", "%s said hello as node '%s', then as '%s': closed", conn_peer(s->conn),
             s->node, h->name);
    conn_say(s->conn, WIRE_REFUSED, &m, 0, 0);
    session_end(s, 1000);
}

/* The cluster knows a connection by one node. */
static bool take_identity(struct session *s, const struct msg_hello *h)
{
    if (!s->is_agent) {
        s->is_agent = true;
        memcpy(s->job, h->job, sizeof(s->job));
        memcpy(s->node, h->name, sizeof(s->node));
        s->incarnation = h->incarnation;
        return true;
    }
    return strcmp(s->job, h->job) == 0 && strcmp(s->node, h->name) == 0 &&
           s->incarnation == h->incarnation;
}

static void on_hello(struct session *s, const struct msg_hello *h)
{
    struct event e = {.kind = EVENT_HELLO, .conn = s->number, .u.hello = h};

    if (take_identity(s, h)) {
        driver_step(s->o, &e);
    } else {
        refuse_identity(s, h);
    }
}

static void senseless(struct session *s, const struct wire_header *h)
{
    log_warn("orchestrator", "%s sent a '%s' frame, which is nothing that one says here: closed",
             conn_peer(s->conn), wire_name(h->type));
    session_end(s, 0);
}

static void on_frame(struct conn *c, const struct wire_header *h, const union wire_any *msg)
{
    struct session *s = conn_data(c);
    struct event e = {.conn = s->number};

    s->silent_n = 0;
    switch (h->type) {
    case WIRE_HELLO:
        on_hello(s, &msg->hello);
        return;
    case WIRE_ASK:
        ask_take(s, &msg->ask);
        return;
    case WIRE_DEPOT:
        deposits_frame(s, &msg->depot, h->request);
        return;
    case WIRE_RENEW:
        s->o->counts.renewals++;
        e.kind = EVENT_RENEW;
        e.u.renew = &msg->renew;
        break;
    case WIRE_REPORTS:
        e.kind = EVENT_REPORTS;
        e.u.reports = &msg->reports;
        break;
    case WIRE_BYE:
        e.kind = EVENT_BYE;
        e.u.bye = &msg->bye;
        break;
    default:
        senseless(s, h);
        return;
    }
    driver_step(s->o, &e);
}

const struct conn_handler session_handler = {
    .opened = on_opened,
    .frame = on_frame,
    .closed = on_closed,
};

/* ---- those who went without a word ---- */

/* Counted in sweeps, not in time: when we were stopped ourselves, nobody was silent. */
void sessions_sweep(struct orchestrator *o)
{
    for (uint32_t i = 0; i < o->sessions.seats_n; i++) {
        struct session *s = o->sessions.seats[i].session;
        uint32_t max = s != NULL && s->is_agent ? AGENT_SILENT_MAX : PERSON_SILENT_MAX;

        if (s == NULL || s->follows || s->watch != NULL || s->depot_n > 0 || ++s->silent_n <= max) {
            continue;
        }
        say_closed(s, MU_ETIMEDOUT, "it said nothing for a long time");
        session_end(s, 0);
    }
}

/* The listener has closed the connections; nobody is told. */
void sessions_close(struct orchestrator *o)
{
    for (uint32_t i = 0; i < o->sessions.seats_n; i++) {
        free(o->sessions.seats[i].session);
    }
    free(o->sessions.seats);
    o->sessions = (struct sessions){0};
}
