#include "unit/depot/depot_kit.h"

#include "ckpt/sum.h"
#include "unit/unit.h"

#include <stdlib.h>
#include <string.h>

/* ---- answers ---- */

/* data is copied. */
static void answer(struct depot_kit *k, uint64_t request, struct msg_depot_says m, const void *data,
                   size_t n)
{
    struct depot_answer *a = &k->answers[(k->first + k->answers_n) % DEPOT_KIT_ANSWERS];

    assert_true(k->answers_n < DEPOT_KIT_ANSWERS);
    assert_true(n <= DEPOT_DATA_MAX);
    if (k->busy_n > 0) {
        k->busy_n--;
        m.status = MU_EAGAIN;
        strcpy(m.text, "too much at once; try again");
        n = 0;
    }
    *a = (struct depot_answer){.request = request, .m = m, .data = malloc(n + 64)};
    mu_assert(a->data != NULL);
    memset(a->data, 0xee, n + 64);
    if (n > 0) {
        memcpy(a->data, data, n);
    }
    a->m.data = a->data;
    a->m.data_n = (uint32_t)n;
    k->answers_n++;
}

static void refuse(struct depot_kit *k, uint64_t request, const struct msg_depot *m, int status,
                   const char *text)
{
    struct msg_depot_says s = {.op = m->op, .status = status, .item = m->item, .at = m->at};

    strcpy(s.text, text);
    answer(k, request, s, NULL, 0);
}

/* ---- what is kept ---- */

struct depot_kept *depot_kit_find(struct depot_kit *k, const char *job, uint64_t step)
{
    for (uint32_t i = 0; i < k->kept_n; i++) {
        if (strcmp(k->kept[i].job, job) == 0 && k->kept[i].step == step) {
            return &k->kept[i];
        }
    }
    return NULL;
}

static void drop(struct depot_kit *k, struct depot_kept *e)
{
    free(e->manifest);
    free(e->shard);
    memmove(e, e + 1, (size_t)(&k->kept[k->kept_n] - (e + 1)) * sizeof(*e));
    k->kept_n--;
}

static struct depot_kept *keep(struct depot_kit *k, const char *job, uint64_t step)
{
    struct depot_kept *old = depot_kit_find(k, job, step);
    uint32_t at = 0;

    if (old != NULL) {
        drop(k, old);
    }
    assert_true(k->kept_n < DEPOT_KIT_KEPT);
    while (at < k->kept_n && (strcmp(k->kept[at].job, job) < 0 ||
                              (strcmp(k->kept[at].job, job) == 0 && k->kept[at].step > step))) {
        at++;
    }
    memmove(&k->kept[at + 1], &k->kept[at], (k->kept_n - at) * sizeof(k->kept[0]));
    k->kept_n++;
    k->kept[at] = (struct depot_kept){.step = step};
    strcpy(k->kept[at].job, job);
    return &k->kept[at];
}

void depot_kit_add(struct depot_kit *k, const char *job, uint64_t step)
{
    (void)keep(k, job, step);
}

/* ---- LIST, READ, REMOVE ---- */

static void list_jobs(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct msg_depot_says s = {.op = DEPOT_LIST};
    char after[NAME_MAX_LEN] = "", names[1024];
    uint32_t names_n = 0;
    size_t n = 0;

    assert_true(m->data_n < sizeof(after));
    if (m->data_n > 0) {
        memcpy(after, m->data, m->data_n);
    }
    for (uint32_t i = 0; i < k->kept_n; i++) {
        if (strcmp(k->kept[i].job, after) <= 0) {
            continue;
        }
        if (names_n == k->page) {
            s.more = 1;
            break;
        }
        strcpy(after, k->kept[i].job);
        strcpy(names + n, after);
        n += strlen(after) + 1;
        names_n++;
    }
    answer(k, request, s, names, n);
}

static void put_u64(uint8_t *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (uint8_t)(v >> (8 * i));
    }
}

