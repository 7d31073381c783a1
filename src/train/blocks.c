/* The gradients of a step, folded as they come: two neighbours that make up a subtree become one.
 * Blocks of the same subtree are always made by the same additions, whoever makes them. */
#include "train/state.h"

#include <stdlib.h>
#include <string.h>

/* A buffer has the parts of the gradient, then the metrics, all aligned, then what each part of a
 * leaf is still to be multiplied with: a pass over all of it for that alone would cost as much as
 * an addition, so it is done when the leaf is added to its neighbour, or asked for without one. */
#define SPARE_MORE 2 /* buffers that are kept beside those of a step */
#define ALIGNED(n) (((n) + 63) & ~(size_t)63)

static size_t part_bytes(const struct blocks *b, uint32_t part)
{
    return b->parts[part].count * dtype_size(b->parts[part].dtype);
}

static double *metrics_of(const struct blocks *b, uint8_t *buffer)
{
    return (double *)(void *)(buffer + b->at[b->parts_n]);
}

static uint64_t *times_of(const struct blocks *b, uint8_t *buffer)
{
    return (uint64_t *)(void *)(metrics_of(b, buffer) + b->metrics_n);
}

static size_t buffer_bytes(const struct blocks *b)
{
    return b->at[b->parts_n] + (b->metrics_n + b->parts_n) * sizeof(uint64_t);
}

int blocks_open(struct blocks *b, struct comm *c, const struct gradient_part *parts,
                uint32_t parts_n, uint32_t metrics_n, uint32_t slices_n)
{
    *b = (struct blocks){
        .comm = c, .parts_n = parts_n, .metrics_n = metrics_n, .slices_n = slices_n};
    memcpy(b->parts, parts, parts_n * sizeof(*parts));
    for (uint32_t p = 0; p < parts_n; p++) {
        b->at[p + 1] = b->at[p] + ALIGNED(part_bytes(b, p));
    }
    b->items = calloc(slices_n, sizeof(*b->items));
    b->spare = calloc(slices_n + SPARE_MORE, sizeof(*b->spare));
    b->trees = calloc((parts_n + (size_t)1) * slices_n, sizeof(*b->trees));
    if (b->items == NULL || b->spare == NULL || b->trees == NULL) {
        blocks_close(b);
        return MU_ENOMEM;
    }
    return MU_OK;
}

void blocks_close(struct blocks *b)
{
    if (b->comm == NULL) {
        return;
    }
    blocks_clear(b);
    while (b->spare_n > 0) {
        comm_free(b->comm, b->spare[--b->spare_n]);
    }
    free(b->items);
    free(b->spare);
    free(b->trees);
    *b = (struct blocks){0};
}

uint8_t *blocks_take(struct blocks *b)
{
    if (b->spare_n > 0) {
        return b->spare[--b->spare_n];
    }
    return comm_alloc(b->comm, buffer_bytes(b));
}

void blocks_drop(struct blocks *b, uint8_t *buffer)
{
    if (buffer != NULL && b->spare_n < b->slices_n + SPARE_MORE) {
        b->spare[b->spare_n++] = buffer;
    } else {
        comm_free(b->comm, buffer);
    }
}

void blocks_clear(struct blocks *b)
{
    while (b->n > 0) {
        blocks_drop(b, b->items[--b->n].sum);
    }
}

void blocks_leaf(struct blocks *b, uint64_t n, uint8_t *buffer)
{
    for (uint32_t p = 0; p < b->parts_n; p++) {
        times_of(b, buffer)[p] = MAX(n, 1);
    }
    if (n == 0) {
        memset(buffer, 0, b->at[b->parts_n]);
    }
}

void blocks_metrics(struct blocks *b, uint64_t n, uint8_t *buffer, const double *metrics)
{
    double *sums = metrics_of(b, buffer);

    if (n == 0) {
        memset(sums, 0, b->metrics_n * sizeof(*sums));
    } else if (b->metrics_n > 0) {
        reduce_times(DTYPE_F64, n, sums, metrics, b->metrics_n);
    }
}

/* ---- adding ---- */

/* The block at i and the one after it, if together they are a subtree: one block from now on, whose
 * numbers are yet to be added. */
