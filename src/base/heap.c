#include "base/heap.h"

static bool before(struct heap_item a, struct heap_item b)
{
    return a.key != b.key ? a.key < b.key : a.value < b.value;
}

void heap_init(struct heap *h, struct heap_item *items, uint32_t cap)
{
    *h = (struct heap){.items = items, .cap = cap};
}

void heap_push(struct heap *h, uint64_t key, uint32_t value)
{
    struct heap_item item = {.key = key, .value = value};
    uint32_t i;

    mu_assert(h->n < h->cap);
    i = h->n++;
    while (i > 0) {
        uint32_t parent = (i - 1) / 2;

        if (!before(item, h->items[parent])) {
            break;
        }
        h->items[i] = h->items[parent];
        i = parent;
    }
    h->items[i] = item;
}

const struct heap_item *heap_top(const struct heap *h)
{
    return h->n > 0 ? &h->items[0] : NULL;
}

void heap_pop(struct heap *h)
{
    struct heap_item last;
    size_t i = 0;

    mu_assert(h->n > 0);
    last = h->items[--h->n];
    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= h->n) {
            break;
        }
        if (child + 1 < h->n && before(h->items[child + 1], h->items[child])) {
            child++;
        }
        if (!before(h->items[child], last)) {
            break;
        }
        h->items[i] = h->items[child];
        i = child;
    }
    h->items[i] = last; /* Of an emptied heap: its own place, still the caller's storage. */
}
