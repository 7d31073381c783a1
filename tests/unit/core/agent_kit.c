#include "unit/core/agent_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct agent agent;
uint64_t now_ms;
static char lines[512][LINE_MAX];
static uint32_t lines_n;
struct report reported[SLOTS_MAX];
uint64_t reported_seq, renewed_seq, held, active;
uint32_t flags, said_node;
uint8_t mode = MODE_INPROCESS;
uint32_t saves;
static uint32_t told_saves;

static void keep_reports(const struct report *reports, uint32_t n, uint64_t seq)
{
    memset(reported, 0, sizeof(reported));
    for (uint32_t i = 0; i < n; i++) {
        reported[reports[i].slot] = reports[i];
    }
    reported_seq = seq;
}

static void emit(struct agent_effects *fx, const struct agent_effect *e)
{
    char *line = lines[lines_n++];
    uint32_t life = wid_incarnation(e->worker);

    assert_true(lines_n < ARRAY_LEN(lines));
    switch (e->kind) {
    case AGENT_CONNECT:
        snprintf(line, LINE_MAX, "connect");
        break;
    case AGENT_HELLO:
        keep_reports(e->u.hello->reports, e->u.hello->reports_n, e->u.hello->seq);
        held = e->u.hello->held;
        active = e->u.hello->active;
        flags = e->u.hello->flags;
        said_node = e->u.hello->node;
        snprintf(line, LINE_MAX, "hello");
        break;
    case AGENT_RENEW:
        renewed_seq = e->u.renew->seq;
        held = e->u.renew->held;
        active = e->u.renew->active;
        flags = e->u.renew->flags;
        snprintf(line, LINE_MAX, "renew");
        break;
    case AGENT_REPORTS:
        keep_reports(e->u.reports->reports, e->u.reports->reports_n, e->u.reports->seq);
        snprintf(line, LINE_MAX, "reports");
        break;
    case AGENT_BYE:
        snprintf(line, LINE_MAX, "bye %u", e->u.bye->node);
        break;
    case AGENT_START:
        if (e->u.generation != NULL) {
            snprintf(line, LINE_MAX, "start %u.%u#%u in %" PRIu64 " failed %d", wid_node(e->worker),
                     e->slot, life, e->u.generation->number, e->code);
        } else {
            snprintf(line, LINE_MAX, "start %u.%u#%u", wid_node(e->worker), e->slot, life);
        }
        break;
    case AGENT_STOP:
        snprintf(line, LINE_MAX, "stop %u", e->slot);
        break;
    case AGENT_KILL:
        snprintf(line, LINE_MAX, "kill %u", e->slot);
        break;
    case AGENT_LIFE:
        snprintf(line, LINE_MAX, "life %u.%u#%u", wid_node(e->worker), e->slot, life);
        break;
    case AGENT_ADDR:
        snprintf(line, LINE_MAX, "addr %u", e->slot);
        break;
    case AGENT_TELL_GENERATION:
        snprintf(line, LINE_MAX, "tell %u generation %" PRIu64, e->slot, e->u.generation->number);
        break;
    case AGENT_TELL_ACTIVE:
        snprintf(line, LINE_MAX, "tell %u active %" PRIu64, e->slot, e->u.active->generation);
        break;
    case AGENT_TELL_ROSTER:
        snprintf(line, LINE_MAX, "tell %u roster %" PRIu64, e->slot, e->u.roster->version);
        break;
    case AGENT_TELL_LEASE:
        snprintf(line, LINE_MAX, "tell %u lease %" PRIu64, e->slot, e->u.lease->sent_ms);
        told_saves = e->u.lease->saves;
        break;
    case AGENT_TELL_ENDED:
        snprintf(line, LINE_MAX, "tell %u %s run=%u", e->slot, e->u.ended->left ? "left" : "ended",
                 e->u.ended->run);
        break;
    case AGENT_DONE:
        snprintf(line, LINE_MAX, "done %d", e->code);
        break;
    }
}

void step(struct agent_event e)
{
    struct agent_effects fx = {emit};

    e.now_ms = now_ms;
    agent_event(&agent, &e, &fx);
}

uint32_t said(const char *start)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < lines_n; i++) {
        n += strncmp(lines[i], start, strlen(start)) == 0;
    }
    return n;
}

uint32_t saves_told(void)
{
    return told_saves;
}

void forget(void)
{
    lines_n = 0;
}

void welcome(uint32_t node, uint64_t store)
{
    struct msg_welcome m = {.store = store,
                            .node = node,
                            .run = 1,
                            .lease_ms = LEASE_MS,
                            .orphan_ms = 60000,
                            .mode = mode};

    STEP(.kind = AGENT_ON_WELCOME, .u.welcome = &m);
}

void ack(uint64_t seq, uint64_t reports, uint32_t ack_flags, uint64_t generation)
{
    struct msg_ack m = {.seq = seq,
                        .reports = reports,
                        .flags = ack_flags,
                        .generation = generation,
                        .mode = mode,
                        .saves = saves};

    STEP(.kind = AGENT_ON_ACK, .u.ack = &m);
}

void refuse(int status)
{
    struct msg_refused m = {.status = status};

    STEP(.kind = AGENT_ON_REFUSED, .u.refused = &m);
}

void generation_of(uint64_t number, wid member)
{
    struct member m = {.worker = member};
    struct generation g = {.number = number, .members_n = 1, .members = &m};

    STEP(.kind = AGENT_ON_GENERATION, .u.generation = &g);
}

void generation(uint64_t number)
{
    generation_of(number, wid_make(7, 0, 1));
}

void report(uint32_t slot, enum phase phase, uint64_t entered)
{
    struct report r = {.incarnation = 99, .phase = (uint8_t)phase, .entered = entered, .step = 5};

    STEP(.kind = AGENT_ON_REPORT, .slot = slot, .u.report = &r);
}

static void beat_all(void)
{
    for (uint32_t i = 0; i < agent.config.hello.slots; i++) {
        STEP(.kind = AGENT_ON_BEAT, .slot = i);
    }
}

void pass(uint64_t ms, bool beats)
{
    uint64_t end_ms = now_ms + ms;

    while (now_ms < end_ms) {
        now_ms = MIN(end_ms, agent_deadline(&agent));
        STEP(.kind = AGENT_ON_TICK);
        if (beats) {
            beat_all();
        }
    }
}

void open_agent(uint32_t slots)
{
    struct agent_config config = {.renew_ms = RENEW_MS,
                                  .members_max = 4,
                                  .hello = {.job = "job",
                                            .name = "a",
                                            .incarnation = 1,
                                            .min = 1,
                                            .max = 1,
                                            .slots = slots,
                                            .mode = mode}};

    agent_close(&agent);
    assert_int_equal(agent_init(&agent, &config), MU_OK);
}

int setup(void **state)
{
    saves = told_saves = 0;
    now_ms = 100000;
    forget();
    reported_seq = renewed_seq = held = active = 0;
    flags = said_node = 0;
    mode = MODE_INPROCESS;
    open_agent(1);
    return 0;
}

int teardown(void **state)
{
    agent_close(&agent);
    agent_close(&agent);
    return 0;
}

void up(void)
{
    STEP(.kind = AGENT_ON_CONNECTED);
    welcome(7, 1);
    ack(renewed_seq, reported_seq, 0, 0);
    forget();
}
