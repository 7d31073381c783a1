/* The shadows, and their dump at the fence. See journal.h. */
#include "base/log.h"
#include "core/mutation.h"
#include "journal/journal_state.h"

#include <inttypes.h>
#include <stdlib.h>

#define GROWN_RECORDS 4096
#define GROWN_BYTES (8u << 20)
#define PIECE_BYTES (128u << 10)
#define AGAIN_MS 60000
#define CATCH_UP_N 512 /* in one turn: leases are renewed between two */

/* ---- the shadows ---- */

static void follow(struct journal *j, const struct record *r)
{
    int rc = j->snap.broken ? MU_OK : machines_apply(j->shadow, j->n, r, false);

    if (rc != MU_OK) {
        j->snap.broken = true;
        log_error("journal",
                  "a second copy of the state could not take a '%s' record (%s): no snapshot is "
                  "made from now on, and the journal grows. Restart this process soon",
                  record_name(r->kind), mu_strerror(rc));
    }
}

bool snapshot_take(struct journal *j, struct entry *e, const struct record *r)
{
    struct snapshot *s = &j->snap;

    if (!j->has_shadows || s->broken) {
        return false;
    }
    if (RULE(FENCE_HOLDS, !s->on && STAILQ_EMPTY(&s->behind))) {
        follow(j, r);
        return false;
    }
    STAILQ_INSERT_TAIL(&s->behind, e, link);
    return true;
}

static void catch_up(struct journal *j)
{
    struct wire_fault fault;
    struct record r;

    for (int i = 0; i < CATCH_UP_N && !STAILQ_EMPTY(&j->snap.behind); i++) {
        struct entry *e = STAILQ_FIRST(&j->snap.behind);

        mu_assert(journal_decode(j, e->bytes, e->n, &r, &fault) == MU_OK);
        follow(j, &r);
        STAILQ_REMOVE_HEAD(&j->snap.behind, link);
        free(e);
    }
    if (!STAILQ_EMPTY(&j->snap.behind) && j->config.notify.fn != NULL) {
        j->config.notify.fn(j->config.notify.arg);
    }
}

/* ---- a piece ---- */

struct piece {
    struct sink to; /* first */
    struct journal *j;
    struct store_bytes *rows;
    size_t n, cap, bytes;
    bool failed;
};

/* The bytes are given. False: out of memory. */
static bool add_row(struct piece *p, uint8_t *bytes, size_t n)
{
    if (p->n == p->cap) {
        size_t cap = p->cap * 2 + 64;
        struct store_bytes *more = realloc(p->rows, cap * sizeof(*more));

        if (more == NULL) {
            free(bytes);
            return false;
        }
        p->rows = more;
        p->cap = cap;
    }
    p->rows[p->n++] = (struct store_bytes){bytes, n};
    p->bytes += n;
    return true;
}

static bool add_parts(struct piece *p, uint8_t *bytes, size_t n)
{
    bool ok = true;

    for (uint32_t i = 0; ok && i < parts_n(n); i++) {
        uint8_t *room = malloc(STORE_RECORD_MAX);

        ok = room != NULL && add_row(p, room, part_at(bytes, n, i, room).n);
    }
    free(bytes);
    return ok;
}

static void put(struct sink *to, const struct record *r)
{
    struct piece *p = (struct piece *)to;
    const struct codec *codec = journal_codec(p->j, r->kind);
    size_t n = codec->size(r);
    uint8_t *bytes = p->failed ? NULL : malloc(n);

    if (bytes == NULL) {
        p->failed = true;
        return;
    }
    codec->encode(r, bytes, n);
    p->failed = parts_n(n) == 1 ? !add_row(p, bytes, n) : !add_parts(p, bytes, n);
}

/* The rest of the dump, up to the size of a piece. True: that was all. */
static bool fill(struct journal *j, struct piece *p)
{
    struct snapshot *s = &j->snap;
    size_t most = j->config.piece_bytes != 0 ? j->config.piece_bytes : PIECE_BYTES;

    while (s->machine < j->n && p->bytes < most && !p->failed) {
        const struct machine_live *m = &j->shadow[s->machine];

        if (!m->machine->dump(m->state, &s->at, &p->to)) {
            s->machine++;
            s->at = (struct cursor){0};
        }
    }
    return s->machine == j->n;
}

static void write_piece(struct journal *j)
{
    struct snapshot *s = &j->snap;
    struct piece p = {.to.put = put, .j = j};
    int rc;

    s->last = fill(j, &p);
    s->size_n += p.n;
    s->size_bytes += p.bytes;
    rc = p.failed ? MU_ENOMEM
                  : store_snapshot(j->store, s->fence, p.rows, p.n, s->last, COOKIE_SNAPSHOT);
    for (size_t i = 0; i < p.n; i++) {
        free((void *)(uintptr_t)p.rows[i].data);
    }
    free(p.rows);
    s->writing = true;
    if (rc != MU_OK) {
        snapshot_done(j, rc);
    }
}

/* ---- when ---- */

/* As much again as the last one had: so the work of snapshots stays in proportion. */
static bool is_due(const struct journal *j)
{
    const struct snapshot *s = &j->snap;
    uint64_t grown_n = j->seq - store_snapshot_seq(j->store);
    uint64_t most_n = j->config.grown_records != 0 ? j->config.grown_records : GROWN_RECORDS;
    uint64_t most = j->config.grown_bytes != 0 ? j->config.grown_bytes : GROWN_BYTES;

    if (j->seq <= store_snapshot_seq(j->store) || j->now_ms < s->again_ms) {
        return false;
    }
    return s->wanted || grown_n > MAX(most_n, s->last_n) || j->bytes > MAX(most, s->last_bytes);
}

void snapshot_turn(struct journal *j)
{
    struct snapshot *s = &j->snap;

    if (!j->has_shadows || s->broken || j->fenced) {
        return;
    }
    if (!s->on) {
        catch_up(j);
    }
    if (!s->on && STAILQ_EMPTY(&s->behind) && is_due(j)) {
        s->on = true;
        s->wanted = false;
        s->fence = j->seq;
        s->bytes = j->bytes;
        s->machine = 0;
        s->at = (struct cursor){0};
        s->size_n = s->size_bytes = 0;
    }
    if (s->on && !s->writing) {
        write_piece(j);
    }
}

void snapshot_done(struct journal *j, int status)
{
    struct snapshot *s = &j->snap;

    s->writing = false;
    if (status == MU_OK && !s->last) {
        return;
    }
    s->on = false;
    if (status == MU_OK) {
        j->bytes -= s->bytes;
        s->last_n = s->size_n;
        s->last_bytes = s->size_bytes;
        log_debug("journal", "a snapshot of %" PRIu64 " rows stands for rows 1 to %" PRIu64,
                  s->size_n, s->fence);
        return;
    }
    s->again_ms = j->now_ms + AGAIN_MS;
    log_warn("journal",
             "no snapshot could be made (%s): the journal goes on growing, and it is "
             "tried again in a minute",
             mu_strerror(status));
}

void snapshot_close(struct journal *j)
{
    while (!STAILQ_EMPTY(&j->snap.behind)) {
        struct entry *e = STAILQ_FIRST(&j->snap.behind);

        STAILQ_REMOVE_HEAD(&j->snap.behind, link);
        free(e);
    }
}
