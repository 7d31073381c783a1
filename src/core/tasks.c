#include "core/tasks.h"

#include "core/tasks_state.h"
#include "core/text.h"

#include <stdlib.h>
#include <string.h>

struct tasks_limits tasks_limits_default(void)
{
    return (struct tasks_limits){
        .tasks_n = 1u << 24,
        .files_n = 1u << 16,
        .names_bytes = 4u << 20,
        .held_n = 1u << 16,
        .workers_n = 1u << 14,
        .won_n = 1u << 16,
        .parked_n = 256,
    };
}

static bool limits_valid(const struct tasks_limits *l)
{
    return l->tasks_n > 0 && l->tasks_n <= 1u << 30 && l->files_n > 0 && l->files_n <= 1u << 24 &&
           l->names_bytes > 0 && l->held_n > 0 && l->held_n <= 1u << 24 && l->workers_n > 0 &&
           l->workers_n <= 1u << 24 && l->won_n > 0 && l->won_n <= 1u << 24 && l->parked_n > 0;
}

static size_t slot_words(const struct tasks *t, uint32_t slot)
{
    return slot < SLOTS_WIDE ? (t->limits.tasks_n + (size_t)63) / 64 : 1;
}

/* Pages of calloc() that nobody has written cost nothing: limits may be generous. */
int tasks_init(const char *job, const struct tasks_limits *limits, struct tasks **t_out)
{
    struct tasks *t;
    bool ok = true;

    if (!text_is_name(job, strnlen(job, NAME_MAX_LEN)) || !limits_valid(limits)) {
        return MU_EINVAL;
    }
    t = calloc(1, sizeof(*t));
    if (t == NULL) {
        return MU_ENOMEM;
    }
    strcpy(t->job, job);
    t->limits = *limits;
    for (uint32_t i = 0; i < TASK_SETS; i++) {
        t->sets[i].files = calloc(limits->files_n, sizeof(struct file));
        t->sets[i].names = calloc(limits->names_bytes, 1);
        ok &= t->sets[i].files != NULL && t->sets[i].names != NULL;
    }
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        t->passes[i].bits = calloc(slot_words(t, i), sizeof(uint64_t));
        ok &= t->passes[i].bits != NULL;
    }
    t->scratch = calloc(1, sizeof(*t->scratch));
    t->parked = calloc(limits->parked_n, sizeof(t->parked[0]));
    t->won = calloc(limits->won_n, sizeof(t->won[0]));
    t->won_links = calloc(limits->won_n, sizeof(struct link));
    t->won_of_links = calloc(limits->won_n, sizeof(struct link));
    t->entries = calloc(limits->held_n, sizeof(t->entries[0]));
    t->back_links = calloc(limits->held_n, sizeof(struct link));
    t->hold_links = calloc(2 * (size_t)limits->held_n, sizeof(struct link));
    t->hold_of_links = calloc(2 * (size_t)limits->held_n, sizeof(struct link));
    t->workers = calloc(limits->workers_n, sizeof(t->workers[0]));
    ok &= t->scratch != NULL && t->parked != NULL && t->won != NULL && t->won_links != NULL &&
          t->won_of_links != NULL && t->entries != NULL && t->back_links != NULL &&
          t->hold_links != NULL && t->hold_of_links != NULL && t->workers != NULL;
    ok = ok && table_init(&t->won_ids, limits->won_n) == MU_OK &&
         table_init(&t->entry_ids, limits->held_n) == MU_OK &&
         table_init(&t->worker_ids, limits->workers_n) == MU_OK;
    if (!ok) {
        tasks_close(t);
        return MU_ENOMEM;
    }
    tasks_reset(t);
    *t_out = t;
    return MU_OK;
}

void tasks_close(struct tasks *t)
{
    if (t == NULL) {
        return;
    }
    for (uint32_t i = 0; i < TASK_SETS; i++) {
        free(t->sets[i].files);
        free(t->sets[i].names);
    }
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        free(t->passes[i].bits);
    }
    free(t->scratch);
    free(t->parked);
    free(t->won);
    free(t->won_links);
    free(t->won_of_links);
    free(t->entries);
    free(t->back_links);
    free(t->hold_links);
    free(t->hold_of_links);
    free(t->workers);
    table_close(&t->won_ids);
    table_close(&t->entry_ids);
    table_close(&t->worker_ids);
    free(t);
}

