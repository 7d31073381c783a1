/* The orchestrator's driver: events in, effects out, records through a journal that may be slow,
 * fail, or lose what it had not synced. */
#include "sim/sim.h"

#include "base/crc32c.h"
#include "core/mutation.h"

#include <stdlib.h>
#include <string.h>

uint64_t orch_now_ms(const struct world *w)
{
    return (w->now_us + w->orch.skew_us) / US_PER_MS;
}

/* ---- records ---- */

static void schedule_sync(struct world *w)
{
    uint64_t delay_us = world_between(w, w->fortune.sync_min_us, w->fortune.sync_max_us);

    if (!w->orch.syncing) {
        w->orch.syncing = true;
        if (w->now_us < w->orch.slow_until_us) {
            delay_us *= 50;
        }
        world_after(w, delay_us, SIM_ORCH_SYNC, 0, w->orch.life);
    }
}

static void append(struct world *w, const struct record *r)
{
    struct orch *o = &w->orch;

    journal_append(o->journal, r, (struct journal_done){0});
    schedule_sync(w);
    if (r->kind == RECORD_GENERATION) {
        check_proposed(w, &r->u.generation);
    }
    if (r->kind == RECORD_JOB && o->hello_from != 0 && (r->u.job.run > 1 || w->again.forgotten)) {
        again_run(w, o->hello_from - 1, r->u.job.run);
    }
    if (o->crash_on == (int)r->kind) {
        o->crash_on = -1;
        o->stopped_until_us = FOREVER_US; /* It dies here, with the record still in flight. */
    }
}

/* ---- effects ---- */

static void emit(struct effects *base, const struct effect *e)
{
    struct world *w = ((struct orch_effects *)base)->w;

    switch (e->kind) {
    case EFFECT_RECORD:
        append(w, e->u.record);
        break;
    case EFFECT_WELCOME:
        net_down(w, e->conn, WIRE_WELCOME, e->u.welcome);
        break;
    case EFFECT_REFUSED:
        net_down(w, e->conn, WIRE_REFUSED, e->u.refused);
        break;
    case EFFECT_ACK:
        net_down(w, e->conn, WIRE_ACK, e->u.ack);
        break;
    case EFFECT_GENERATION:
        check_generation(w, e->u.generation);
        net_down(w, e->conn, WIRE_GENERATION, e->u.generation);
        break;
    case EFFECT_ACTIVE:
        net_down(w, e->conn, WIRE_ACTIVE, e->u.active);
        break;
    case EFFECT_ROSTER:
        helper_roster(w, e->u.roster);
        net_down(w, e->conn, WIRE_ROSTER, e->u.roster);
        break;
    case EFFECT_ENDED:
        net_down(w, e->conn, WIRE_ENDED, e->u.ended);
        break;
    case EFFECT_NOTE:
        if (e->u.note->kind == NOTE_ACTIVE) {
            check_active(w, e->u.note->generation);
            helper_active(w, e->u.note->generation);
        }
        if (e->u.note->kind == NOTE_GENERATION) {
            fate_generation(w);
        }
        if (e->u.note->kind == NOTE_ENDED && e->u.note->reason != NULL) {
            if (strstr(e->u.note->reason, "have left") != NULL) {
                check_deserted(w);
            } else if (!save_ended(w, e->u.note->reason) && w->config.heal) {
                heal_ended(w, e->u.note->reason);
            }
        }
        w->check.ended |= e->u.note->kind == NOTE_ENDED;
        trace_note(w, e->u.note);
        break;
    }
}

static void fill_random(struct effects *base, uint8_t *out, size_t n)
{
    struct world *w = ((struct orch_effects *)base)->w;

    for (size_t i = 0; i < n; i++) {
        out[i] = (uint8_t)prng_u64(&w->prng);
    }
}

/* ---- the way of an event ---- */

