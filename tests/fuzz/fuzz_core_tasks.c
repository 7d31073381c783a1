/* Records for a small task manager, straight from a journal that may be damaged, and what workers
 * may say, in any order. No record and no word of a worker ends the process; a record that is
 * refused changes nothing; a dump rebuilds the state.
 *
 * The input is a list of operations: a kind, then its numbers. */
#include "core/tasks.h"
#include "fuzz/fuzz.h"
#include "wire/wire.h"

#include <stdlib.h>
#include <string.h>

static const struct tasks_limits limits = {.tasks_n = 200,
                                           .files_n = 5,
                                           .names_bytes = 32,
                                           .held_n = 6,
                                           .workers_n = 3,
                                           .won_n = 8,
                                           .parked_n = 2};

struct input {
    const uint8_t *p;
    size_t n;
};

static uint8_t take(struct input *in)
{
    if (in->n == 0) {
        return 0;
    }
    in->n--;
    return *in->p++;
}

/* Small mostly, and now and then anything. */
static uint64_t number(struct input *in)
{
    uint8_t b = take(in);
    uint64_t v = 0;

    if (b < 250) {
        return b % 16;
    }
    for (uint32_t i = 0; i < 8; i++) {
        v = v << 8 | take(in);
    }
    return b == 255 ? ~v : v;
}

struct bytes {
    struct tasks_out base;
    uint8_t *p;
    size_t n;
};

static void put_bytes(struct tasks_out *to, const struct tasks_record *r)
{
    struct bytes *b = (struct bytes *)to;
    size_t n = wire_record_size((enum wire_type)r->kind, &r->u);

    b->p = realloc(b->p, b->n + n);
    mu_assert(b->p != NULL);
    mu_assert(wire_record_encode((enum wire_type)r->kind, &r->u, b->p + b->n, n, &n) == MU_OK);
    b->n += n;
}

static struct bytes dump(struct tasks *t)
{
    struct bytes b = {.base = {put_bytes}};
    struct tasks_cursor at = {0, 0};

    while (tasks_dump(t, &at, &b.base)) {
    }
    return b;
}

struct into {
    struct tasks_out base;
    struct tasks *t;
};

static void put_into(struct tasks_out *to, const struct tasks_record *r)
{
    mu_assert(tasks_apply(((struct into *)to)->t, r) == MU_OK);
}

static void check_rebuilt(struct tasks *t)
{
    struct into again = {.base = {put_into}};
    struct tasks_cursor at = {0, 0};

    mu_assert(tasks_init("job", &limits, &again.t) == MU_OK);
    while (tasks_dump(t, &at, &again.base)) {
    }
    struct bytes a = dump(t), b = dump(again.t);
    mu_assert(a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0));
    free(a.p);
    free(b.p);
    tasks_close(again.t);
}

/* ---- records ---- */

static struct task_file files[4];
static struct task_done items[4];
static struct task_metric metrics[2];
static struct task_value values[4];
static struct task_won won[4];
static uint8_t words[800];

static void fill_lists(struct input *in)
{
    for (uint32_t i = 0; i < 4; i++) {
        files[i] = (struct task_file){"f", number(in), number(in)};
        items[i] = (struct task_done){number(in), (uint32_t)number(in), (uint32_t)number(in)};
        values[i].value = number(in);
        won[i] = (struct task_won){number(in) % 4, number(in), number(in)};
    }
    for (uint32_t i = 0; i < 2; i++) {
        metrics[i] = (struct task_metric){"m", take(in) % TASKS_METRIC_TYPES, take(in) % 8};
        metrics[i].name[0] = (char)('a' + take(in) % 2);
    }
    for (uint32_t i = 0; i < 64; i++) {
        words[i] = take(in);
    }
}

static struct rec_tasks_set some_set(struct input *in)
{
    struct rec_tasks_set s =
        tasks_set(take(in) % TASK_SETS, "data", 1 + take(in) % 3, 1 + number(in));
    uint8_t flags = take(in);

