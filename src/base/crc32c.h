/* CRC-32C (Castagnoli), as on the wire. Start with 0; feed the result back in to go on. */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include "base/base.h"

uint32_t crc32c(uint32_t crc, const void *data, size_t n);

/* The same value by tables alone, whatever the CPU has: what crc32c() is tested against. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t n);

#endif
