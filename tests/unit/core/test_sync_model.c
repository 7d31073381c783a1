/* Values by tag against workers that behave like real ones under everything that can happen:
 * connections break with answers on their way, members come and go, workers begin new lives, the
 * orchestrator starts over and knows nothing. A seed is a run. */
#include "unit/core/sync_kit.h"

#include "base/prng.h"
#include "lib/chance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NODES = 6, TAGS = 2, ROUNDS_MOST = 4096, PUTS_MOST = 8192, PARTS_MOST = 16384 };

/* A call of a worker. */
struct call {
    bool waiting;
    bool known; /* the orchestrator has it, for all we know */
    uint64_t request;
    uint64_t due_ms;
    uint32_t put;
    char data[32];
    uint32_t got_n; /* frames of its answer */
    char values[256];
    uint64_t done_generation; /* as in msg_sync */
    uint32_t done_n;
};

struct worker {
    uint32_t life;
    bool linked;
    uint64_t joined;
    uint64_t requests_n;
    uint32_t last_tag; /* of its last answer */
    struct call calls[TAGS];
};

/* What a value was put with; its number is the value. */
struct put {
    uint64_t generation; /* as in msg_sync: done_generation and so on */
    uint32_t n;
    uint64_t joined;
    wid worker;
    uint32_t tag;
};

/* A worker had put a value into a round that was complete. */
struct part {
    wid worker;
    uint32_t tag;
    uint64_t generation;
    uint32_t n;
};

/* An answer that somebody has. */
struct round {
    uint32_t tag;
    uint64_t generation;
    uint32_t n;
    char values[256];
};

struct world {
    struct sync_kit f;
    uint64_t seed;
    struct prng p;
    struct worker workers[NODES + 1]; /* by node, from 1 */
    uint64_t generation;
    uint32_t members[NODES];
    wid member_ids[NODES];
    uint32_t members_n;
    struct part parts[PARTS_MOST];
    uint32_t parts_n;
    struct put puts[PUTS_MOST];
    uint32_t puts_n;
    struct round rounds[ROUNDS_MOST];
    uint32_t rounds_n;
    uint32_t answered_n, timed_out_n, missed_n, restarts_n;
};

static struct world world;

static const char *const tags[TAGS] = {"red", "blue"};

static wid id_of(const struct world *w, uint32_t node)
{
    return wid_make(node, 0, w->workers[node].life);
}

static bool is_member(const struct world *w, uint32_t node)
{
    for (uint32_t i = 0; i < w->members_n; i++) {
        if (w->member_ids[i] == id_of(w, node)) {
            return true;
        }
    }
    return false;
}

/* ---- what workers get ---- */

/* Whoever has an answer of the same round has the same one. */
static void check_same(struct world *w, uint32_t tag, uint64_t generation, uint32_t n,
                       const char *values)
{
    for (uint32_t i = 0; i < w->rounds_n; i++) {
        const struct round *r = &w->rounds[i];

        if (r->tag == tag && r->generation == generation && r->n == n) {
            assert_string_equal(r->values, values);
            return;
        }
    }
    assert_true(w->rounds_n < ROUNDS_MOST);
    struct round *r = &w->rounds[w->rounds_n++];

    *r = (struct round){.tag = tag, .generation = generation, .n = n};
    strcpy(r->values, values);
}

static bool is_later(const struct put *a, const struct put *b)
{
    return a->generation != b->generation ? a->generation > b->generation : a->n > b->n;
}

/* Whether the worker of `p` has put a value into the round that `last` names. */
static bool was_there(const struct world *w, const struct put *p, const struct put *last)
{
    for (uint32_t i = 0; i < w->parts_n; i++) {
        const struct part *q = &w->parts[i];

        if (q->worker == p->worker && q->tag == p->tag && q->generation == last->generation &&
            q->n == last->n) {
            return true;
        }
    }
    return false;
}

/* When a round is complete: nobody in it still waits for an answer that others have. Its answer is
 * `total` frames from a. */
