#include "comm/works.h"

#include "comm/reference.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define EDGE 64 /* bytes before and after a buffer that nobody may touch */
#define EDGE_BYTE 0xc5

void works_meet(struct rank *r)
{
    rank_meet(r, (_Atomic uint32_t *)(void *)r->shared);
}

/* ---- buffers ---- */

static void buffer_make(struct rank *r, struct prng *p, size_t size, size_t bytes, struct buffer *b)
{
    size_t shift = prng_below(p, 3) * (prng_below(p, 2) == 0 ? size : 4096);

    b->shared = prng_below(p, 2) == 0;
    b->bytes = bytes;
    b->base_bytes = bytes + 2 * EDGE + shift;
    b->base = b->shared ? comm_alloc(r->comm, b->base_bytes) : malloc(b->base_bytes);
    rank_check(r, b->base != NULL, "no memory: %zu bytes", b->base_bytes);
    memset(b->base, EDGE_BYTE, b->base_bytes);
    b->data = b->base + EDGE + shift;
}

static void buffer_check_edges(struct rank *r, const struct buffer *b, const char *text)
{
    for (size_t i = 0; b->base != NULL && i < EDGE; i++) {
        rank_check(r, b->data[-1 - (ptrdiff_t)i] == EDGE_BYTE && b->data[b->bytes + i] == EDGE_BYTE,
                   "%s: written outside of a buffer", text);
    }
}

static void buffer_free(struct rank *r, struct buffer *b)
{
    if (b->shared) {
        comm_free(r->comm, b->base);
    } else {
        free(b->base);
    }
    *b = (struct buffer){.base = NULL};
}

/* ---- what all share ---- */

static void *take_room(struct rank *r, size_t *room, size_t bytes)
{
    const size_t at = 4096 + *room; /* after the meeting */

    *room += (bytes + 4095) / 4096 * 4096;
    mu_assert(4096 + *room <= WORKS_SHARED_BYTES);
    return r->shared + at;
}

static bool reduces(enum comm_op op)
{
    return op == COMM_ALLREDUCE || op == COMM_REDUCE || op == COMM_REDUCE_SCATTER;
}

static uint32_t leaf_owner(const struct spec *s, uint32_t leaf)
{
    return s->plan.slices_n > 0 ? plan_rank(&s->plan, leaf) : leaf;
}

static void make_leaves(struct rank *r, struct work *w, size_t *room)
{
    const struct spec *s = &w->spec;
    const uint32_t n = comm_size(r->comm), me = comm_rank(r->comm);
    const size_t each = s->count * (s->op == COMM_REDUCE_SCATTER ? n : 1);

    w->leaves_n = s->plan.slices_n > 0 ? s->plan.slices_n : n;
    w->leaf_bytes = each * dtype_size(s->dtype);
    w->leaves = take_room(r, room, w->leaves_n * w->leaf_bytes);
    w->wanted = reduces(s->op) ? take_room(r, room, w->leaf_bytes) : NULL;
    for (uint32_t i = 0; i < w->leaves_n; i++) {
        if (leaf_owner(s, i) == me) {
            reference_fill(s->dtype, s->taste, s->seed + i, w->leaves + i * w->leaf_bytes, each);
        }
    }
    works_meet(r);
    if (w->wanted != NULL) {
        const void *in[WORKS_SLICES_MAX];

        for (uint32_t i = 0; i < w->leaves_n; i++) {
            in[i] = w->leaves + i * w->leaf_bytes;
        }
        reference_fold(s->dtype, s->reduce, s->divisor != 0 ? s->divisor : w->leaves_n, w->wanted,
                       in, w->leaves_n, each * me / n, each * (me + 1) / n);
        works_meet(r);
    }
}

/* ---- one rank's part of it ---- */

static void make_parts(struct rank *r, struct prng *p, struct work *w)
{
    const struct spec *s = &w->spec;
    /* What it hands over is a sum, not yet a mean. */
    const enum reduce_op op = s->reduce == REDUCE_MEAN ? REDUCE_SUM : s->reduce;
    struct subtree t = {0, 0};
    uint32_t n = 0;

    while (plan_next_subtree(&s->plan, comm_rank(r->comm), t.lo + t.width, &t)) {
        const void *in[WORKS_SLICES_MAX];

        for (uint32_t i = 0; i < t.width; i++) {
            in[i] = w->leaves + (t.lo + i) * w->leaf_bytes;
        }
        buffer_make(r, p, dtype_size(s->dtype), w->leaf_bytes, &w->parts[n]);
        reference_fold(s->dtype, op, 1, w->parts[n].data, in, t.width, 0, s->count);
        w->list[n] = (struct comm_part){t.lo, t.width, w->parts[n].data};
        n++;
    }
    w->call.slices_n = s->plan.slices_n;
    w->call.owners = w->spec.plan.owner;
    w->call.parts = w->list;
    w->call.parts_n = n;
}

static size_t out_bytes(struct rank *r, const struct spec *s)
{
    const uint32_t me = comm_rank(r->comm);
    const size_t bytes = s->count * dtype_size(s->dtype);

    switch (s->op) {
    case COMM_ALLREDUCE:
    case COMM_REDUCE_SCATTER:
        return bytes;
    case COMM_ALLGATHER:
        return bytes * comm_size(r->comm);
    case COMM_BROADCAST:
        return me != s->root ? bytes : 0;
    case COMM_REDUCE:
        return me == s->root ? bytes : 0;
    case COMM_SEND:
        return me == s->peer ? bytes : 0;
    case COMM_SHARE:
        return s->holds[me] ? 0 : bytes;
    default:
        return 0;
    }
}