    s.epochs = (int32_t)(number(in) % 4);
    s.shuffle_tasks = flags & 1;
    s.overlap = flags >> 1 & 1;
    s.loose = flags >> 2 & 1;
    s.at_once = flags >> 3 & 1;
    s.save = flags >> 4 & 1;
    s.end = flags >> 5 & 1;
    s.max_steps = flags >> 6 & 1 ? number(in) : 0;
    s.resume_done = flags >> 7 & 1;
    return s;
}

static struct tasks_record some_record(struct input *in, const struct rec_tasks_set *set)
{
    struct tasks_record r = {.kind = (enum tasks_kind)(TASKS_SET + take(in) % 16)};
    uint8_t kind = take(in) % TASK_KINDS, n = take(in) % 5;

    fill_lists(in);
    switch (r.kind) {
    case TASKS_SET:
        r.u.set = *set;
        break;
    case TASKS_FILES:
        r.u.files = (struct rec_tasks_files){.kind = set->kind,
                                             .head = tasks_head_digest(set),
                                             .at = (uint32_t)number(in),
                                             .files_n = n,
                                             .files = files};
        break;
    case TASKS_START:
        r.u.start.start = (uint32_t)number(in);
        break;
    case TASKS_PASS:
        r.u.pass = (struct rec_tasks_pass){
            "", kind,         number(in),           number(in),          number(in),
            1,  take(in) % 2, (uint32_t)number(in), (uint32_t)number(in)};
        break;
    case TASKS_BITS:
        r.u.bits =
            (struct rec_tasks_bits){"", kind, number(in), (uint32_t)number(in), n * 8u, words};
        break;
    case TASKS_DONE:
        r.u.done =
            (struct rec_tasks_done){"",           number(in) % 4, number(in),
                                    number(in),   n % 5,          items,
                                    take(in) % 3, metrics,        (uint32_t)number(in) * 8 % 800,
                                    words};
        break;
    case TASKS_PARKED:
        r.u.parked = (struct rec_tasks_parked){
            .id = number(in), .kept = take(in) % 2, .kind = kind, .file = (uint32_t)number(in)};
        break;
    case TASKS_GONE:
        r.u.gone.worker = number(in) % 4;
        break;
    case TASKS_EVAL:
        r.u.eval.version = number(in);
        break;
    case TASKS_CLEARED:
        r.u.cleared.version = number(in);
        break;
    case TASKS_RESERVE:
        r.u.reserve = (struct rec_tasks_reserve){"", number(in), (uint32_t)number(in)};
        break;
    case TASKS_STATE:
        r.u.state = (struct rec_tasks_state){
            "",         (uint32_t)number(in), number(in), number(in), number(in),
            number(in), take(in) % 2,         take(in),   n,          values,
            number(in)};
        break;
    case TASKS_TOTALS:
        r.u.totals = (struct rec_tasks_totals){"",         kind,       number(in), number(in),
                                               number(in), number(in), n,          values};
        break;
    case TASKS_WON:
        r.u.won = (struct rec_tasks_won){"", n, won};
        break;
    case TASKS_METRICS:
        r.u.metrics = (struct rec_tasks_metrics){
            "",   take(in) % 2, number(in), take(in) % 3, metrics, (uint32_t)number(in) * 8 % 800,
            words};
        break;
    case TASKS_LAST:
        break;
    }
    strcpy(r.u.set.job, "job");
    return r;
}

static void do_record(struct tasks *t, const struct tasks_record *r)
{
    struct bytes before = dump(t);

    if (tasks_apply(t, r) != MU_OK) {
        struct bytes after = dump(t);

        mu_assert(before.n == after.n &&
                  (before.n == 0 || memcmp(before.p, after.p, before.n) == 0));
        free(after.p);
    }
    free(before.p);
}

/* ---- workers ---- */

#define QUEUE_MAX 64

struct queue {
    struct tasks_out base;
    uint8_t *records[QUEUE_MAX];
    size_t sizes[QUEUE_MAX];
    uint32_t n;
};

static void put_queue(struct tasks_out *to, const struct tasks_record *r)
{
    struct queue *q = (struct queue *)to;
    size_t n = wire_record_size((enum wire_type)r->kind, &r->u);

    mu_assert(q->n < QUEUE_MAX);
    q->records[q->n] = malloc(n);
    q->sizes[q->n] = n;
    mu_assert(wire_record_encode((enum wire_type)r->kind, &r->u, q->records[q->n], n, &n) == MU_OK);
    q->n++;
}

