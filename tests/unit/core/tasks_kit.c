#include "tasks_kit.h"

#include "wire/wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tasks *kit;
uint64_t kit_now_ms;
char kit_why[TEXT_MAX_LEN];
struct rec_tasks_set kit_set;

struct bytes {
    uint8_t *p;
    size_t n;
};

static struct bytes journal[1u << 16];
static size_t journal_n, applied_n;
static bool holding;
static uint64_t numbers[64], reports[64]; /* of questions and reports, by the worker's last bits */
static uint8_t scratch_mem[1u << 20];

static const struct tasks_limits limits = {.tasks_n = 1u << 20,
                                           .files_n = 300,
                                           .names_bytes = 20000,
                                           .held_n = 64,
                                           .workers_n = 16,
                                           .won_n = 64,
                                           .parked_n = 4};

static void put(struct tasks_out *to, const struct tasks_record *r)
{
    size_t n = wire_record_size((enum wire_type)r->kind, &r->u);
    struct bytes *b = &journal[journal_n++];

    mu_assert(journal_n < ARRAY_LEN(journal));
    *b = (struct bytes){malloc(n), n};
    mu_assert(wire_record_encode((enum wire_type)r->kind, &r->u, b->p, n, &n) == MU_OK);
}

struct tasks_out kit_out = {put};

static struct tasks_record decode(struct bytes b)
{
    struct wire_scratch scratch = {.mem = scratch_mem, .cap = sizeof(scratch_mem)};
    struct tasks_record r = {0};
    union wire_any any;
    unsigned type;

    mu_assert(wire_record_decode(b.p, b.n, &type, &any, &scratch, NULL) == MU_OK);
    r.kind = (enum tasks_kind)type;
    memcpy(&r.u, &any, sizeof(r.u));
    return r;
}

static void apply_all(void)
{
    while (!holding && applied_n < journal_n) {
        struct tasks_record r = decode(journal[applied_n++]);

        assert_int_equal(tasks_apply(kit, &r), MU_OK);
        tasks_tick(kit, kit_now_ms, &kit_out);
    }
}

void kit_tick(uint64_t ms)
{
    while (ms > 0) {
        uint64_t step = MIN(ms, 7000);

        kit_now_ms += step;
        ms -= step;
        tasks_tick(kit, kit_now_ms, &kit_out);
        apply_all();
    }
    tasks_tick(kit, kit_now_ms, &kit_out);
    apply_all();
}

void kit_hold(void)
{
    holding = true;
}

void kit_release(void)
{
    holding = false;
    kit_tick(0);
}

void kit_lose(void)
{
    holding = false;
    for (size_t i = applied_n; i < journal_n; i++) {
        struct tasks_record r = decode(journal[i]);

        tasks_failed(kit, &r);
        free(journal[i].p);
    }
    journal_n = applied_n;
}

uint32_t kit_waiting(enum tasks_kind kind)
{
    uint32_t n = 0;

    for (size_t i = applied_n; i < journal_n; i++) {
        n += decode(journal[i]).kind == kind;
    }
    return n;
}

int kit_setup(void **state)
{
    kit_now_ms = 1000000;
    kit_why[0] = '\0';
    holding = false;
    memset(numbers, 0, sizeof(numbers));
    memset(reports, 0, sizeof(reports));
    kit_set = tasks_set(TASK_TRAINING, "data", 1, 1);
    assert_int_equal(tasks_init("job", &limits, &kit), MU_OK);
    tasks_start(kit, kit_now_ms, KIT_LEASE_MS);
    return 0;
}

int kit_teardown(void **state)
{
    kit_check_rebuilt();
    tasks_close(kit);
    while (journal_n > 0) {
        free(journal[--journal_n].p);
    }
    applied_n = 0;
    return 0;
}

void kit_crash(void)
{
    while (journal_n > applied_n) {
        free(journal[--journal_n].p);
    }
    tasks_close(kit);
    assert_int_equal(tasks_init("job", &limits, &kit), MU_OK);
    for (size_t i = 0; i < journal_n; i++) {
        struct tasks_record r = decode(journal[i]);

        assert_int_equal(tasks_apply(kit, &r), MU_OK);
    }
    holding = false;
    tasks_start(kit, kit_now_ms, KIT_LEASE_MS);
    kit_tick(0);
}

void kit_restart(void)
{
    kit_crash();
    kit_tick(KIT_LEASE_MS);
}

