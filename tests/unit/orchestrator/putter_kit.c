#include "unit/orchestrator/putter_kit.h"

#include "ckpt/sum.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- frames ---- */

void putter_open(struct putter *p, const struct kit *k, const struct ckpt_kit *state,
                 const char *job, uint64_t step)
{
    *p = (struct putter){.cl = kit_connect(k), .state = state, .step = step};
    snprintf(p->job, sizeof(p->job), "%s", job);
}

void putter_close(struct putter *p)
{
    client_close(p->cl);
    p->cl = NULL;
}

struct msg_depot putter_msg(const struct putter *p, enum depot_op op)
{
    struct msg_depot m = {.op = (uint8_t)op, .step = p->step};

    memcpy(m.job, p->job, sizeof(m.job));
    return m;
}

uint64_t putter_say(struct putter *p, const struct msg_depot *m)
{
    kit_say(p->cl, WIRE_DEPOT, m, ++p->request);
    return p->request;
}

struct msg_depot_says putter_hear(struct putter *p, uint64_t request)
{
    const union wire_any *msg;
    struct wire_header h;
    char error[NET_ERROR_MAX];

    if (client_next(p->cl, KIT_WAIT_MS, &h, &msg, error) != MU_OK) {
        fail_msg("no answer came: %s", error);
    }
    assert_int_equal(h.type, WIRE_DEPOT_SAYS);
    assert_int_equal(h.request, request);
    if (msg->depot_says.status != MU_OK) {
        assert_int_not_equal(msg->depot_says.text[0], '\0');
    }
    return msg->depot_says;
}

struct msg_depot_says putter_ask(struct putter *p, const struct msg_depot *m)
{
    return putter_hear(p, putter_say(p, m));
}

/* ---- puts ---- */

uint32_t putter_begin(struct putter *p)
{
    struct msg_depot m = putter_msg(p, DEPOT_BEGIN);
    uint8_t sums[8 * DEPOT_SUM_BYTES], sum[DEPOT_SUM_BYTES];
    struct msg_depot_says says;

    m.total = p->state->bytes;
    says = putter_ask(p, &m);
    if (says.status != MU_OK) {
        fail_msg("%s", says.text);
    }
    assert_true(says.item <= ckpt_chunks(p->state->bytes));
    for (uint32_t i = 0; i < says.item; i++) {
        sum_of(p->state->state + i * CKPT_CHUNK, (size_t)ckpt_chunk_bytes(p->state->bytes, i),
               sums + i * sizeof(sum));
    }
    sum_of(sums, says.item * sizeof(sum), sum);
    assert_memory_equal(says.sum, sum, sizeof(sum));
    return says.item;
}

/* In pieces, all with one number. */
static uint64_t say_all(struct putter *p, struct msg_depot *m, const void *data, size_t n)
{
    const uint64_t request = ++p->request;

    m->total = n;
    for (size_t at = 0; at < n; at += m->data_n) {
        m->at = at;
        m->data = (uint8_t *)(uintptr_t)data + at;
        m->data_n = (uint32_t)MIN(n - at, DEPOT_DATA_MAX);
        kit_say(p->cl, WIRE_DEPOT, m, request);
    }
    return request;
}

uint64_t putter_say_chunk(struct putter *p, uint32_t chunk)
{
    const uint8_t *data = p->state->state + chunk * CKPT_CHUNK;
    const size_t n = (size_t)ckpt_chunk_bytes(p->state->bytes, chunk);
    struct msg_depot m = putter_msg(p, DEPOT_PUT);

    m.item = chunk;
    sum_of(data, n, m.sum);
    return say_all(p, &m, data, n);
}

static void chunk_taken(struct putter *p, uint64_t request, uint32_t chunk)
{
    const struct msg_depot_says says = putter_hear(p, request);

    if (says.status != MU_OK) {
        fail_msg("chunk %u: %s", (unsigned)chunk, says.text);
    }
    assert_int_equal(says.op, DEPOT_PUT);
    assert_int_equal(says.item, chunk);
}

void putter_put(struct putter *p, uint32_t first, uint32_t end)
{
    uint64_t before = 0;

    for (uint32_t i = first; i < end; i++) { /* Two are on their way. */
        const uint64_t now = putter_say_chunk(p, i);

        if (i > first) {
            chunk_taken(p, before, i - 1);
        }
        before = now;
    }
    if (first < end) {
        chunk_taken(p, before, end - 1);
    }
}

int putter_commit(struct putter *p, uint32_t keep)
{
    struct msg_depot m = putter_msg(p, DEPOT_COMMIT);
    char *text;
    size_t n;
    int status;

    m.keep = keep;
    ckpt_kit_manifest_of(p->state, p->job, p->step, &text, &n);
    status = putter_hear(p, say_all(p, &m, text, n)).status;
    free(text);
    return status;
}

void putter_whole(struct putter *p, uint32_t keep)
{
    putter_put(p, putter_begin(p), ckpt_chunks(p->state->bytes));
    assert_int_equal(putter_commit(p, keep), MU_OK);
}

/* ---- looks ---- */

uint8_t *putter_read(struct putter *p, uint32_t item, size_t *n_out)
{
    struct msg_depot m = putter_msg(p, DEPOT_READ);
    uint8_t *data = NULL;
    struct msg_depot_says says;

    m.item = item;
    m.total = DEPOT_DATA_MAX;
    do {
        says = putter_ask(p, &m);
        if (says.status == MU_ENOENT && m.at == 0) {
            return NULL;
        }
        assert_int_equal(says.status, MU_OK);
        assert_int_equal(says.at, m.at);
        assert_int_equal(says.data_n, MIN(says.total - m.at, DEPOT_DATA_MAX));
        data = realloc(data, (size_t)says.total);
        assert_non_null(data);
        memcpy(data + m.at, says.data, says.data_n);
        m.at += says.data_n;
    } while (m.at < says.total);
    *n_out = (size_t)says.total;
    return data;
}

static uint64_t u64_at(const uint8_t *p)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < 8; i++) {
        v |= (uint64_t)p[i] << (8 * i);
    }
    return v;
}

const char *putter_list(struct putter *p)
{
    static char text[256];
    struct msg_depot m = putter_msg(p, DEPOT_LIST);
    struct msg_depot_says says;
    size_t n = 0;

    m.step = 0;
    says = putter_ask(p, &m);
    assert_int_equal(says.status, MU_OK);
    assert_false(says.more);
    text[0] = '\0';
    for (uint32_t i = 0; i < says.data_n; i += 16) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%llu", i > 0 ? " " : "",
                              (unsigned long long)u64_at(says.data + i));
        assert_true(u64_at(says.data + i + 8) > p->state->bytes);
    }
    return text;
}

void putter_kit_has(const struct kit *k, const struct ckpt_kit *state, uint64_t step)
{
    struct ckpt_kit there = *state;
    struct ckpt_why why;

    snprintf(there.dir, sizeof(there.dir), "%s/ckpt", k->data);
    if (ckpt_kit_load(&there, step, &why) != MU_OK) {
        fail_msg("step %llu: %s", (unsigned long long)step, why.text);
    }
}
