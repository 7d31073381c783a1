#include "ckpt/sum.h"

#include <string.h>
#ifdef HASH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

static void put(XXH128_hash_t hash, uint8_t sum_out[CKPT_SUM_BYTES])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, hash);
    memcpy(sum_out, canonical.digest, CKPT_SUM_BYTES);
}

void sum_of(const void *data, size_t n, uint8_t sum_out[CKPT_SUM_BYTES])
{
    put(XXH3_128bits(data, n), sum_out);
}

/* It is never defined: an XXH3_state_t by another name. */
static XXH3_state_t *state_of(struct sum_state *s)
{
    return (XXH3_state_t *)(void *)s;
}

struct sum_state *sum_open(void)
{
    return (struct sum_state *)(void *)XXH3_createState();
}

void sum_close(struct sum_state *s)
{
    (void)XXH3_freeState(state_of(s));
}

void sum_begin(struct sum_state *s)
{
    (void)XXH3_128bits_reset(state_of(s));
}

void sum_add(struct sum_state *s, const void *data, size_t n)
{
    (void)XXH3_128bits_update(state_of(s), data, n);
}

void sum_end(struct sum_state *s, uint8_t sum_out[CKPT_SUM_BYTES])
{
    put(XXH3_128bits_digest(state_of(s)), sum_out);
}
