/* An agent's machine behind its decoders: whatever the orchestrator and the node's workers say, it
 * does not panic, and what it says itself can be encoded.
 *
 * The input is a list of items as in fuzz_core_cluster.c. */
#include "core/agent.h"
#include "fuzz/fuzz.h"
#include "fuzz/wire_check.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

#define SLOTS 3
#define SCRATCH (1u << 16)

enum { ITEM_FRAME, ITEM_CONNECT, ITEM_CLOSE, ITEM_TICK, ITEM_WORKER, ITEM_EXIT, ITEM_N };

struct driver {
    struct agent_effects fx; /* first */
    struct agent agent;
    uint64_t now_ms;
    bool connected;
    bool runs[SLOTS];
    wid workers[SLOTS];
};

static uint64_t scratch_memory[SCRATCH / sizeof(uint64_t)];

static void check_message(enum wire_type type, const void *msg)
{
    size_t cap = wire_size(type, msg), n;
    uint8_t *bytes = malloc(cap);

    mu_assert(bytes != NULL && wire_encode(type, msg, 0, 0, bytes, cap, &n) == MU_OK);
    free(bytes);
}

static void emit(struct agent_effects *fx, const struct agent_effect *e)
{
    struct driver *d = (struct driver *)fx;

    mu_assert(e->slot < SLOTS);
    switch (e->kind) {
    case AGENT_HELLO:
        check_message(WIRE_HELLO, e->u.hello);
        break;
    case AGENT_RENEW:
        check_message(WIRE_RENEW, e->u.renew);
        break;
    case AGENT_REPORTS:
        check_message(WIRE_REPORTS, e->u.reports);
        break;
    case AGENT_BYE:
        check_message(WIRE_BYE, e->u.bye);
        break;
    case AGENT_TELL_GENERATION:
        check_message(WIRE_GENERATION, e->u.generation);
        break;
    case AGENT_TELL_ACTIVE:
        check_message(WIRE_ACTIVE, e->u.active);
        break;
    case AGENT_TELL_ROSTER:
        check_message(WIRE_ROSTER, e->u.roster);
        break;
    case AGENT_TELL_LEASE:
        check_message(WIRE_LEASE, e->u.lease);
        break;
    case AGENT_TELL_ENDED:
        check_message(WIRE_ENDED, e->u.ended);
        break;
    case AGENT_START:
        mu_assert(!d->runs[e->slot]);
        d->runs[e->slot] = true;
        d->workers[e->slot] = e->worker;
        break;
    case AGENT_LIFE:
        d->workers[e->slot] = e->worker;
        break;
    default:
        break;
    }
}

static void tell(struct driver *d, struct agent_event *e)
{
    e->now_ms = d->now_ms;
    agent_event(&d->agent, e, &d->fx);
}

/* By the connection to the orchestrator, which says what it likes. */
static void take_frame(struct driver *d, uint8_t *frame, size_t n)
{
    struct wire_scratch scratch = {(uint8_t *)scratch_memory, sizeof(scratch_memory), 0};
    struct wire_header h;
    union wire_any msg;

    wire_check_mend_frame(frame, n);
    if (!d->connected || wire_frame_decode(frame, n, &h, &msg, &scratch, NULL) != MU_OK) {
        return;
    }
    switch (h.type) {
    case WIRE_WELCOME:
        tell(d, &(struct agent_event){.kind = AGENT_ON_WELCOME, .u.welcome = &msg.welcome});
        break;
    case WIRE_REFUSED:
        tell(d, &(struct agent_event){.kind = AGENT_ON_REFUSED, .u.refused = &msg.refused});
        break;
    case WIRE_ACK:
        tell(d, &(struct agent_event){.kind = AGENT_ON_ACK, .u.ack = &msg.ack});
        break;
    case WIRE_GENERATION:
        tell(d,
             &(struct agent_event){.kind = AGENT_ON_GENERATION, .u.generation = &msg.generation});
        break;
    case WIRE_ACTIVE:
        tell(d, &(struct agent_event){.kind = AGENT_ON_ACTIVE, .u.active = &msg.active});
        break;
    case WIRE_ROSTER:
        tell(d, &(struct agent_event){.kind = AGENT_ON_ROSTER, .u.roster = &msg.roster});
        break;
    case WIRE_ENDED:
        tell(d, &(struct agent_event){.kind = AGENT_ON_ENDED, .u.ended = &msg.ended});
        break;
    default:
        break;
    }
}

