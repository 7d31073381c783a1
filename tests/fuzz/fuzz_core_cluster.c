/* The machines of the orchestrator (cluster and settings) behind their decoders: records of a
 * journal that may be damaged are applied, then messages of agents and people come as events, as
 * the orchestrator's driver brings them. Nothing in that can make the cluster panic; whatever it
 * says can be encoded; whatever it journals is one that it takes back, and that a second cluster
 * takes too.
 *
 * The input is a list of items: what to do, two bytes of length, that many bytes (a record or a
 * frame, whose checksum is made right). */
#include "base/crc32c.h"
#include "core/cluster.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "lib/mind.h"
#include "wire/ask.h"
#include "wire/record.h"

#include <stdlib.h>
#include <string.h>

#define CONNS 8
#define PENDING_MAX 64
#define SCRATCH (1u << 16)

enum { ITEM_FRAME, ITEM_RECORD, ITEM_CLOSE, ITEM_TICK, ITEM_WRITTEN, ITEM_FAILED, ITEM_N };

struct pending {
    uint8_t *bytes;
    size_t n;
};

struct conn {
    bool is_agent;
    struct msg_hello hello;
};

struct driver {
    struct effects fx;       /* first */
    struct mind mind, again; /* `again` has only what was journaled */
    struct cluster *cluster; /* of the first */
    struct cluster_config config;
    uint64_t now_ms;
    struct conn conns[CONNS];
    struct pending pending[PENDING_MAX];
    uint32_t pending_n;
};

static uint64_t scratch_memory[SCRATCH / sizeof(uint64_t)];

static void check_message(enum wire_type type, const void *msg)
{
    size_t cap = wire_size(type, msg), n;
    uint8_t *bytes = malloc(cap);

    mu_assert(bytes != NULL && wire_encode(type, msg, 0, 0, bytes, cap, &n) == MU_OK);
    free(bytes);
}

static void keep(struct driver *d, const struct record *r)
{
    struct pending p = {.n = record_size(r)};

    p.bytes = malloc(p.n);
    mu_assert(p.bytes != NULL && d->pending_n < PENDING_MAX);
    record_encode(r, p.bytes, p.n);
    d->pending[d->pending_n++] = p;
}

static void emit(struct effects *fx, const struct effect *e)
{
    struct driver *d = (struct driver *)fx;

    switch (e->kind) {
    case EFFECT_RECORD:
        keep(d, e->u.record);
        break;
    case EFFECT_WELCOME:
        check_message(WIRE_WELCOME, e->u.welcome);
        break;
    case EFFECT_REFUSED:
        check_message(WIRE_REFUSED, e->u.refused);
        break;
    case EFFECT_ACK:
        check_message(WIRE_ACK, e->u.ack);
        break;
    case EFFECT_GENERATION:
        check_message(WIRE_GENERATION, e->u.generation);
        break;
    case EFFECT_ACTIVE:
        check_message(WIRE_ACTIVE, e->u.active);
        break;
    case EFFECT_ROSTER:
        check_message(WIRE_ROSTER, e->u.roster);
        break;
    case EFFECT_ENDED:
        check_message(WIRE_ENDED, e->u.ended);
        break;
    case EFFECT_NOTE:
        mu_assert(e->u.note->kind < NOTE_N);
        break;
    }
}

static void draw(struct effects *fx, uint8_t *out, size_t n)
{
    (void)fx;
    memset(out, 7, n);
}

static int decode(const uint8_t *bytes, size_t n, struct record *r)
{
    struct wire_scratch scratch = {(uint8_t *)scratch_memory, sizeof(scratch_memory), 0};
    struct wire_fault fault;

    return record_decode(bytes, n, r, &scratch, &fault);
}

static void step(struct driver *d, struct event *e)
{
    e->now_ms = d->now_ms;
    cluster_step(d->cluster, e, &d->fx);
}

/* The oldest record that was handed out is durable, or is lost. */
static void settle(struct driver *d, bool written)
{
    struct pending p = d->pending[0];
    struct record r;

    d->pending_n--;
    memmove(&d->pending[0], &d->pending[1], d->pending_n * sizeof(p));
    mu_assert(decode(p.bytes, p.n, &r) == MU_OK);
    if (written) {
        mu_assert(mind_apply(&d->mind, &r, true) == MU_OK);
        mu_assert(mind_apply(&d->again, &r, false) == MU_OK);
    } else {
        const struct machine_live *m = machine_of(d->mind.all, ARRAY_LEN(d->mind.all), r.kind);

        m->machine->failed(m->state, &r, d->now_ms, &d->fx);
    }
    free(p.bytes);
}

