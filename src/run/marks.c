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
    struct mark *to = &marks->items[0];

    for (uint32_t i = 0; i < MARKS_N; i++) {
        struct mark *m = &marks->items[i];

        if (strcmp(m->tag, tag) == 0) {
            to = m;
            break;
        }
        if (m->used < to->used) {
            to = m;
        }
    }
    if (to->tag[0] != '\0' && strcmp(to->tag, tag) != 0) {
        marks->forgot = true;
    }
    *to = (struct mark){.generation = generation, .n = n, .used = ++marks->uses_n};
    memcpy(to->tag, tag, strnlen(tag, sizeof(to->tag) - 1));
    marks->last = *to;
}