void tasks_reset(struct tasks *t)
{
    struct tasks now = {
        .limits = t->limits,
        .next_id = MAX(t->next_id, 1), /* What was said of the last run means nothing in this */
        .start = t->start,
        .scratch = t->scratch,
        .parked = t->parked,
        .won_ids = t->won_ids,
        .won = t->won,
        .won_links = t->won_links,
        .won_of_links = t->won_of_links,
        .won_all = CHAIN_EMPTY,
        .entry_ids = t->entry_ids,
        .entries = t->entries,
        .back_links = t->back_links,
        .hold_links = t->hold_links,
        .hold_of_links = t->hold_of_links,
        .worker_ids = t->worker_ids,
        .workers = t->workers,
        .live = t->live,
        .clock_ms = t->clock_ms,
        .seen_ms = t->seen_ms,
    };

    strcpy(now.job, t->job);
    for (uint32_t i = 0; i < TASK_SETS; i++) {
        set_reset(&t->sets[i]);
        now.sets[i] = t->sets[i];
    }
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        now.passes[i] = (struct pass){.bits = t->passes[i].bits, .back = CHAIN_EMPTY};
    }
    for (uint32_t i = 0; i < TASK_KINDS; i++) {
        now.holds[i] = CHAIN_EMPTY;
    }
    *t = now;
    table_reset(&t->won_ids);
    table_reset(&t->entry_ids);
    table_reset(&t->worker_ids);
}

size_t tasks_memory(const struct tasks *t)
{
    size_t n = sizeof(*t) + sizeof(*t->scratch) + table_memory(&t->won_ids) +
               table_memory(&t->entry_ids) + table_memory(&t->worker_ids);

    for (uint32_t i = 0; i < SLOTS_N; i++) {
        n += slot_words(t, i) * sizeof(uint64_t);
    }
    n += TASK_SETS * (t->limits.files_n * sizeof(struct file) + t->limits.names_bytes);
    n += t->limits.parked_n * sizeof(t->parked[0]);
    n += t->limits.won_n * (sizeof(t->won[0]) + 2 * sizeof(struct link));
    n += t->limits.held_n * (sizeof(t->entries[0]) + 5 * sizeof(struct link));
    return n + t->limits.workers_n * sizeof(t->workers[0]);
}

/* ---- time ---- */

/* The clock of leases: one that jumped has stood still for most of it. */
void tasks_pass_time(struct tasks *t, uint64_t now_ms)
{
    if (now_ms > t->seen_ms) {
        t->clock_ms += MIN(now_ms - t->seen_ms, JUMP_MS);
        t->seen_ms = now_ms;
    }
}

void tasks_start(struct tasks *t, uint64_t now_ms, uint32_t lease_ms)
{
    t->live = true;
    t->due = true;
    t->seen_ms = now_ms;
    t->grace_ms = t->clock_ms + lease_ms;
    for (uint32_t i = 0; i < SLOTS_N; i++) { /* Whoever had what was reserved, has it. */
        t->passes[i].block_at = t->passes[i].block_end = t->passes[i].settled_n;
    }
}

void tasks_put(struct tasks_out *out, const struct tasks_record *r)
{
    out->put(out, r);
}

static bool any_set(const struct tasks *t)
{
    return t->sets[0].there || t->sets[1].there || t->sets[2].there;
}

void tasks_tick(struct tasks *t, uint64_t now_ms, struct tasks_out *out)
{
    struct tasks_record r = {.kind = TASKS_START};

    tasks_pass_time(t, now_ms);
    t->due = false;
    if (t->live && !t->started && !t->starting && any_set(t)) {
        t->starting = true;
        strcpy(r.u.start.job, t->job);
        r.u.start.start = t->start + 1;
        tasks_put(out, &r);
    }
    holds_time_out(t, out);
    passes_advance(t, out);
}

