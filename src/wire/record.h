/* Records (core/record.h) as bytes, and back. */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include "core/record.h"
#include "wire/wire.h"

/* How a journal's records are written. Their first two bytes are the kind, little-endian. */
struct codec {
    size_t (*size)(const struct record *r);
    void (*encode)(const struct record *r, uint8_t *out, size_t n); /* n: its size */
    /* Lists go into the scratch; MU_ELIMIT if there is no room there. */
    int (*decode)(const uint8_t *bytes, size_t n, struct record *r_out,
                  struct wire_scratch *scratch, struct wire_fault *fault);
};

/* That of all that is in wire/table.def. */
extern const struct codec record_codec;

/* "generation"; "unknown" if there is no such kind. */
const char *record_name(unsigned kind);

size_t record_size(const struct record *r);

/* n is record_size(). The core makes no record that can't be encoded. */
void record_encode(const struct record *r, uint8_t *out, size_t n);

/* As wire_record_decode(). */
int record_decode(const uint8_t *bytes, size_t n, struct record *r_out,
                  struct wire_scratch *scratch, struct wire_fault *fault);

#endif
