/* Pieces of bytes of any length in one block of fixed size. When the room that is left is in
 * holes the pieces are moved together, so all of it can be used: hence handles, not pointers. */
#ifndef CORE_ARENA_H
#define CORE_ARENA_H

#include "base/base.h"

#define ARENA_NONE UINT32_MAX

struct arena_piece {
    uint32_t at;
    uint32_t n; /* rounded up to 8 */
    uint32_t prev, next;
};

struct arena {
    uint8_t *mem;
    uint32_t cap;
    uint32_t end;  /* behind the last piece */
    uint32_t used; /* by pieces, rounded up */
    struct arena_piece *pieces;
    uint32_t pieces_max;
    uint32_t fresh_n; /* pieces that were ever used */
    uint32_t spare;   /* the first of those given back */
    uint32_t first, last;
};

/* MU_ENOMEM. cap is rounded down to 8. */
int arena_init(struct arena *a, uint32_t cap, uint32_t pieces_max);
void arena_close(struct arena *a);

/* Room for n bytes, n > 0. MU_ELIMIT: less is left, or there are pieces_max already. */
int arena_take(struct arena *a, uint32_t n, uint32_t *piece_out);
void arena_give(struct arena *a, uint32_t piece); /* ARENA_NONE is fine */

/* Aligned to 8; valid until the next arena_take(). */
uint8_t *arena_at(const struct arena *a, uint32_t piece);

#endif
