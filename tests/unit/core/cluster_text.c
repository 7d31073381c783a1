/* Records and generations as text, for the cluster's tests. */
#include "unit/core/cluster_kit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const KINDS[] = {"fresh", "boundary", "failure"};
static char names[512][16]; /* of nodes, by number */

const char *node_name(uint32_t number)
{
    return number < ARRAY_LEN(names) && names[number][0] != '\0' ? names[number] : "?";
}

void node_named(uint32_t number, const char *name)
{
    assert_true(number < ARRAY_LEN(names));
    snprintf(names[number], sizeof(names[number]), "%s", name);
}

void member_name(wid w, char *out, size_t cap)
{
    char slot[16] = "", life[16] = "";

    if (wid_slot(w) > 0) {
        snprintf(slot, sizeof(slot), ".%u", wid_slot(w));
    }
    if (wid_incarnation(w) > 1) {
        snprintf(life, sizeof(life), "#%u", wid_incarnation(w));
    }
    snprintf(out, cap, "%s%s%s", node_name(wid_node(w)), slot, life);
}

/* "boundary a b c+"; "boundary hold a" if it holds. */
void generation_text(const struct generation *g, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap, "%s%s", KINDS[g->kind],
                                (g->flags & GENERATION_HOLD) != 0 ? " hold" : "");

    for (uint32_t i = 0; i < g->members_n && n + 40 < cap; i++) {
        char name[40];
        bool new = g->kind != GENERATION_FRESH && (g->members[i].flags & MEMBER_CAUGHT_UP) == 0;

        member_name(g->members[i].worker, name, sizeof(name));
        n += (size_t)snprintf(out + n, cap - n, " %s%s", name, new ? "+" : "");
    }
}

void record_brief(const struct record *r, char *out)
{
    char text[TEXT_MAX - 64];

    switch (r->kind) {
    case RECORD_JOB:
        snprintf(out, TEXT_MAX, "record job %s run %u", r->u.job.job, r->u.job.run);
        break;
    case RECORD_NODE:
        snprintf(out, TEXT_MAX, "record node %s", r->u.node.name);
        break;
    case RECORD_GONE:
        snprintf(out, TEXT_MAX, "record gone %s", node_name(r->u.gone.node));
        break;
    case RECORD_GENERATION:
        generation_text(&r->u.generation, text, sizeof(text));
        snprintf(out, TEXT_MAX, "record generation %" PRIu64 " %s", r->u.generation.number, text);
        break;
    case RECORD_ACTIVE:
        snprintf(out, TEXT_MAX, "record active %" PRIu64, r->u.active.generation);
        break;
    case RECORD_FINISHED:
        snprintf(out, TEXT_MAX, "record %s %" PRIu64, r->u.finished.ended ? "ended" : "finished",
                 r->u.finished.step);
        break;
    case RECORD_SPENT:
        member_name(r->u.spent.worker, text, sizeof(text));
        snprintf(out, TEXT_MAX, "record spent %s %u", text, r->u.spent.count);
        break;
    case RECORD_CHECKPOINT:
        snprintf(out, TEXT_MAX, "record checkpoint %" PRIu64, r->u.checkpoint.step);
        break;
    case RECORD_CONFIG:
        snprintf(out, TEXT_MAX, "record %s %.*s", r->u.config.key,
                 r->u.config.deleted ? 7 : (int)r->u.config.value_n,
                 r->u.config.deleted ? "removed" : (const char *)r->u.config.value);
        break;
    case RECORD_DRAIN:
        snprintf(out, TEXT_MAX, "record drain %s", node_name(r->u.drain.node));
        break;
    case RECORD_FORGOTTEN:
        snprintf(out, TEXT_MAX, "record forgotten %s", r->u.forgotten.job);
        break;
    case RECORD_HEAL:
        snprintf(out, TEXT_MAX, "record heal %" PRIu64 " %u", r->u.heal.step, r->u.heal.count);
        break;
    }
}

static size_t generation_full(const struct generation *g, char *out, size_t cap)
{
    size_t n = (size_t)snprintf(out, cap,
                                "generation %s run %u number %" PRIu64 " from %" PRIu64
                                " kind %u flags %u base %" PRIu64 " key %02x%02x:",
                                g->job, g->run, g->number, g->from, g->kind, g->flags, g->base_step,
                                g->key[0], g->key[KEY_BYTES - 1]);

    for (uint32_t i = 0; i < g->members_n && n < cap; i++) {
        const struct member *m = &g->members[i];

        n += (size_t)snprintf(out + n, cap - n, " %" PRIx64 "@%" PRIu64 "/%u/%u/%s", m->worker,
                              m->host, m->role, m->flags, m->addr);
    }
    return n;
}

/* Every field. Floors of nodes are left out: numbers that were given away for nothing need
 * not be remembered. */
