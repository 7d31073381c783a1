#include "unit/core/step_kit.h"

#include <stdlib.h>
#include <string.h>

struct crew crew;

struct crew_effects {
    struct step_effects base;
    uint32_t i;
};

struct step *worker(uint32_t i)
{
    return &crew.men[i].step;
}

static wid id_of(uint32_t i)
{
    return wid_make(i + 1, 0, 1);
}

/* ---- what workers say ---- */

static struct letter *new_letter(uint32_t from, const struct group *g)
{
    struct letter *l = &crew.letters[crew.letters_n++];

    assert_true(crew.letters_n <= ARRAY_LEN(crew.letters));
    memset(l, 0, sizeof(*l));
    l->from = from;
    l->generation = g->number;
    memcpy(l->key, g->key, sizeof(l->key));
    return l;
}

static void ask_compute(struct crewman *m, const struct step_effect *e)
{
    if (m->asked_step != e->step) {
        slices_clear(&m->computed);
    }
    m->asked = *e->slices;
    m->asked_step = e->step;
}

static void stopped(struct crewman *m, const struct step_effect *e)
{
    m->stops_n++;
    m->difference = e->difference;
    m->most = e->most;
    m->odd_n = e->odd_n;
    memcpy(m->odd, e->odd, e->odd_n * sizeof(*e->odd));
}

static void emit(struct step_effects *base, const struct step_effect *e)
{
    uint32_t i = ((struct crew_effects *)base)->i;
    struct crewman *m = &crew.men[i];
    struct letter *l;

    switch (e->kind) {
    case STEP_REPORT:
        m->reports_n++;
        break;
    case STEP_LINK:
        m->link = true;
        m->links_n++;
        break;
    case STEP_BASE:
        m->base = true;
        m->base_step = e->step;
        break;
    case STEP_COMPUTE:
        ask_compute(m, e);
        break;
    case STEP_CHECK:
        m->check_step = e->step;
        m->check_slice = e->slice;
        break;
    case STEP_DIGEST:
        m->digest_step = e->step;
        break;
    case STEP_DIVERGED:
        stopped(m, e);
        break;
    case STEP_REDUCE:
        m->reduce_step = e->step;
        break;
    case STEP_CANCEL:
        m->reduce_step = 0;
        m->cancels_n++;
        break;
    case STEP_COMMIT:
        assert_int_equal(m->apply_step, 0); /* one at a time */
        m->apply_step = e->step;
        m->commits_n++;
        m->save_step = e->save ? e->step : m->save_step;
        break;
    case STEP_STREAM:
        m->stream = true;
        m->streams_n++;
        break;
    case STEP_SEND_READY:
        l = new_letter(i, e->group);
        l->ready = *e->ready;
        m->readies_n++;
        break;
    case STEP_SEND_SETTLE:
        l = new_letter(i, e->group);
        l->settles = true;
        l->settle = *e->settle;
        m->settles_n++;
        break;
    case STEP_FORGET:
        m->forgets_n++;
        break;
    }
}

static void step_it(uint32_t i, struct step_event *e)
{
    struct crew_effects fx = {.base.emit = emit, .i = i};

    e->now_ms = crew.now_ms;
    step_event(worker(i), e, &fx.base);
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
    return g;
}

void tell(uint32_t i, const struct generation *g)
{
    step_it(i, &(struct step_event){.kind = STEP_ON_GENERATION, .u.generation = g});
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
    step_it(i, &(struct step_event){.kind = STEP_ON_ACTIVE, .generation = number});
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
    step_it(i, &(struct step_event){.kind = STEP_ON_LEASE, .time_ms = crew.now_ms});
}

void later(uint64_t ms)
{
    crew.now_ms += ms;
    for (uint32_t i = 0; i < CREW_N; i++) {
        step_it(i, &(struct step_event){.kind = STEP_ON_TICK});
    }
}

/* ---- what drivers do ---- */

void check(uint32_t i)
{
    struct crewman *m = &crew.men[i];
    uint8_t hash[HASH_BYTES] = {1, (uint8_t)m->check_slice, m->odd_check};
    struct step_event e = {.kind = STEP_ON_CHECKED, .step = m->check_step, .u.hash = hash};

    e.slice = m->check_slice;
    m->checks_n += m->check_step != 0;
    m->check_step = 0;
    if (e.step != 0) {
        step_it(i, &e);
    }
}

void digest(uint32_t i)
{
    struct crewman *m = &crew.men[i];
    uint8_t hash[HASH_BYTES] = {2, (uint8_t)m->digest_step, m->odd_digest};
    struct step_event e = {.kind = STEP_ON_DIGEST, .step = m->digest_step, .u.hash = hash};

    m->digests_n += m->digest_step != 0;
    m->digest_step = 0;
    if (e.step != 0) {
        step_it(i, &e);
    }
}

void compute(uint32_t i)
{
    struct crewman *m = &crew.men[i];
    struct slices todo = m->asked;

    check(i);
    slices_clear(&m->asked);
    for (uint32_t s = slices_next(&todo, 0); s < SLICES_MAX; s = slices_next(&todo, s + 1)) {
        assert_false(slices_has(&m->computed, s)); /* Nothing is computed twice. */
        slices_add(&m->computed, s);
        m->computed_n++;
        step_it(i, &(struct step_event){.kind = STEP_ON_COMPUTED,
                                        .generation = worker(i)->group.number,
                                        .step = m->asked_step,
                                        .slice = s});
    }
}

