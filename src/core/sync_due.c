/* A binary heap of values by their time; each knows its place, so that it can be taken out. */
#include "core/sync_state.h"

static bool before(const struct sync *s, uint32_t a, uint32_t b)
{
    const struct sync_value *v = &s->values[a];
    const struct sync_value *w = &s->values[b];

    return v->due_ms != w->due_ms ? v->due_ms < w->due_ms : a < b;
}

static void place(struct sync *s, uint32_t at, uint32_t value)
{
    s->due[at] = value;
    s->values[value].due_at = at;
}

static void sift(struct sync *s, uint32_t at, uint32_t value)
{
    while (at > 0 && before(s, value, s->due[(at - 1) / 2])) {
        place(s, at, s->due[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child + 1 < s->due_n && before(s, s->due[child + 1], s->due[child])) {
            child++;
        }
        if (child >= s->due_n || !before(s, s->due[child], value)) {
            break;
        }
        place(s, at, s->due[child]);
        at = child;
    }
    place(s, at, value);
}

void sync_due_clear(struct sync *s, uint32_t value)
{
    uint32_t at = s->values[value].due_at;

    if (at == NONE) {
        return;
    }
    s->values[value].due_at = NONE;
    uint32_t moved = s->due[--s->due_n];

    if (moved != value) {
        sift(s, at, moved);
    }
}

void sync_due_set(struct sync *s, uint32_t value, uint64_t due_ms)
{
    sync_due_clear(s, value);
    s->values[value].due_ms = due_ms;
    if (due_ms != UINT64_MAX) {
        sift(s, s->due_n++, value);
    }
}
