/* Data sets: what they are, how they are cut, and when two are the same. */
#include "core/tasks_state.h"

#include "base/prng.h"
#include "core/text.h"

#include <string.h>

struct rec_tasks_set tasks_set(enum task_kind kind, const char *name, uint32_t files_n,
                               uint64_t per_task)
{
    struct rec_tasks_set set = {
        .kind = (uint8_t)kind,
        .files_n = files_n,
        .per_task = per_task,
        .epochs = 1,
        .attempts = 3,
        .losses = 10,
        .timeout_ms = 300000,
        .slow_factor = 3,
    };

    text_say(set.name, sizeof(set.name), "%s", name);
    return set;
}

static uint64_t mix(uint64_t digest, uint64_t value)
{
    return prng_mix(digest ^ prng_mix(value));
}

static uint64_t mix_text(uint64_t digest, const char *text)
{
    for (; *text != '\0'; text++) {
        digest = mix(digest, (uint8_t)*text);
    }
    return mix(digest, 256);
}

/* What must be the same for tasks to be the same ones. */
static uint64_t cut_digest(const struct rec_tasks_set *s)
{
    uint64_t digest = mix_text(s->kind, s->name);

    digest = mix(mix(mix(digest, s->files_n), s->per_task), s->seed);
    return mix(digest, s->shuffle_tasks);
}

uint64_t tasks_head_digest(const struct rec_tasks_set *s)
{
    const uint64_t all[] = {(uint64_t)(int64_t)s->epochs,
                            s->shuffle,
                            s->overlap,
                            s->loose,
                            s->copies,
                            s->at_once,
                            s->save,
                            s->end,
                            s->attempts,
                            s->losses,
                            s->max_steps,
                            s->eval_steps,
                            s->timeout_ms,
                            s->slow_factor,
                            s->resume_epoch,
                            s->resume_done,
                            s->resume_next,
                            s->resume_version,
                            s->resume_digest};
    uint64_t digest = cut_digest(s);

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        digest = mix(digest, all[i]);
    }
    return digest;
}

uint64_t set_digest(const struct set *s)
{
    return mix(cut_digest(&s->head), s->digest);
}

uint32_t set_whole(const struct set *s)
{
    return s->there && s->files_n == s->head.files_n ? s->tasks_n : 0;
}

/* Those of saving and of the end are training's. */
const struct rec_tasks_set *set_of(const struct tasks *t, uint8_t kind)
{
    return &t->sets[kind < TASK_SETS ? kind : TASK_TRAINING].head;
}

void set_reset(struct set *s)
{
    *s = (struct set){.files = s->files, .names = s->names};
}

/* ---- is it one? ---- */

static int head_valid(const struct tasks *t, const struct rec_tasks_set *s, char *why, size_t cap)
{
    if (s->kind >= TASK_SETS || s->name[0] == '\0') {
        text_say(why, cap, "a data set has a name, and is for training, evaluation or prediction");
        return MU_EINVAL;
    }
    if (s->files_n == 0 || s->per_task == 0 || s->per_task > ORDER_SAMPLES_MAX ||
        s->attempts == 0 || s->timeout_ms == 0 || s->slow_factor == 0) {
        text_say(why, cap,
                 "the data set %s needs 1 or more files, records per task (up to 2^48), attempts, "
                 "milliseconds until a task is late, and times a slow one; it has %" PRIu32
                 ", %" PRIu64 ", %" PRIu32 ", %" PRIu32 " and %" PRIu32,
                 s->name, s->files_n, s->per_task, s->attempts, s->timeout_ms, s->slow_factor);
        return MU_EINVAL;
    }
    if (s->kind != TASK_TRAINING &&
        (s->loose || s->save || s->end || s->epochs != 1 || s->max_steps != 0 ||
         s->eval_steps != 0 || s->resume_epoch != 0 || s->resume_done != 0 ||
         s->resume_next != 0)) {
        text_say(why, cap,
                 "the data set %s is not for training: it has one epoch, and no steps, "
                 "save, end, or tasks that are not tracked",
                 s->name);
        return MU_EINVAL;
    }
    if (s->loose && (s->copies || s->resume_done != 0 || s->resume_next != 0)) {
        text_say(why, cap, "tasks of %s that are not tracked can't be copied or taken up again",
                 s->name);
        return MU_EINVAL;
    }
    if (s->files_n > t->limits.files_n) {
        text_say(why, cap,
                 "the data set %s has %" PRIu32 " files, more than %" PRIu32
                 ": put several into one",
                 s->name, s->files_n, t->limits.files_n);
        return MU_ELIMIT;
    }
    return MU_OK;
}

#define DIFFER(field, format, what)                                                               \
    if (a->field != b->field) {                                                                   \
        text_say(why, cap,                                                                        \
                 "the data set %s was described with " what " %" format ", and now with %" format \
                 ": use the same everywhere, or another job",                                     \
                 a->name, a->field, b->field);                                                    \
        return MU_ECONFLICT;                                                                      \
    }