int kit_describe(uint32_t files_n, uint64_t first, const uint64_t *n)
{
    static struct task_file files[TASKS_PART_MAX];
    bool pending;
    int rc;

    kit_set.files_n = files_n;
    rc = tasks_describe(kit, &kit_set, &kit_out, &pending, kit_why, sizeof(kit_why));
    kit_tick(0);
    for (uint32_t at = 0; rc == MU_OK && at < files_n; at += TASKS_PART_MAX) {
        struct rec_tasks_files part = {.kind = kit_set.kind,
                                       .head = tasks_head_digest(&kit_set),
                                       .at = at,
                                       .files_n = MIN(files_n - at, TASKS_PART_MAX),
                                       .files = files};

        for (uint32_t i = 0; i < part.files_n; i++) {
            snprintf(files[i].name, sizeof(files[i].name), "f%u", at + i);
            files[i].first = first;
            files[i].n = n[at + i];
        }
        rc = tasks_files(kit, &part, &kit_out, &pending, kit_why, sizeof(kit_why));
        kit_tick(0);
    }
    return rc;
}

void kit_train(uint64_t records, uint64_t per_task)
{
    kit_set.per_task = per_task;
    assert_int_equal(kit_describe(1, 0, &records), MU_OK);
}

int kit_get(wid worker, struct task *out)
{
    struct tasks_given given;

    assert_int_equal(
        tasks_get(kit, worker, ++numbers[worker % 64], 1, kit_now_ms, &kit_out, out, &given),
        MU_OK);
    kit_tick(0);
    return given.state;
}

struct task kit_take(wid worker)
{
    struct task task;

    assert_int_equal(kit_get(worker, &task), TASKS_GIVEN);
    return task;
}

static uint8_t say(wid worker, const struct task *task, bool failed, const char *text)
{
    struct task_item item = {task->id, task->attempt, 0, failed};
    uint64_t number = ++reports[worker % 64];
    struct tasks_report r = {.worker = worker,
                             .number = number,
                             .acked = number - 1,
                             .items_n = 1,
                             .items = &item,
                             .text = text};
    uint8_t verdict;
    bool pending;

    assert_int_equal(
        tasks_report(kit, &r, kit_now_ms, &kit_out, &verdict, &pending, kit_why, sizeof(kit_why)),
        MU_OK);
    kit_tick(0);
    return verdict;
}

uint8_t kit_report(wid worker, const struct task *task)
{
    return say(worker, task, false, NULL);
}

uint8_t kit_fail(wid worker, const struct task *task, const char *text)
{
    return say(worker, task, true, text);
}

uint32_t kit_all(wid worker, struct task *out, uint32_t cap)
{
    uint32_t n = 0;

    while (n < cap && kit_get(worker, &out[n]) == TASKS_GIVEN) {
        assert_int_equal(kit_report(worker, &out[n]), TASK_COUNTED);
        n++;
    }
    return n;
}

struct tasks_progress kit_look(void)
{
    struct tasks_progress p;

    tasks_look(kit, &p);
    return p;
}

/* ---- the same again ---- */

struct dump {
    struct tasks_out base;
    uint8_t *p;
    size_t n, cap;
    struct tasks *into; /* that it is applied to, too */
};

static void put_dump(struct tasks_out *to, const struct tasks_record *r)
{
    struct dump *d = (struct dump *)to;
    size_t n = wire_record_size((enum wire_type)r->kind, &r->u);

    assert_true(n < 128u << 10); /* bounded pieces */
    if (d->n + n > d->cap) {
        d->cap = 2 * (d->n + n);
        d->p = realloc(d->p, d->cap);
    }
    assert_int_equal(wire_record_encode((enum wire_type)r->kind, &r->u, d->p + d->n, n, &n), MU_OK);
    if (d->into != NULL) {
        struct tasks_record again = decode((struct bytes){d->p + d->n, n});

        assert_int_equal(tasks_apply(d->into, &again), MU_OK);
    }
    d->n += n;
}

static struct dump dump(struct tasks *t, struct tasks *into)
{
    struct dump d = {.base = {put_dump}, .into = into};
    struct tasks_cursor at = {0, 0};

    while (tasks_dump(t, &at, &d.base)) {
    }
    return d;
}

void kit_check_rebuilt(void)
{
    struct tasks *replayed, *copied;
    struct dump of[3];

    assert_int_equal(tasks_init("job", &limits, &replayed), MU_OK);
    assert_int_equal(tasks_init("job", &limits, &copied), MU_OK);
    for (size_t i = 0; i < applied_n; i++) {
        struct tasks_record r = decode(journal[i]);

        assert_int_equal(tasks_apply(replayed, &r), MU_OK);
    }
    of[0] = dump(kit, copied);
    of[1] = dump(replayed, NULL);
    of[2] = dump(copied, NULL);
    for (int i = 1; i < 3; i++) {
        assert_int_equal(of[0].n, of[i].n);
        assert_true(of[0].n == 0 || memcmp(of[0].p, of[i].p, of[0].n) == 0);
    }
    for (int i = 0; i < 3; i++) {
        free(of[i].p);
    }
    tasks_close(replayed);
    tasks_close(copied);
}
