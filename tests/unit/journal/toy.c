#include "unit/journal/toy.h"

#include <string.h>

struct record toy_add(uint32_t which, uint64_t by, uint32_t blob_n)
{
    struct record r = {.kind = TOY_ADD};

    memcpy(r.u.other, &(struct toy_add){which, blob_n, by}, sizeof(struct toy_add));
    return r;
}

static int apply(void *state, const struct record *r, void *fx)
{
    const struct toy_add *a = (const struct toy_add *)r->u.other;
    struct toy *t = state;

    if (a->which >= TOY_N) {
        return MU_ECORRUPT;
    }
    t->counter[a->which] += a->by;
    t->told_n += fx != NULL;
    return MU_OK;
}

static void failed(void *state, const struct record *r, uint64_t now_ms, void *fx)
{
    ((struct toy *)state)->failed_n++;
}

static bool dump(void *state, struct cursor *at, struct sink *to)
{
    struct record r =
        toy_add(at->at, at->at < TOY_N ? ((struct toy *)state)->counter[at->at] : 0, 0);

    if (at->at < TOY_N) {
        to->put(to, &r);
    }
    return at->at++ < TOY_N;
}

const struct machine_type toy_machine = {
    .name = "toy",
    .first = TOY_ADD,
    .last = TOY_ADD,
    .apply = apply,
    .failed = failed,
    .dump = dump,
};

static size_t size(const struct record *r)
{
    return 2 + sizeof(struct toy_add) + ((const struct toy_add *)r->u.other)->blob_n;
}

static void encode(const struct record *r, uint8_t *out, size_t n)
{
    memset(out, 'x', n);
    out[0] = TOY_ADD & 0xff;
    out[1] = TOY_ADD >> 8;
    memcpy(out + 2, r->u.other, sizeof(struct toy_add));
}

static int decode(const uint8_t *bytes, size_t n, struct record *r, struct wire_scratch *scratch,
                  struct wire_fault *fault)
{
    r->kind = TOY_ADD;
    memcpy(r->u.other, bytes + 2, sizeof(struct toy_add));
    return n == size(r) ? MU_OK : MU_ECORRUPT;
}

const struct codec toy_codec = {size, encode, decode};
