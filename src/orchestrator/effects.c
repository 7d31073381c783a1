/* What the cluster wants done, done at once: frames and records. Everything is borrowed. */
#include "orchestrator/driver.h"
#include "orchestrator/words.h"

#include <string.h>

void effects_forget(struct orchestrator *o)
{
    for (size_t i = 0; i < ARRAY_LEN(o->cached); i++) {
        frame_unref(o->cached[i]);
        o->cached[i] = NULL;
    }
}

static bool has_key(const struct generation *g)
{
    static const uint8_t zero[KEY_BYTES];

    return memcmp(g->key, zero, sizeof(zero)) != 0;
}

/* Within one event a generation has two forms at most, and goes to many. Between events the
 * addresses of its members may change. */
static void send_generation(struct orchestrator *o, struct session *s, const struct generation *g)
{
    struct frame **f = &o->cached[has_key(g)];

    if (o->cached_number != g->number || strcmp(o->cached_job, g->job) != 0) {
        effects_forget(o);
        o->cached_number = g->number;
        memcpy(o->cached_job, g->job, sizeof(o->cached_job));
    }
    if (*f == NULL) {
        *f = frame_make(WIRE_GENERATION, g, 0, 0);
    }
    if (*f != NULL) {
        conn_send(s->conn, *f);
    } else {
        conn_say(s->conn, WIRE_GENERATION, g, 0, 0); /* Out of memory: closes that connection. */
    }
}

static void say(struct orchestrator *o, struct session *s, const struct effect *e)
{
    switch (e->kind) {
    case EFFECT_WELCOME:
        s->node_number = e->u.welcome->node;
        conn_say(s->conn, WIRE_WELCOME, e->u.welcome, 0, 0);
        break;
    case EFFECT_REFUSED:
        conn_say(s->conn, WIRE_REFUSED, e->u.refused, 0, 0);
        break;
    case EFFECT_ACK:
        conn_say(s->conn, WIRE_ACK, e->u.ack, 0, 0);
        break;
    case EFFECT_GENERATION:
        send_generation(o, s, e->u.generation);
        break;
    case EFFECT_ACTIVE:
        conn_say(s->conn, WIRE_ACTIVE, e->u.active, 0, 0);
        break;
    case EFFECT_ROSTER:
        conn_say(s->conn, WIRE_ROSTER, e->u.roster, 0, 0);
        break;
    case EFFECT_ENDED:
        conn_say(s->conn, WIRE_ENDED, e->u.ended, 0, 0);
        break;
    case EFFECT_RECORD:
    case EFFECT_NOTE:
        break;
    }
}

static void emit(struct effects *fx, const struct effect *e)
{
    struct orchestrator *o = (struct orchestrator *)fx;
    struct session *s;

    if (e->kind == EFFECT_RECORD) {
        records_append(o, e->u.record, e->asked);
        return;
    }
    if (e->kind == EFFECT_NOTE) {
        events_note(o, e->u.note);
        return;
    }
    s = session_find(o, e->conn);
    if (s != NULL) {
        say(o, s, e);
    }
}

static void fill_random(struct effects *fx, uint8_t *out, size_t n)
{
    (void)fx;
    random_bytes(out, n);
}

void effects_init(struct orchestrator *o)
{
    o->fx = (struct effects){.emit = emit, .random = fill_random};
}
