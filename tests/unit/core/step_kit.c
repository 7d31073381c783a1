#include "unit/core/step_kit.h"

#include <stdlib.h>
#include <string.h>

struct crew crew;

struct crew_effects {
    struct step_effects base;
    uint32_t i;
};

/* ---- how they stand ---- */

struct step *worker(uint32_t i)
{
    return &crew.men[i].step;
}

wid id_of(uint32_t i)
{
    return wid_make(i + 1, 0, 1);
}

uint64_t committed(uint32_t i)
{
    return step_committed(worker(i));
}

uint64_t in_generation(uint32_t i)
{
    return term_generation(step_term(worker(i)));
}

uint32_t in_round(uint32_t i)
{
    return term_round(step_term(worker(i)));
}

uint64_t agreed(uint32_t i)
{
    struct report r;

    step_report(worker(i), &r);
    return r.agreed;
}

static struct step_todo todo_of(uint32_t i)
{
    struct step_todo todo;

    step_next(worker(i), &todo);
    return todo;
}

enum step_do next(uint32_t i)
{
    return todo_of(i).what;
}

uint64_t due_ms(uint32_t i)
{
    return todo_of(i).due_ms;
}

void expect_apart(uint32_t i, const char *whom)
{
    const struct report *told = &crew.men[i].report;
    struct report now = {0};

    step_report(worker(i), &now);
    assert_int_equal(told->apart_n, strlen(whom));
    assert_int_equal(now.apart_n, strlen(whom));
    for (uint32_t k = 0; k < told->apart_n; k++) {
        assert_int_equal(told->apart[k].peer, id_of((uint32_t)(whom[k] - '0')));
        assert_int_equal(now.apart[k].peer, told->apart[k].peer);
    }
}

static const struct letter *letter_of(uint32_t i, bool settles)
{
    for (uint32_t k = 0; k < crew.letters_n; k++) {
        if (crew.letters[k].from == i && crew.letters[k].settles == settles) {
            return &crew.letters[k];
        }
    }
    fail_msg("%u has said no %s", i, settles ? "SETTLE" : "READY");
    return NULL;
}

const struct msg_ready *ready_of(uint32_t i)
{
    return &letter_of(i, false)->ready;
}

const struct msg_settle *settle_of(uint32_t i)
{
    return &letter_of(i, true)->settle;
}

/* ---- what workers say ---- */

static struct letter *new_letter(uint32_t from, uint64_t term)
{
    struct letter *l = &crew.letters[crew.letters_n++];

    assert_true(crew.letters_n <= ARRAY_LEN(crew.letters));
    memset(l, 0, sizeof(*l));
    l->from = from;
    l->term = term;
    memcpy(l->key, step_group(worker(from))->g.key, sizeof(l->key));
    return l;
}

static void stopped(struct crewman *m, const struct step_effect *e)
{
    m->stops_n++;
    m->difference = e->difference;
    m->most = e->most;
    m->odd_n = e->odd_n;
    memcpy(m->odd, e->odd, e->odd_n * sizeof(*e->odd));
}

/* One lineage: of a step one result counts, whoever commits it. */
static void commit(struct crewman *m, const struct step_effect *e)
{
    uint64_t *made_in = &crew.made_in[e->step];

    assert_true(e->step < CREW_STEPS);
    assert_true(*made_in == 0 || *made_in == m->result_in);
    *made_in = m->result_in;
    m->commits_n++;
    m->settled_n += e->settled;
    m->save_step = e->save ? e->step : m->save_step;
    slices_clear(&m->kept);
    slices_clear(&m->computed);
}

static void emit(struct step_effects *base, const struct step_effect *e)
{
    uint32_t i = ((struct crew_effects *)base)->i;
    struct crewman *m = &crew.men[i];
    struct letter *l;

    switch (e->kind) {
    case STEP_REPORT:
        memset(&m->report, 0, sizeof(m->report));
        step_report(&m->step, &m->report);
        m->reports_n++;
        break;
    case STEP_DROP:
        slices_clear(&m->kept);
        slices_clear(&m->computed);
        m->drops_n++;
        break;
    case STEP_COMMIT:
        commit(m, e);
        break;
    case STEP_SEND_READY:
        new_letter(i, e->term)->ready = *e->ready;
        m->readies_n++;
        break;
    case STEP_SEND_SETTLE:
        l = new_letter(i, e->term);
        l->settles = true;
        l->settle = *e->settle;
        m->settles_n++;
        break;
    case STEP_SAVED:
        m->saved_step[e->place] = e->step;
        break;
    case STEP_UNSAVED:
        m->unsaved_n[e->place]++;
        m->unsaved[e->place] = e->unsaved;
        break;
    case STEP_DIVERGED:
        stopped(m, e);
        break;
    }
}

