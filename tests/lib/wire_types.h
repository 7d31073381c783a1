/* The numbers of all messages and records, for tests that go through them. */
#ifndef LIB_WIRE_TYPES_H
#define LIB_WIRE_TYPES_H

#include "wire/wire.h"

static const uint16_t wire_types[] = {
#define T_MESSAGE(number, NAME, ident, type) (number),
#define T_RECORD(number, NAME, ident, type) (number),
#define T_RECORD_AS(number, NAME, ident) (number),
#include "wire/table.def"
};
static const uint32_t wire_types_n = ARRAY_LEN(wire_types);

#endif