uint64_t tasks_deadline(const struct tasks *t)
{
    uint64_t at_ms = UINT64_MAX;

    if (t->due) {
        return t->seen_ms;
    }
    for (uint8_t kind = 0; kind < TASK_KINDS; kind++) {
        uint32_t h = t->holds[kind].first;

        if (h != NONE) {
            at_ms = MIN(at_ms, t->entries[h / 2].holds[h % 2].given_ms + timeout_of(t, kind));
        }
    }
    if (t->live && t->clock_ms < t->grace_ms) {
        at_ms = MIN(at_ms, t->grace_ms);
    }
    if (at_ms == UINT64_MAX) {
        return at_ms;
    }
    /* Twice as often as what would look like a jump. */
    return t->seen_ms + MIN(at_ms - MIN(at_ms, t->clock_ms), JUMP_MS / 2);
}

/* ---- looking in ---- */

void tasks_look(const struct tasks *t, struct tasks_progress *out)
{
    *out = (struct tasks_progress){
        .epoch = t->next_epoch,
        .epochs = t->sets[TASK_TRAINING].head.epochs,
        .version = t->version,
        .waiting_n = t->waiting_n,
        .given_n = t->given_n,
        .again_n = t->again_n,
        .parked_n = t->parked_n,
        .described = any_set(t),
        .finished = tasks_finished(t),
    };
    for (uint32_t i = 0; i < SLOTS_N; i++) {
        const struct pass *p = &t->passes[i];

        if (p->open && !pass_over(p)) {
            out->kinds[p->kind].total += p->n;
            out->kinds[p->kind].settled += p->settled_n;
            out->epoch = p->kind == TASK_TRAINING ? MIN(out->epoch, p->epoch) : out->epoch;
            out->evaluating = p->kind == TASK_EVALUATION ? p->version : out->evaluating;
        }
    }
    for (uint32_t e = 0; e < t->entry_ids.fresh; e++) {
        if (table_find(&t->entry_ids, t->entry_ids.keys[e]) == e &&
            t->entries[e].state != ENTRY_BACK) {
            out->kinds[t->passes[t->entries[e].slot].kind].doing++;
        }
    }
    for (uint8_t kind = 0; kind < TASK_KINDS; kind++) {
        const struct totals *of = &t->totals[kind];

        out->kinds[kind].todo =
            out->kinds[kind].total - out->kinds[kind].settled - out->kinds[kind].doing;
        out->kinds[kind].done = of->done;
        out->kinds[kind].records = of->records;
        out->kinds[kind].failed_records = of->failed_records;
        out->kinds[kind].parked = of->parked;
        out->kinds[kind].timeout_ms = any_set(t) ? timeout_of(t, kind) : 0;
    }
}

void tasks_say(const struct tasks *t, char *text, size_t cap)
{
    static const char *const names[TASK_KINDS] = {"training", "evaluation", "prediction",
                                                  "saving the model", "the end of training"};
    struct tasks_progress p;
    char parked[128] = "", open[128] = "";

    tasks_look(t, &p);
    if (p.parked_n > 0) {
        text_say(parked, sizeof(parked),
                 "; %" PRIu64 " failed too often and %s parked: see which, "
                 "and why",
                 p.parked_n, p.parked_n == 1 ? "is" : "are");
    }
    for (uint8_t kind = TASK_KINDS; kind-- > 0;) {
        if (p.kinds[kind].total > 0) {
            text_say(open, sizeof(open),
                     "%s: %" PRIu64 " of %" PRIu64 " tasks done, %" PRIu64 " given out",
                     names[kind], p.kinds[kind].settled, p.kinds[kind].total, p.kinds[kind].doing);
        }
    }
    if (!p.described) {
        text_say(text, cap, "no data was described");
    } else if (p.finished) {
        text_say(text, cap, "all tasks are done%s", parked);
    } else {
        text_say(text, cap, "epoch %" PRIu64 "%s%s%s", p.epoch + 1, open[0] != '\0' ? ", " : "",
                 open, parked);
    }
}

const struct rec_tasks_parked *tasks_parked(const struct tasks *t, uint32_t i,
                                            const char **file_out)
{
    if (i >= t->parked_listed_n) {
        return NULL;
    }
    const struct rec_tasks_parked *r = &t->parked[i];
    const struct set *s = &t->sets[r->kind < TASK_SETS ? r->kind : TASK_TRAINING];
    *file_out = s->names + s->files[r->file].name;
    return r;
}