void event(uint32_t i, struct step_event e)
{
    struct crew_effects fx = {.base.emit = emit, .i = i};

    e.now_ms = crew.now_ms;
    step_event(worker(i), &e, &fx.base);
}

/* ---- what they are told ---- */

struct generation *generation(uint64_t number, enum generation_kind kind, uint64_t from,
                              uint8_t flags, const char *members)
{
    static struct member list[8][CREW_N];
    static struct generation all[8];
    struct generation *g = &all[number % 8];

    *g = (struct generation){.run = 1,
                             .number = number,
                             .from = from,
                             .kind = (uint8_t)kind,
                             .flags = flags,
                             .members = list[number % 8]};
    memset(g->key, (int)number, sizeof(g->key));
    for (; *members != '\0'; members++) {
        if (*members == '+') {
            g->members[g->members_n - 1].flags = 0;
        } else if (*members != ' ') {
            g->members[g->members_n++] =
                (struct member){.worker = id_of((uint32_t)(*members - '0')),
                                .flags = kind == GENERATION_FRESH ? 0 : MEMBER_CAUGHT_UP};
        }
    }
    if (kind == GENERATION_FRESH) { /* a lineage of its own */
        memset(crew.made_in, 0, sizeof(crew.made_in));
    }
    return g;
}

void tell(uint32_t i, const struct generation *g)
{
    struct membership *m;

    assert_int_equal(membership_open(g, &m), MU_OK);
    event(i, (struct step_event){.kind = STEP_ON_GENERATION, .u.membership = m});
    membership_close(m);
    crew.men[i].news = true;
}

void tell_all(const struct generation *g)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        if (!crew.men[i].gone) {
            tell(i, g);
        }
    }
}

void tell_active(uint32_t i, uint64_t number)
{
    event(i, (struct step_event){.kind = STEP_ON_ACTIVE, .generation = number});
}

void tell_active_all(uint64_t number)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        if (!crew.men[i].gone) {
            tell_active(i, number);
        }
    }
}

void lease(uint32_t i)
{
    event(i, (struct step_event){.kind = STEP_ON_LEASE, .time_ms = crew.now_ms});
}

void later(uint64_t ms)
{
    crew.now_ms += ms;
    for (uint32_t i = 0; i < CREW_N; i++) {
        event(i, (struct step_event){.kind = STEP_ON_TICK});
    }
}

void want_save(uint32_t i)
{
    event(i, (struct step_event){.kind = STEP_ON_SAVE});
}

void nudge(uint32_t i)
{
    event(i, (struct step_event){.kind = STEP_ON_NUDGED});
}

void links(uint32_t i)
{
    wid missing[CREW_N];
    struct step_event e = {.kind = STEP_ON_LINKS, .u.missing = missing};

    for (uint32_t k = 0; k < CREW_N; k++) {
        if (crew.apart[i][k] || crew.men[k].gone) {
            missing[e.missing_n++] = id_of(k);
        }
    }
    crew.men[i].news = false;
    event(i, e);
}

void part(uint32_t a, uint32_t b, bool apart)
{
    crew.apart[a][b] = crew.apart[b][a] = apart;
    links(a);
    links(b);
}

void written(uint32_t i, enum save_place place, enum save_how how)
{
    const struct attempt *a = &crew.men[i].cut[place];

    event(i, (struct step_event){.kind = STEP_ON_SAVED,
                                 .place = place,
                                 .step = a->step,
                                 .generation = a->generation,
                                 .how = (uint8_t)how});
}

/* ---- what drivers do ---- */

static struct step_todo expect_next(uint32_t i, enum step_do what)
{
    struct step_todo todo = todo_of(i);

    assert_int_equal(todo.what, what);
    return todo;
}

