#include "unit/core/sync_kit.h"

#include "core/sync_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void on_emit(struct sync_effects *fx, uint32_t conn, const struct msg_synced *m)
{
    struct sync_kit *f = (struct sync_kit *)fx;
    struct answer *a = &f->answers[f->answers_n++];

    assert_true(f->answers_n < ANSWERS_MAX);
    assert_true(conn != 0);
    memset(a, 0, sizeof(*a));
    a->conn = conn;
    a->m = *m;
    a->m.data = NULL;
    memcpy(a->data, m->data_n > 0 ? m->data : (const uint8_t *)"",
           MIN(m->data_n, sizeof(a->data) - 1));
}

void sync_kit_open(struct sync_kit *f, const struct sync_config *config)
{
    const struct sync_config small = {
        .jobs_max = 2, .rounds_max = 8, .values_max = 32, .bytes_max = 16384, .keep_ms = 60000};

    memset(f, 0, sizeof(*f));
    f->fx.emit = on_emit;
    f->now_ms = 1000;
    assert_int_equal(sync_init(config != NULL ? config : &small, &f->s), MU_OK);
}

void sync_kit_close(struct sync_kit *f)
{
    sync_close(f->s);
}

wid sync_worker(uint32_t node)
{
    return wid_make(node, 0, 1);
}

void sync_kit_put(struct sync_kit *f, wid worker, uint64_t request, uint32_t wait_ms,
                  const char *tag, const char *data)
{
    struct msg_sync m = {.worker = worker, .request = request, .wait_ms = wait_ms};
    uint8_t bytes[64];

    m.data_n = (uint32_t)strlen(data);
    m.data = m.data_n > 0 ? bytes : NULL;
    assert_true(m.data_n <= sizeof(bytes));
    memcpy(bytes, data, m.data_n);
    snprintf(m.tag, sizeof(m.tag), "%s", tag);
    sync_put(f->s, f->now_ms, wid_node(worker), "job", &m, &f->fx);
    memset(bytes, 0xee, sizeof(bytes)); /* It was borrowed for the call only. */
}

int sync_kit_generation(struct sync_kit *f, uint64_t number, const char *nodes)
{
    struct member members[MEMBERS_MOST] = {0};
    struct generation g = {.job = "job", .number = number, .members = members};
    char *end;

    for (unsigned long node = strtoul(nodes, &end, 10); end != nodes;
         node = strtoul(nodes, &end, 10)) {
        struct member *m = &members[g.members_n++];

        assert_true(g.members_n <= MEMBERS_MOST);
        m->worker = sync_worker((uint32_t)node);
        snprintf(m->addr, sizeof(m->addr), "h%lu:1", node);
        nodes = end;
    }
    int rc = sync_generation(f->s, f->now_ms, &g, &f->fx);

    memset(members, 0xee, sizeof(members));
    return rc;
}

void sync_kit_wait(struct sync_kit *f, uint32_t ms)
{
    uint64_t until_ms = f->now_ms + ms;

    while (sync_deadline(f->s) <= until_ms) {
        uint64_t due_ms = sync_deadline(f->s);

        f->now_ms = MAX(f->now_ms, due_ms);
        sync_tick(f->s, f->now_ms, &f->fx);
        assert_true(sync_deadline(f->s) > due_ms);
    }
    f->now_ms = until_ms;
}

void sync_kit_expect(struct sync_kit *f, const char *want)
{
    static char got[1u << 16];
    size_t n = 0;

    got[0] = '\0';
    for (uint32_t i = 0; i < f->answers_n; i++) {
        const struct answer *a = &f->answers[i];

        n += (size_t)snprintf(got + n, sizeof(got) - n, "%sc%u r%llu ", i > 0 ? "; " : "", a->conn,
                              (unsigned long long)a->m.request);
        if (a->m.status == MU_OK) {
            n += (size_t)snprintf(got + n, sizeof(got) - n, "ok %u/%u n%u=%s", a->m.index,
                                  a->m.total, wid_node(a->m.from), a->data);
        } else {
            n += (size_t)snprintf(got + n, sizeof(got) - n, "%d %s", a->m.status, a->m.text);
        }
    }
    assert_string_equal(got, want);
    f->answers_n = 0;
}

struct sync_counts sync_counts(const struct sync *s)
{
    return (struct sync_counts){s->open_n, s->kept_n, s->values_n, s->arena.used};
}
