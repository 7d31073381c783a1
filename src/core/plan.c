/* The cut of the slices among the ranks.
 *
 * Let I = S/N be the ideal share and the unit u the largest power of two that is at most I/8, or 1.
 * Boundary i may lie on one of the four multiples of u nearest to i * I. Among all tilings by such
 * boundaries whose shares keep below the cap and have at most four subtrees, the one with the
 * fewest subtrees is taken, then the most even one: a dynamic program over N + 1 boundaries of four
 * choices each.
 *
 * The bounds. The cap is the larger of floor(1.125 * I) and ceil(I), and a share above it is never
 * taken; for I >= 8 the former is the larger. The boundaries u * floor(i * I / u) keep the cap,
 * since their shares are less than I + u. A range has popcount(w) + c subtrees, where w is its
 * width in units and c the number of carries in adding the parts left and right of its roundest
 * inner point; so one of up to nine units has never more than four, and only some places of one of
 * 10, 12, 13 or 14 units have. That four choices always suffice to avoid those is not argued but
 * enumerated: there are 255 pairs with 8N <= S <= 1024, and 2,047 with N <= S, and the unit test
 * walks them all. */
#include "core/plan.h"

#define CHOICES 4
#define NOWHERE UINT64_MAX

struct cuts {
    uint32_t slices_n;
    uint32_t ranks_n;
    uint32_t unit;
    uint32_t share_max;
};

/* Where boundary i may lie; false if choice j is none. The ends have one place each. */
static bool cut_place(const struct cuts *c, uint32_t i, uint32_t j, uint32_t *out)
{
    uint32_t k = i * c->slices_n / c->ranks_n / c->unit + j;

    if (i == 0 || i == c->ranks_n) {
        *out = i == 0 ? 0 : c->slices_n;
        return j == 0;
    }
    if (k < 2 || (k - 1) * c->unit >= c->slices_n) {
        return false;
    }
    *out = (k - 1) * c->unit;
    return true;
}

/* Subtrees first, then evenness: sums of squares stay below 2^21. */
static uint64_t cut_cost(const struct cuts *c, uint32_t lo, uint32_t hi)
{
    uint64_t square = (uint64_t)(hi - lo) * (hi - lo);
    uint32_t subtrees_n = 0;

    if (lo >= hi || hi - lo > c->share_max) {
        return NOWHERE;
    }
    while (lo < hi) {
        uint32_t width = lo == 0 ? c->slices_n : lo & -lo;
        while (width > hi - lo) {
            width /= 2;
        }
        lo += width;
        subtrees_n++;
    }
    return subtrees_n > PLAN_SUBTREES_MAX ? NOWHERE : ((uint64_t)subtrees_n << 24) + square;
}

/* The cheapest way to boundary i at `place`, given those to boundary i - 1. */
static uint64_t cut_best(const struct cuts *c, uint32_t i, uint32_t place,
                         const uint64_t before[CHOICES], uint8_t *via)
{
    uint64_t best = NOWHERE;
    uint32_t lo;

    for (uint32_t j = 0; j < CHOICES; j++) {
        if (before[j] == NOWHERE || !cut_place(c, i - 1, j, &lo)) {
            continue;
        }
        uint64_t cost = cut_cost(c, lo, place);
        if (cost != NOWHERE && before[j] + cost < best) {
            best = before[j] + cost;
            *via = (uint8_t)j;
        }
    }
    return best;
}

static void cut(struct plan *plan, const struct cuts *c)
{
    uint8_t via[SLICES_MAX + 1][CHOICES];
    uint64_t before[CHOICES] = {0, NOWHERE, NOWHERE, NOWHERE};
    uint64_t now[CHOICES];
    uint32_t place = 0;

    for (uint32_t i = 1; i <= c->ranks_n; i++) {
        for (uint32_t j = 0; j < CHOICES; j++) {
            bool is_place = cut_place(c, i, j, &place);
            now[j] = is_place ? cut_best(c, i, place, before, &via[i][j]) : NOWHERE;
        }
        memcpy(before, now, sizeof(before));
    }
    mu_assert(before[0] != NOWHERE);

    uint32_t hi = c->slices_n;
    uint32_t j = 0;
    for (uint32_t i = c->ranks_n; i > 0; i--) {
        j = via[i][j];
        mu_assert(cut_place(c, i - 1, j, &place));
        while (hi > place) {
            plan->owner[--hi] = i - 1;
        }
    }
}

static bool valid(uint32_t slices_n, uint32_t ranks_n)
{
    return slices_valid_n(slices_n) && ranks_n >= 1 && ranks_n <= PLAN_RANKS_MAX;
}

