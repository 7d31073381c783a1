#include "wire/record.h"

#include <string.h>

#define SAME(kind) _Static_assert((int)RECORD_##kind == (int)WIRE_REC_##kind, #kind);
#define T_RECORD(number, NAME, ident, type) SAME(NAME)
#define T_RECORD_AS(number, NAME, ident) SAME(NAME)
#include "wire/table.def"

const char *record_name(unsigned kind)
{
    return wire_is_record(kind) ? wire_name(kind) : "unknown";
}

size_t record_size(const struct record *r)
{
    return wire_record_size((enum wire_type)r->kind, &r->u);
}

void record_encode(const struct record *r, uint8_t *out, size_t n)
{
    size_t written;

    mu_assert(wire_record_encode((enum wire_type)r->kind, &r->u, out, n, &written) == MU_OK);
    mu_assert(written == n);
}

int record_decode(const uint8_t *bytes, size_t n, struct record *r_out,
                  struct wire_scratch *scratch, struct wire_fault *fault)
{
    union wire_any any;
    unsigned type;
    int rc = wire_record_decode(bytes, n, &type, &any, scratch, fault);

    if (rc == MU_OK) {
        r_out->kind = type;
        memcpy(&r_out->u, &any, MIN(sizeof(r_out->u), sizeof(any)));
    }
    return rc;
}

const struct codec record_codec = {record_size, record_encode, record_decode};
