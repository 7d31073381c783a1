/* What there is, pieces of it, and what is to go. */
#include "orchestrator/depot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define ENTRY_BYTES 16u
#define ENTRIES_MAX (DEPOT_DATA_MAX / ENTRY_BYTES)

/* Its answers count from now on. */
static void note_reader(struct session *s)
{
    if (!s->depot_reads) {
        LIST_INSERT_HEAD(&s->o->deposits->readers, s, depot_link);
        s->depot_reads = true;
    }
}

static void put_u64(uint8_t *to, uint64_t v)
{
    for (uint32_t i = 0; i < 8; i++) {
        to[i] = (uint8_t)(v >> (8 * i));
    }
}

/* The task gives n bytes; false: no memory. */
static bool make_room(struct depot_task *t, size_t n)
{
    free(t->data);
    t->data = malloc(MAX(n, 1));
    t->says.data = t->data;
    t->says.status = t->data != NULL ? MU_OK : MU_ENOMEM;
    return t->data != NULL;
}

/* ---- lists ---- */

static void run_list(struct depot_task *t)
{
    struct ckpt_entry *entries = NULL;
    uint32_t n = 0, first = 0, give;

    t->says.status = ckpt_list(t->d->dir, t->ask.job, &entries, &n, &t->why);
    if (t->says.status != MU_OK) {
        return;
    }
    while (first < n && t->ask.at > 0 && entries[first].step >= t->ask.at) {
        first++;
    }
    give = MIN(n - first, ENTRIES_MAX);
    if (make_room(t, (size_t)give * ENTRY_BYTES)) {
        for (uint32_t i = 0; i < give; i++) {
            put_u64(t->data + (size_t)i * ENTRY_BYTES, entries[first + i].step);
            put_u64(t->data + (size_t)i * ENTRY_BYTES + 8, entries[first + i].bytes);
        }
        t->says.data_n = give * ENTRY_BYTES;
        t->says.more = first + give < n;
    }
    free(entries);
}

/* `data` has the name after which it goes on. */
static void run_jobs(struct depot_task *t)
{
    char after[NAME_MAX_LEN];
    char *names = NULL;
    const char *from, *end;

    memcpy(after, t->data, sizeof(after));
    t->says.status = ckpt_jobs(t->d->dir, &names, &t->why);
    if (t->says.status != MU_OK) {
        return;
    }
    for (from = names; *from != '\0' && strcmp(from, after) <= 0; from += strlen(from) + 1) {
    }
    for (end = from; *end != '\0'; end += strlen(end) + 1) {
        if ((size_t)(end - from) + strlen(end) + 1 > DEPOT_DATA_MAX) {
            t->says.more = true;
            break;
        }
    }
    if (make_room(t, (size_t)(end - from))) {
        memcpy(t->data, from, (size_t)(end - from));
        t->says.data_n = (uint32_t)(end - from);
    }
    free(names);
}

void look_list(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct deposits *d = s->o->deposits;
    struct depot_task *t = depot_task_new(s, m, request);

    if (t == NULL) {
        return;
    }
    note_reader(s);
    t->run = m->job[0] != '\0' ? run_list : run_jobs;
    t->data = calloc(1, NAME_MAX_LEN);
    if (t->data == NULL) {
        depot_task_fail(t, &d->looks, MU_ENOMEM, "the orchestrator has no memory for a list");
        return;
    }
    if (m->data_n > 0) {
        memcpy(t->data, m->data, MIN(m->data_n, NAME_MAX_LEN - 1));
    }
    depot_task_start(t, &d->looks);
}

/* ---- pieces ---- */

static void run_read(struct depot_task *t)
{
    const size_t n = (size_t)MIN(t->ask.total, DEPOT_DATA_MAX);
    size_t got = 0;

    if (!make_room(t, n)) {
        return;
    }
    t->says.status = ckpt_read_file(t->d->dir, t->ask.job, t->ask.step, t->ask.item, t->ask.at, n,
                                    t->data, &got, &t->says.total, &t->why);
    t->says.at = t->ask.at;
    t->says.item = t->ask.item;
    t->says.data_n = (uint32_t)got;
}

void look_read(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct depot_task *t = depot_task_new(s, m, request);

    if (t != NULL) {
        note_reader(s);
        t->run = run_read;
        depot_task_start(t, &s->o->deposits->looks);
    }
}

/* ---- one goes ---- */

static void run_remove(struct depot_task *t)
{
    t->says.status = ckpt_remove(t->d->dir, t->ask.job, t->ask.step, &t->why);
    (void)room_measure(t);
}

static bool remove_done(struct depot_task *t)
{
    if (t->says.status == MU_OK) {
        log_write(driver_info(t->d->o), "orchestrator",
                  "job '%s': checkpoint of step %" PRIu64 " was removed", t->ask.job, t->ask.step);
    }
    return true;
}

void look_remove(struct session *s, const struct msg_depot *m, uint64_t request)
{
    struct depot_task *t = depot_task_new(s, m, request);

    if (t != NULL) {
        t->run = run_remove;
        t->done = remove_done;
        depot_task_start(t, &s->o->deposits->changes);
    }
}
