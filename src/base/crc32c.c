/* CRC-32C in two ways that give the same value: tables, eight bytes at a time, and the
 * instruction of SSE 4.2, chosen when the program is loaded. */
#include "base/crc32c.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78U /* reflected */

/* tables[k][b]: what byte b does to the checksum when k bytes follow it. Written only by
 * prepare(), before main() and before there are threads. */
static uint32_t tables[8][256];

static uint32_t load_le32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t n)
{
    const unsigned char *p = data;

    crc = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t lo = crc ^ load_le32(p);
        uint32_t hi = load_le32(p + 4);

        crc = tables[7][lo & 0xff] ^ tables[6][lo >> 8 & 0xff] ^ tables[5][lo >> 16 & 0xff] ^
              tables[4][lo >> 24] ^ tables[3][hi & 0xff] ^ tables[2][hi >> 8 & 0xff] ^
              tables[1][hi >> 16 & 0xff] ^ tables[0][hi >> 24];
    }
    for (; n > 0; n--, p++) {
        crc = crc >> 8 ^ tables[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *data,
                                                               size_t n)
{
    const unsigned char *p = data;
    uint64_t wide = ~crc;

    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        wide = _mm_crc32_u64(wide, word);
    }
    crc = (uint32_t)wide;
    for (; n > 0; n--, p++) {
        crc = _mm_crc32_u8(crc, *p);
    }
    return ~crc;
}
#endif

static uint32_t (*best)(uint32_t crc, const void *data, size_t n) = crc32c_portable;

/* Before all that speak while they are loaded (run/join.c). */
__attribute__((constructor(101))) static void prepare(void)
{
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;

        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        tables[0][b] = crc;
    }
    for (size_t k = 1; k < ARRAY_LEN(tables); k++) {
        for (uint32_t b = 0; b < 256; b++) {
            uint32_t crc = tables[k - 1][b];

            tables[k][b] = crc >> 8 ^ tables[0][crc & 0xff];
        }
    }
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("sse4.2")) {
        best = crc32c_sse42;
    }
#endif
}

uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    return best(crc, data, n);
}