static bool join_at(struct blocks *b, uint32_t i)
{
    struct block *left = &b->items[i], *right = &b->items[i + 1];

    if (i + 1 >= b->n || left->width != right->width || left->lo + left->width != right->lo ||
        (left->lo & left->width) != 0) {
        return false;
    }
    mu_assert(b->folds_n < FOLDS_MAX);
    b->folds[b->folds_n++] = (struct fold){left->sum, right->sum, left->width == 1};
    left->width *= 2;
    b->n--;
    memmove(right, right + 1, (b->n - i - 1) * sizeof(*right));
    return true;
}

void blocks_put_begin(struct blocks *b, uint32_t slice, uint8_t *buffer)
{
    uint32_t i = 0;

    mu_assert(b->n < b->slices_n && b->folds_n == 0 && b->folded == 0);
    while (i < b->n && b->items[i].lo < slice) {
        i++;
    }
    memmove(&b->items[i + 1], &b->items[i], (b->n - i) * sizeof(*b->items));
    b->items[i] = (struct block){slice, 1, buffer};
    b->n++;
    /* With the one after it, or the one before it, and so on up the tree. */
    while (join_at(b, i) || (i > 0 && join_at(b, --i))) {
    }
}

static void fold_part(const struct blocks *b, const struct fold *f, uint32_t p)
{
    const struct gradient_part *part = &b->parts[p];
    uint8_t *into = f->into + b->at[p];
    const uint8_t *from = f->from + b->at[p];
    uint64_t *times = &times_of(b, f->into)[p];

    if (f->leaves) {
        reduce_leaves(part->dtype, into, into, *times, from, times_of(b, f->from)[p], part->count);
        *times = 1;
    } else {
        reduce_pair(part->dtype, REDUCE_SUM, into, into, from, part->count);
    }
}

void blocks_put_part(struct blocks *b, uint32_t part)
{
    for (uint32_t i = 0; (b->folded & 1u << part) == 0 && i < b->folds_n; i++) {
        fold_part(b, &b->folds[i], part);
    }
    b->folded |= 1u << part;
}

void blocks_put_end(struct blocks *b)
{
    for (uint32_t p = 0; p < b->parts_n; p++) {
        blocks_put_part(b, p);
    }
    for (uint32_t i = 0; i < b->folds_n; i++) {
        const struct fold *f = &b->folds[i];

        reduce_pair(DTYPE_F64, REDUCE_SUM, metrics_of(b, f->into), metrics_of(b, f->into),
                    metrics_of(b, f->from), b->metrics_n);
        blocks_drop(b, f->from);
    }
    b->folds_n = 0;
    b->folded = 0;
}

/* ---- finding ---- */

static struct block *find(const struct blocks *b, struct subtree tree)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->items[i].lo == tree.lo && b->items[i].width == tree.width) {
            return &b->items[i];
        }
    }
    return NULL;
}

const void *blocks_part(struct blocks *b, const struct block *block, uint32_t part)
{
    uint64_t *times = &times_of(b, block->sum)[part];
    uint8_t *row = block->sum + b->at[part];

    if (part<b->parts_n && * times> 1) { /* Once is exact. */
        reduce_times(b->parts[part].dtype, *times, row, row, b->parts[part].count);
        *times = 1;
    }
    return row;
}

const struct comm_part *blocks_trees(struct blocks *b, const struct plan *plan, uint32_t rank,
                                     uint32_t part, uint32_t *n_out)
{
    struct comm_part *trees = b->trees + (size_t)part * b->slices_n;
    struct subtree tree;

    *n_out = 0;
    for (uint32_t from = 0; plan_next_subtree(plan, rank, from, &tree);
         from = tree.lo + tree.width) {
        const struct block *block = find(b, tree);

        mu_assert(block != NULL);
        trees[(*n_out)++] = (struct comm_part){tree.lo, tree.width, blocks_part(b, block, part)};
    }
    return trees;
}

void blocks_hash(const struct blocks *b, const uint8_t *buffer, uint8_t hash_out[HASH_BYTES])
{
    XXH128_hash_t h = {0};

    for (uint32_t p = 0; p < b->parts_n; p++) { /* What is between them is nobody's. */
        h = XXH3_128bits_withSeed(buffer + b->at[p], part_bytes(b, p), h.low64 ^ h.high64);
    }
    state_sum(h, hash_out);
    hash_out[0] |= 1;
}
