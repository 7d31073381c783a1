/* The gradients of a step, folded as they come: two neighbours that make up a subtree become one.
 * Blocks of the same subtree are always made by the same additions, whoever makes them. */
#include "run/train.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static size_t gradient_bytes(const struct blocks *b)
{
    return b->count * dtype_size(b->dtype);
}

/* A buffer has the gradient, then the metrics, aligned, then what the gradient of a leaf is still
 * to be multiplied with: a pass over all of it for that alone would cost as much as an addition, so
 * it is done when the leaf is added to its neighbour, or asked for without one. */
static size_t metrics_at(const struct blocks *b)
{
    return (gradient_bytes(b) + 63) & ~(size_t)63;
}

static double *metrics_of(const struct blocks *b, uint8_t *buffer)
{
    return (double *)(void *)(buffer + metrics_at(b));
}

static uint64_t *times_of(const struct blocks *b, uint8_t *buffer)
{
    return (uint64_t *)(void *)(metrics_of(b, buffer) + b->metrics_n);
}

int blocks_open(struct blocks *b, struct comm *c, size_t count, enum dtype dtype,
                uint32_t metrics_n, uint32_t slices_n)
{
    *b = (struct blocks){.comm = c,
                         .count = count,
                         .dtype = dtype,
                         .metrics_n = metrics_n,
                         .slices_n = slices_n,
                         .spare_cap = slices_n + 2};
    b->items = calloc(slices_n, sizeof(*b->items));
    b->spare = calloc(b->spare_cap, sizeof(*b->spare));
    if (b->items == NULL || b->spare == NULL) {
        free(b->items);
        free(b->spare);
        *b = (struct blocks){0};
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
    *b = (struct blocks){0};
}

uint8_t *blocks_take(struct blocks *b)
{
    if (b->spare_n > 0) {
        return b->spare[--b->spare_n];
    }
    return comm_alloc(b->comm, metrics_at(b) + (b->metrics_n + 1) * sizeof(double));
}

void blocks_drop(struct blocks *b, uint8_t *buffer)
{
    if (buffer != NULL && b->spare_n < b->spare_cap) {
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

static void remove_at(struct blocks *b, uint32_t i)
{
    memmove(&b->items[i], &b->items[i + 1], (b->n - i - 1) * sizeof(*b->items));
    b->n--;
}

static void add(struct blocks *b, struct block *left, const struct block *right)
{
    if (left->width == 1) {
        reduce_leaves(b->dtype, left->sum, left->sum, *times_of(b, left->sum), right->sum,
                      *times_of(b, right->sum), b->count);
        *times_of(b, left->sum) = 1;
    } else {
        reduce_pair(b->dtype, REDUCE_SUM, left->sum, left->sum, right->sum, b->count);
    }
    reduce_pair(DTYPE_F64, REDUCE_SUM, left->metrics, left->metrics, right->metrics, b->metrics_n);
}

/* The block at i and the one after it, if together they are a subtree. */
static bool join_at(struct blocks *b, uint32_t i)
{
    struct block *left = &b->items[i], *right = &b->items[i + 1];

    if (i + 1 >= b->n || left->width != right->width || left->lo + left->width != right->lo ||
        (left->lo & left->width) != 0) {
        return false;
    }
    add(b, left, right);
    left->width *= 2;
    blocks_drop(b, right->sum);
    remove_at(b, i + 1);
    return true;
}

void blocks_leaf(struct blocks *b, uint64_t n, uint8_t *buffer, const double *metrics)
{
    double *sums = metrics_of(b, buffer);

    *times_of(b, buffer) = MAX(n, 1);
    if (n == 0) {
        memset(buffer, 0, gradient_bytes(b));
        memset(sums, 0, b->metrics_n * sizeof(*sums));
        return;
    }
    if (b->metrics_n > 0) {
        reduce_times(DTYPE_F64, n, sums, metrics, b->metrics_n);
    }
}

void blocks_put(struct blocks *b, uint32_t slice, uint8_t *buffer)
{
    uint32_t i = 0;

    mu_assert(b->n < b->slices_n);
    while (i < b->n && b->items[i].lo < slice) {
        i++;
    }
    memmove(&b->items[i + 1], &b->items[i], (b->n - i) * sizeof(*b->items));
    b->items[i] = (struct block){slice, 1, buffer, metrics_of(b, buffer)};
    b->n++;
    for (;;) {
        if (join_at(b, i)) {
            continue;
        }
        if (i == 0 || !join_at(b, i - 1)) {
            return;
        }
        i--;
    }
}

static void multiply(struct blocks *b, uint8_t *buffer)
{
    uint64_t *times = times_of(b, buffer);

    if (*times > 1) { /* Once is exact. */
        reduce_times(b->dtype, *times, buffer, buffer, b->count);
        *times = 1;
    }
}

const struct block *blocks_find(struct blocks *b, struct subtree tree)
{
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->items[i].lo == tree.lo && b->items[i].width == tree.width) {
            multiply(b, b->items[i].sum);
            return &b->items[i];
        }
    }
    return NULL;
}

void blocks_hash(const struct blocks *b, const uint8_t *buffer, uint8_t hash_out[HASH_BYTES])
{
    XXH128_canonical_t hash;

    XXH128_canonicalFromHash(&hash, XXH3_128bits(buffer, gradient_bytes(b)));
    memcpy(hash_out, hash.digest, HASH_BYTES);
    hash_out[0] |= 1;
}
