/* What questions and answers carry: fields behind a byte with the sender's minor version. */
#include "wire/table.h"

size_t wire_body_size(enum wire_type type, const void *msg)
{
    mu_assert(wire_is_body(type));
    return 1 + wire_fields_size(wire_desc(type), WIRE_MINOR, msg);
}

int wire_body_encode(enum wire_type type, const void *msg, uint8_t *buf, size_t cap, size_t *n_out)
{
    size_t n = 0;
    int rc;

    mu_assert(wire_is_body(type));
    if (cap < 1) {
        return MU_ELIMIT;
    }
    rc = wire_fields_encode(wire_desc(type), WIRE_MINOR, msg, buf + 1, cap - 1, &n);
    if (rc == MU_OK) {
        buf[0] = WIRE_MINOR;
        *n_out = n + 1;
    }
    return rc;
}

int wire_body_decode(enum wire_type type, const uint8_t *buf, size_t n, union wire_any *msg,
                     struct wire_scratch *scratch, struct wire_fault *fault)
{
    mu_assert(wire_is_body(type));
    if (n < 1) {
        return wire_fault_set(fault, MU_EPROTO, "%s: there is no body", wire_name(type));
    }
    return wire_fields_decode(wire_desc(type), buf[0], WIRE_MINOR, buf + 1, n - 1, msg, scratch,
                              fault);
}
