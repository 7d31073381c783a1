/* Whatever an orchestrator says about its checkpoints: lists are sorted and their names are names;
 * what is read is what the manifest says, or it is not taken; nothing is put that was not answered.
 * The first byte: bits 0 and 1 choose what is asked, bit 2 makes numbers and kinds of answers
 * right, bit 3 breaks the line after every answer, once, and has it made again. Answers follow,
 * each with a head of HEAD_BYTES. */
#include "ckpt/ckpt.h"
#include "depot/depot.h"
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#define HEAD_BYTES 30u

struct input {
    const uint8_t *p;
    size_t n;
    bool fit, breaks;
    bool broke;
    uint64_t said;  /* answers that have a status of MU_OK */
    uint64_t asked; /* the requests that wait for an answer: [answered + 1, asked] */
    uint64_t answered;
    uint8_t ops[16]; /* of requests, by number */
    struct msg_depot_says m;
    uint8_t *data;
};

static uint64_t take(struct input *in, uint32_t bytes)
{
    uint64_t v = 0;

    for (uint32_t i = 0; i < bytes && in->n > 0; i++, in->p++, in->n--) {
        v |= (uint64_t)*in->p << (8 * i);
    }
    return v;
}

static int line_open(void *arg, struct ckpt_why *why)
{
    struct input *in = arg;

    in->answered = in->asked;
    return in->n > 0 ? MU_OK : MU_EREFUSED;
}

static int line_say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct input *in = arg;

    mu_assert(m->op < DEPOT_N && m->data_n <= DEPOT_DATA_MAX);
    mu_assert(memchr(m->job, 0, sizeof(m->job)) != NULL);
    mu_assert(request == in->asked || request == in->asked + 1);
    in->asked = request;
    in->ops[request % sizeof(in->ops)] = m->op;
    return MU_OK;
}

static void line_close(void *arg)
{
    struct input *in = arg;

    free(in->data);
    in->data = NULL;
}

/* In a block of its own, so that a sanitizer sees a read beyond it. */
static void set_data(struct input *in, size_t n)
{
    n = MIN(n, MIN(in->n, DEPOT_DATA_MAX));
    free(in->data);
    in->data = malloc(n);
    mu_assert(in->data != NULL || n == 0);
    if (n > 0) {
        memcpy(in->data, in->p, n);
    }
    in->p += n;
    in->n -= n;
    in->m.data = in->data;
    in->m.data_n = (uint32_t)n;
}

static int line_next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                     const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    struct input *in = arg;
    uint64_t request = ++in->answered;

    if (in->n < HEAD_BYTES) {
        return MU_EREFUSED;
    }
    if (in->breaks && !in->broke) {
        in->broke = true;
        return MU_EIO;
    }
    in->broke = false;
    in->m = (struct msg_depot_says){0};
    in->m.op = (uint8_t)(take(in, 1) % DEPOT_N);
    in->m.status = (int8_t)take(in, 1);
    in->m.item = (uint32_t)take(in, 4);
    in->m.at = take(in, 8);
    in->m.total = take(in, 8);
    in->m.more = take(in, 1) & 1;
    const uint64_t off = take(in, 1);

    request += in->fit ? 0 : off;
    if (in->fit) {
        in->m.op = in->ops[request % sizeof(in->ops)];
    }
    memset(in->m.sum, (int)take(in, 2), sizeof(in->m.sum));
    set_data(in, (size_t)take(in, 4));
    in->said += in->m.status == MU_OK;
    *request_out = request;
    *m_out = &in->m;
    return MU_OK;
}

/* ---- what is asked ---- */

static void lists(struct depot *d, struct ckpt_why *why)
{
    struct ckpt_entry *entries;
    uint32_t n;
    char *names;

    if (depot_list(d, "mnist", &entries, &n, why) == MU_OK) {
        for (uint32_t i = 0; i < n; i++) {
            mu_assert(entries[i].step > 0 && (i == 0 || entries[i].step < entries[i - 1].step));
        }
        free(entries);
    }
    if (depot_jobs(d, &names, why) == MU_OK) {
        const char *before = "";

        for (const char *name = names; *name != '\0'; name += strlen(name) + 1) {
            mu_assert(strcmp(before, name) < 0 && name[0] != '.' && strchr(name, '/') == NULL);
            before = name;
        }
        free(names);
    }
}

static void read_one(struct depot *d, struct ckpt_why *why)
{
    struct ckpt *c;

    if (depot_get(d, "mnist", 40, &c, why) == MU_OK) {
        mu_assert(ckpt_manifest(c)->mark.step == 40);
        if (ckpt_manifest(c)->bytes < ((uint64_t)1 << 20)) {
            (void)ckpt_verify(c, why);
        }
        ckpt_close(c);
    }
}

static void put_one(struct depot *d, struct input *in, struct ckpt_why *why)
{
    const struct ckpt_mark mark = {.job = "mnist", .step = 40, .slices = 1};
    const struct ckpt_part part = {"w", 300};
    static const uint8_t data[300];
    const struct depot_copy copy = {
        .mark = &mark, .parts = &part, .parts_n = 1, .data = data, .bytes = 300, .zstd = true};

    /* At least BEGIN and COMMIT, or a manifest that is there after a break. */
    mu_assert(depot_put(d, &copy, why) != MU_OK || in->said >= 2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t options = n > 0 ? data[0] : 0;
    struct input in = {.p = data, .n = n, .fit = (options & 4) != 0, .breaks = (options & 8) != 0};
    const struct depot_line line = {line_open, line_say, line_next, line_close, &in, 1};
    struct ckpt_why why = {{0}};
    struct depot *d;

    (void)take(&in, 1);
    mu_assert(depot_open(&line, &d) == MU_OK);
    switch (options & 3) {
    case 0:
        lists(d, &why);
        break;
    case 1:
        read_one(d, &why);
        break;
    case 2:
        put_one(d, &in, &why);
        break;
    default:
        (void)depot_remove(d, "mnist", 40, &why);
        break;
    }
    mu_assert(memchr(why.text, 0, sizeof(why.text)) != NULL);
    depot_close(d);
    return 0;
}