static void check_one_round(struct world *w, const struct answer *a)
{
    struct put last = {0};

    for (uint32_t i = 0; i < a->m.total; i++) {
        const struct put *p = &w->puts[strtoul(a[i].data, NULL, 10)];

        assert_true(a[i].m.index == i && a[i].m.request == a->m.request);
        last = is_later(p, &last) ? *p : last;
    }
    for (uint32_t i = 0; i < a->m.total; i++) {
        const struct put *p = &w->puts[strtoul(a[i].data, NULL, 10)];

        const struct put this = {.generation = a->m.generation, .n = a->m.round};

        if (was_there(w, p, &this)) {
            continue; /* The same answer again. */
        }
        if (is_later(&last, p) && p->joined != 0 && p->joined <= last.generation) {
            assert_false(was_there(w, p, &last));
        }
        assert_true(w->parts_n < PARTS_MOST);
        w->parts[w->parts_n++] = (struct part){p->worker, p->tag, this.generation, this.n};
    }
}

static void end_call(struct worker *k, uint32_t tag, uint64_t generation, uint32_t n)
{
    struct call *c = &k->calls[tag];

    assert_true(generation > c->done_generation ||
                (generation == c->done_generation && n > c->done_n));
    c->waiting = c->known = false;
    c->done_generation = generation;
    c->done_n = n;
    k->last_tag = tag;
}

static void take_value(struct world *w, uint32_t node, uint32_t tag, const struct answer *a)
{
    struct call *c = &w->workers[node].calls[tag];
    char text[96];

    if (a->m.index == 0) {
        c->got_n = 0;
        c->values[0] = '\0';
    }
    if (a->m.index != c->got_n) {
        return;
    }
    snprintf(text, sizeof(text), "n%u=%s ", wid_node(a->m.from), a->data);
    strcat(c->values, text);
    if (a->m.from == id_of(w, node)) {
        assert_string_equal(a->data, c->data);
    }
    if (++c->got_n == a->m.total) {
        check_same(w, tag, a->m.generation, a->m.round, c->values);
        end_call(&w->workers[node], tag, a->m.generation, a->m.round);
        w->answered_n++;
    }
}

static void take_answer(struct world *w, const struct answer *a)
{
    uint32_t node = wid_node(a->m.worker);
    struct worker *k = &w->workers[node];

    assert_int_equal(node, a->conn);
    assert_true(k->linked);
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        struct call *c = &k->calls[tag];

        if (!c->waiting || a->m.worker != id_of(w, node) || a->m.request != c->request) {
            continue;
        }
        switch (a->m.status) {
        case MU_OK:
            take_value(w, node, tag, a);
            break;
        case MU_ETIMEDOUT:
            assert_true(c->due_ms <= w->f.now_ms);
            c->waiting = c->known = false;
            w->timed_out_n++;
            break;
        case MU_EPEER:
            assert_true(was_there(w, &w->puts[c->put],
                                  &(struct put){.generation = a->m.generation, .n = a->m.round}));
            end_call(k, tag, a->m.generation, a->m.round);
            w->missed_n++;
            break;
        default:
            fail_msg("status %d", a->m.status);
        }
    }
}

static void unlink_node(struct world *w, uint32_t node)
{
    w->workers[node].linked = false;
    sync_closed(w->f.s, node);
}

/* Delivers what was answered; sometimes a connection breaks on the way. */
static void deliver(struct world *w, uint32_t loss_ppm)
{
    uint32_t n = w->f.answers_n;

    for (uint32_t i = 0; i < n; i++) {
        uint32_t node = w->f.answers[i].conn;

        if (w->f.answers[i].m.status == MU_OK && w->f.answers[i].m.index == 0) {
            check_one_round(w, &w->f.answers[i]);
        }
        if (w->workers[node].linked && prng_chance(&w->p, loss_ppm)) {
            unlink_node(w, node);
        }
        if (w->workers[node].linked) {
            take_answer(w, &w->f.answers[i]);
        }
    }
    w->f.answers_n = 0;
}

/* ---- what workers do ---- */

