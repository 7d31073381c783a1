/* What the cluster journals (struct record of core/cluster.h) as bytes. */
#ifndef WIRE_RECORD_H
#define WIRE_RECORD_H

#include "core/cluster.h"
#include "wire/wire.h"

/* "generation"; "unknown" if there is no such kind. */
const char *record_name(enum record_kind kind);

size_t record_size(const struct record *r);

/* n is record_size(). The core makes no record that can't be encoded. */
void record_encode(const struct record *r, uint8_t *out, size_t n);

/* As wire_record_decode(); also MU_EVERSION for a record that is not the cluster's. */
int record_decode(const uint8_t *bytes, size_t n, struct record *r_out,
                  struct wire_scratch *scratch, struct wire_fault *fault);

#endif