void cut(uint32_t i)
{
    const struct step_todo todo = expect_next(i, STEP_SAVE);
    uint32_t writer, n = 1;

    if (!todo.alone) {
        (void)step_writes(worker(i), todo.place, &writer, &n);
    }
    crew.men[i].cut[todo.place] =
        (struct attempt){.step = todo.step, .generation = in_generation(i)};
    crew.men[i].cut_alone[todo.place] = todo.alone;
    event(i, (struct step_event){.kind = STEP_ON_CUT,
                                 .place = todo.place,
                                 .term = todo.term,
                                 .step = todo.step,
                                 .shards_n = MIN(n, crew.shards_n),
                                 .how = SAVE_WRITING});
}

static uint32_t member_of(const struct generation *g, uint32_t rank)
{
    for (uint32_t k = 0; k < CREW_N; k++) {
        if (step_self(worker(k)) == g->members[rank].worker) {
            return k;
        }
    }
    return CREW_N; /* another life */
}

/* Does `k` do this with `i`, or has it already, in the same term? */
static bool takes_part(uint32_t k, uint32_t i, enum step_do what)
{
    if (k == CREW_N || crew.men[k].gone || crew.apart[i][k] ||
        step_term(worker(k)) != step_term(worker(i))) {
        return false;
    }
    switch (what) {
    case STEP_MOVE:
        return step_there(worker(k)) || next(k) == what;
    case STEP_REDUCE:
        return committed(k) == committed(i) + 1 ||
               (committed(k) == committed(i) && (next(k) == what || step_holds(worker(k))));
    default:
        return next(k) == what;
    }
}

static bool all_take_part(uint32_t i, enum step_do what)
{
    const struct generation *g = &step_group(worker(i))->g;

    for (uint32_t r = 0; r < g->members_n; r++) {
        if (!takes_part(member_of(g, r), i, what)) {
            return false;
        }
    }
    return true;
}

void move(uint32_t i)
{
    struct step_todo todo = expect_next(i, STEP_MOVE);

    assert_true(all_take_part(i, STEP_MOVE));
    event(i, (struct step_event){.kind = STEP_ON_MOVED, .term = todo.term});
}

void base(uint32_t i, uint64_t step, const char *holders)
{
    struct step_todo todo = expect_next(i, STEP_BASE);
    uint8_t holds[CREW_N] = {0};

    for (; *holders != '\0'; holders++) {
        holds[*holders - '0'] = 1;
    }
    event(i, (struct step_event){
                 .kind = STEP_ON_BASE, .term = todo.term, .step = step, .u.holds = holds});
}

void stream(uint32_t i, uint64_t step)
{
    struct step_todo todo = expect_next(i, STEP_STREAM);

    assert_true(committed(i) == 0 || step_applied(worker(i)));
    event(i, (struct step_event){.kind = STEP_ON_STREAMED, .term = todo.term, .step = step});
}

void show(uint32_t i)
{
    struct step_todo todo = expect_next(i, STEP_SHOW);

    assert_int_equal(todo.step, committed(i));
    event(i, (struct step_event){.kind = STEP_ON_SHOWN, .step = todo.step});
}

void apply(uint32_t i)
{
    if (next(i) == STEP_SHOW) {
        show(i);
    }
    assert_false(step_applied(worker(i)));
    event(i, (struct step_event){.kind = STEP_ON_APPLIED, .step = committed(i)});
    if (!crew.no_digests && next(i) == STEP_DIGEST) {
        digest(i);
    }
}

void digest(uint32_t i)
{
    struct step_todo todo = expect_next(i, STEP_DIGEST);
    uint8_t hash[HASH_BYTES] = {2, (uint8_t)todo.step, crew.men[i].odd_digest};

    crew.men[i].digests_n++;
    event(i, (struct step_event){.kind = STEP_ON_DIGEST, .step = todo.step, .u.hash = hash});
}

bool computed(uint32_t i, uint64_t generation, uint64_t step, uint32_t slice)
{
    struct crew_effects fx = {.base.emit = emit, .i = i};

    if (!step_computed(worker(i), step, slice, generation, crew.now_ms, &fx.base)) {
        return false;
    }
    slices_add(&crew.men[i].kept, slice);
    return true;
}

