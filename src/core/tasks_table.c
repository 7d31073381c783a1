#include "core/tasks_table.h"

#include "base/prng.h"

#include <stdlib.h>
#include <string.h>

int table_init(struct table *t, uint32_t cap)
{
    uint32_t heads_n = 1;

    while (heads_n < cap) {
        heads_n *= 2;
    }
    *t = (struct table){.mask = heads_n - 1, .cap = cap};
    t->keys = calloc(cap, sizeof(t->keys[0]));
    t->next = calloc(cap, sizeof(t->next[0]));
    t->heads = malloc(heads_n * sizeof(t->heads[0]));
    if (t->keys == NULL || t->next == NULL || t->heads == NULL) {
        table_close(t);
        return MU_ENOMEM;
    }
    table_reset(t);
    return MU_OK;
}

void table_close(struct table *t)
{
    free(t->keys);
    free(t->next);
    free(t->heads);
    *t = (struct table){0};
}

void table_reset(struct table *t)
{
    t->n = t->fresh = 0;
    t->spare = NONE;
    memset(t->heads, 0xff, (t->mask + (size_t)1) * sizeof(t->heads[0]));
}

size_t table_memory(const struct table *t)
{
    return t->cap * (sizeof(t->keys[0]) + sizeof(t->next[0])) +
           (t->mask + (size_t)1) * sizeof(t->heads[0]);
}

static uint32_t *head_of(const struct table *t, uint64_t key)
{
    return &t->heads[prng_mix(key) & t->mask];
}

uint32_t table_find(const struct table *t, uint64_t key)
{
    uint32_t slot = *head_of(t, key);

    while (slot != NONE && t->keys[slot] != key) {
        slot = t->next[slot];
    }
    return slot;
}

uint32_t table_add(struct table *t, uint64_t key)
{
    uint32_t slot = t->spare;

    if (slot != NONE) {
        t->spare = t->next[slot];
    } else if (t->fresh < t->cap) {
        slot = t->fresh++;
    } else {
        return NONE;
    }
    uint32_t *head = head_of(t, key);
    t->keys[slot] = key;
    t->next[slot] = *head;
    *head = slot;
    t->n++;
    return slot;
}

void table_drop(struct table *t, uint32_t slot)
{
    uint32_t *at = head_of(t, t->keys[slot]);

    while (*at != slot) {
        at = &t->next[*at];
    }
    *at = t->next[slot];
    t->next[slot] = t->spare;
    t->spare = slot;
    t->n--;
}

void chain_push(struct chain *l, struct link *links, uint32_t i)
{
    links[i] = (struct link){NONE, l->last};
    if (l->last == NONE) {
        l->first = i;
    } else {
        links[l->last].next = i;
    }
    l->last = i;
}

void chain_drop(struct chain *l, struct link *links, uint32_t i)
{
    struct link at = links[i];

    *(at.prev == NONE ? &l->first : &links[at.prev].next) = at.next;
    *(at.next == NONE ? &l->last : &links[at.next].prev) = at.prev;
}