/* What was handed out is written, or not. */
static void settle(struct tasks *t, struct queue *q, bool fails)
{
    static uint8_t mem[1u << 18];

    for (uint32_t i = 0; i < q->n; i++) {
        struct wire_scratch scratch = {.mem = mem, .cap = sizeof(mem)};
        struct tasks_record r = {0};
        union wire_any any;
        unsigned type;

        mu_assert(wire_record_decode(q->records[i], q->sizes[i], &type, &any, &scratch, NULL) ==
                  MU_OK);
        r.kind = (enum tasks_kind)type;
        memcpy(&r.u, &any, sizeof(r.u));
        if (fails) {
            tasks_failed(t, &r);
        } else {
            mu_assert(tasks_apply(t, &r) == MU_OK);
        }
        free(q->records[i]);
    }
    q->n = 0;
}

static void do_worker(struct tasks *t, struct input *in, struct queue *q, uint64_t *now_ms)
{
    struct task got[4];
    struct tasks_given given;
    struct task_held held[2];
    struct task_item said[2];
    uint8_t verdicts[2];
    wid worker = take(in) % 4;
    bool pending;

    *now_ms += number(in) * 1000;
    switch (take(in) % 8) {
    case 0:
        tasks_get(t, worker, number(in), take(in) % 4, *now_ms, &q->base, got, &given);
        break;
    case 1:
    case 2:
        for (uint32_t i = 0; i < 2; i++) {
            said[i] = (struct task_item){number(in), (number(in) << 40) + 2 * number(in),
                                         (uint32_t)number(in), take(in) % 2};
        }
        fill_lists(in);
        tasks_report(t,
                     &(struct tasks_report){worker, number(in), number(in), take(in) % 3, said,
                                            NULL, take(in) % 3, metrics,
                                            (uint32_t)number(in) * 8 % 800, words},
                     *now_ms, &q->base, verdicts, &pending, NULL, 0);
        break;
    case 3:
        for (uint32_t i = 0; i < 2; i++) {
            held[i] = (struct task_held){number(in), (number(in) << 40) + 2 * number(in)};
        }
        tasks_claim(t, worker, number(in), held, take(in) % 3, *now_ms);
        break;
    case 4:
        (take(in) % 2 ? tasks_lost : tasks_gone)(t, worker, &q->base);
        break;
    case 5:
        tasks_version(t, number(in), &q->base);
        break;
    case 6:
        tasks_acked(t, worker, number(in), &q->base);
        break;
    case 7:
        tasks_evaluate(t, number(in), &q->base, NULL, 0);
        break;
    }
    if (take(in) % 4 != 0 || q->n > QUEUE_MAX / 2) {
        settle(t, q, take(in) % 8 == 0);
        tasks_tick(t, *now_ms, &q->base);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct input in = {data, n};
    struct queue q = {.base = {put_queue}};
    struct rec_tasks_set set = some_set(&in);
    uint64_t now_ms = 1000;
    struct tasks *t;

    mu_assert(tasks_init("job", &limits, &t) == MU_OK);
    bool damaged = take(&in) % 2 == 0;
    if (!damaged) {
        struct tasks_record r = {.kind = TASKS_SET, .u.set = set};

        strcpy(r.u.set.job, "job");
        if (tasks_apply(t, &r) == MU_OK) {
            struct rec_tasks_files part = {"job", set.kind,    tasks_head_digest(&set),
                                           0,     set.files_n, files};

            fill_lists(&in);
            r = (struct tasks_record){.kind = TASKS_FILES, .u.files = part};
            tasks_apply(t, &r);
        }
        tasks_start(t, now_ms, 100);
    }
    while (in.n > 0) {
        if (damaged) {
            struct tasks_record r;

            if (take(&in) % 8 == 0) {
                set = some_set(&in);
            }
            r = some_record(&in, &set);
            do_record(t, &r);
        } else {
            do_worker(t, &in, &q, &now_ms);
        }
    }
    settle(t, &q, true);
    check_rebuilt(t);
    tasks_close(t);
    return 0;
}
