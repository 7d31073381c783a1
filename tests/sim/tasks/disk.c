/* The journal: appended, synced later or never, applied when durable; a snapshot in pieces. */
#include "sim/tasks/world.h"

#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

struct world *disk_world;

static void put(struct tasks_out *to, const struct tasks_record *r)
{
    disk_put(disk_world, r);
}

struct tasks_out disk_out = {put};

static struct bytes encode(const struct tasks_record *r)
{
    size_t n = wire_record_size((enum wire_type)r->kind, &r->u);
    struct bytes b = {malloc(n), n};

    mu_assert(b.p != NULL);
    mu_assert(wire_record_encode((enum wire_type)r->kind, &r->u, b.p, n, &n) == MU_OK);
    return b;
}

static struct tasks_record decode(struct bytes b)
{
    static uint8_t mem[1u << 20];
    struct wire_scratch scratch = {.mem = mem, .cap = sizeof(mem)};
    struct tasks_record r = {0};
    union wire_any any;
    unsigned type;

    mu_assert(wire_record_decode(b.p, b.n, &type, &any, &scratch, NULL) == MU_OK);
    r.kind = (enum tasks_kind)type;
    memcpy(&r.u, &any, sizeof(r.u));
    return r;
}

static void drop(struct bytes *all, uint32_t *n)
{
    while (*n > 0) {
        free(all[--*n].p);
    }
}

void disk_free(struct disk *d)
{
    drop(d->snapshot, &d->snapshot_n);
    drop(d->fresh, &d->fresh_n);
    drop(d->log, &d->log_n);
    drop(d->queue, &d->queue_n);
}

void disk_put(struct world *w, const struct tasks_record *r)
{
    struct disk *d = &w->disk;

    mu_assert(d->queue_n < ARRAY_LEN(d->queue) && d->log_n + d->queue_n < LOG_MAX);
    d->queue[d->queue_n++] = encode(r);
    if (w->sync_ms == 0) {
        w->sync_ms = w->now_ms + world_between(w, 0, w->healed ? 10 : 300);
    }
}

static void apply(struct world *w, struct tasks *to, struct bytes b, const char *whose)
{
    struct tasks_record r = decode(b);
    int rc = tasks_apply(to, &r);

    if (rc != MU_OK && !w->failed) {
        world_fail(w, "a durable record of kind %d contradicts %s state: %s", (int)r.kind, whose,
                   mu_strerror(rc));
    }
}

/* Answers that waited for a record leave when it is applied. */
static void answer(struct world *w, uint32_t record)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < w->waiting_n; i++) {
        struct message *m = &w->waiting[i];

        if (m->record == record) {
            struct message *to = world_send(w, MSG_VERDICTS, m->worker);

            if (to != NULL) {
                uint64_t at_ms = to->at_ms;

                *to = *m;
                to->at_ms = at_ms;
            }
        } else {
            w->waiting[kept++] = *m;
        }
    }
    w->waiting_n = kept;
}

static void sync_all(struct world *w)
{
    struct disk *d = &w->disk;
    bool fails = !w->healed && prng_chance(&w->prng, 30000);
    uint32_t n = d->queue_n;
    struct bytes batch[ARRAY_LEN(d->queue)];

    w->sync_ms = 0;
    memcpy(batch, d->queue, n * sizeof(batch[0]));
    d->queue_n = 0;
    if (fails) {
        w->waiting_n = 0; /* They will ask again. */
    }
    for (uint32_t i = 0; i < n; i++) {
        struct tasks_record r = decode(batch[i]);

        if (fails) {
            tasks_failed(w->tasks, &r);
            free(batch[i].p);
            continue;
        }
        d->log[d->log_n++] = batch[i];
        check_record(w, &r);
        apply(w, w->tasks, batch[i], "the live");
        answer(w, d->log_n);
    }
    tasks_tick(w->tasks, w->now_ms, &disk_out);
}

/* ---- snapshots ---- */

struct collect {
    struct tasks_out base;
    struct bytes *to;
    uint32_t *n;
};

