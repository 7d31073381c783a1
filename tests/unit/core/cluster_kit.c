#include "unit/core/cluster_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct kit f;

/* ---- what comes out ---- */

static char *new_line(void)
{
    if (f.log_n == f.log_cap) {
        f.log_cap = f.log_cap * 2 + 64;
        f.log = realloc(f.log, f.log_cap * sizeof(*f.log));
        assert_non_null(f.log);
    }
    return f.log[f.log_n++];
}

static struct stub *by_conn(uint32_t conn)
{
    for (uint32_t i = 0; i < f.stubs_n; i++) {
        if (f.stubs[i].conn == conn) {
            return &f.stubs[i];
        }
    }
    return NULL;
}

static void keep_record(const struct record *r)
{
    if (f.journal_n == f.journal_cap) {
        f.journal_cap = f.journal_cap * 2 + 64;
        f.journal = realloc(f.journal, f.journal_cap * sizeof(*f.journal));
        assert_non_null(f.journal);
    }
    f.journal[f.journal_n++] = record_copy(r);
    if (r->kind == RECORD_NODE) {
        node_named(r->u.node.node, r->u.node.name);
    }
    record_brief(r, new_line());
}

static int by_worker(const void *a, const void *b)
{
    const struct roster_entry *x = a, *y = b;

    return x->worker < y->worker ? -1 : x->worker > y->worker;
}

/* "p 0 serving, q 1 warming", the oldest node first. */
static void keep_roster(struct stub *s, const struct msg_roster *m)
{
    struct roster_entry helpers[16];
    size_t n = 0;

    assert_true(m->helpers_n <= ARRAY_LEN(helpers));
    for (uint32_t i = 0; i < m->helpers_n; i++) {
        helpers[i] = m->helpers[i];
    }
    qsort(helpers, m->helpers_n, sizeof(helpers[0]), by_worker);

    assert_true(m->version > s->roster);
    s->roster = m->version;
    s->helpers[0] = '\0';
    for (uint32_t i = 0; i < m->helpers_n; i++) {
        const struct roster_entry *h = &helpers[i];
        char name[32];

        member_name(h->worker, name, sizeof(name));
        n += (size_t)snprintf(s->helpers + n, sizeof(s->helpers) - n, "%s%s %u %s",
                              i > 0 ? ", " : "", name, h->number,
                              h->phase == PHASE_SERVING ? "serving" : "warming");
    }
}

static void tell(struct stub *s, const struct effect *e)
{
    char *line = new_line();

    switch (e->kind) {
    case EFFECT_WELCOME:
        if (s->node != e->u.welcome->node) {
            s->held = s->active = 0;
        }
        s->node = e->u.welcome->node;
        s->store = e->u.welcome->store;
        snprintf(line, TEXT_MAX, "%s: welcome %u run %u", s->name, s->node, e->u.welcome->run);
        break;
    case EFFECT_REFUSED:
        s->refused = e->u.refused->status;
        memcpy(s->refusal, e->u.refused->text, sizeof(s->refusal));
        snprintf(line, TEXT_MAX, "%s: refused %s", s->name, s->refusal);
        break;
    case EFFECT_ACK:
        s->ack = *e->u.ack;
        snprintf(line, TEXT_MAX, "%s: ack %" PRIu64, s->name, s->ack.seq);
        break;
    case EFFECT_GENERATION:
        s->held = MAX(s->held, e->u.generation->number);
        memcpy(s->key, e->u.generation->key, sizeof(s->key));
        snprintf(line, TEXT_MAX, "%s: generation %" PRIu64, s->name, e->u.generation->number);
        break;
    case EFFECT_ACTIVE:
        s->active = MAX(s->active, e->u.active->generation);
        snprintf(line, TEXT_MAX, "%s: active %" PRIu64, s->name, e->u.active->generation);
        break;
    case EFFECT_ROSTER:
        keep_roster(s, e->u.roster);
        snprintf(line, TEXT_MAX, "%s: roster %" PRIu64, s->name, s->roster);
        break;
    default:
        s->ended = true;
        s->ended_step = e->u.ended->step;
        snprintf(line, TEXT_MAX, "%s: ended %" PRIu64, s->name, s->ended_step);
        break;
    }
}

static void emit(struct effects *fx, const struct effect *e)
{
    static const char *const NOTES[NOTE_N] = {
        "joined",  "warm",    "generation", "active",   "lost",   "back",      "draining",
        "gone",    "refused", "takeover",   "finished", "ended",  "restarted", "resized",
        "drained", "leftout", "metrics",    "saved",    "healed",
    };

    if (e->kind == EFFECT_RECORD) {
        keep_record(e->u.record);
    } else if (e->kind == EFFECT_NOTE) {
        snprintf(new_line(), TEXT_MAX, "note %s", NOTES[e->u.note->kind]);
        if (e->u.note->kind == NOTE_LEFT_OUT) {
            snprintf(new_line(), TEXT_MAX, "%s did nothing for %" PRIu64, e->u.note->node,
                     e->u.note->value);
        }
    } else {
        struct stub *s = by_conn(e->conn);

        assert_non_null(s); /* to a connection that exists */
        tell(s, e);
    }
}

static void fill_random(struct effects *fx, uint8_t *out, size_t n)
{
    memset(out, (int)(++f.keys_n % 255 + 1), n);
}

