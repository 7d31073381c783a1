/* Records as bytes: the cluster's kinds and the wire's types. */
#include "orchestrator/driver.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    enum wire_type type;
    const char *name;
} kinds[RECORD_N] = {
    [RECORD_JOB] = {WIRE_REC_JOB, "job"},
    [RECORD_NODE] = {WIRE_REC_NODE, "node"},
    [RECORD_GONE] = {WIRE_REC_GONE, "gone"},
    [RECORD_GENERATION] = {WIRE_REC_GENERATION, "generation"},
    [RECORD_ACTIVE] = {WIRE_REC_ACTIVE, "active"},
    [RECORD_FINISHED] = {WIRE_REC_FINISHED, "finished"},
    [RECORD_SPENT] = {WIRE_REC_SPENT, "spent"},
    [RECORD_CHECKPOINT] = {WIRE_REC_CHECKPOINT, "checkpoint"},
    [RECORD_WANT] = {WIRE_REC_WANT, "want"},
    [RECORD_DRAIN] = {WIRE_REC_DRAIN, "drain"},
};

const char *record_name(enum record_kind kind)
{
    return kind < RECORD_N ? kinds[kind].name : "unknown";
}

size_t record_size(const struct record *r)
{
    return wire_record_size(kinds[r->kind].type, &r->u);
}

void record_encode(const struct record *r, uint8_t *out, size_t n)
{
    size_t written;

    mu_assert(wire_record_encode(kinds[r->kind].type, &r->u, out, n, &written) == MU_OK);
    mu_assert(written == n);
}

/* Decoded lists are less than eight times as long as their bytes. */
static int scratch_for(struct records *rs, size_t n)
{
    size_t cap = MAX(n * 8, (size_t)4096);
    uint8_t *mem;

    if (cap <= rs->scratch_cap) {
        return MU_OK;
    }
    mem = malloc(cap);
    if (mem == NULL) {
        return MU_ENOMEM;
    }
    free(rs->scratch);
    rs->scratch = mem;
    rs->scratch_cap = cap;
    return MU_OK;
}

int record_decode(struct records *rs, const void *bytes, size_t n, struct record *r_out,
                  struct wire_fault *fault)
{
    struct wire_scratch scratch;
    union wire_any any;
    unsigned type;
    int rc = scratch_for(rs, n);

    if (rc != MU_OK) {
        fault->status = rc;
        strcpy(fault->text, "out of memory");
        return rc;
    }
    scratch = (struct wire_scratch){.mem = rs->scratch, .cap = rs->scratch_cap};
    rc = wire_record_decode(bytes, n, &type, &any, &scratch, fault);
    if (rc != MU_OK) {
        return rc;
    }
    for (unsigned kind = 0; kind < RECORD_N; kind++) {
        if (kinds[kind].type == type) {
            r_out->kind = kind;
            memcpy(&r_out->u, &any, MIN(sizeof(r_out->u), sizeof(any)));
            return MU_OK;
        }
    }
    fault->status = MU_EVERSION;
    strcpy(fault->text, "a record that this version of muster has no use for");
    return MU_EVERSION;
}
