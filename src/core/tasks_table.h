/* Slots by a 64-bit key, and lists of slots: all in memory taken once. */
#ifndef CORE_TASKS_TABLE_H
#define CORE_TASKS_TABLE_H

#include "base/base.h"

#define NONE UINT32_MAX

struct table {
    uint64_t *keys;  /* by slot */
    uint32_t *heads; /* of chains, by the key's hash */
    uint32_t *next;  /* in a chain, or among the spare ones */
    uint32_t mask;
    uint32_t cap;
    uint32_t n;
    uint32_t fresh; /* slots that were ever used */
    uint32_t spare;
};

/* MU_ENOMEM. */
int table_init(struct table *t, uint32_t cap);
void table_close(struct table *t);
void table_reset(struct table *t);
size_t table_memory(const struct table *t);

/* NONE: it is not there. */
uint32_t table_find(const struct table *t, uint64_t key);
/* Of a key that is not there. NONE: no room. */
uint32_t table_add(struct table *t, uint64_t key);
void table_drop(struct table *t, uint32_t slot);

struct link {
    uint32_t next, prev;
};

struct chain {
    uint32_t first, last;
};

#define CHAIN_EMPTY ((struct chain){NONE, NONE})

void chain_push(struct chain *l, struct link *links, uint32_t i);
void chain_drop(struct chain *l, struct link *links, uint32_t i);

#endif
