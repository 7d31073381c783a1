/* Formats in which a record only says where the next one begins. They are gone through once; where
 * every MARK_EVERYth record begins is kept, and from there it is a walk to any other. */
#include "data/shard.h"

#include <stdlib.h>

#define MARK_EVERY 16

/* Over damaged places, if that is an option: the same ones each time. */
static int step(const struct shard *s, struct cursor *c, uint64_t at, bool whole, struct extent *e)
{
    int rc = s->format->next(s, c, at, whole || s->o->skip, e);

    while (rc == MU_ECORRUPT && s->o->skip && e->next > at) {
        at = e->next;
        e->next = 0;
        rc = s->format->next(s, c, at, true, e);
    }
    return rc == MU_ECORRUPT && s->o->skip ? MU_EDONE : rc;
}

static int mark(struct shard *s, uint64_t at)
{
    if (s->marks_n == s->marks_cap) {
        const size_t cap = s->marks_cap == 0 ? 64 : s->marks_cap * 2;
        uint64_t *marks = reallocarray(s->marks, cap, sizeof(*marks));

        if (marks == NULL) {
            return shard_no_memory(s);
        }
        s->marks = marks;
        s->marks_cap = cap;
    }
    s->marks[s->marks_n++] = at;
    return MU_OK;
}

int walk_open(struct shard *s)
{
    struct cursor c = {.own = NULL};
    struct extent e;
    uint64_t at = s->at;
    int rc = MU_OK;

    window_init(&c.window, &s->source);
    while (rc == MU_OK) {
        e.next = 0;
        shard_progress(s, at);
        rc = s->format->next(s, &c, at, s->o->skip, &e);
        if (rc == MU_ECORRUPT && shard_skips(s)) {
            rc = e.next > at ? MU_OK : MU_EDONE;
            at = e.next;
            continue;
        }
        if (rc == MU_OK && s->records % MARK_EVERY == 0) {
            rc = mark(s, at);
        }
        if (rc == MU_OK) {
            s->records++;
            at = e.next;
        }
    }
    cursor_close(s, &c);
    return rc == MU_EDONE ? MU_OK : rc;
}

int walk_read(const struct shard *s, struct cursor *c, uint64_t number, mu_record *out)
{
    struct extent e;
    const uint8_t *p;
    uint64_t have;
    int rc = MU_OK;

    if (c->at == 0 || c->number > number || number / MARK_EVERY > c->number / MARK_EVERY) {
        c->number = number / MARK_EVERY * MARK_EVERY;
        c->at = s->marks[number / MARK_EVERY];
    }
    for (; rc == MU_OK && c->number <= number; c->number++) {
        e.next = 0;
        rc = step(s, c, c->at, c->number == number, &e);
        c->at = e.next;
    }
    if (rc != MU_OK) {
        c->at = 0;
        return rc == MU_EDONE ? error_say(MU_ESTALE, "%s has changed since it was opened", s->name)
                              : rc;
    }
    rc = window_need(&c->window, e.at, e.n, &p, &have);
    if (rc != MU_OK) {
        return rc;
    }
    out->data = p;
    out->n = (size_t)e.n;
    return s->format->take != NULL ? s->format->take(s, c, &e, out) : MU_OK;
}
