/* A pairing heap: a tree in which nobody is due before its parent. Children are a list; whoever is
 * taken out leaves its children to be paired up again. */
#include "base/timers.h"

static void put(struct timer **link, struct timer *t)
{
    *link = t;
    if (t != NULL) {
        t->link = link;
    }
}

/* Of two trees, or none, one. The links of both are the caller's to set. */
static struct timer *meld(struct timer *a, struct timer *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    if (b->at_ms < a->at_ms) {
        struct timer *first = b;

        b = a;
        a = first;
    }
    put(&b->next, a->child);
    put(&a->child, b);
    a->next = NULL;
    return a;
}

/* Neighbours first, then all pairs from the last to the first: the second pass is what keeps the
 * cost of a removal small in the long run. */
static struct timer *meld_all(struct timer *list)
{
    struct timer *pairs = NULL, *tree = NULL;

    while (list != NULL) {
        struct timer *a = list, *b = a->next, *pair;

        list = b != NULL ? b->next : NULL;
        a->next = NULL;
        if (b != NULL) {
            b->next = NULL;
        }
        pair = meld(a, b);
        pair->next = pairs;
        pairs = pair;
    }
    while (pairs != NULL) {
        struct timer *pair = pairs;

        pairs = pair->next;
        pair->next = NULL;
        tree = meld(tree, pair);
    }
    return tree;
}

void timers_disarm(struct timers *ts, struct timer *t)
{
    if (!timer_is_on(t)) {
        return;
    }
    put(t->link, t->next);
    put(&ts->top, meld(ts->top, meld_all(t->child)));
    *t = (struct timer){.fn = t->fn};
}

void timers_arm(struct timers *ts, struct timer *t, uint64_t at_ms,
                void (*fn)(void *data, struct timer *t))
{
    mu_assert(at_ms != 0);
    timers_disarm(ts, t);
    t->at_ms = at_ms;
    t->fn = fn;
    put(&ts->top, meld(ts->top, t));
}

bool timer_is_on(const struct timer *t)
{
    return t->at_ms != 0;
}

uint64_t timers_next_ms(const struct timers *ts)
{
    return ts->top != NULL ? ts->top->at_ms : UINT64_MAX;
}

struct timer *timers_take(struct timers *ts, uint64_t now_ms)
{
    struct timer *t = ts->top;

    if (t == NULL || t->at_ms > now_ms) {
        return NULL;
    }
    timers_disarm(ts, t);
    return t;
}
