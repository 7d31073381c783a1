/* The cluster's kinds and the wire's types. */
#include "wire/record.h"
#include "wire/table.h"

#include <string.h>

static const uint16_t types[RECORD_N] = {
    [RECORD_JOB] = WIRE_REC_JOB,       [RECORD_NODE] = WIRE_REC_NODE,
    [RECORD_GONE] = WIRE_REC_GONE,     [RECORD_GENERATION] = WIRE_REC_GENERATION,
    [RECORD_ACTIVE] = WIRE_REC_ACTIVE, [RECORD_FINISHED] = WIRE_REC_FINISHED,
    [RECORD_SPENT] = WIRE_REC_SPENT,   [RECORD_CHECKPOINT] = WIRE_REC_CHECKPOINT,
    [RECORD_CONFIG] = WIRE_REC_CONFIG, [RECORD_DRAIN] = WIRE_REC_DRAIN,
    [RECORD_HEAL] = WIRE_REC_HEAL,     [RECORD_FORGOTTEN] = WIRE_REC_FORGOTTEN,
};

const char *record_name(enum record_kind kind)
{
    return kind < RECORD_N ? wire_name(types[kind]) : "unknown";
}

size_t record_size(const struct record *r)
{
    return wire_record_size(types[r->kind], &r->u);
}

void record_encode(const struct record *r, uint8_t *out, size_t n)
{
    size_t written;

    mu_assert(wire_record_encode(types[r->kind], &r->u, out, n, &written) == MU_OK);
    mu_assert(written == n);
}

int record_decode(const uint8_t *bytes, size_t n, struct record *r_out,
                  struct wire_scratch *scratch, struct wire_fault *fault)
{
    union wire_any any;
    unsigned type;
    int rc = wire_record_decode(bytes, n, &type, &any, scratch, fault);

    if (rc != MU_OK) {
        return rc;
    }
    for (unsigned kind = 0; kind < RECORD_N; kind++) {
        if (types[kind] == type) {
            r_out->kind = kind;
            memcpy(&r_out->u, &any, MIN(sizeof(r_out->u), sizeof(any)));
            return MU_OK;
        }
    }
    return wire_fault_set(fault, MU_EVERSION,
                          "a record that this version of muster has no use for");
}
