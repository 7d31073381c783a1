/* Drawing calls. */
#include "comm/works.h"

#include <stdio.h>

static uint64_t draw_count(struct prng *p, size_t size, size_t bytes_max)
{
    const uint64_t most = bytes_max / size;
    uint64_t count;

    switch (prng_below(p, 16)) {
    case 0:
        count = 0;
        break;
    case 1:
        count = 1;
        break;
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
        count = prng_below(p, 140);
        break;
    case 7:
    case 8:
    case 9: /* around powers of two in bytes: vectors, pages, what goes at once */
        count = (UINT64_C(1) << prng_between(p, 3, 20)) / size + prng_below(p, 3);
        count = count > 0 ? count - 1 : 0;
        break;
    case 10:
    case 11:
    case 12:
        count = prng_below(p, 5000);
        break;
    case 13:
    case 14:
        count = prng_below(p, most / 8 + 1);
        break;
    default:
        count = prng_below(p, most + 1);
        break;
    }
    return MIN(count, most);
}

static void draw_types(struct prng *p, struct spec *s)
{
    s->seed = prng_u64(p);
    s->dtype = (enum dtype)prng_below(p, DTYPE_N);
    s->reduce = (enum reduce_op)prng_below(p, REDUCE_OP_N);
    s->divisor = prng_below(p, 2) == 0 ? 0 : prng_between(p, 1, 10000);
    s->taste = (unsigned)prng_below(p, 4);
    s->agree = prng_below(p, 4) == 0;
}

void spec_draw(struct prng *p, uint32_t ranks_n, size_t bytes_max, struct spec *out)
{
    static const enum comm_op OPS[] = {
        COMM_ALLREDUCE, COMM_ALLREDUCE, COMM_ALLREDUCE, COMM_REDUCE_SCATTER, COMM_ALLGATHER,
        COMM_BROADCAST, COMM_REDUCE,    COMM_BARRIER,   COMM_SEND,           COMM_SHARE};
    struct spec s = {.op = OPS[prng_below(p, ARRAY_LEN(OPS))]};
    bool each;

    draw_types(p, &s);
    each = s.op == COMM_REDUCE_SCATTER || s.op == COMM_ALLGATHER;
    s.count = draw_count(p, dtype_size(s.dtype), bytes_max / (each ? ranks_n : 1));
    s.root = (uint32_t)prng_below(p, ranks_n);
    s.peer = (s.root + 1 + (uint32_t)prng_below(p, MAX(ranks_n, 2) - 1)) % ranks_n;
    s.tag = (uint32_t)prng_u64(p);
    for (uint32_t r = 0; r < ranks_n; r++) {
        s.holds[r] = r == s.root || (s.tag >> r) % 2 == 0;
    }
    if (s.op == COMM_SEND && s.peer == s.root) {
        s.op = COMM_BARRIER; /* alone */
    }
    if (s.op == COMM_BARRIER) {
        s.count = 0;
    }
    s.same = prng_below(p, 3) == 0 &&
             (s.op == COMM_ALLREDUCE || s.op == COMM_REDUCE || s.op == COMM_BROADCAST);
    s.view = prng_below(p, 3) == 0 && (s.op == COMM_ALLREDUCE);
    s.same = s.same && !s.view;
    s.agree = s.agree && s.op != COMM_SEND;
    *out = s;
}

void spec_draw_slices(struct prng *p, uint32_t ranks_n, size_t bytes_max, struct spec *out)
{
    const uint32_t slices_n = 1u << prng_between(p, 0, 6);
    struct slices held[RANKS_MAX] = {{{0}}};
    struct spec s = {.op = COMM_ALLREDUCE};

    draw_types(p, &s);
    if (s.divisor == 0) {
        s.divisor = slices_n;
    }
    s.count = draw_count(p, dtype_size(s.dtype), bytes_max / slices_n);
    s.view = prng_below(p, 3) == 0;
    if (prng_below(p, 2) == 0) {
        mu_assert(plan_init(&s.plan, slices_n, ranks_n) == MU_OK);
    } else { /* as after a loss: some slices stay where they are */
        for (uint32_t i = 0; i < slices_n; i++) {
            uint32_t who = (uint32_t)prng_below(p, 2 * ranks_n);

            if (who < ranks_n) {
                slices_add(&held[who], i);
            }
        }
        mu_assert(plan_regroup(&s.plan, slices_n, ranks_n, held) == MU_OK);
    }
    *out = s;
}

void spec_print(const struct spec *s, char text[256])
{
    snprintf(text, 256,
             "%s of %llu %s, %s by %llu, root %u, peer %u, taste %u%s%s%s, %u slices (seed %llx)",
             comm_op_name(s->op), (unsigned long long)s->count, dtype_name(s->dtype),
             reduce_op_name(s->reduce), (unsigned long long)s->divisor, s->root, s->peer, s->taste,
             s->same ? ", in place" : "", s->view ? ", a view" : "", s->agree ? ", agreed" : "",
             s->plan.slices_n, (unsigned long long)s->seed);
}
