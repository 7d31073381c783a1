#include "run/marks.h"

#include <string.h>

const struct mark *marks_find(const struct marks *marks, const char *tag)
{
    for (uint32_t i = 0; i < MARKS_N; i++) {
        if (strcmp(marks->items[i].tag, tag) == 0) {
            return &marks->items[i];
        }
    }
    return NULL;
}

void marks_set(struct marks *marks, const char *tag, uint64_t generation, uint32_t n)
{
    struct mark *items = marks->items;
    uint32_t at = 0;

    while (at < MARKS_N - 1 && items[at].tag[0] != '\0' && strcmp(items[at].tag, tag) != 0) {
        at++;
    }
    marks->forgot |= items[at].tag[0] != '\0' && strcmp(items[at].tag, tag) != 0;
    memmove(items + 1, items, at * sizeof(*items));
    items[0] = (struct mark){.generation = generation, .n = n};
    memcpy(items[0].tag, tag, strnlen(tag, sizeof(items[0].tag) - 1));
}