/* Nothing is journaled behind a record that is lost: those that wait are lost with it. */
static void lose(struct driver *d)
{
    uint32_t lost_n = d->pending_n;

    while (lost_n > 0) {
        uint32_t others_n = d->pending_n - 1;

        lost_n--;
        settle(d, false);
        lost_n += lost_n > 0 ? d->pending_n - others_n : 0;
    }
}

static void close_conn(struct driver *d, uint32_t conn)
{
    d->conns[conn - 1].is_agent = false;
    step(d, &(struct event){.kind = EVENT_CLOSED, .conn = conn});
}

static void take_hello(struct driver *d, uint32_t conn, const struct msg_hello *h)
{
    struct conn *c = &d->conns[conn - 1];

    if (c->is_agent && (strcmp(c->hello.job, h->job) != 0 || strcmp(c->hello.name, h->name) != 0 ||
                        c->hello.incarnation != h->incarnation)) {
        close_conn(d, conn);
    }
    c->is_agent = true;
    c->hello = *h;
    step(d, &(struct event){.kind = EVENT_HELLO, .conn = conn, .u.hello = h});
}

static void take_change(struct driver *d, uint32_t conn, const struct msg_ask *m)
{
    struct wire_scratch none = {0};
    char why[TEXT_MAX_LEN];
    union wire_any body;
    struct config_request q = {.key = m->topic, .expect = m->at};
    struct record r;

    if (wire_body_decode(WIRE_BODY_SETTING, m->body, m->body_n, &body, &none, NULL) != MU_OK) {
        return;
    }
    q.remove = body.setting.deleted;
    q.value = body.setting.value;
    q.value_n = body.setting.deleted ? 0 : body.setting.value_n;
    if (cluster_wish(d->cluster, m->job, &q, &r, why, sizeof(why)) == MU_OK) {
        keep(d, &r);
    }
}

static void take_ask(struct driver *d, uint32_t conn, const struct msg_ask *m)
{
    struct msg_admin admin = {.verb = (uint8_t)(m->kind - ASK_DRAIN)};

    if (m->kind == ASK_SETTING_CHANGE) {
        take_change(d, conn, m);
    } else if (m->kind >= ASK_DRAIN && m->kind <= ASK_SAVE && strlen(m->topic) < NAME_MAX_LEN) {
        memcpy(admin.job, m->job, sizeof(admin.job));
        memcpy(admin.node, m->topic, strlen(m->topic));
        step(d, &(struct event){.kind = EVENT_ADMIN, .conn = conn, .u.admin = &admin});
    }
}

static void take_frame(struct driver *d, uint32_t conn, uint8_t *frame, size_t n)
{
    struct wire_scratch scratch = {(uint8_t *)scratch_memory, sizeof(scratch_memory), 0};
    struct wire_header h;
    union wire_any msg;

    wire_check_mend_frame(frame, n);
    if (wire_frame_decode(frame, n, &h, &msg, &scratch, NULL) != MU_OK) {
        return;
    }
    switch (h.type) {
    case WIRE_HELLO:
        take_hello(d, conn, &msg.hello);
        break;
    case WIRE_RENEW:
        step(d, &(struct event){.kind = EVENT_RENEW, .conn = conn, .u.renew = &msg.renew});
        break;
    case WIRE_REPORTS:
        step(d, &(struct event){.kind = EVENT_REPORTS, .conn = conn, .u.reports = &msg.reports});
        break;
    case WIRE_BYE:
        step(d, &(struct event){.kind = EVENT_BYE, .conn = conn, .u.bye = &msg.bye});
        break;
    case WIRE_ASK:
        take_ask(d, conn, &msg.ask);
        break;
    default:
        break;
    }
}

/* What an item is, and a number of a connection, a slot or a time: three and five bits. */
static uint32_t kind_of(uint8_t what)
{
    return (what & 7) % ITEM_N;
}

static void take_item(struct driver *d, uint8_t what, uint8_t *bytes, size_t n)
{
    const uint32_t conn = 1 + (what >> 3) % CONNS;

    switch (kind_of(what)) {
    case ITEM_RECORD: /* Of the past only: see below. */
    case ITEM_FRAME:
        take_frame(d, conn, bytes, n);
        break;
    case ITEM_CLOSE:
        close_conn(d, conn);
        break;
    case ITEM_TICK:
        d->now_ms += (uint64_t)1 << (what >> 3) % 14;
        step(d, &(struct event){.kind = EVENT_TICK});
        break;
    case ITEM_WRITTEN:
        if (d->pending_n > 0) {
            settle(d, true);
        }
        break;
    default:
        lose(d);
        break;
    }
    while (d->pending_n > PENDING_MAX / 2) {
        settle(d, true);
    }
}

