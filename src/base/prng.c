/* xoshiro256** by Blackman and Vigna, seeded by splitmix64 as they advise. */
#include "base/prng.h"

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)

__extension__ typedef unsigned __int128 u128;

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t prng_mix(uint64_t x)
{
    x += GOLDEN;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void prng_init(struct prng *p, uint64_t seed)
{
    /* The mixer is a bijection, so at most one of the four words is zero. */
    for (size_t i = 0; i < ARRAY_LEN(p->s); i++) {
        p->s[i] = prng_mix(seed + i * GOLDEN);
    }
}

uint64_t prng_u64(struct prng *p)
{
    uint64_t *s = p->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

/* Lemire's method: the high half of a product, redrawn in the rare cases that would make
 * some results likelier; it seldom divides. */
uint64_t prng_below(struct prng *p, uint64_t n)
{
    u128 product;

    mu_assert(n > 0);
    product = (u128)prng_u64(p) * n;
    if ((uint64_t)product < n) {
        uint64_t uneven = (0 - n) % n;

        while ((uint64_t)product < uneven) {
            product = (u128)prng_u64(p) * n;
        }
    }
    return (uint64_t)(product >> 64);
}

uint64_t prng_between(struct prng *p, uint64_t lo, uint64_t hi)
{
    mu_assert(lo <= hi);
    if (hi - lo == UINT64_MAX) {
        return prng_u64(p);
    }
    return lo + prng_below(p, hi - lo + 1);
}