/* Where they differ, the resumed place apart: who comes later may not know of it. */
static int heads_differ(const struct rec_tasks_set *a, const struct rec_tasks_set *b, char *why,
                        size_t cap)
{
    if (strcmp(a->name, b->name) != 0) {
        text_say(why, cap,
                 "the job's data set is %s, not %s: use the same everywhere, or another job",
                 a->name, b->name);
        return MU_ECONFLICT;
    }
    DIFFER(files_n, PRIu32, "files:")
    DIFFER(per_task, PRIu64, "records per task:")
    DIFFER(epochs, PRId32, "epochs:")
    DIFFER(seed, PRIu64, "the seed")
    DIFFER(shuffle_tasks, "d", "shuffling of tasks:")
    DIFFER(shuffle, "d", "shuffling of records:")
    DIFFER(overlap, "d", "overlapping epochs:")
    DIFFER(loose, "d", "tasks that are not tracked:")
    DIFFER(copies, "d", "copies of slow tasks:")
    DIFFER(at_once, "d", "evaluation at once:")
    DIFFER(save, "d", "a task to save the model:")
    DIFFER(end, "d", "a task at the end of training:")
    DIFFER(attempts, PRIu32, "attempts:")
    DIFFER(losses, PRIu32, "losses:")
    DIFFER(max_steps, PRIu64, "steps:")
    DIFFER(eval_steps, PRIu64, "steps between evaluations:")
    DIFFER(timeout_ms, PRIu32, "a time-out in ms:")
    DIFFER(slow_factor, PRIu32, "times a slow task:")
    return MU_OK;
}

/* MU_EEXIST: it is there already. */
int set_head_check(const struct tasks *t, const struct rec_tasks_set *head, char *why, size_t cap)
{
    int rc = head_valid(t, head, why, cap);

    if (rc != MU_OK) {
        return rc;
    }
    const struct set *s = &t->sets[head->kind];
    if (set_whole(s) != 0) {
        rc = MUTATED(FIRST_DESCRIPTION) ? MU_EEXIST : heads_differ(&s->head, head, why, cap);
        return rc == MU_OK ? MU_EEXIST : rc;
    }
    return s->there && tasks_head_digest(&s->head) == tasks_head_digest(head) ? MU_EEXIST : MU_OK;
}

static int same_file(const struct set *s, uint32_t i, const struct task_file *f, char *why,
                     size_t cap)
{
    const struct file *was = &s->files[i];

    if (strcmp(s->names + was->name, f->name) == 0 && was->first == f->first && was->n == f->n) {
        return MU_OK;
    }
    text_say(why, cap,
             "file %" PRIu32 " of the data set %s is %.60s with %" PRIu64 " records from %" PRIu64
             ", not %.60s with %" PRIu64 " from %" PRIu64,
             i + 1, s->head.name, s->names + was->name, was->n, was->first, f->name, f->n,
             f->first);
    return MU_ECONFLICT;
}

static uint64_t tasks_in(const struct set *s, uint64_t records)
{
    return records / s->head.per_task + (records % s->head.per_task != 0);
}

static int room_for(const struct tasks *t, const struct set *s, const struct rec_tasks_files *part,
                    char *why, size_t cap)
{
    uint64_t tasks_n = s->tasks_n, names_n = s->names_n;

    for (uint32_t i = 0; i < part->files_n; i++) {
        const struct task_file *f = &part->files[i];

        if (f->name[0] == '\0' || f->n > ORDER_SAMPLES_MAX || f->first > ORDER_SAMPLES_MAX) {
            text_say(why, cap,
                     "file %" PRIu32 " of the data set %s has no name, or records beyond "
                     "2^48",
                     part->at + i + 1, s->head.name);
            return MU_EINVAL;
        }
        names_n += strlen(f->name) + 1;
        tasks_n += tasks_in(s, f->n);
    }
    if (tasks_n > t->limits.tasks_n || names_n > t->limits.names_bytes) {
        text_say(why, cap,
                 "the data set %s has more than %" PRIu32 " tasks, or %" PRIu32
                 " bytes of file names: raise its records per task (%" PRIu64
                 "), or shorten the names",
                 s->head.name, t->limits.tasks_n, t->limits.names_bytes, s->head.per_task);
        return MU_ELIMIT;
    }
    if (tasks_n == 0 && part->at + part->files_n == s->head.files_n) {
        text_say(why, cap, "the data set %s has no records in any of its %" PRIu32 " files",
                 s->head.name, s->head.files_n);
        return MU_EINVAL;
    }
    return MU_OK;
}