static void collect_put(struct tasks_out *to, const struct tasks_record *r)
{
    struct collect *c = (struct collect *)to;

    mu_assert(*c->n < 256);
    c->to[(*c->n)++] = encode(r);
}

static void shadow_turn(struct world *w)
{
    struct disk *d = &w->disk;
    struct collect c = {{collect_put}, d->fresh, &d->fresh_n};

    if (!d->dumping) {
        for (; d->shadow_n < d->log_n; d->shadow_n++) {
            apply(w, w->shadow, d->log[d->shadow_n], "the shadow's");
        }
        if (prng_chance(&w->prng, 10000)) {
            d->dumping = true;
            d->at = (struct tasks_cursor){0, 0};
        }
    } else if (!tasks_dump(w->shadow, &d->at, &c.base)) {
        drop(d->snapshot, &d->snapshot_n);
        memcpy(d->snapshot, d->fresh, d->fresh_n * sizeof(d->fresh[0]));
        d->snapshot_n = d->fresh_n;
        d->fresh_n = 0;
        d->fence = d->shadow_n;
        d->dumping = false;
    }
}

void disk_turn(struct world *w)
{
    if (w->sync_ms != 0 && w->now_ms >= w->sync_ms) {
        sync_all(w);
    }
    shadow_turn(w);
}

static void replay(struct world *w, struct tasks **to)
{
    struct disk *d = &w->disk;

    tasks_close(*to);
    world_open_tasks(to);
    for (uint32_t i = 0; i < d->snapshot_n; i++) {
        apply(w, *to, d->snapshot[i], "a snapshot's");
    }
    for (uint32_t i = d->fence; i < d->log_n; i++) {
        apply(w, *to, d->log[i], "the replayed");
    }
}

static uint32_t dump(struct tasks *t, struct bytes *to)
{
    uint32_t n = 0;
    struct collect c = {{collect_put}, to, &n};
    struct tasks_cursor at = {0, 0};

    while (tasks_dump(t, &at, &c.base)) {
    }
    return n;
}

static void compare(struct world *w, struct tasks *a, struct tasks *b, const char *what)
{
    struct bytes of_a[256], of_b[256];
    uint32_t a_n = dump(a, of_a), b_n = dump(b, of_b);
    bool same = a_n == b_n;

    for (uint32_t i = 0; same && i < a_n; i++) {
        same = of_a[i].n == of_b[i].n && memcmp(of_a[i].p, of_b[i].p, of_a[i].n) == 0;
    }
    drop(of_a, &a_n);
    drop(of_b, &b_n);
    if (!same && !w->failed) {
        world_fail(w, "%s differs from the live state", what);
    }
}

/* All that is durable was applied, so the live state is what is on the disk. */
void disk_check(struct world *w)
{
    replay(w, &w->other);
    compare(w, w->tasks, w->other, "what was replayed");
    if (!w->disk.dumping && w->disk.shadow_n == w->disk.log_n) {
        compare(w, w->tasks, w->shadow, "the shadow");
    }
}

void disk_crash(struct world *w)
{
    struct disk *d = &w->disk;

    disk_check(w);
    drop(d->queue, &d->queue_n);
    drop(d->fresh, &d->fresh_n);
    for (uint32_t i = 0; i < w->messages_n;
         i++) { /* What was sent to it goes with its connections. */
        w->messages[i].at_ms = w->messages[i].kind == MSG_GIVEN ? w->messages[i].at_ms : 0;
    }
    w->sync_ms = 0;
    w->waiting_n = 0;
    d->dumping = false;
    struct tasks *old = w->tasks;
    w->tasks = w->other; /* replayed just now */
    w->other = old;
    replay(w, &w->shadow);
    d->shadow_n = d->log_n;
    w->life++;
    w->life_ms = w->now_ms;
    w->crashes_n++;
    tasks_start(w->tasks, w->now_ms, LEASE_MS);
    tasks_tick(w->tasks, w->now_ms, &disk_out);
    workers_claim(w);
}