void reduce(uint32_t i)
{
    uint64_t step = crew.men[i].reduce_step;

    crew.men[i].reduce_step = 0;
    step_it(i, &(struct step_event){
                   .kind = STEP_ON_REDUCED, .step = step, .generation = worker(i)->group.number});
}

void apply(uint32_t i)
{
    uint64_t step = crew.men[i].apply_step;

    crew.men[i].apply_step = 0;
    step_it(i, &(struct step_event){.kind = STEP_ON_APPLIED, .step = step});
    if (!crew.no_digests) {
        digest(i);
    }
}

void load(uint32_t i, uint64_t step)
{
    crew.men[i].base = false;
    step_it(i, &(struct step_event){
                   .kind = STEP_ON_LOADED, .step = step, .generation = worker(i)->group.number});
    if (!crew.no_digests) {
        digest(i);
    }
}

void linked(uint32_t i)
{
    crew.men[i].link = false;
    step_it(i, &(struct step_event){.kind = STEP_ON_LINKED, .generation = worker(i)->next.number});
}

void say_again(uint32_t i)
{
    step_it(i, &(struct step_event){.kind = STEP_ON_RESEND});
}

void want_save(uint32_t i)
{
    step_it(i, &(struct step_event){.kind = STEP_ON_SAVE});
}

static void deliver_one(const struct letter *l)
{
    for (uint32_t to = 0; to < CREW_N; to++) {
        struct step_event e = {.generation = l->generation, .key = l->key};

        if (to == l->from || crew.men[to].gone || crew.cut[l->from][to]) {
            continue;
        }
        e.kind = l->settles ? STEP_ON_SETTLE : STEP_ON_READY;
        if (l->settles) {
            e.u.settle = &l->settle;
        } else {
            e.u.ready = &l->ready;
        }
        step_it(to, &e);
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

/* ---- all of it ---- */

/* A reduce ends when every member takes part: it reduces that step too, or holds it. */
static bool reduce_can_end(uint32_t i)
{
    const struct step *s = worker(i);

    for (uint32_t k = 0; k < CREW_N; k++) {
        const struct step *p = worker(k);
        bool in = false;

        for (uint32_t r = 0; r < s->group.n; r++) {
            in |= s->group.ids[r] == p->config.self;
        }
        if (in && (p->group.number != s->group.number || p->committed > s->committed + 1 ||
                   (crew.men[k].reduce_step != s->committed + 1 && !p->holds &&
                    p->committed != s->committed + 1))) {
            return false;
        }
    }
    return true;
}

static bool stream(uint32_t i)
{
    const struct step *s = worker(i);
    bool any = false;

    crew.men[i].stream = false;
    for (uint32_t k = 0; k < CREW_N; k++) {
        if (!crew.men[k].gone && worker(k)->phase == STEP_LOADING && !crew.men[k].base &&
            worker(k)->group.number == s->group.number) {
            load(k, s->committed);
            any = true;
        }
    }
    return any;
}

static bool flow_one(uint32_t i)
{
    struct crewman *m = &crew.men[i];

    if (m->gone) {
        return false;
    }
    if (m->base) {
        load(i, m->base_step);
    } else if (m->apply_step != 0) {
        apply(i);
    } else if (m->stream) {
        return stream(i);
    } else if (m->link) {
        linked(i);
    } else if ((slices_count(&m->asked) > 0 || m->check_step != 0) &&
               MAX(m->asked_step, m->check_step) <= crew.stop_at) {
        compute(i);
    } else if (m->reduce_step != 0 && m->reduce_step <= crew.stop_at && reduce_can_end(i)) {
        reduce(i);
    } else {
        return false;
    }
    return true;
}

void flow(uint64_t stop_at)
{
    crew.stop_at = stop_at;
    for (int rounds = 0;; rounds++) {
        bool any = crew.letters_n > 0;

        deliver();
        for (uint32_t i = 0; i < CREW_N; i++) {
            any |= flow_one(i);
        }
        if (!any) {
            return;
        }
        assert_true(rounds < 10000);
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
        assert_int_equal(worker(i)->committed, step);
        assert_true(worker(i)->applied);
    }
}

int crew_setup(void **state)
{
    memset(&crew, 0, sizeof(crew));
    crew.now_ms = 10000;
    for (uint32_t i = 0; i < CREW_N; i++) {
        struct step_config config = {.self = id_of(i),
                                     .slices_n = CREW_SLICES,
                                     .members_max = CREW_N,
                                     .orphan_ms = CREW_ORPHAN_MS};

        assert_int_equal(step_init(worker(i), &config), MU_OK);
        lease(i);
    }
    return 0;
}

void crew_config(uint64_t digest_every, uint64_t check_every, bool keeps_none)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        worker(i)->config.digest_every = digest_every;
        worker(i)->config.check_every = check_every;
        worker(i)->config.keeps_none = keeps_none;
    }
}

int crew_teardown(void **state)
{
    for (uint32_t i = 0; i < CREW_N; i++) {
        step_close(worker(i));
        step_close(worker(i)); /* Closing is idempotent. */
    }
    return 0;
}