void record_full(const struct record *r, char *out, size_t cap)
{
    switch (r->kind) {
    case RECORD_JOB:
        snprintf(out, cap, "job %s run %u nnodes %u:%u restarts %u mode %u floor %" PRIu64,
                 r->u.job.job, r->u.job.run, r->u.job.min, r->u.job.max, r->u.job.max_restarts,
                 r->u.job.mode, r->u.job.generation_floor);
        break;
    case RECORD_NODE:
        snprintf(out, cap,
                 "node %s/%s %u incarnation %" PRIu64 " host %" PRIu64 " slots %u role %u",
                 r->u.node.job, r->u.node.name, r->u.node.node, r->u.node.incarnation,
                 r->u.node.host, r->u.node.slots, r->u.node.role);
        break;
    case RECORD_GENERATION:
        generation_full(&r->u.generation, out, cap);
        break;
    case RECORD_ACTIVE:
        snprintf(out, cap, "active %s %" PRIu64, r->u.active.job, r->u.active.generation);
        break;
    case RECORD_FINISHED:
        snprintf(out, cap, "finished %s run %u step %" PRIu64 " ended %u at %" PRIu64,
                 r->u.finished.job, r->u.finished.run, r->u.finished.step, r->u.finished.ended,
                 r->u.finished.at_ms);
        break;
    case RECORD_SPENT:
        snprintf(out, cap, "spent %s/%s.%u %u by %" PRIx64, r->u.spent.job, r->u.spent.name,
                 r->u.spent.slot, r->u.spent.count, r->u.spent.worker);
        break;
    case RECORD_CHECKPOINT:
        snprintf(out, cap, "checkpoint %s run %u step %" PRIu64, r->u.checkpoint.job,
                 r->u.checkpoint.run, r->u.checkpoint.step);
        break;
    case RECORD_CONFIG:
        snprintf(out, cap, "config %s %s version %" PRIu64 " deleted %u: %.*s", r->u.config.job,
                 r->u.config.key, r->u.config.version, r->u.config.deleted,
                 (int)r->u.config.value_n, (const char *)r->u.config.value);
        break;
    case RECORD_GONE:
        snprintf(out, cap, "gone %u saw the end %u", r->u.gone.node, r->u.gone.ended);
        break;
    case RECORD_DRAIN:
        snprintf(out, cap, "drain %u", r->u.drain.node);
        break;
    case RECORD_FORGOTTEN:
        snprintf(out, cap,
                 "forgotten %s %" PRIx64 " run %u generation %" PRIu64 " step %" PRIu64
                 " done %u at %" PRIu64,
                 r->u.forgotten.job, r->u.forgotten.name, r->u.forgotten.run,
                 r->u.forgotten.generation, r->u.forgotten.step, r->u.forgotten.done,
                 r->u.forgotten.at_ms);
        break;
    case RECORD_HEAL:
        snprintf(out, cap,
                 "heal %s run %u generation %" PRIu64 " step %" PRIu64 " at %" PRIu64
                 " count %u odd %" PRIx64,
                 r->u.heal.job, r->u.heal.run, r->u.heal.generation, r->u.heal.step, r->u.heal.at,
                 r->u.heal.count, r->u.heal.odd);
        break;
    }
}

static void *copy_of(const void *from, size_t n)
{
    void *to = malloc(MAX(n, 1));

    assert_non_null(to);
    if (n > 0) {
        memcpy(to, from, n);
    }
    return to;
}

struct record record_copy(const struct record *r)
{
    struct record copy = *r;

    if (r->kind == RECORD_GENERATION) {
        copy.u.generation.members =
            copy_of(r->u.generation.members, r->u.generation.members_n * sizeof(struct member));
    } else if (r->kind == RECORD_CONFIG) {
        copy.u.config.value = copy_of(r->u.config.value, r->u.config.value_n);
    }
    return copy;
}

void record_free(struct record *r)
{
    if (r->kind == RECORD_GENERATION) {
        free(r->u.generation.members);
    } else if (r->kind == RECORD_CONFIG) {
        free(r->u.config.value);
    }
}

/* ---- snapshots ---- */

struct dumper {
    struct sink to;
    char *lines[1024];
    size_t n;
};

static void dump_put(struct sink *to, const struct record *r)
{
    static char text[1 << 16];
    struct dumper *d = (struct dumper *)to;

    assert_true(d->n < ARRAY_LEN(d->lines));
    record_full(r, text, sizeof(text));
    d->lines[d->n] = strdup(text);
    assert_non_null(d->lines[d->n++]);
}

char *dump_text(struct mind *m)
{
    static struct dumper d;
    size_t total = 1, at = 0;
    char *text;

    d = (struct dumper){.to.put = dump_put};
    mind_dump(m, &d.to);
    for (size_t i = 0; i < d.n; i++) {
        total += strlen(d.lines[i]) + 1;
    }
    text = malloc(total);
    assert_non_null(text);
    text[0] = '\0';
    for (size_t i = 0; i < d.n; i++) {
        at += (size_t)sprintf(text + at, "%s\n", d.lines[i]);
        free(d.lines[i]);
    }
    return text;
}