static void make_call(struct rank *r, struct prng *p, struct work *w)
{
    const struct spec *s = &w->spec;
    const uint32_t me = comm_rank(r->comm);
    const bool gives = s->op == COMM_SHARE                             ? s->holds[me]
                       : s->op == COMM_BROADCAST || s->op == COMM_SEND ? me == s->root
                                                                       : s->op != COMM_BARRIER;
    const uint32_t leaf = s->op == COMM_SHARE ? s->root : me;
    const size_t get = out_bytes(r, s);

    w->mine = s->op != COMM_SEND || me == s->root || me == s->peer;
    w->call = (struct comm_call){.op = s->op,
                                 .count = s->count,
                                 .dtype = s->dtype,
                                 .reduce = s->reduce,
                                 .divisor = s->divisor,
                                 .root = s->root,
                                 .peer = me == s->root ? s->peer : s->root,
                                 .tag = s->tag,
                                 .recv = s->op == COMM_SEND && me == s->peer,
                                 .holds = w->spec.holds,
                                 .flags = (s->agree ? COMM_AGREE : 0) | (s->view ? COMM_VIEW : 0),
                                 .timeout_ms = RANKS_LIMIT_MS / 2};
    if (s->plan.slices_n > 0) {
        make_parts(r, p, w);
    } else if (gives) {
        buffer_make(r, p, dtype_size(s->dtype), w->leaf_bytes, &w->in);
        memcpy(w->in.data, w->leaves + leaf * w->leaf_bytes, w->leaf_bytes);
        w->in_hash = reference_hash(w->in.data, w->leaf_bytes);
        w->call.in = w->in.data;
    }
    if (s->same && gives) {
        w->call.out = w->in.data;
    } else if (!s->view && (get > 0 || s->op == COMM_BROADCAST)) {
        buffer_make(r, p, dtype_size(s->dtype), get, &w->out);
        w->call.out = s->op == COMM_BROADCAST && me == s->root ? NULL : w->out.data;
    }
}

void work_prepare(struct rank *r, const struct spec *spec, size_t *room, struct work *out)
{
    struct prng p;

    memset(out, 0, sizeof(*out));
    out->spec = *spec;
    spec_print(spec, out->text);
    prng_init(&p, spec->seed + r->index);
    make_leaves(r, out, room);
    make_call(r, &p, out);
}

/* ---- afterwards ---- */

static const uint8_t *wanted_by(struct rank *r, const struct work *w)
{
    const struct spec *s = &w->spec;

    switch (s->op) {
    case COMM_REDUCE_SCATTER:
        return w->wanted + comm_rank(r->comm) * s->count * dtype_size(s->dtype);
    case COMM_ALLGATHER:
        return w->leaves;
    case COMM_BROADCAST:
    case COMM_SEND:
    case COMM_SHARE:
        return w->leaves + s->root * w->leaf_bytes;
    default:
        return w->wanted;
    }
}

static void compare(struct rank *r, const struct work *w, const uint8_t *got, size_t bytes)
{
    const uint8_t *want = wanted_by(r, w);
    const size_t size = dtype_size(w->spec.dtype);

    if (bytes == 0 || memcmp(got, want, bytes) == 0) {
        return;
    }
    for (size_t i = 0; i < bytes; i += size) {
        if (memcmp(got + i, want + i, size) != 0) {
            uint64_t a = 0, b = 0;

            memcpy(&a, got + i, size);
            memcpy(&b, want + i, size);
            rank_fail(r, "%s: element %zu is %llx, not %llx", w->text, i / size,
                      (unsigned long long)a, (unsigned long long)b);
        }
    }
}

void work_check(struct rank *r, struct work *w, int rc, const struct comm_result *result)
{
    const struct spec *s = &w->spec;
    const bool roots = s->op == COMM_BROADCAST && comm_rank(r->comm) == s->root;
    const uint8_t *got = s->view ? result->view : roots ? NULL : w->call.out;

    rank_check(r, rc == MU_OK, "%s: %s: %s", w->text, mu_strerror(rc), result->error);
    rank_check(r,
               result->generation == comm_generation(r->comm) &&
                   (s->op == COMM_SEND || result->members_n == comm_size(r->comm)),
               "%s: a result of %u members in generation %llu", w->text, result->members_n,
               (unsigned long long)result->generation);
    if (s->view && s->count > 0) {
        rank_check(r, got != NULL, "%s: no view", w->text);
        compare(r, w, got,
                s->count * dtype_size(s->dtype) *
                    (s->op == COMM_ALLGATHER ? comm_size(r->comm) : 1));
    } else if (got != NULL) {
        compare(r, w, got, out_bytes(r, s));
    }
    if (s->view) {
        comm_release(r->comm, result->view);
    }
    rank_check(r,
               w->in.base == NULL || w->call.out == w->call.in ||
                   reference_hash(w->in.data, w->leaf_bytes) == w->in_hash,
               "%s: the input was changed", w->text);
    buffer_check_edges(r, &w->in, w->text);
    buffer_check_edges(r, &w->out, w->text);
    for (uint32_t i = 0; i < w->call.parts_n; i++) {
        buffer_check_edges(r, &w->parts[i], w->text);
    }
}

void work_free(struct rank *r, struct work *w)
{
    buffer_free(r, &w->in);
    buffer_free(r, &w->out);
    for (uint32_t i = 0; i < w->call.parts_n; i++) {
        buffer_free(r, &w->parts[i]);
    }
}
