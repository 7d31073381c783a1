/* Do all peers say the same? Values come in one by one and in any order; what is kept is one of
 * them and whether another differed, however many peers there are. */
#ifndef CORE_AGREE_H
#define CORE_AGREE_H

#include "base/base.h"

struct agree {
    uint8_t *value; /* the first one: borrowed for the struct's life */
    size_t cap;
    size_t value_n;
    uint32_t peers_n;
    bool differ;
};

/* storage has room for the longest value; it may be NULL if cap is 0. */
void agree_init(struct agree *agree, void *storage, size_t cap);

/* One peer's value, copied; it may be empty. MU_ELIMIT, and nothing changed, if it is longer than
 * the storage. */
int agree_add(struct agree *agree, const void *value, size_t value_n);

/* At least one peer has spoken, and all have said the same: so one that is alone always agrees. */
bool agree_reached(const struct agree *agree);

#endif