/* By the socket of a worker that runs. */
static void take_worker(struct driver *d, uint32_t slot, uint8_t *frame, size_t n)
{
    static const enum agent_event_kind plain[] = {
        AGENT_ON_LOADED, AGENT_ON_ATTACHED, AGENT_ON_DETACHED, AGENT_ON_BEAT, AGENT_ON_FORGET};
    struct wire_scratch scratch = {(uint8_t *)scratch_memory, sizeof(scratch_memory), 0};
    struct agent_event e = {.slot = slot};
    struct wire_header h;
    union wire_any msg;

    if (!d->runs[slot] || n == 0) {
        return;
    }
    if (n == 1) {
        e.kind = plain[frame[0] % ARRAY_LEN(plain)];
        tell(d, &e);
        return;
    }
    wire_check_mend_frame(frame, n);
    if (wire_frame_decode(frame, n, &h, &msg, &scratch, NULL) == MU_OK && h.type == WIRE_REPORT) {
        msg.report.incarnation = wid_incarnation(d->workers[slot]); /* Others' words are dropped. */
        e.kind = AGENT_ON_REPORT;
        e.u.report = &msg.report;
        tell(d, &e);
    }
}

/* What an item is, and a number of a connection, a slot or a time: three and five bits. */
static uint32_t kind_of(uint8_t what)
{
    return (what & 7) % ITEM_N;
}

static void take_item(struct driver *d, uint8_t what, uint8_t *bytes, size_t n)
{
    const uint32_t slot = (what >> 3) % SLOTS;

    switch (kind_of(what)) {
    case ITEM_FRAME:
        take_frame(d, bytes, n);
        break;
    case ITEM_CONNECT:
    case ITEM_CLOSE:
        if (d->connected != (kind_of(what) == ITEM_CONNECT)) {
            d->connected = !d->connected;
            tell(d, &(struct agent_event){.kind =
                                              d->connected ? AGENT_ON_CONNECTED : AGENT_ON_CLOSED});
        }
        break;
    case ITEM_TICK:
        d->now_ms += (uint64_t)1 << (what >> 3) % 18;
        tell(d, &(struct agent_event){.kind = AGENT_ON_TICK});
        break;
    case ITEM_WORKER:
        take_worker(d, slot, bytes, n);
        break;
    default:
        if (d->runs[slot]) {
            d->runs[slot] = false;
            tell(d, &(struct agent_event){
                        .kind = AGENT_ON_EXIT, .slot = slot, .code = n > 0 ? bytes[0] : 0});
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct driver d;
    struct agent_config config = {
        .hello =
            {.job = "job", .name = "node", .incarnation = 7, .min = 1, .max = 4, .slots = SLOTS},
        .renew_ms = 100,
        .members_max = 8};

    if (n == 0) {
        return 0;
    }
    config.hello.mode = data[0] % MODE_N;
    data++, n--;
    d = (struct driver){.fx = {.emit = emit}, .now_ms = 1000};
    mu_assert(agent_init(&d.agent, &config) == MU_OK);
    while (n >= 3) {
        size_t item_n = MIN((size_t)data[1] << 8 | data[2], n - 3);
        uint8_t *item = wire_check_copy(data + 3, item_n);

        take_item(&d, data[0], item, item_n);
        free(item);
        data += 3 + item_n;
        n -= 3 + item_n;
    }
    mu_assert(agent_deadline(&d.agent) > 0);
    agent_close(&d.agent);
    return 0;
}