int plan_init(struct plan *plan, uint32_t slices_n, uint32_t ranks_n)
{
    uint32_t busy_n = MIN(slices_n, ranks_n);
    struct cuts c = {.slices_n = slices_n, .ranks_n = busy_n, .unit = 1};

    if (!valid(slices_n, ranks_n)) {
        return MU_EINVAL;
    }
    while (16 * c.unit * busy_n <= slices_n) {
        c.unit *= 2;
    }
    c.share_max = MAX(9 * slices_n / (8 * busy_n), (slices_n + busy_n - 1) / busy_n);
    *plan = (struct plan){.slices_n = slices_n, .ranks_n = ranks_n};
    cut(plan, &c);
    return MU_OK;
}

/* What rank r keeps of what it holds, lower ranks having kept `taken`; adds it to `taken`. */
static struct slices keep(const struct slices *held, struct slices *taken)
{
    struct slices kept;

    for (size_t i = 0; i < ARRAY_LEN(kept.bits); i++) {
        kept.bits[i] = held->bits[i] & ~taken->bits[i];
        taken->bits[i] |= held->bits[i];
    }
    return kept;
}

/* A set that has every slice from `slices_n` on, so that nobody keeps them. */
static struct slices beyond(uint32_t slices_n)
{
    struct slices set;

    slices_clear(&set);
    for (uint32_t s = slices_n; s < SLICES_MAX; s++) {
        slices_add(&set, s);
    }
    return set;
}

/* Gives every held slice to its lowest holder. keepers_n[k] counts the ranks that keep k. */
static struct slices keep_held(struct plan *plan, const struct slices *held,
                               uint32_t keepers_n[SLICES_MAX + 1])
{
    struct slices taken = beyond(plan->slices_n);

    for (uint32_t r = 0; r < plan->ranks_n; r++) {
        struct slices kept = keep(&held[r], &taken);
        for (uint32_t s = 0; (s = slices_next(&kept, s)) < plan->slices_n; s++) {
            plan->owner[s] = r;
        }
        keepers_n[slices_count(&kept)]++;
    }
    return taken;
}

int plan_regroup(struct plan *plan, uint32_t slices_n, uint32_t ranks_n, const struct slices *held)
{
    uint32_t keepers_n[SLICES_MAX + 1] = {0};

    if (!valid(slices_n, ranks_n)) {
        return MU_EINVAL;
    }
    *plan = (struct plan){.slices_n = slices_n, .ranks_n = ranks_n};

    struct slices taken = keep_held(plan, held, keepers_n);
    uint32_t missing_n = SLICES_MAX - slices_count(&taken);
    uint32_t odd_n = missing_n % ranks_n;
    uint32_t few = 0; /* all that keep fewer get an odd one, and odd_n of those that keep `few` */
    while (keepers_n[few] <= odd_n) {
        odd_n -= keepers_n[few++];
    }

    struct slices before = beyond(slices_n);
    uint32_t s = 0;
    for (uint32_t r = 0; r < ranks_n && missing_n > 0; r++) {
        struct slices kept = keep(&held[r], &before);
        uint32_t kept_n = slices_count(&kept);
        bool odd = kept_n < few || (kept_n == few && odd_n > 0);
        odd_n -= kept_n == few && odd;
        for (uint32_t more_n = missing_n / ranks_n + odd; more_n > 0; s++) {
            if (!slices_has(&taken, s)) {
                plan->owner[s] = r;
                more_n--;
            }
        }
    }
    return MU_OK;
}

uint32_t plan_rank(const struct plan *plan, uint32_t slice)
{
    mu_assert(slice < plan->slices_n);
    return plan->owner[slice];
}

struct plan_share plan_share(const struct plan *plan, uint32_t rank)
{
    struct plan_share share = {0, 0};

    for (uint32_t s = 0; s < plan->slices_n; s++) {
        if (plan->owner[s] == rank) {
            share.first = share.n == 0 ? s : share.first;
            share.n++;
        }
    }
    return share;
}

void plan_slices(const struct plan *plan, uint32_t rank, struct slices *out)
{
    slices_clear(out);
    for (uint32_t s = 0; s < plan->slices_n; s++) {
        if (plan->owner[s] == rank) {
            slices_add(out, s);
        }
    }
}

/* The largest subtree that begins at lo and has one owner. */
static struct subtree subtree_at(const struct plan *plan, uint32_t lo)
{
    uint32_t width = 1;
    uint32_t end = lo + 1;

    while (width < plan->slices_n && (lo & width) == 0) {
        while (end < lo + 2 * width && plan->owner[end] == plan->owner[lo]) {
            end++;
        }
        if (end < lo + 2 * width) {
            break;
        }
        width *= 2;
    }
    return (struct subtree){lo, width};
}

bool plan_next_subtree(const struct plan *plan, uint32_t rank, uint32_t from, struct subtree *out)
{
    while (from < plan->slices_n && plan->owner[from] != rank) {
        from++;
    }
    return plan_next_subtree_any(plan, from, out);
}

bool plan_next_subtree_any(const struct plan *plan, uint32_t from, struct subtree *out)
{
    if (from >= plan->slices_n) {
        return false;
    }
    *out = subtree_at(plan, from);
    return true;
}
