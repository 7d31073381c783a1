#include "lib/asks.h"

#include <string.h>

static const uint16_t kinds[ASKED_N] = {ASK_SETTING_GET, ASK_SETTING_CHANGE, ASK_SETTING_CHANGE,
                                        ASK_SETTING_LIST, ASK_SETTING_WATCH};

void asks_body(struct asks_frame *f, enum ask_kind kind, bool answer, const void *body)
{
    const struct ask_rule *rule = ask_rule(kind);
    size_t n = 0;

    if (body != NULL) {
        mu_assert(wire_body_encode(answer ? rule->answer : rule->request, body, f->body,
                                   sizeof(f->body), &n) == MU_OK);
    }
    f->ask.kind = (uint16_t)kind;
    f->ask.body = f->says.body = f->body;
    f->ask.body_n = f->says.body_n = (uint32_t)n;
}

static void decode(enum wire_type type, const uint8_t *bytes, size_t n, union wire_any *out)
{
    struct wire_scratch none = {0};

    mu_assert(wire_body_decode(type, bytes, n, out, &none, NULL) == MU_OK);
}

/* ---- settings ---- */

void asks_ask(struct asks_frame *f, const struct asked *a)
{
    const struct body_setting to = {
        .deleted = a->verb == ASKED_REMOVE, .value_n = a->value_n, .value = a->value};
    const bool changes = a->verb == ASKED_PUT || a->verb == ASKED_REMOVE;

    f->ask = (struct msg_ask){.worker = a->worker,
                              .request = a->request,
                              .wait_ms = a->wait_ms,
                              .at = changes ? a->expect : a->after};
    memcpy(f->ask.job, a->job, sizeof(a->job));
    memcpy(f->ask.topic, a->key, sizeof(a->key));
    asks_body(f, kinds[a->verb], false, changes ? &to : NULL);
}

void asks_said(struct asks_frame *f, const struct said *s)
{
    const struct body_setting now = {
        .deleted = s->deleted, .value_n = s->value_n, .value = s->value};

    f->says = (struct msg_says){.worker = s->worker,
                                .request = s->request,
                                .status = s->status,
                                .more = s->more,
                                .at = s->version};
    memcpy(f->says.topic, s->key, sizeof(s->key));
    memcpy(f->says.text, s->text, sizeof(s->text));
    asks_body(f, ASK_SETTING_GET, true, s->key[0] != '\0' ? &now : NULL);
}

bool asks_is_asked(const struct msg_ask *m, struct asked *a_out)
{
    union wire_any body = {0};
    uint8_t verb = 0;

    while (verb < ASKED_N && kinds[verb] != m->kind) {
        verb++;
    }
    if (verb == ASKED_N) {
        return false;
    }
    if (m->kind == ASK_SETTING_CHANGE) {
        decode(WIRE_BODY_SETTING, m->body, m->body_n, &body);
        verb = body.setting.deleted ? ASKED_REMOVE : ASKED_PUT;
    }
    *a_out = (struct asked){.worker = m->worker,
                            .request = m->request,
                            .verb = verb,
                            .expect = m->at,
                            .after = m->at,
                            .wait_ms = m->wait_ms,
                            .value_n = body.setting.value_n,
                            .value = body.setting.value};
    memcpy(a_out->job, m->job, sizeof(a_out->job));
    memcpy(a_out->key, m->topic, sizeof(a_out->key));
    return true;
}

struct said asks_to_said(const struct msg_says *m)
{
    struct said s = {.worker = m->worker,
                     .request = m->request,
                     .status = m->status,
                     .more = m->more,
                     .version = m->at};
    union wire_any body = {0};

    memcpy(s.key, m->topic, sizeof(s.key));
    memcpy(s.text, m->text, sizeof(s.text));
    if (m->body_n > 0) {
        decode(WIRE_BODY_SETTING, m->body, m->body_n, &body);
    }
    s.deleted = body.setting.deleted;
    s.value_n = body.setting.value_n;
    s.value = body.setting.value;
    return s;
}

/* ---- values ---- */

void asks_value(struct asks_frame *f, const struct msg_sync *m)
{
    struct body_value v = {.data_n = m->data_n,
                           .data = m->data,
                           .done_generation = m->done_generation,
                           .done_n = m->done_n,
                           .joined = m->joined,
                           .last_generation = m->last_generation,
                           .last_n = m->last_n};

    memcpy(v.last_tag, m->last_tag, sizeof(v.last_tag));
    f->ask = (struct msg_ask){.worker = m->worker, .request = m->request, .wait_ms = m->wait_ms};
    memcpy(f->ask.topic, m->tag, sizeof(m->tag));
    asks_body(f, ASK_VALUE, false, &v);
}

void asks_values(struct asks_frame *f, const struct msg_synced *m)
{
    struct body_values v = {.generation = m->generation,
                            .round = m->round,
                            .index = m->index,
                            .total = m->total,
                            .data_n = m->data_n,
                            .data = m->data};

    memcpy(v.addr, m->addr, sizeof(v.addr));
    f->says = (struct msg_says){.worker = m->worker,
                                .request = m->request,
                                .status = m->status,
                                .more = m->status == MU_OK && m->index + 1 < m->total};
    memcpy(f->says.text, m->text, sizeof(m->text));
    asks_body(f, ASK_VALUE, true, &v);
}

bool asks_is_value(const struct msg_ask *m, struct msg_sync *m_out)
{
    union wire_any body = {0};

    if (m->kind != ASK_VALUE) {
        return false;
    }
    decode(WIRE_BODY_VALUE, m->body, m->body_n, &body);
    *m_out = (struct msg_sync){.worker = m->worker,
                               .request = m->request,
                               .wait_ms = m->wait_ms,
                               .data_n = body.value.data_n,
                               .data = body.value.data,
                               .done_generation = body.value.done_generation,
                               .done_n = body.value.done_n,
                               .joined = body.value.joined,
                               .last_generation = body.value.last_generation,
                               .last_n = body.value.last_n};
    memcpy(m_out->tag, m->topic, sizeof(m_out->tag));
    memcpy(m_out->last_tag, body.value.last_tag, sizeof(m_out->last_tag));
    return true;
}

struct msg_synced asks_to_synced(const struct msg_says *m)
{
    struct msg_synced s = {.worker = m->worker, .request = m->request, .status = m->status};
    union wire_any body = {0};

    if (m->body_n > 0) {
        decode(WIRE_BODY_VALUES, m->body, m->body_n, &body);
    }
    s.generation = body.values.generation;
    s.round = body.values.round;
    s.index = body.values.index;
    s.total = body.values.total;
    s.data_n = body.values.data_n;
    s.data = body.values.data;
    memcpy(s.addr, body.values.addr, sizeof(s.addr));
    memcpy(s.text, m->text, sizeof(s.text));
    return s;
}