static void note_record(struct world *w, const struct record *r)
{
    if (r->kind == RECORD_CHECKPOINT) {
        if (r->u.checkpoint.step > w->check.checkpoint) {
            w->check.checkpoint_before = w->check.checkpoint;
            w->check.checkpoint = r->u.checkpoint.step;
        }
    }
    if (r->kind == RECORD_HEAL) {
        heal_record(w, &r->u.heal);
    }
    w->check.done |= r->kind == RECORD_FINISHED;
    w->again.forgotten |= r->kind == RECORD_FORGOTTEN && strcmp(r->u.forgotten.job, "job") == 0;
    if (r->kind == RECORD_GONE) {
        again_gone(w, &r->u.gone);
    }
    w->check.second_run |= r->kind == RECORD_JOB && r->u.job.run > 1;
}

static struct world *world_of(void *fx)
{
    return ((struct orch_effects *)fx)->w;
}

/* What a heal gives up is judged as it was. A contradiction is for the world to tell. */
static int apply(void *cluster, const struct record *r, void *fx)
{
    if (fx != NULL && r->kind == RECORD_HEAL) {
        note_record(world_of(fx), r);
    }
    if (fx != NULL && world_of(fx)->failed) {
        return MU_OK;
    }
    int rc = cluster_apply(cluster, r, fx);

    if (rc != MU_OK && fx != NULL) {
        world_fail(world_of(fx), "a durable '%s' record contradicts the state",
                   record_name(r->kind));
    }
    return fx != NULL ? MU_OK : rc;
}

static void applied(void *arg, const struct record *r, bool replayed)
{
    if (replayed || r->kind != RECORD_HEAL) {
        note_record(arg, r);
    }
}

static void orch_tick(struct world *w)
{
    uint64_t at_ms = journal_deadline(w->orch.journal);
    uint64_t now_ms = orch_now_ms(w);

    world_after(w, MAX(at_ms > now_ms ? at_ms - now_ms : 1, 1) * US_PER_MS, SIM_ORCH_TICK, 0,
                w->orch.life);
}

static int step_cluster(struct world *w, struct event *e)
{
    int rc;

    e->now_ms = orch_now_ms(w);
    rc = cluster_step(w->orch.mind.cluster, e, &w->orch.fx.base);
    if (MUTATED(APPLY_AFTER_DURABLE)) {
        journal_tick(w->orch.journal, e->now_ms);
    }
    return rc;
}

/* A snapshot's pieces go with the records, one each time; the process may die after any of them. */
static void on_sync(struct world *w)
{
    struct orch *o = &w->orch;
    uint64_t upto = journal_look(o->journal).snapshot_seq;
    bool dies;

    o->syncing = false;
    store_memory_sync(journal_store(o->journal), SIZE_MAX);
    journal_poll(o->journal, orch_now_ms(w));
    if (world_chance(w, 5000)) {
        journal_snapshot_now(o->journal);
        o->dumping = true;
    }
    o->dumping &= journal_look(o->journal).snapshot_seq == upto;
    dies = o->dumping && !w->quiet && !w->healed && world_chance(w, 2000);
    if (store_memory_pending(journal_store(o->journal)) > 0) {
        schedule_sync(w);
    }
    if (dies) {
        orch_crash(w);
        world_after(w, world_between(w, 10, 300) * US_PER_MS, SIM_ORCH_START, 0, 0);
    }
}

/* ---- what it is made of ---- */

struct summer {
    struct sink to; /* first */
    uint32_t sum;
};

static void add_up(struct sink *to, const struct record *r)
{
    struct summer *s = (struct summer *)to;
    uint8_t bytes[8192];
    size_t n = record_size(r);

    mu_assert(n <= sizeof(bytes));
    record_encode(r, bytes, n);
    s->sum = crc32c(s->sum, bytes, n);
}

static uint32_t sum_of(struct mind *m)
{
    struct summer s = {.to.put = add_up};

    mind_dump(m, &s.to);
    return s.sum;
}

/* ---- life and death ---- */

