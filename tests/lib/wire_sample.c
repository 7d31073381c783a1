/* Valid messages out of a seed: for tests and as the fuzzers' first inputs. */
#include "lib/wire_sample.h"
#include "lib/chance.h"
#include "wire/table.h"

#include <string.h>

struct maker {
    struct prng *p;
    struct wire_scratch *scratch;
    uint32_t list_max;
};

static int fill(const struct maker *m, const struct wire_desc *d, uint8_t *out);

/* Small numbers, large ones and the ends. */
static uint64_t number(struct prng *p)
{
    switch (prng_below(p, 4)) {
    case 0:
        return prng_below(p, 4);
    case 1:
        return ~prng_below(p, 2);
    case 2:
        return prng_below(p, 1000);
    default:
        return prng_u64(p);
    }
}

static void fill_string(struct prng *p, char *out, uint32_t bound)
{
    size_t n = prng_chance(p, 100000) ? bound - 1 : prng_below(p, MIN(bound, 12));

    for (size_t i = 0; i < n; i++) {
        if (n - i >= 2 && prng_chance(p, 30000)) {
            out[i++] = (char)0xc3; /* é */
            out[i] = (char)0xa9;
        } else {
            out[i] = (char)prng_between(p, 0x20, 0x7e);
        }
    }
}

static int fill_counted(const struct maker *m, const struct wire_field *f, uint8_t *out)
{
    const struct wire_desc *d = wire_has_items(f) ? f->sub() : NULL;
    const uint32_t n = (uint32_t)prng_below(m->p, (uint64_t)MIN(f->max, m->list_max) + 1);
    const size_t each = d != NULL ? d->size : 1;
    uint8_t *items = f->kind == KIND_ITEMS ? out + f->data
                     : n > 0               ? wire_scratch_take(m->scratch, n * each)
                                           : NULL;

    if (n > 0 && items == NULL) {
        return MU_ELIMIT;
    }
    for (uint32_t i = 0; i < n && d != NULL; i++) {
        memset(items + i * each, 0, each);
        int rc = fill(m, d, items + i * each);

        if (rc != MU_OK) {
            return rc;
        }
    }
    for (size_t i = 0; i < n * each && d == NULL; i++) {
        items[i] = (uint8_t)prng_u64(m->p);
    }
    memcpy(out + f->offset, &n, sizeof(n));
    if (f->kind != KIND_ITEMS) {
        memcpy(out + f->data, &items, sizeof(items));
    }
    return MU_OK;
}

static int fill_field(const struct maker *m, const struct wire_field *f, uint8_t *out)
{
    uint8_t *at = out + f->offset;
    const uint64_t v = number(m->p);
    const uint32_t v32 = (uint32_t)v;
    const uint16_t v16 = (uint16_t)v;

    switch ((enum wire_kind)f->kind) {
    case KIND_U8:
        *at = (uint8_t)v;
        break;
    case KIND_ENUM:
        *at = (uint8_t)(v % f->max);
        break;
    case KIND_U16:
        memcpy(at, &v16, sizeof(v16));
        break;
    case KIND_U32:
    case KIND_I32:
        memcpy(at, &v32, sizeof(v32));
        break;
    case KIND_U64:
    case KIND_WID:
    case KIND_HEX:
        memcpy(at, &v, sizeof(v));
        break;
    case KIND_STRING:
        fill_string(m->p, (char *)at, f->max);
        break;
    case KIND_BYTES:
    case KIND_BITS:
    case KIND_SECRET:
        for (uint32_t i = 0; i < f->max; i++) {
            at[i] = (uint8_t)prng_u64(m->p);
        }
        break;
    case KIND_BLOB:
    case KIND_LIST:
    case KIND_ITEMS:
        return fill_counted(m, f, out);
    }
    return MU_OK;
}

static int fill(const struct maker *m, const struct wire_desc *d, uint8_t *out)
{
    for (uint32_t i = 0; i < d->fields_n; i++) {
        int rc = fill_field(m, &d->fields[i], out);

        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

int wire_sample(enum wire_type type, struct prng *p, uint32_t list_max, union wire_any *msg,
                struct wire_scratch *scratch)
{
    const struct wire_desc *d = wire_desc(type);
    const struct maker m = {p, scratch, list_max};

    mu_assert(d != NULL);
    memset(msg, 0, d->size);
    return fill(&m, d, (uint8_t *)msg);
}
