/* A keyed permutation: a Feistel network over the smallest 2^b >= n, its two halves of ceil(b/2)
 * and floor(b/2) bits changed in turn, each by a mix of the other one and a round key. A result
 * that is not below n is put in again (cycle walking): that is a bijection on [0, n), and since 2^b
 * < 2n for n > 2, takes less than two turns on average.
 *
 * The number of rounds. Few bits mean few round functions, and so a slow approach to an even choice
 * among all permutations: the distance to it about halves with each round at b = 2. Hence 32 - b
 * rounds and never less than 8: small networks are the cheap ones. What stays: for n = 2^b >= 16
 * the permutation is always an even one, which shows in nothing but all n values at once. */
#include "core/order.h"

#include "base/prng.h"

/* Keep the uses of one job's seed apart. */
#define USE_ORDER UINT64_C(0x6f72646572000000)
#define USE_SLICE UINT64_C(0x736c696365000000)

static uint32_t bits_for(uint64_t n)
{
    uint32_t bits = 2;

    while (UINT64_C(1) << bits < n) {
        bits++;
    }
    return bits;
}

int order_init(struct order *order, uint64_t seed, uint64_t epoch, uint64_t n)
{
    uint64_t key = prng_mix(prng_mix(seed ^ USE_ORDER) + epoch);

    if (n < 1 || n > ORDER_SAMPLES_MAX) {
        return MU_EINVAL;
    }
    uint32_t bits = bits_for(n);
    *order = (struct order){
        .n = n,
        .hi_bits = bits - bits / 2,
        .lo_bits = bits / 2,
        .rounds = MAX(8, 32 - (int32_t)bits),
    };
    for (uint32_t i = 0; i < order->rounds; i++) {
        key = prng_mix(key);
        order->keys[i] = key;
    }
    return MU_OK;
}

/* Round i changes one half by a function of the other, so it is its own inverse, and a
 * bijection. */
static uint64_t turn(const struct order *o, uint32_t i, uint64_t x)
{
    if (i % 2 == 0) {
        uint64_t lo = x & ((UINT64_C(1) << o->lo_bits) - 1);
        return x ^ prng_mix(lo ^ o->keys[i]) >> (64 - o->hi_bits) << o->lo_bits;
    }
    return x ^ prng_mix(x >> o->lo_bits ^ o->keys[i]) >> (64 - o->lo_bits);
}

uint64_t order_sample(const struct order *order, uint64_t position)
{
    uint64_t x = position;

    mu_assert(position < order->n);
    do {
        for (uint32_t i = 0; i < order->rounds; i++) {
            x = turn(order, i, x);
        }
    } while (x >= order->n);
    return x;
}

int order_walk_check(const struct order_walk *walk)
{
    bool ok = walk->samples_n >= 1 && walk->samples_n <= ORDER_SAMPLES_MAX && walk->batch_n >= 1 &&
              walk->batch_n <= ORDER_SAMPLES_MAX && slices_valid_n(walk->slices_n);

    return ok ? MU_OK : MU_EINVAL;
}

uint64_t order_steps_per_epoch(const struct order_walk *walk)
{
    return (walk->samples_n - 1) / walk->batch_n + 1;
}

uint64_t order_steps(const struct order_walk *walk)
{
    uint64_t per_epoch = order_steps_per_epoch(walk);

    if (walk->epochs_n == 0 || walk->epochs_n > UINT64_MAX / per_epoch) {
        return UINT64_MAX;
    }
    return walk->epochs_n * per_epoch;
}

struct order_span order_batch(const struct order_walk *walk, uint64_t t)
{
    uint64_t per_epoch = order_steps_per_epoch(walk);
    uint64_t first = t % per_epoch * walk->batch_n;

    return (struct order_span){
        .epoch = t / per_epoch,
        .first = first,
        .n = MIN(walk->batch_n, walk->samples_n - first),
    };
}

struct order_span order_slice(const struct order_walk *walk, uint64_t t, uint32_t slice)
{
    struct order_span batch = order_batch(walk, t);

    mu_assert(slice < walk->slices_n);
    uint64_t lo = batch.n * slice / walk->slices_n; /* at most 2^48 * 2^10 */
    uint64_t hi = batch.n * (slice + 1) / walk->slices_n;
    return (struct order_span){batch.epoch, batch.first + lo, hi - lo};
}

uint64_t order_seed(uint64_t seed, uint64_t t, uint32_t slice)
{
    return prng_mix(prng_mix(prng_mix(seed ^ USE_SLICE) + t) + slice);
}