static int orch_replay(struct world *w)
{
    struct orch *o = &w->orch;
    struct machine_type judged = cluster_machine;
    const struct journal_machine machines[] = {
        {.live = {&o->judged, o->mind.cluster, &o->fx}, .shadow = o->shadow.cluster},
        {.live = {&settings_machine, o->mind.settings, NULL}, .shadow = o->shadow.settings}};
    char url[STORE_MEMORY_URL], error[JOURNAL_ERROR_MAX];
    struct journal_config config = {.url = url,
                                    .machines = machines,
                                    .machines_n = ARRAY_LEN(machines),
                                    .applied = applied,
                                    .arg = w,
                                    .piece_bytes = 200,
                                    .quiet = true};

    judged.apply = apply;
    o->judged = judged;
    store_memory_url(o->disk, url);
    if (journal_open(&config, &o->journal, error) != MU_OK) {
        world_fail(w, "the journal does not open: %s", error);
        return MU_ECORRUPT;
    }
    if (o->last_seq == journal_look(o->journal).seq && sum_of(&o->mind) != o->last_sum) {
        world_fail(w, "what was replayed is not what was there");
    }
    return MU_OK;
}

void orch_start(struct world *w)
{
    struct orch *o = &w->orch;
    struct cluster_config config = {
        .jobs_max = 2,
        .nodes_max = 3 * NODES_N,
        .workers_max = 3 * WORKERS_N,
        .memories_max = 4,
        .group_max = sim_group_max(&w->config),
        .lease_ms = LEASE_MS,
        .reconnect_ms = 100,
        .suspect_ms = 50,
        .join_window_ms = 400,
        .orphan_ms = 3000,
        .takeover_ms = 5000,
        .retry_ms = 100,
        .linger_ms = 3600000,
        .settings = {.keys_n = 8, .value_bytes = 256, .total_bytes = 1024, .window_n = 8},
        .store = 77};

    if (o->alive) {
        return;
    }
    o->alive = true;
    o->life++;
    o->stopped_until_us = 0;
    o->fx = (struct orch_effects){.base = {.emit = emit, .random = fill_random}, .w = w};
    mu_assert(mind_open(&o->mind, &config, &o->fx.base) == MU_OK);
    mu_assert(mind_open(&o->shadow, &config, NULL) == MU_OK);
    if (orch_replay(w) != MU_OK) {
        return;
    }
    trace(w, "orchestrator", "starts");
    check_restart(w);
    cluster_start(o->mind.cluster, orch_now_ms(w), orch_now_ms(w), &o->fx.base);
    orch_tick(w);
}

void orch_drop(struct orch *o)
{
    if (o->journal != NULL) {
        store_memory_crash(journal_abandon(o->journal));
        o->journal = NULL;
    }
    mind_close(&o->mind);
    mind_close(&o->shadow);
    o->dumping = false;
}

void orch_crash(struct world *w)
{
    struct orch *o = &w->orch;

    if (!o->alive) {
        return;
    }
    if (o->stopped_until_us != FOREVER_US) {
        trace(w, "orchestrator", "dies");
    }
    o->alive = false;
    o->life++;
    o->syncing = false;
    o->stopped_until_us = 0;
    if (o->journal != NULL) {
        o->last_sum = sum_of(&o->mind);
        o->last_seq = journal_look(o->journal).seq;
    }
    orch_drop(o);
    for (uint32_t m = 0; m < NODES_N; m++) {
        if (w->machines[m].conn != 0 && !w->cut_down[m]) {
            world_after(w, 200, SIM_CLOSED_DOWN, m, w->machines[m].life)->conn =
                w->machines[m].conn;
        }
    }
    memset(o->conn_node, 0, sizeof(o->conn_node));
}

static void on_frame(struct world *w, struct sim_event *f)
{
    struct event e = {.conn = f->conn};
    struct wire_header h;
    union wire_any msg;

    if (w->orch.conn_node[f->conn] == 0) { /* It belongs to an earlier life: answer with a reset. */
        world_after(w, 200, SIM_CLOSED_DOWN, f->to, w->machines[f->to].life)->conn = f->conn;
        return;
    }
    if (!net_decode(w, f, &h, &msg)) {
        return;
    }
    switch (h.type) {
    case WIRE_HELLO:
        e.kind = EVENT_HELLO;
        e.u.hello = &msg.hello;
        w->orch.hello_from = f->to + 1;
        break;
    case WIRE_RENEW:
        e.kind = EVENT_RENEW;
        e.u.renew = &msg.renew;
        break;
    case WIRE_REPORTS:
        e.kind = EVENT_REPORTS;
        e.u.reports = &msg.reports;
        break;
    default:
        e.kind = EVENT_BYE;
        e.u.bye = &msg.bye;
        break;
    }
    step_cluster(w, &e);
    w->orch.hello_from = 0;
}

