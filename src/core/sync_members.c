/* Who is in a job's generation, and who of them is missing in a round. */
#include "core/sync_state.h"
#include "core/text.h"

#include <inttypes.h>
#include <string.h>

/* Ranks follow seniority, which is the order of workers' numbers but for a few: the list is sorted
 * in place, and quickly when it is so already. */
static void sift_down(struct sync_member *m, uint32_t at, uint32_t n)
{
    for (;;) {
        uint32_t child = 2 * at + 1;
        struct sync_member held;

        if (child + 1 < n && m[child].worker < m[child + 1].worker) {
            child++;
        }
        if (child >= n || m[child].worker <= m[at].worker) {
            return;
        }
        held = m[at];
        m[at] = m[child];
        m[child] = held;
        at = child;
    }
}

static void sort(struct sync_member *m, uint32_t n)
{
    uint32_t sorted_n = 1;

    while (sorted_n < n && m[sorted_n - 1].worker < m[sorted_n].worker) {
        sorted_n++;
    }
    if (sorted_n >= n) {
        return;
    }
    for (uint32_t i = n / 2; i-- > 0;) {
        sift_down(m, i, n);
    }
    for (uint32_t i = n - 1; i > 0; i--) {
        struct sync_member held = m[0];

        m[0] = m[i];
        m[i] = held;
        sift_down(m, 0, i);
    }
}

static struct sync_member *members_of(const struct sync *s, const struct sync_job *j)
{
    return (struct sync_member *)(void *)arena_at(&s->arena, j->members);
}

int sync_members_set(struct sync *s, struct sync_job *j, const struct generation *g)
{
    const uint64_t bytes = (uint64_t)g->members_n * sizeof(struct sync_member);

    arena_give(&s->arena, j->members);
    j->members = NONE;
    j->members_n = 0;
    if (g->members_n == 0) {
        return MU_OK;
    }
    if (g->members_n > s->config.values_max || bytes > s->config.bytes_max ||
        sync_bytes_take(s, (uint32_t)bytes, &j->members) != MU_OK) {
        return MU_ELIMIT;
    }
    j->members_n = g->members_n;
    for (uint32_t i = 0; i < g->members_n; i++) {
        struct sync_member *m = &members_of(s, j)[i];

        m->worker = g->members[i].worker;
        m->rank = i;
        memcpy(m->addr, g->members[i].addr, sizeof(m->addr));
    }
    sort(members_of(s, j), j->members_n);
    return MU_OK;
}

const struct sync_member *sync_member_of(const struct sync *s, const struct sync_job *j, wid w)
{
    uint32_t lo = 0;
    uint32_t hi = j->members_n;

    if (hi == 0) {
        return NULL;
    }
    const struct sync_member *m = members_of(s, j);

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (m[mid].worker >> 24 < w >> 24) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo < j->members_n && m[lo].worker >> 24 == w >> 24 ? &m[lo] : NULL;
}

/* ---- texts ---- */

struct out {
    char *buf;
    size_t cap;
    size_t n;
};

/* Adds all of it, or nothing and says so. */
static bool add(struct out *o, const char *text)
{
    size_t n = strlen(text);

    if (n >= o->cap - o->n) {
        return false;
    }
    memcpy(o->buf + o->n, text, n + 1);
    o->n += n;
    return true;
}

static void add_missing(const struct sync *s, const struct sync_job *j, uint32_t missing_n,
                        struct out *o)
{
    const struct sync_member *m = members_of(s, j);
    const size_t cap = o->cap;
    uint32_t shown_n = 0;
    char text[ADDR_MAX_LEN + 64];

    o->cap -= sizeof(", and 4294967295 more");
    for (uint32_t i = 0; i < j->members_n && shown_n < missing_n; i++) {
        if (s->order[m[i].rank] != NONE) {
            continue;
        }
        text_say(text, sizeof(text), "%sn%" PRIu32 ".%" PRIu32 "#%" PRIu32 "%s%s%s",
                 shown_n == 0 ? "; missing: " : ", ", wid_node(m[i].worker), wid_slot(m[i].worker),
                 wid_incarnation(m[i].worker), m[i].addr[0] != '\0' ? " (" : "", m[i].addr,
                 m[i].addr[0] != '\0' ? ")" : "");
        if (!add(o, text)) {
            break;
        }
        shown_n++;
    }
    o->cap = cap;
    if (shown_n < missing_n) {
        text_say(text, sizeof(text), ", and %" PRIu32 " more", missing_n - shown_n);
        add(o, text);
    }
}

void sync_missing_text(struct sync *s, uint32_t round, char *buf, size_t cap)
{
    const struct sync_round *r = &s->rounds[round];
    const struct sync_job *j = &s->jobs[r->job];
    struct out o = {buf, cap, 0};
    uint32_t gave_up_n = 0;
    char text[64];

    if (j->members_n == 0) {
        text_say(buf, cap, "job %s has no generation yet: it waits for nodes", j->name);
        return;
    }
    memset(s->order, 0xff, j->members_n * sizeof(s->order[0]));
    for (uint32_t i = r->first; i != NONE; i = s->values[i].next) {
        if (s->values[i].rank != NONE) {
            s->order[s->values[i].rank] = i;
            gave_up_n += s->values[i].gave_up;
        }
    }
    buf[0] = '\0';
    text_say(text, sizeof(text), "%" PRIu32 " of %" PRIu32 " are here", r->here_n, j->members_n);
    add(&o, text);
    if (gave_up_n > 0) {
        text_say(text, sizeof(text), ", %" PRIu32 " gave up", gave_up_n);
        add(&o, text);
    }
    add_missing(s, j, j->members_n - r->here_n - gave_up_n, &o);
}
