/* Results that nobody copies: pages of several owners side by side, read-only.
 *
 * Rank r folds part r into a segment of its own; every rank maps it at the place of part r in an
 * address range of its own. So mapping happens once, and the next result of the same size finds
 * everything in place. There are two views of each size and lane, used in turn: before this rank
 * writes its part of one again, every peer has begun the call for it, and no peer begins a call
 * whose view it still shows (MU_ELIMIT). After a failed call or a change of the group that can't be
 * known, so all views are abandoned: their pages stay for whoever still looks at them, and are
 * never written again. */
#include "comm/exchange.h"
#include "comm/shm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define VIEWS_MAX 64 /* kept for the next result of their size */

struct view_part {
    uint32_t segment; /* whose pages are mapped; 0: none */
    uint64_t offset;
};

struct view {
    struct view *next;
    uint64_t bytes;
    uint32_t lane;
    struct extent mine;
    uint64_t used; /* when: grows from call to call */
    bool live;     /* the caller looks at it */
    bool busy;     /* the call is under way */
    bool abandoned;
    uint8_t *base;
    uint8_t *memory; /* this rank's part: its own segment, or in place */
    bool shared;
    uint32_t parts_n;
    struct view_part *parts; /* by rank */
};

static size_t pages(uint64_t bytes)
{
    return (size_t)((MAX(bytes, 1) + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN);
}

static void view_free(struct comm *c, struct view *v)
{
    if (v->base != NULL) {
        munmap(v->base, pages(v->bytes));
    }
    if (v->shared) {
        comm_free(c, v->memory);
    }
    free(v->parts);
    free(v);
}

/* Frees what nobody needs, of those that `all` or time has made useless. */
static void sweep(struct comm *c, bool all)
{
    struct view **at = &c->views.list;

    while (*at != NULL) {
        struct view *v = *at;
        if (all || (v->abandoned && !v->live && !v->busy)) {
            *at = v->next;
            view_free(c, v);
        } else {
            at = &v->next;
        }
    }
}

void views_close(struct comm *c)
{
    sweep(c, true);
}

void views_abandon(struct comm *c)
{
    pthread_mutex_lock(&c->views.lock);
    for (struct view *v = c->views.list; v != NULL; v = v->next) {
        v->abandoned = true;
    }
    sweep(c, false);
    pthread_mutex_unlock(&c->views.lock);
}

/* ---- making one ---- */

static struct view *view_make(struct op *op, uint64_t bytes, struct extent mine)
{
    struct view *v = calloc(1, sizeof(*v));
    const bool shared = op->c->exchange->has_shm && mine.hi > mine.lo;

    if (v == NULL) {
        return NULL;
    }
    v->bytes = bytes;
    v->lane = op->call->lane;
    v->mine = mine;
    v->parts_n = op->c->group.n;
    v->parts = calloc(v->parts_n, sizeof(*v->parts));
    v->base = mmap(NULL, pages(bytes), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    v->base = v->base == MAP_FAILED ? NULL : v->base;
    v->memory = shared ? comm_alloc(op->c, (size_t)(mine.hi - mine.lo)) : v->base + mine.lo;
    v->shared = shared && v->memory != NULL;
    if (v->parts == NULL || v->base == NULL || v->memory == NULL ||
        /* This rank's part is written through its own mapping, and read in its place of the view.
         */
        (v->shared && segment_show(op->c->segments, v->memory, pages(mine.hi - mine.lo),
                                   v->base + mine.lo) != MU_OK)) {
        view_free(op->c, v);
        return NULL;
    }
    return v;
}

/* The least recently used one that nobody looks at goes when there are too many. */
static void make_place(struct comm *c)
{
    struct view *oldest = NULL;
    uint32_t n = 0;

    for (struct view *v = c->views.list; v != NULL; v = v->next) {
        n++;
        if (!v->live && !v->busy && (oldest == NULL || v->used < oldest->used)) {
            oldest = v;
        }
    }
    if (n >= VIEWS_MAX && oldest != NULL) {
        oldest->abandoned = true;
        sweep(c, false);
    }
}

/* Of the two of this size and lane, the one that was not used last; NULL: it is not made yet. */
static struct view *find(struct comm *c, uint64_t bytes, uint32_t lane, struct extent mine)
{
    struct view *older = NULL;
    uint32_t n = 0;

    for (struct view *v = c->views.list; v != NULL; v = v->next) {
        if (v->bytes == bytes && v->lane == lane && v->mine.lo == mine.lo &&
            v->mine.hi == mine.hi && !v->abandoned) {
            n++;
            older = older == NULL || v->used < older->used ? v : older;
        }
    }
    return n == 2 ? older : NULL;
}

int view_take(struct op *op, uint64_t bytes, struct extent mine, struct view **view_out)
{
    struct comm *c = op->c;
    struct view *v;
    int rc = MU_OK;

    pthread_mutex_lock(&c->views.lock);
    v = find(c, bytes, op->call->lane, mine);
    if (v == NULL) {
        make_place(c);
        v = view_make(op, bytes, mine);
        if (v != NULL) {
            v->next = c->views.list;
            c->views.list = v;
        }
    } else if (v->live) {
        v = NULL;
        rc = MU_ELIMIT;
    }
    if (v != NULL) {
        v->busy = true;
        v->used = ++c->views.clock;
        *view_out = v;
    } else if (rc == MU_OK) {
        rc = op_fail(op, MU_ENOMEM, COMM_NOBODY, "no memory for a view of %llu bytes",
                     (unsigned long long)bytes);
    }
    pthread_mutex_unlock(&c->views.lock);
    return rc;
}

uint8_t *view_mine(struct view *v)
{
    return v->memory;
}

uint8_t *view_base(struct view *v)
{
    return v->base;
}

int view_map(struct op *op, struct view *v, uint32_t rank, const struct note *note)
{
    const struct extent part = op->c->exchange->peers[rank].give;
    struct view_part *p = &v->parts[rank];
    struct segment_ref ref;
    const void *data;
    uint64_t into = note->offset - part.lo;
    int rc = op_body(op, rank, NULL, &data);

    if (rc != MU_OK) {
        return rc;
    }
    if (!shm_body_ref(op_link(op, rank), &ref) || ref.offset < into ||
        ref.offset % PART_ALIGN != 0 || into % PART_ALIGN != 0) {
        return MU_EPROTO;
    }
    ref.offset -= into;
    if (p->segment == ref.id && p->offset == ref.offset) {
        return MU_OK;
    }
    rc = shm_map_at(op_link(op, rank), ref.id, ref.offset, pages(part.hi - part.lo),
                    v->base + part.lo);
    if (rc == MU_OK) {
        *p = (struct view_part){ref.id, ref.offset};
    }
    return rc;
}

/* ---- to the caller, and back ---- */

/* After a failure peers may still be told that its pages count: they are freed when they have been
 * told otherwise. */
const void *view_end(struct comm *c, struct view *v, bool ok)
{
    pthread_mutex_lock(&c->views.lock);
    v->busy = false;
    v->live = ok;
    pthread_mutex_unlock(&c->views.lock);
    return ok ? v->base : NULL;
}

void comm_release(struct comm *c, const void *view)
{
    if (view == NULL) {
        return;
    }
    pthread_mutex_lock(&c->views.lock);
    for (struct view *v = c->views.list; v != NULL; v = v->next) {
        if (v->base == view) {
            mu_assert(v->live);
            v->live = false;
        }
    }
    sweep(c, false);
    pthread_mutex_unlock(&c->views.lock);
}
