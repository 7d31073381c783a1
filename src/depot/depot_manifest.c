/* The text of a manifest, piece by piece. */
#include "depot/talk.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct text {
    char *bytes;
    size_t n, cap;
};

/* Memory follows what has come, not what was promised. */
static int text_add(struct text *t, const struct msg_depot_says *m, struct ckpt_why *why)
{
    if (m->data_n > t->cap - t->n) {
        const size_t cap = MIN(MAX(2 * t->cap, t->n + m->data_n), (size_t)m->total);
        char *bytes = realloc(t->bytes, cap);

        if (bytes == NULL) {
            return ckpt_say(why, MU_ENOMEM, "no memory for a manifest");
        }
        t->bytes = bytes;
        t->cap = cap;
    }
    memcpy(t->bytes + t->n, m->data, m->data_n);
    t->n += m->data_n;
    return MU_OK;
}

static int take_text(struct depot *d, struct text *t, const struct msg_depot_says *m,
                     uint64_t *total, struct ckpt_why *why)
{
    if (t->n == 0) {
        *total = m->total;
    }
    if (m->total == 0 || m->total > CKPT_MANIFEST_MAX) {
        return ckpt_say(why, MU_ECORRUPT, "the manifest can't have %" PRIu64 " bytes", m->total);
    }
    if (m->total != *total) {
        return talk_fault(d, why, "a manifest has changed while it was read");
    }
    if (m->at != t->n || m->data_n != MIN(*total - t->n, DEPOT_DATA_MAX)) {
        return talk_fault(d, why,
                          "%" PRIu32 " bytes of a manifest at %" PRIu64 ", not those at %zu",
                          m->data_n, m->at, t->n);
    }
    return text_add(t, m, why);
}

int depot_manifest(struct depot *d, const char *job, uint64_t step, char **text_out, size_t *n_out,
                   struct ckpt_why *why)
{
    struct msg_depot ask = {.op = DEPOT_READ, .item = DEPOT_MANIFEST, .total = DEPOT_DATA_MAX};
    struct text t = {0};
    uint64_t total = UINT64_MAX;
    int rc = talk_name(&ask, job, step, why);

    while (rc == MU_OK && t.n < total) {
        const struct msg_depot_says *m;

        ask.at = t.n;
        rc = talk_ask(d, &ask, TALK_ANSWER_MS, &m, why);
        rc = rc == MU_OK ? take_text(d, &t, m, &total, why) : rc;
    }
    if (rc != MU_OK) {
        free(t.bytes);
        return rc;
    }
    *text_out = t.bytes;
    *n_out = t.n;
    return MU_OK;
}