static void list_steps(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct msg_depot_says s = {.op = DEPOT_LIST};
    uint8_t entries[16 * DEPOT_KIT_KEPT];
    uint32_t n = 0;

    for (uint32_t i = 0; i < k->kept_n; i++) {
        const struct depot_kept *e = &k->kept[i];

        if (strcmp(e->job, m->job) != 0 || (m->at != 0 && e->step >= m->at)) {
            continue;
        }
        if (n == k->page) {
            s.more = 1;
            break;
        }
        put_u64(entries + 16 * (size_t)n, e->step);
        put_u64(entries + 16 * (size_t)n + 8, e->shard_n + e->manifest_n);
        n++;
    }
    answer(k, request, s, entries, 16 * (size_t)n);
}

static void on_read(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct msg_depot_says s = {.op = DEPOT_READ, .item = m->item, .at = m->at};
    const struct depot_kept *e = depot_kit_find(k, m->job, m->step);
    const void *bytes;

    k->reads_n++;
    assert_true(k->reads_n <= 8);
    assert_true(m->total > 0 && m->total <= DEPOT_DATA_MAX);
    if (e == NULL || (m->item == DEPOT_MANIFEST ? e->no_manifest : m->item != 0)) {
        refuse(k, request, m, MU_ENOENT, "there is no such checkpoint");
        return;
    }
    bytes = m->item == DEPOT_MANIFEST ? (const void *)e->manifest : e->shard;
    s.total = m->item == DEPOT_MANIFEST ? e->manifest_n : e->shard_n;
    if (m->at > s.total) {
        refuse(k, request, m, MU_ENOENT, "it has no such bytes");
        return;
    }
    answer(k, request, s, (const uint8_t *)bytes + m->at, (size_t)MIN(m->total, s.total - m->at));
}

static void on_remove(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct depot_kept *e = depot_kit_find(k, m->job, m->step);

    if (e == NULL) {
        refuse(k, request, m, MU_ENOENT, "there is no such checkpoint");
        return;
    }
    drop(k, e);
    answer(k, request, (struct msg_depot_says){.op = DEPOT_REMOVE}, NULL, 0);
}

/* ---- BEGIN, PUT, COMMIT ---- */

static void on_begin(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct msg_depot_says s = {.op = DEPOT_BEGIN};
    struct depot_taken *t = &k->taken;
    uint8_t sums[DEPOT_KIT_CHUNKS * CKPT_SUM_BYTES];

    if (k->begin_status != MU_OK) {
        refuse(k, request, m, k->begin_status, "the disk is full; make room");
        return;
    }
    if (strcmp(t->job, m->job) != 0 || t->step != m->step) {
        free(t->bytes);
        *t = (struct depot_taken){.step = m->step};
        strcpy(t->job, m->job);
    }
    if (t->bytes == NULL) {
        t->cap = (size_t)m->total;
        t->bytes = malloc(t->cap + 1);
        mu_assert(t->bytes != NULL);
    }
    for (uint32_t i = 0; i < t->chunks_n; i++) {
        memcpy(sums + (size_t)i * CKPT_SUM_BYTES, t->chunks[i].sum, CKPT_SUM_BYTES);
    }
    s.item = t->chunks_n;
    sum_of(sums, (size_t)t->chunks_n * CKPT_SUM_BYTES, s.sum);
    answer(k, request, s, NULL, 0);
}

/* True: all of it is there. */
static bool gather(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    assert_int_equal(m->at, k->piece_n);
    assert_true(m->data_n > 0 && m->data_n <= m->total - m->at);
    if (m->at == 0) {
        k->piece_request = request;
        k->piece = realloc(k->piece, (size_t)m->total);
        mu_assert(k->piece != NULL);
    }
    assert_int_equal(request, k->piece_request);
    memcpy(k->piece + m->at, m->data, m->data_n);
    k->piece_n += m->data_n;
    if (k->piece_n < m->total) {
        return false;
    }
    k->piece_n = 0;
    return true;
}