static void say(struct world *w, uint32_t node, uint32_t tag)
{
    struct worker *k = &w->workers[node];
    struct call *c = &k->calls[tag];
    struct msg_sync m = {.worker = id_of(w, node),
                         .request = c->request,
                         .data_n = (uint32_t)strlen(c->data),
                         .data = (uint8_t *)c->data,
                         .done_generation = c->done_generation,
                         .done_n = c->done_n,
                         .joined = k->joined};

    if (k->calls[k->last_tag].done_n > 0) {
        strcpy(m.last_tag, tags[k->last_tag]);
        m.last_generation = k->calls[k->last_tag].done_generation;
        m.last_n = k->calls[k->last_tag].done_n;
    }
    w->puts[c->put].joined = k->joined;
    m.wait_ms = (uint32_t)(c->due_ms > w->f.now_ms ? c->due_ms - w->f.now_ms : 0);
    strcpy(m.tag, tags[tag]);
    c->known = true;
    sync_put(w->f.s, w->f.now_ms, node, "job", &m, &w->f.fx);
}

static void begin_call(struct world *w, uint32_t node, uint32_t tag, uint32_t wait_ms)
{
    struct worker *k = &w->workers[node];
    struct call *c = &k->calls[tag];

    if (c->waiting) {
        return;
    }
    c->waiting = true;
    c->got_n = 0;
    c->request = ++k->requests_n;
    c->due_ms = w->f.now_ms + wait_ms;
    c->put = w->puts_n++;
    assert_true(c->put < PUTS_MOST);
    w->puts[c->put] = (struct put){
        .generation = c->done_generation, .n = c->done_n, .worker = id_of(w, node), .tag = tag};
    snprintf(c->data, sizeof(c->data), "%u", c->put);
    if (k->linked) {
        say(w, node, tag);
    }
}

static void link_node(struct world *w, uint32_t node)
{
    struct worker *k = &w->workers[node];

    if (k->linked) {
        return;
    }
    k->linked = true;
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        if (k->calls[tag].waiting) {
            say(w, node, tag);
        }
    }
}

static void new_life(struct world *w, uint32_t node)
{
    struct worker *k = &w->workers[node];
    uint32_t life = k->life + 1;

    if (k->linked) {
        unlink_node(w, node);
    }
    *k = (struct worker){.life = life};
}

/* ---- what the orchestrator does ---- */

static void publish(struct world *w)
{
    struct member members[NODES] = {0};
    struct generation g = {.job = "job", .number = w->generation, .members = members};

    for (; g.members_n < w->members_n; g.members_n++) {
        members[g.members_n].worker = w->member_ids[g.members_n];
    }
    assert_int_equal(sync_generation(w->f.s, w->f.now_ms, &g, &w->f.fx), MU_OK);
}

/* Any members, in any order. */
static void change_members(struct world *w, bool all)
{
    w->generation += prng_between(&w->p, 1, 2);
    w->members_n = 0;
    for (uint32_t node = 1; node <= NODES; node++) {
        if (all || prng_chance(&w->p, 700000)) {
            w->members[w->members_n++] = node;
        }
    }
    for (uint32_t i = 1; i < w->members_n; i++) {
        uint32_t k = (uint32_t)prng_below(&w->p, i + 1);
        uint32_t held = w->members[i];

        w->members[i] = w->members[k];
        w->members[k] = held;
    }
    for (uint32_t i = 0; i < w->members_n; i++) {
        w->member_ids[i] = id_of(w, w->members[i]);
    }
    for (uint32_t node = 1; node <= NODES; node++) {
        struct worker *k = &w->workers[node];

        k->joined = !is_member(w, node) ? 0 : k->joined == 0 ? w->generation : k->joined;
        for (uint32_t tag = 0; tag < TAGS && k->joined == 0; tag++) {
            w->puts[k->calls[tag].put].joined = 0; /* What it says from now on is another thing. */
        }
    }
    publish(w);
}

static void restart(struct world *w)
{
    struct sync_config config = sync_counts(w->f.s).open_n > 3
                                    ? sync_defaults()
                                    : (struct sync_config){2, 8, 32, 16384, 500};

    w->f.answers_n = 0; /* What was on its way is lost. */
    sync_close(w->f.s);
    assert_int_equal(sync_init(&config, &w->f.s), MU_OK);
    for (uint32_t node = 1; node <= NODES; node++) {
        w->workers[node].linked = false;
        for (uint32_t tag = 0; tag < TAGS; tag++) {
            w->workers[node].calls[tag].known = false;
        }
    }
    if (w->members_n > 0) {
        publish(w);
    }
    w->restarts_n++;
}