/* MU_EEXIST: all of it is there already. What is new begins where that ends. */
int set_files_check(const struct tasks *t, const struct rec_tasks_files *part, char *why,
                    size_t cap)
{
    if (part->kind >= TASK_SETS || !t->sets[part->kind].there) {
        text_say(why, cap, "the data set of these files was not described");
        return MU_ENOENT;
    }
    const struct set *s = &t->sets[part->kind];
    if (set_whole(s) == 0 && part->head != tasks_head_digest(&s->head)) {
        text_say(why, cap,
                 "another description, of the data set %s, has taken the place of this one",
                 s->head.name);
        return MU_ECONFLICT;
    }
    if (part->files_n == 0 || part->files_n > TASKS_PART_MAX || part->at > s->files_n ||
        part->files_n > s->head.files_n - part->at) {
        text_say(why, cap,
                 "files %" PRIu32 " to %" PRIu32 " of %" PRIu32 " can't follow: %" PRIu32
                 " are there",
                 part->at + 1, part->at + part->files_n, s->head.files_n, s->files_n);
        return MU_EINVAL;
    }
    uint32_t known = MIN(part->files_n, s->files_n - part->at);
    for (uint32_t i = 0; i < known; i++) {
        int rc = same_file(s, part->at + i, &part->files[i], why, cap);

        if (rc != MU_OK) {
            return rc;
        }
    }
    if (known != 0) { /* The rest, if any, comes with a later part: parts are cut alike. */
        return known == part->files_n ? MU_EEXIST : MU_EINVAL;
    }
    return room_for(t, s, part, why, cap);
}

/* ---- described ---- */

void set_apply_head(struct tasks *t, const struct rec_tasks_set *head)
{
    struct set *s = &t->sets[head->kind];

    set_reset(s);
    s->there = true;
    s->head = *head;
    if (head->kind == TASK_TRAINING) {
        t->next_epoch = head->resume_epoch;
        t->sure_version = MAX(t->sure_version, head->resume_version);
        t->version = MAX(t->version, t->sure_version);
        t->asked = MAX(t->asked, head->resume_version);
    }
}

void set_apply_files(struct tasks *t, const struct rec_tasks_files *part)
{
    struct set *s = &t->sets[part->kind];

    for (uint32_t i = 0; i < part->files_n; i++) {
        const struct task_file *f = &part->files[i];
        size_t n = strlen(f->name) + 1;

        s->files[s->files_n++] = (struct file){s->names_n, s->tasks_n, f->first, f->n};
        memcpy(s->names + s->names_n, f->name, n);
        s->names_n += (uint32_t)n;
        s->tasks_n += (uint32_t)tasks_in(s, f->n);
        s->digest = mix(mix(mix_text(s->digest, f->name), f->first), f->n);
    }
}

static void put(struct set *s, bool *pending, struct tasks_out *out, const struct tasks_record *r)
{
    s->pending = true;
    *pending = true;
    tasks_put(out, r);
}

int tasks_describe(struct tasks *t, const struct rec_tasks_set *set, struct tasks_out *out,
                   bool *pending, char *why, size_t cap)
{
    struct tasks_record r = {.kind = TASKS_SET, .u.set = *set};
    int rc = set_head_check(t, set, why, cap);

    *pending = false;
    if (rc == MU_OK && t->sets[set->kind].pending) {
        text_say(why, cap, "another description is being written: try again");
        return MU_EAGAIN;
    }
    if (rc == MU_OK) {
        strcpy(r.u.set.job, t->job);
        put(&t->sets[set->kind], pending, out, &r);
    }
    return rc == MU_EEXIST ? MU_OK : rc;
}

int tasks_files(struct tasks *t, const struct rec_tasks_files *part, struct tasks_out *out,
                bool *pending, char *why, size_t cap)
{
    struct tasks_record r = {.kind = TASKS_FILES, .u.files = *part};
    int rc = MU_OK;

    *pending = false;
    if (part->kind < TASK_SETS && t->sets[part->kind].pending) {
        text_say(why, cap, "a part of the description is being written: try again");
        return MU_EAGAIN;
    }
    rc = set_files_check(t, part, why, cap);
    if (rc == MU_OK) {
        strcpy(r.u.files.job, t->job);
        put(&t->sets[part->kind], pending, out, &r);
    }
    return rc == MU_EEXIST ? MU_OK : rc;
}

/* ---- where tasks lie ---- */

struct place set_place(const struct tasks *t, const struct pass *p, uint32_t position)
{
    const struct set *s = &t->sets[p->kind < TASK_SETS ? p->kind : TASK_TRAINING];
    bool mixed = s->head.shuffle_tasks && p->kind < TASK_SETS;
    uint32_t index = mixed ? (uint32_t)order_sample(&p->order, position) : position;
    uint32_t lo = 0, hi = s->files_n;

    while (hi - lo > 1) { /* The last file whose first task is not behind it: no empty one. */
        uint32_t mid = lo + (hi - lo) / 2;

        *(s->files[mid].task <= index ? &lo : &hi) = mid;
    }
    const struct file *f = &s->files[lo];
    uint64_t from = (index - f->task) * s->head.per_task;
    return (struct place){
        .file = lo,
        .first = f->first + from,
        .end = f->first + MIN(from + s->head.per_task, f->n),
        .index = index,
    };
}

uint64_t tasks_record(const struct task *task, uint64_t k)
{
    struct order order;

    if (task->mixed_n == 0) {
        return task->first + k;
    }
    mu_assert(order_init(&order, task->seed, task->epoch, task->mixed_n) == MU_OK);
    return task->base + order_sample(&order, task->at + k);
}