static void on_put(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct depot_taken *t = &k->taken;
    uint8_t sum[CKPT_SUM_BYTES];

    assert_string_equal(m->job, t->job);
    assert_int_equal(m->step, t->step);
    if (m->at == 0) {
        k->chunks_said++;
        k->chunks_resent += m->item < t->chunks_n;
        assert_true(++k->puts_n <= 2);
    }
    assert_true(m->total <= CKPT_CHUNK);
    if (!gather(k, m, request)) {
        return;
    }
    if (m->item < t->chunks_n) {
        t->chunks_n = m->item;
        t->n = (size_t)t->chunks[m->item].at;
    }
    assert_int_equal(m->item, t->chunks_n);
    assert_true(t->chunks_n < DEPOT_KIT_CHUNKS && m->total <= t->cap - t->n);
    sum_of(k->piece, (size_t)m->total, sum);
    assert_memory_equal(sum, m->sum, sizeof(sum));
    memcpy(t->bytes + t->n, k->piece, (size_t)m->total);
    t->chunks[t->chunks_n] = (struct ckpt_chunk){.stored = (uint32_t)m->total, .at = t->n};
    memcpy(t->chunks[t->chunks_n].sum, sum, sizeof(sum));
    t->chunks_n++;
    t->n += (size_t)m->total;
    answer(k, request, (struct msg_depot_says){.op = DEPOT_PUT, .item = m->item}, NULL, 0);
}

static void on_commit(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    struct depot_taken *t = &k->taken;
    struct ckpt_manifest of;
    struct depot_kept *e;

    if (!gather(k, m, request)) {
        return;
    }
    assert_int_equal(ckpt_manifest_parse((char *)k->piece, (size_t)m->total, &of, NULL), MU_OK);
    assert_string_equal(of.mark.job, t->job);
    assert_int_equal(of.mark.step, t->step);
    assert_int_equal(of.chunks_n, t->chunks_n);
    for (uint32_t i = 0; i < of.chunks_n; i++) {
        assert_int_equal(of.chunks[i].at, t->chunks[i].at);
        assert_int_equal(of.chunks[i].stored, t->chunks[i].stored);
        assert_memory_equal(of.chunks[i].sum, t->chunks[i].sum, CKPT_SUM_BYTES);
    }
    ckpt_manifest_free(&of);
    e = keep(k, t->job, t->step);
    e->manifest = (char *)k->piece;
    e->manifest_n = (size_t)m->total;
    k->piece = NULL;
    e->shard = t->bytes;
    e->shard_n = t->n;
    *t = (struct depot_taken){0};
    k->keep = m->keep;
    k->keep_every = m->keep_every;
    answer(k, request, (struct msg_depot_says){.op = DEPOT_COMMIT}, NULL, 0);
}

static void hear(struct depot_kit *k, const struct msg_depot *m, uint64_t request)
{
    switch (m->op) {
    case DEPOT_LIST:
        (m->job[0] != '\0' ? list_steps : list_jobs)(k, m, request);
        break;
    case DEPOT_READ:
        on_read(k, m, request);
        break;
    case DEPOT_BEGIN:
        on_begin(k, m, request);
        break;
    case DEPOT_PUT:
        on_put(k, m, request);
        break;
    case DEPOT_COMMIT:
        on_commit(k, m, request);
        break;
    default:
        on_remove(k, m, request);
        break;
    }
}

/* ---- the line ---- */

static void forget(struct depot_answer *a)
{
    free(a->data);
    a->data = NULL;
}

static void line_close(void *arg)
{
    struct depot_kit *k = arg;

    while (k->answers_n > 0) {
        forget(&k->answers[k->first]);
        k->first = (k->first + 1) % DEPOT_KIT_ANSWERS;
        k->answers_n--;
    }
    forget(&k->given);
    k->up = false;
    k->puts_n = k->reads_n = 0;
    k->piece_n = 0;
}

static int broken(struct depot_kit *k, struct ckpt_why *why)
{
    line_close(k);
    strcpy(why->text, "the connection broke");
    return MU_EIO;
}

static int line_open(void *arg, struct ckpt_why *why)
{
    struct depot_kit *k = arg;

    line_close(k);
    k->opens_n++;
    if (k->refuse_n > 0) {
        k->refuse_n--;
        strcpy(why->text, "nobody listens there");
        return MU_EIO;
    }
    k->up = true;
    return MU_OK;
}