/* What the journal has: a record that is refused ends the replay, in life. */
static bool take_past(struct driver *d, uint8_t *bytes, size_t n)
{
    struct record r;

    wire_check_mend_record(bytes, n);
    if (decode(bytes, n, &r) != MU_OK) {
        return true;
    }
    int rc = mind_apply(&d->mind, &r, false);

    mu_assert(mind_apply(&d->again, &r, false) == rc);
    return rc == MU_OK;
}

/* The name of what looks in need not be right; that it can be looked at must be. */
static void look_node(void *arg, const struct node_look *n)
{
    (void)arg;
    mu_assert(n->name != NULL && n->slots <= SLOTS_MAX);
}

static void look_job(void *arg, const struct job_look *j)
{
    struct driver *d = arg;
    struct generation g;

    mu_assert(cluster_each_node(d->cluster, j->view.name, look_node, NULL) == MU_OK);
    if (cluster_generation(d->cluster, j->view.name, &g) == MU_OK) {
        check_message(WIRE_GENERATION, &g);
    }
}

/* All that a dump says, as a sum; and what it is replayed into, if anything. */
struct summer {
    struct sink to; /* first */
    struct mind *rebuilt;
    uint32_t sum, n;
};

static void add(struct sink *to, const struct record *r)
{
    struct summer *s = (struct summer *)to;
    size_t n = record_size(r);
    uint8_t *bytes = malloc(n);

    mu_assert(bytes != NULL);
    record_encode(r, bytes, n);
    s->sum = crc32c(s->sum, bytes, n);
    s->n++;
    free(bytes);
    mu_assert(s->rebuilt == NULL || mind_apply(s->rebuilt, r, false) == MU_OK);
}

/* What was only applied says the same of itself as what lived through it, and so does what a
 * snapshot gives back. */
static void compare(struct driver *d)
{
    struct summer live = {.to.put = add}, again = {.to.put = add}, third = {.to.put = add};
    struct mind rebuilt;

    mu_assert(mind_open(&rebuilt, &d->config, NULL) == MU_OK);
    mind_dump(&d->mind, &live.to);
    again.rebuilt = &rebuilt;
    mind_dump(&d->again, &again.to);
    mind_dump(&rebuilt, &third.to);
    mu_assert(live.n == again.n && live.sum == again.sum);
    mu_assert(live.n == third.n && live.sum == third.sum);
    mind_close(&rebuilt);
}

static void open_driver(struct driver *d)
{
    struct cluster_config config = cluster_defaults();

    config.jobs_max = 3;
    config.nodes_max = 12;
    config.workers_max = 40;
    config.memories_max = 2;
    config.store = 1;
    config.settings =
        (struct config_limits){.keys_n = 4, .value_bytes = 64, .total_bytes = 200, .window_n = 5};
    *d = (struct driver){.fx = {.emit = emit, .random = draw}, .now_ms = 1000};
    d->config = config;
    mu_assert(mind_open(&d->mind, &config, &d->fx) == MU_OK);
    mu_assert(mind_open(&d->again, &config, NULL) == MU_OK);
    d->cluster = d->mind.cluster;
}

static void close_driver(struct driver *d)
{
    for (uint32_t i = 0; i < d->pending_n; i++) {
        free(d->pending[i].bytes);
    }
    mind_close(&d->mind);
    mind_close(&d->again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    bool started = false;
    struct driver d;

    open_driver(&d);
    while (n >= 3) {
        const uint8_t what = data[0];
        size_t item_n = MIN((size_t)data[1] << 8 | data[2], n - 3);
        uint8_t *item = wire_check_copy(data + 3, item_n);

        data += 3 + item_n;
        n -= 3 + item_n;
        if (!started && kind_of(what) == ITEM_RECORD) {
            if (!take_past(&d, item, item_n)) {
                free(item);
                break;
            }
        } else {
            if (!started) {
                cluster_start(d.cluster, d.now_ms, 1000000, &d.fx);
                started = true;
            }
            take_item(&d, what, item, item_n);
        }
        free(item);
    }
    if (started) {
        while (d.pending_n > 0) {
            settle(&d, true);
        }
        cluster_each_job(d.cluster, look_job, &d);
        compare(&d);
    }
    close_driver(&d);
    return 0;
}
