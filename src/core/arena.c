#include "core/arena.h"

#include <stdlib.h>
#include <string.h>

int arena_init(struct arena *a, uint32_t cap, uint32_t pieces_max)
{
    struct arena made = {
        .cap = cap & ~7u,
        .pieces_max = pieces_max,
        .spare = ARENA_NONE,
        .first = ARENA_NONE,
        .last = ARENA_NONE,
    };

    made.mem = malloc(cap);
    made.pieces = malloc((size_t)pieces_max * sizeof(made.pieces[0]));
    if (made.mem == NULL || made.pieces == NULL) {
        arena_close(&made);
        return MU_ENOMEM;
    }
    *a = made;
    return MU_OK;
}

void arena_close(struct arena *a)
{
    free(a->mem);
    free(a->pieces);
    *a = (struct arena){0};
}

/* Moves all pieces to the front, in their order. */
static void pack(struct arena *a)
{
    uint32_t end = 0;

    for (uint32_t i = a->first; i != ARENA_NONE; i = a->pieces[i].next) {
        struct arena_piece *p = &a->pieces[i];

        if (p->at != end) {
            memmove(a->mem + end, a->mem + p->at, p->n);
            p->at = end;
        }
        end += p->n;
    }
    a->end = end;
}

int arena_take(struct arena *a, uint32_t n, uint32_t *piece_out)
{
    uint32_t i = a->spare;

    mu_assert(n > 0);
    if (n > a->cap || a->cap - a->used < ((n + 7) & ~7u)) {
        return MU_ELIMIT;
    }
    n = (n + 7) & ~7u;
    if (i == ARENA_NONE && a->fresh_n == a->pieces_max) {
        return MU_ELIMIT;
    }
    if (a->cap - a->end < n) {
        pack(a);
    }
    if (i == ARENA_NONE) {
        i = a->fresh_n++;
    } else {
        a->spare = a->pieces[i].next;
    }
    a->pieces[i] = (struct arena_piece){a->end, n, a->last, ARENA_NONE};
    if (a->last == ARENA_NONE) {
        a->first = i;
    } else {
        a->pieces[a->last].next = i;
    }
    a->last = i;
    a->end += n;
    a->used += n;
    *piece_out = i;
    return MU_OK;
}

void arena_give(struct arena *a, uint32_t piece)
{
    if (piece == ARENA_NONE) {
        return;
    }
    struct arena_piece *p = &a->pieces[piece];

    mu_assert(piece < a->fresh_n && p->n > 0);
    if (p->prev == ARENA_NONE) {
        a->first = p->next;
    } else {
        a->pieces[p->prev].next = p->next;
    }
    if (p->next == ARENA_NONE) {
        a->last = p->prev;
        a->end = p->prev == ARENA_NONE ? 0 : a->pieces[p->prev].at + a->pieces[p->prev].n;
    } else {
        a->pieces[p->next].prev = p->prev;
    }
    a->used -= p->n;
    p->n = 0;
    p->next = a->spare;
    a->spare = piece;
}

uint8_t *arena_at(const struct arena *a, uint32_t piece)
{
    mu_assert(piece < a->fresh_n && a->pieces[piece].n > 0);
    return a->mem + a->pieces[piece].at;
}