static int line_say(void *arg, const struct msg_depot *m, uint64_t request, struct ckpt_why *why)
{
    struct depot_kit *k = arg;
    const bool breaks = ++k->frames == k->break_at;

    assert_true(k->up);
    if (!breaks || k->deliver) {
        hear(k, m, request);
    }
    return breaks ? broken(k, why) : MU_OK;
}

static int line_next(void *arg, uint32_t wait_ms, uint64_t *request_out,
                     const struct msg_depot_says **m_out, struct ckpt_why *why)
{
    struct depot_kit *k = arg;
    struct depot_answer *a = &k->answers[k->first];

    assert_true(k->up && wait_ms > 0);
    if (k->silent) {
        return MU_ETIMEDOUT;
    }
    assert_true(k->answers_n > 0); /* Otherwise it would wait for ever. */
    if (++k->frames == k->break_at) {
        return broken(k, why);
    }
    forget(&k->given);
    k->given = *a;
    k->first = (k->first + 1) % DEPOT_KIT_ANSWERS;
    k->answers_n--;
    k->puts_n -= k->given.m.op == DEPOT_PUT;
    k->reads_n -= k->given.m.op == DEPOT_READ;
    k->given_n++;
    if (k->spoil != NULL && k->given_n > k->spoil_from &&
        (k->spoil_to == 0 || k->given_n <= k->spoil_to)) {
        k->spoil(&k->given.m, &k->given.request, k->spoil_how);
    }
    *request_out = k->given.request;
    *m_out = &k->given.m;
    return MU_OK;
}

struct depot_line depot_kit_line(struct depot_kit *k, uint32_t patience_ms)
{
    return (struct depot_line){line_open, line_say, line_next, line_close, k, patience_ms};
}

/* ---- life, and whole trips ---- */

void depot_kit_open(struct depot_kit *k)
{
    *k = (struct depot_kit){.page = 2};
}

void depot_kit_close(struct depot_kit *k)
{
    line_close(k);
    while (k->kept_n > 0) {
        drop(k, &k->kept[0]);
    }
    free(k->taken.bytes);
    free(k->piece);
    *k = (struct depot_kit){0};
}

struct depot_copy depot_kit_copy(const struct ckpt_kit *c, const struct ckpt_mark *mark, bool zstd)
{
    return (struct depot_copy){.mark = mark,
                               .parts = c->parts,
                               .parts_n = KIT_PARTS,
                               .data = c->state,
                               .bytes = c->bytes,
                               .zstd = zstd,
                               .keep = 3,
                               .keep_every = 100};
}

int depot_kit_put(struct depot_kit *k, const struct depot_copy *copy, uint32_t patience_ms,
                  struct ckpt_why *why)
{
    const struct depot_line line = depot_kit_line(k, patience_ms);
    struct depot *d;
    int rc = depot_open(&line, &d);

    if (rc == MU_OK) {
        rc = depot_put(d, copy, why);
        depot_close(d);
    }
    return rc;
}

static int compare(struct ckpt *c, const struct ckpt_kit *with, struct ckpt_why *why)
{
    const uint8_t *at = with->state;
    uint8_t *to = malloc((size_t)with->bytes);
    int rc = to != NULL ? MU_OK : MU_ENOMEM;

    for (uint32_t i = 0; rc == MU_OK && i < KIT_PARTS; i++) {
        rc = ckpt_read_part(c, i, to, why);
        if (rc == MU_OK && memcmp(to, at, (size_t)with->parts[i].bytes) != 0) {
            rc = MU_EDONE;
        }
        at += with->parts[i].bytes;
    }
    free(to);
    return rc;
}

int depot_kit_get(struct depot_kit *k, const struct ckpt_kit *c, uint64_t step,
                  uint32_t patience_ms, struct ckpt_why *why)
{
    const struct depot_line line = depot_kit_line(k, patience_ms);
    struct ckpt *open;
    struct depot *d;
    int rc = depot_open(&line, &d);

    if (rc != MU_OK) {
        return rc;
    }
    rc = depot_get(d, KIT_JOB, step, &open, why);
    if (rc == MU_OK) {
        rc = compare(open, c, why);
        ckpt_close(open);
    }
    depot_close(d);
    return rc;
}
