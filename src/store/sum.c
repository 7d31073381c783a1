#include "store/sum.h"

#include <string.h>
#include <xxhash.h>

void sum_put_u64(unsigned char *to, uint64_t v)
{
    for (int i = 0; i < 8; i++) {
        to[i] = (unsigned char)(v >> (8 * i));
    }
}

uint64_t sum_get_u64(const unsigned char *from)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++) {
        v |= (uint64_t)from[i] << (8 * i);
    }
    return v;
}

/* The bytes are hashed first and their hash is hashed with the rest: no state, no allocation. */
struct sum sum_next(enum sum_kind kind, struct sum previous, uint64_t number, const void *data,
                    size_t n)
{
    unsigned char outer[SUM_BYTES + 8 + 8 + 8 + sizeof(XXH128_canonical_t)];
    XXH128_canonical_t canonical;
    struct sum out;

    memcpy(outer, previous.b, SUM_BYTES);
    sum_put_u64(outer + SUM_BYTES, (uint64_t)kind);
    sum_put_u64(outer + SUM_BYTES + 8, number);
    sum_put_u64(outer + SUM_BYTES + 16, n);
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(n > 0 ? data : "", n));
    memcpy(outer + SUM_BYTES + 24, canonical.digest, sizeof(canonical.digest));
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(outer, sizeof(outer)));
    memcpy(out.b, canonical.digest, SUM_BYTES);
    return out;
}

bool sum_equal(struct sum a, struct sum b)
{
    return memcmp(a.b, b.b, SUM_BYTES) == 0;
}