static void on_conn_closed(struct world *w, uint32_t conn)
{
    struct event e = {.kind = EVENT_CLOSED, .conn = conn};

    if (w->orch.conn_node[conn] != 0) {
        w->orch.conn_node[conn] = 0;
        step_cluster(w, &e);
    }
}

void orch_event(struct world *w, struct sim_event *e)
{
    struct event tick = {.kind = EVENT_TICK};

    if (e->kind == SIM_ORCH_START) {
        if (w->orch.stopped_until_us == FOREVER_US) {
            orch_crash(w);
        }
        orch_start(w);
        return;
    }
    if (e->kind == SIM_UP && !w->orch.alive) {
        world_after(w, 200, SIM_CLOSED_DOWN, e->to, w->machines[e->to].life)->conn = e->conn;
    }
    if (!w->orch.alive || (e->kind != SIM_UP && e->life != w->orch.life)) {
        return;
    }
    if (e->kind == SIM_UP) {
        on_frame(w, e);
    } else if (e->kind == SIM_CLOSED_UP) {
        on_conn_closed(w, e->conn);
    } else if (e->kind == SIM_ORCH_SYNC) {
        on_sync(w);
    } else {
        step_cluster(w, &tick);
        orch_tick(w);
    }
}

/* Nobody hears what it is told. */
void orch_stranger(struct world *w, const char *job)
{
    struct msg_hello m = {
        .name = "stranger", .incarnation = 1, .host = 1, .min = 1, .max = 1, .slots = 1};
    struct event e = {.kind = EVENT_HELLO, .u.hello = &m};

    mu_assert(w->orch.conns_n + 1 < ARRAY_LEN(w->orch.conn_node));
    strcpy(m.job, job);
    e.conn = ++w->orch.conns_n;
    step_cluster(w, &e);
}

/* ---- people ---- */

void orch_setting(struct world *w, const char *key, const char *value)
{
    struct config_request q = {.key = key, .expect = CONFIG_ANY, .remove = value == NULL};
    struct record r;

    q.value = value;
    q.value_n = value == NULL ? 0 : (uint32_t)strlen(value);
    if (w->orch.alive && w->orch.stopped_until_us <= w->now_us &&
        cluster_wish(w->orch.mind.cluster, "job", &q, &r, NULL, 0) == MU_OK) {
        append(w, &r);
    }
}

void orch_size(struct world *w, uint32_t size)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", size);
    orch_setting(w, "size", size == 0 ? NULL : text);
}

void orch_list(struct world *w, const uint32_t *machines, uint32_t n)
{
    char text[512] = "";

    for (uint32_t i = 0; i < n; i++) {
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i > 0 ? "," : "",
                 w->machines[machines[i]].name);
    }
    orch_setting(w, "members", text);
}

/* One change is on its way at a time: the next call takes the next. */
void orch_want_all(struct world *w)
{
    static const char *const KEYS[] = {"members", "paused", "schedule", "size"};
    const struct config *s = w->orch.alive ? cluster_settings(w->orch.mind.cluster, "job") : NULL;
    struct rec_config r;

    for (size_t i = 0; s != NULL && i < ARRAY_LEN(KEYS); i++) {
        if (config_get(s, KEYS[i], &r) == MU_OK) {
            orch_setting(w, KEYS[i], NULL);
            return;
        }
    }
}

int orch_admin(struct world *w, enum admin_verb verb, uint32_t machine)
{
    struct msg_admin m = {.verb = (uint8_t)verb, .job = "job"};
    struct event e = {.kind = EVENT_ADMIN, .u.admin = &m};

    strcpy(m.node, w->machines[machine].name);
    if (!w->orch.alive || w->orch.stopped_until_us > w->now_us) {
        return MU_EAGAIN;
    }
    return step_cluster(w, &e);
}