void kit_effects(struct effects *fx)
{
    *fx = (struct effects){.emit = emit, .random = fill_random};
}

/* ---- the journal ---- */

static void pump(void)
{
    while (!f.hold && f.synced_n < f.journal_n) {
        sync_one();
    }
}

void sync_one(void)
{
    assert_true(f.synced_n < f.journal_n);
    f.rc = mind_apply(&f.mind, &f.journal[f.synced_n++], true);
    assert_int_equal(f.rc, MU_OK);
}

void kit_record(const struct record *r)
{
    keep_record(r);
    pump();
}

void hold(void)
{
    f.hold = true;
}

void sync_all(void)
{
    f.hold = false;
    pump();
}

void kit_step(struct event *e)
{
    e->now_ms = f.now_ms;
    f.rc = cluster_step(f.c, e, &f.fx);
    pump();
}

static void fail_one(void)
{
    struct record r = f.journal[f.synced_n];

    f.journal_n--;
    memmove(&f.journal[f.synced_n], &f.journal[f.synced_n + 1],
            (f.journal_n - f.synced_n) * sizeof(r));
    const struct machine_live *m = machine_of(f.mind.all, ARRAY_LEN(f.mind.all), r.kind);

    m->machine->failed(m->state, &r, f.now_ms, &f.fx);
    pump();
    record_free(&r);
}

/* The store never lets a record through behind one that failed. */
void fail_all(void)
{
    uint32_t n = f.journal_n - f.synced_n;

    assert_true(f.hold && n > 0);
    while (n-- > 0) {
        fail_one();
    }
}

static void drop_waiting(void)
{
    while (f.journal_n > f.synced_n) {
        record_free(&f.journal[--f.journal_n]);
    }
}

static struct mind replayed(const struct record *records, uint32_t n)
{
    struct mind m;

    assert_int_equal(mind_open(&m, &f.config, &f.fx), MU_OK);
    for (uint32_t i = 0; i < n; i++) {
        int rc = mind_apply(&m, &records[i], false);

        if (rc != MU_OK) {
            char text[TEXT_MAX];

            record_brief(&records[i], text);
            fail_msg("'%s' can't be replayed: %s", text, mu_strerror(rc));
        }
    }
    return m;
}

struct snapshot {
    struct sink to;
    struct record records[1024];
    uint32_t n;
};

static struct snapshot taken;

static void snapshot_put(struct sink *to, const struct record *r)
{
    assert_true(taken.n < ARRAY_LEN(taken.records));
    taken.records[taken.n++] = record_copy(r);
}

static struct mind rebuilt_from_snapshot(void)
{
    struct mind rebuilt;

    taken.n = 0;
    taken.to.put = snapshot_put;
    mind_dump(&f.mind, &taken.to);
    rebuilt = replayed(taken.records, taken.n);
    for (uint32_t i = 0; i < taken.n; i++) {
        record_free(&taken.records[i]);
    }
    return rebuilt;
}

static uint32_t print_missing(const char *lines, const char *from, const char *what)
{
    uint32_t n = 0;

    while (*lines != '\0') {
        size_t len = strcspn(lines, "\n") + 1;
        char *line = strndup(lines, len);

        assert_non_null(line);
        if (strstr(from, line) == NULL) {
            print_error("%s: %s", what, line);
            n++;
        }
        free(line);
        lines += len;
    }
    return n;
}

static void expect_same(struct mind other)
{
    char *mine = dump_text(&f.mind), *theirs = dump_text(&other);
    uint32_t n =
        print_missing(mine, theirs, "not rebuilt") + print_missing(theirs, mine, "made up");

    if (n == 0) {
        assert_string_equal(mine, theirs); /* in the same order */
    }
    free(mine);
    free(theirs);
    mind_close(&other);
    assert_int_equal(n, 0);
}

void expect_replays(void)
{
    expect_same(replayed(f.journal, f.synced_n));
    expect_same(rebuilt_from_snapshot());
}

static void start_on(struct mind m)
{
    mind_close(&f.mind);
    f.mind = m;
    f.c = m.cluster;
    f.hold = false;
    for (uint32_t i = 0; i < f.stubs_n; i++) {
        f.stubs[i].conn = 0;
    }
    cluster_start(f.c, f.now_ms, f.now_ms + WALL_MS, &f.fx);
    pump();
}

void restart(void)
{
    drop_waiting();
    start_on(replayed(f.journal, f.synced_n));
}

void restart_from_snapshot(void)
{
    drop_waiting();
    start_on(rebuilt_from_snapshot());
}

/* ---- time ---- */

void tick(void)
{
    kit_step(&(struct event){.kind = EVENT_TICK});
}

void pass(uint64_t ms)
{
    uint64_t end_ms = f.now_ms + ms;

    while (f.now_ms < end_ms) {
        f.now_ms = MIN(end_ms, MAX(cluster_deadline(f.c), f.now_ms + 1));
        tick();
        for (uint32_t i = 0; i < f.stubs_n; i++) {
            struct stub *s = &f.stubs[i];

            if (!s->silent && s->conn != 0 && s->refused == 0 && s->node != 0 &&
                f.now_ms - s->renewed_ms >= LEASE_MS / 5) {
                renew(s->name);
            }
        }
    }
}

void jump(uint64_t ms)
{
    f.now_ms += ms;
    tick();
}