static void check(uint32_t i, const struct step_todo *todo)
{
    uint8_t hash[HASH_BYTES] = {1, (uint8_t)todo->slice, crew.men[i].odd_check};
    struct step_event e = {.kind = STEP_ON_CHECKED, .step = todo->step, .u.hash = hash};

    e.slice = todo->slice;
    crew.men[i].checks_n++;
    event(i, e);
}

void compute_one(uint32_t i)
{
    struct step_todo todo = expect_next(i, STEP_GIVE);
    struct crewman *m = &crew.men[i];
    bool last;

    assert_true(step_applied(worker(i)) && todo.step == committed(i) + 1);
    if (todo.hash) {
        check(i, &todo);
    }
    if (todo.alone) {
        return;
    }
    assert_false(slices_has(&m->computed, todo.slice)); /* Nothing is computed twice. */
    slices_add(&m->computed, todo.slice);
    m->computed_n++;
    last = step_is_last(worker(i), todo.slice);
    assert_true(computed(i, term_generation(todo.term), todo.step, todo.slice));
    assert_int_equal(last, next(i) == STEP_REDUCE);
}

void compute(uint32_t i)
{
    while (next(i) == STEP_GIVE) {
        compute_one(i);
    }
}

void reduced(uint32_t i, uint64_t term, uint64_t step)
{
    event(i, (struct step_event){.kind = STEP_ON_REDUCED, .term = term, .step = step});
}

void reduce(uint32_t i)
{
    struct step_todo todo = expect_next(i, STEP_REDUCE);
    struct slices mine;

    plan_slices(step_plan(worker(i)), step_rank(worker(i)), &mine);
    for (uint32_t s = slices_next(&mine, 0); s < SLICES_MAX; s = slices_next(&mine, s + 1)) {
        assert_true(slices_has(&crew.men[i].kept, s)); /* It has what it contributes. */
    }
    crew.men[i].result_in = todo.term;
    reduced(i, todo.term, todo.step);
}

void claimed(uint32_t i, uint64_t term)
{
    event(i, (struct step_event){.kind = STEP_ON_CLAIM, .term = term});
}

void broken(uint32_t i, uint32_t peer, uint64_t idle_ms)
{
    event(i, (struct step_event){.kind = STEP_ON_BROKEN,
                                 .term = step_term(worker(i)),
                                 .peer = id_of(peer),
                                 .idle_ms = idle_ms});
}

void snap(uint32_t a, uint32_t b)
{
    for (uint32_t i = 0; i < crew.letters_n; i++) {
        struct letter *l = &crew.letters[i];

        l->lost[b] |= l->from == a;
        l->lost[a] |= l->from == b;
    }
    broken(a, b, 0);
    broken(b, a, 0);
}

static void deliver_one(const struct letter *l)
{
    for (uint32_t to = 0; to < CREW_N; to++) {
        struct step_event e = {.term = l->term, .key = l->key};

        if (to == l->from || crew.men[to].gone || l->lost[to]) {
            continue;
        }
        e.kind = l->settles ? STEP_ON_SETTLE : STEP_ON_READY;
        if (l->settles) {
            e.u.settle = &l->settle;
        } else {
            e.u.ready = &l->ready;
        }
        event(to, e);
    }
}

void deliver(void)
{
    for (uint32_t i = 0; i < crew.letters_n; i++) {
        struct letter l = crew.letters[i];

        deliver_one(&l);
    }
    crew.letters_n = 0;
}

void lose_letters(void)
{
    crew.letters_n = 0;
}

void hold(uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        compute(i);
    }
    for (uint32_t i = 0; i < n; i++) {
        reduce(i);
    }
}

void move_all(void)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        if (!crew.men[i].gone && next(i) == STEP_SHOW) {
            apply(i);
        }
    }
    for (uint32_t i = 0; i < CREW_N; i++) {
        if (!crew.men[i].gone && next(i) == STEP_MOVE) {
            move(i);
        }
    }
}

/* ---- all of it ---- */

/* Those who lack the state get that of the first who has it. */
static void stream_all(uint32_t i)
{
    const struct generation *g = &step_group(worker(i))->g;
    uint32_t giver = 0;

    while (step_holders(worker(i))[giver] == 0) {
        giver++;
    }
    for (uint32_t r = 0; r < g->members_n; r++) {
        assert_int_equal(step_holders(worker(member_of(g, r)))[giver], 1);
        stream(member_of(g, r), committed(member_of(g, giver)));
    }
}

