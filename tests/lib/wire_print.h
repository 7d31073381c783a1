#ifndef LIB_WIRE_PRINT_H
#define LIB_WIRE_PRINT_H

#include "wire/wire.h"

/* One readable line: "ready gen=7 from=n3.0#2 step=41 newest=8". gen is left out if 0. Cut
 * with "…" when cap is too small; always terminated if cap > 0. Returns its length. */
size_t wire_print(unsigned type, const void *msg, uint64_t generation, char *buf, size_t cap);

#endif
