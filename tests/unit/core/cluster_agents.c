/* The agents that the cluster's tests move by hand, and the people. */
#include "unit/core/cluster_kit.h"

#include <stdio.h>
#include <string.h>

#define EACH_NAME(names, name)                                               \
    for (char name##_all_[256],                                              \
         *name##_save_ = NULL,                                               \
         *name = (snprintf(name##_all_, sizeof(name##_all_), "%s", (names)), \
                  strtok_r(name##_all_, " ", &name##_save_));                \
         name != NULL; name = strtok_r(NULL, " ", &name##_save_))

void shape(uint32_t min, uint32_t max)
{
    f.min = min;
    f.max = max;
}

struct stub *at(const char *name)
{
    struct stub *s;

    for (uint32_t i = 0; i < f.stubs_n; i++) {
        if (strcmp(f.stubs[i].name, name) == 0) {
            return &f.stubs[i];
        }
    }
    assert_true(f.stubs_n < ARRAY_LEN(f.stubs));
    s = &f.stubs[f.stubs_n++];
    *s = (struct stub){.incarnation = 1000 + f.stubs_n,
                       .host = f.stubs_n,
                       .slots = f.slots,
                       .min = f.min,
                       .max = f.max,
                       .mode = f.mode,
                       .max_restarts = f.max_restarts};
    snprintf(s->name, sizeof(s->name), "%s", name);
    snprintf(s->job, sizeof(s->job), "%s", f.job);
    for (uint32_t i = 0; i < ARRAY_LEN(s->reports); i++) {
        struct report *r = &s->reports[i];

        *r = (struct report){.slot = i, .incarnation = 1, .phase = PHASE_WARMING};
        snprintf(r->addr, sizeof(r->addr), "%s:%u", name, i);
    }
    return s;
}

void hello(const char *name)
{
    struct stub *s = at(name);
    struct msg_hello m = {.store = s->store,
                          .incarnation = s->incarnation,
                          .node = s->node,
                          .host = s->host,
                          .min = s->min,
                          .max = s->max,
                          .slots = s->slots,
                          .role = s->role,
                          .mode = s->mode,
                          .max_restarts = s->max_restarts,
                          .flags = s->flags,
                          .held = s->held,
                          .active = s->active,
                          .seq = s->seq,
                          .reports_n = s->slots,
                          .reports = s->reports,
                          .roster = s->roster};

    strcpy(m.job, s->job);
    strcpy(m.name, s->name);
    s->conn = s->conn != 0 ? s->conn : ++f.conns_n;
    s->refused = 0;
    s->renewed_ms = f.now_ms;
    kit_step(&(struct event){.kind = EVENT_HELLO, .conn = s->conn, .u.hello = &m});
}

void rejoin(const char *name)
{
    struct stub *s = at(name);

    s->incarnation += 1000;
    s->conn = 0;
    s->node = 0;
    s->store = s->held = s->active = s->seq = s->roster = 0;
    s->ended = false;
    for (uint32_t i = 0; i < ARRAY_LEN(s->reports); i++) {
        s->reports[i].incarnation = 1;
        s->reports[i].phase = PHASE_WARMING;
        s->reports[i].entered = s->reports[i].reached = s->reports[i].exit_code = 0;
        s->reports[i].apart_n = 0;
    }
    hello(name);
}

void renew(const char *name)
{
    struct stub *s = at(name);
    struct msg_renew m = {.seq = ++s->renew_seq,
                          .held = s->held,
                          .active = s->active,
                          .flags = s->flags,
                          .roster = s->roster};

    s->renewed_ms = f.now_ms;
    kit_step(&(struct event){.kind = EVENT_RENEW, .conn = s->conn, .u.renew = &m});
}

void resend(const char *name)
{
    struct stub *s = at(name);
    struct msg_reports m = {.seq = ++s->seq, .reports_n = s->slots, .reports = s->reports};

    kit_step(&(struct event){.kind = EVENT_REPORTS, .conn = s->conn, .u.reports = &m});
}

void report(const char *name, uint32_t slot, enum phase phase, uint64_t entered, uint64_t reached)
{
    struct report *r = &at(name)->reports[slot];

    r->phase = (uint8_t)phase;
    r->entered = entered;
    r->reached = reached;
    resend(name);
}

static void report_all(struct stub *s, enum phase phase, uint64_t entered)
{
    for (uint32_t i = 0; i < s->slots; i++) {
        s->reports[i].phase = (uint8_t)phase;
        s->reports[i].entered = entered;
        s->reports[i].reached = s->held;
    }
    resend(s->name);
}

void warm(const char *names)
{
    EACH_NAME(names, name)
    {
        report_all(at(name), PHASE_WARM, 0);
    }
}

void enter(const char *names)
{
    EACH_NAME(names, name)
    {
        report_all(at(name), PHASE_IN, at(name)->held);
    }
}

void exits(const char *name, uint32_t slot, uint32_t code)
{
    struct report *r = &at(name)->reports[slot];

    r->phase = PHASE_EXITED;
    r->exit_code = code;
    resend(name);
}

void next_life(const char *name, uint32_t slot)
{
    struct report *r = &at(name)->reports[slot];

    r->incarnation++;
    r->phase = PHASE_WARMING;
    r->entered = r->reached = r->exit_code = r->apart_n = 0;
    resend(name);
}

void bye(const char *name)
{
    struct msg_bye m = {.ended = at(name)->ended};

    kit_step(&(struct event){.kind = EVENT_BYE, .conn = at(name)->conn, .u.bye = &m});
}

void closed(const char *name)
{
    struct stub *s = at(name);
    uint32_t conn = s->conn;

    s->conn = 0;
    kit_step(&(struct event){.kind = EVENT_CLOSED, .conn = conn});
}

void suspect(const char *by, const char *peer)
{
    suspect_idle(by, peer, 0);
}

void suspect_idle(const char *by, const char *peer, uint32_t idle_ms)
{
    const struct stub *b = at(by), *p = at(peer);
    struct report *r = &at(by)->reports[0];
    wid id = wid_make(p->node, 0, p->reports[0].incarnation);
    uint32_t i = 0;

    r->apart_n = r->apart_in == b->held ? r->apart_n : 0;
    r->apart_in = b->held;
    while (i < r->apart_n && r->apart[i].peer != id) {
        i++;
    }
    assert_true(i < APART_MAX);
    r->apart[i] = (struct apart){.peer = id, .idle_ms = idle_ms};
    r->apart_n = MAX(r->apart_n, i + 1);
    resend(by);
}

void reaches_all(const char *name)
{
    at(name)->reports[0].apart_n = 0;
    resend(name);
}

void silence(const char *names)
{
    EACH_NAME(names, name)
    {
        at(name)->silent = true;
    }
}

void join(const char *names)
{
    EACH_NAME(names, name)
    {
        hello(name);
        warm(name);
    }
}

static bool in_generation(const struct generation *g, const struct stub *s, uint32_t slot)
{
    for (uint32_t i = 0; i < g->members_n; i++) {
        if (g->members[i].worker == wid_make(s->node, slot, s->reports[slot].incarnation)) {
            return true;
        }
    }
    return false;
}

/* What one agent's workers do of themselves. False: nothing. */
static bool act(struct stub *s)
{
    struct generation g;
    bool changed = false;

    if (s->conn == 0 || s->silent || s->spare || s->refused != 0 || s->node == 0 ||
        cluster_generation(f.c, s->job, &g) != MU_OK || s->held != g.number) {
        return false;
    }
    for (uint32_t i = 0; i < s->slots; i++) {
        struct report *r = &s->reports[i], was = *r;

        if (r->phase != PHASE_WARM && r->phase != PHASE_IN) {
            continue;
        }
        if (in_generation(&g, s, i)) {
            r->phase = PHASE_IN;
            r->entered = g.number;
        } else if (r->phase == PHASE_IN && s->active == g.number) {
            r->incarnation++;
            r->phase = PHASE_WARM;
            r->entered = r->apart_n = 0;
        }
        r->reached = g.number;
        changed |= memcmp(r, &was, sizeof(was)) != 0;
    }
    if (changed) {
        resend(s->name);
    }
    return changed;
}

void settle(void)
{
    for (int rounds = 0; rounds < 20; rounds++) {
        bool changed = false;

        for (uint32_t i = 0; i < f.stubs_n; i++) {
            changed |= act(&f.stubs[i]);
        }
        if (!changed) {
            return;
        }
    }
    fail_msg("the cluster does not come to rest");
}

void form(const char *names)
{
    join(names);
    pass(WINDOW_MS);
    settle();
    EACH_NAME(names, name)
    {
        assert_true(member(name));
        renew(name); /* It holds the generation, and says so. */
    }
    assert_int_equal(job().members_n, job().available_n * f.slots);
    assert_int_equal(job().active, job().generation);
}

/* ---- people ---- */

int setting(const char *key, const char *value)
{
    struct config_request q = {.key = key, .expect = CONFIG_ANY, .remove = value == NULL};
    struct record r;

    f.why[0] = '\0';
    if (value != NULL) {
        q.value = value;
        q.value_n = (uint32_t)strlen(value);
    }
    int rc = cluster_wish(f.c, f.job, &q, &r, f.why, sizeof(f.why));

    if (rc == MU_OK) {
        kit_record(&r);
    }
    return f.rc = rc;
}

void want(uint32_t size)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", size);
    setting("size", size == 0 ? NULL : text);
}

void paused(bool is_paused)
{
    setting("paused", is_paused ? "true" : "false");
}

void want_nodes(const char *names)
{
    char text[256] = "";

    EACH_NAME(names, name)
    {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", text[0] ? "," : "",
                 name);
    }
    setting("members", text);
}

int admin(enum admin_verb verb, const char *node)
{
    struct msg_admin m = {.verb = (uint8_t)verb};

    snprintf(m.job, sizeof(m.job), "%s", f.job);
    snprintf(m.node, sizeof(m.node), "%s", node);
    kit_step(&(struct event){.kind = EVENT_ADMIN, .u.admin = &m});
    return f.rc;
}

int decide(enum mode mode)
{
    struct rec_job m = {.mode = (uint8_t)mode};

    snprintf(m.job, sizeof(m.job), "%s", f.job);
    kit_step(&(struct event){.kind = EVENT_MODE, .u.job = &m});
    return f.rc;
}