static void base_all(uint32_t i)
{
    const struct generation *g = &step_group(worker(i))->g;

    for (uint32_t r = 0; r < g->members_n; r++) {
        base(member_of(g, r), g->base_step, "0");
    }
}

/* A member of its group proves to be in a further term, or to be on its way there. */
static bool hear_claim(uint32_t i)
{
    const uint64_t term = step_term(worker(i));
    const struct membership *m = step_group(worker(i));

    for (uint32_t r = 0; m != NULL && step_term(worker(i)) == term && r < m->g.members_n; r++) {
        uint32_t k = member_of(&m->g, r);

        if (k == CREW_N || k == i || crew.men[k].gone || crew.apart[i][k] ||
            step_term(worker(k)) <= term || (next(k) != STEP_MOVE && !step_there(worker(k)))) {
            continue;
        }
        if (next(i) == STEP_MOVE || in_generation(k) == in_generation(i)) {
            claimed(i, step_term(worker(k)));
        }
    }
    return step_term(worker(i)) != term;
}

static bool flow_together(uint32_t i, const struct step_todo *todo)
{
    if (hear_claim(i)) {
        return true;
    }
    if (!all_take_part(i, todo->what)) {
        return false;
    }
    if (todo->what == STEP_MOVE) {
        move(i);
    } else if (todo->what == STEP_BASE) {
        base_all(i);
    } else if (todo->what == STEP_STREAM) {
        stream_all(i);
    } else if (todo->step <= crew.stop_at) {
        reduce(i);
    } else {
        return false;
    }
    return true;
}

static bool flow_one(uint32_t i)
{
    const struct step_todo todo = todo_of(i);

    if (crew.men[i].gone) {
        return false;
    }
    if (crew.men[i].news) {
        links(i);
        return true;
    }
    switch (todo.what) {
    case STEP_SHOW:
        apply(i);
        return true;
    case STEP_DIGEST:
        digest(i);
        return true;
    case STEP_SAVE:
        cut(i);
        return true;
    case STEP_GIVE:
        if (todo.step > crew.stop_at) {
            return hear_claim(i);
        }
        compute(i);
        return true;
    case STEP_MOVE:
    case STEP_BASE:
    case STEP_STREAM:
    case STEP_REDUCE:
        return flow_together(i, &todo);
    case STEP_HEAR:
    case STEP_STOP:
    case STEP_FINISH:
        return hear_claim(i);
    default:
        return false;
    }
}

void flow(uint64_t stop_at)
{
    crew.stop_at = stop_at;
    for (int turns = 0;; turns++) {
        bool any = crew.letters_n > 0;

        deliver();
        for (uint32_t i = 0; i < CREW_N; i++) {
            any |= flow_one(i);
        }
        if (!any) {
            return;
        }
        assert_true(turns < 10000);
    }
}

void trained(uint32_t n, uint64_t step)
{
    static const char *const MEMBERS[] = {"", "0", "0 1", "0 1 2", "0 1 2 3", "0 1 2 3 4"};

    tell_all(generation(1, GENERATION_FRESH, 0, 0, MEMBERS[n]));
    flow(0);
    tell_active_all(1);
    flow(step);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(committed(i), step);
        assert_true(step_applied(worker(i)));
    }
}

/* ---- life ---- */

int crew_setup(void **state)
{
    memset(&crew, 0, sizeof(crew));
    crew.now_ms = 10000;
    crew.shards_n = CREW_N;
    crew_config((struct step_config){0});
    return 0;
}

void crew_config_one(uint32_t i, struct step_config config)
{
    config.self = id_of(i);
    config.slices_n = CREW_SLICES;
    config.members_max = CREW_N;
    config.orphan_ms = CREW_ORPHAN_MS;
    step_close(worker(i)); /* Closing is idempotent. */
    assert_int_equal(step_init(worker(i), &config), MU_OK);
    lease(i);
}

void crew_config(struct step_config config)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        crew_config_one(i, config);
    }
}

int crew_teardown(void **state)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        step_close(worker(i));
        step_close(worker(i));
    }
    return 0;
}