/* Nobody waits for a round that has all it needs, nor beyond its time. */
static void check_nothing_is_due(struct world *w)
{
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        uint32_t here_n = 0;

        for (uint32_t node = 1; node <= NODES; node++) {
            const struct worker *k = &w->workers[node];
            const struct call *c = &k->calls[tag];

            if (c->waiting && c->known && k->linked) {
                assert_true(c->due_ms > w->f.now_ms);
                here_n += is_member(w, node);
            }
        }
        assert_true(w->members_n == 0 || here_n < w->members_n);
    }
}

static void happen(struct world *w)
{
    uint32_t node = (uint32_t)prng_between(&w->p, 1, NODES);
    uint64_t what = prng_below(&w->p, 1000);

    if (what < 600) {
        begin_call(w, node, (uint32_t)prng_below(&w->p, TAGS),
                   (uint32_t)prng_below(&w->p, prng_chance(&w->p, 100000) ? 2 : 400));
    } else if (what < 800) {
        link_node(w, node);
    } else if (what < 830) {
        unlink_node(w, node);
    } else if (what < 850) {
        new_life(w, node);
    } else if (what < 880) {
        change_members(w, false);
    } else if (what < 884) {
        restart(w);
    } else {
        w->f.now_ms += prng_below(&w->p, 60);
    }
    sync_tick(w->f.s, w->f.now_ms, &w->f.fx);
    deliver(w, 20000);
    check_nothing_is_due(w);
}

/* A worker that nobody answers gives up by itself, a while later. */
static void give_up(struct world *w)
{
    for (uint32_t node = 1; node <= NODES; node++) {
        for (uint32_t tag = 0; tag < TAGS; tag++) {
            struct call *c = &w->workers[node].calls[tag];

            if (c->waiting && c->due_ms + 200 < w->f.now_ms) {
                c->waiting = c->known = false;
            }
        }
    }
}

/* Faults are over: whoever missed something hears so once, and then all go on together. */
static void heal(struct world *w)
{
    uint32_t before_n = 0;

    change_members(w, true);
    deliver(w, 0);
    for (int round = 0; round < 6; round++) {
        before_n = w->answered_n;
        for (uint32_t node = 1; node <= NODES; node++) {
            link_node(w, node);
            deliver(w, 0);
            begin_call(w, node, 0, 10000);
            deliver(w, 0);
        }
        for (uint32_t node = 1; node <= NODES; node++) { /* Those who were told. */
            begin_call(w, node, 0, 10000);
            deliver(w, 0);
        }
    }
    assert_true(w->answered_n >= before_n + NODES);
}

static void run_seed(uint64_t seed, int events, struct world *w)
{
    sync_kit_open(&w->f, &(struct sync_config){2, 8, 32, 16384, 500});
    prng_init(&w->p, seed);
    w->generation = w->members_n = w->rounds_n = w->puts_n = w->parts_n = 0;
    w->answered_n = w->timed_out_n = w->missed_n = w->restarts_n = 0;
    for (uint32_t node = 1; node <= NODES; node++) {
        w->workers[node] = (struct worker){.life = 1, .linked = true};
    }
    for (int i = 0; i < events; i++) {
        happen(w);
        give_up(w);
    }
    heal(w);
    sync_close(w->f.s);
}

static void whatever_happens_nobody_gets_a_mixed_answer(void **state)
{
    const char *seeds = getenv("MUSTER_TEST_FULL") != NULL ? "20000" : "400";
    uint64_t answered_n = 0, timed_out_n = 0, missed_n = 0;

    for (uint64_t seed = 1; seed <= strtoull(seeds, NULL, 10); seed++) {
        world.seed = seed;
        run_seed(seed, 1500, &world);
        answered_n += world.answered_n;
        timed_out_n += world.timed_out_n;
        missed_n += world.missed_n;
    }
    /* All of it has happened, and often. */
    assert_true(answered_n > 1000 && timed_out_n > 1000 && missed_n > 20);
}

static int say_seed(void **state)
{
    print_message("# the last seed was %llu\n", (unsigned long long)world.seed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(whatever_happens_nobody_gets_a_mixed_answer, say_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
