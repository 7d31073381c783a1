/* Bit for bit what one plain process computes: any operation, type and length, any number of ranks,
 * by shared memory, by TCP and by both. A sample by seed (MUSTER_COMM_SEED, fixed unless set);
 * MUSTER_TEST_FULL=1: far more of them. */
#include "comm/works.h"
#include "unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

struct plan_of_test {
    enum ranks_layout layout;
    uint64_t seed;
    uint32_t works_n;
    size_t bytes_max;
    bool slices, tls;
};

/* Some callers flush to zero, or round as they like: that must change nothing. */
static int run_oddly(struct rank *r, const struct comm_call *call, bool oddly,
                     struct comm_result *result)
{
#ifdef __SSE__
    const unsigned was = _mm_getcsr();
    int rc;

    if (oddly) {
        _mm_setcsr(was | 0x8040 | 0x6000);
    }
    rc = comm_run(r->comm, call, result);
    rank_check(r, !oddly || (_mm_getcsr() & 0xe040) == 0xe040, "it changed the caller's MXCSR");
    _mm_setcsr(was);
    return rc;
#else
    return comm_run(r->comm, call, result);
#endif
}

static void one_by_one(struct rank *r)
{
    const struct plan_of_test *t = r->arg;
    struct prng p, own;

    rank_enter(r, 0);
    ranks_check_links(r, t->layout);
    prng_init(&p, t->seed);
    prng_init(&own, t->seed ^ r->self);
    for (uint32_t i = 0; i < t->works_n; i++) {
        struct comm_result result = {0};
        struct spec spec;
        struct work w;
        size_t room = 0;
        int rc;

        (t->slices ? spec_draw_slices : spec_draw)(&p, comm_size(r->comm), t->bytes_max, &spec);
        work_prepare(r, &spec, &room, &w);
        if (w.mine) {
            rc = run_oddly(r, &w.call, prng_below(&own, 3) == 0, &result);
            work_check(r, &w, rc, &result);
        }
        work_free(r, &w);
        works_meet(r); /* The next one takes the same room. */
    }
}

static void run_group(rank_body *body, uint32_t n, const struct plan_of_test *t)
{
    struct ranks_config config = {
        .n = n, .body = body, .arg = t, .tls = t->tls, .shared_bytes = WORKS_SHARED_BYTES};
    struct ranks s;

    ranks_lay_out(&config, t->layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%u ranks, %s, MUSTER_COMM_SEED=%llu", n,
             ranks_layout_name(t->layout), (unsigned long long)ranks_seed());
    ranks_publish_all(&s);
    ranks_finish(&s);
}

static void run_layout(enum ranks_layout layout)
{
    const uint32_t rounds = ranks_full() ? 3 : 1;

    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t n = 1; n <= 9; n++) {
            struct plan_of_test t = {.layout = layout,
                                     .seed = prng_mix(ranks_seed() + 100 * round + n),
                                     .works_n = ranks_full() ? 150
                                                : n <= 4     ? 40
                                                             : 15,
                                     .bytes_max = ranks_full() ? 4 << 20 : 512 << 10};

            run_group(one_by_one, n, &t);
        }
    }
}

static void results_are_exact_by_shared_memory(void **state)
{
    run_layout(RANKS_SHM);
}

static void results_are_exact_by_tcp(void **state)
{
    run_layout(RANKS_TCP);
}

static void results_are_exact_by_both(void **state)
{
    run_layout(RANKS_MIXED);
}

static void subtrees_give_the_bits_of_one_process(void **state)
{
    static const uint32_t SIZES[] = {1, 2, 3, 4, 7};

    for (uint32_t i = 0; i < ARRAY_LEN(SIZES) * RANKS_LAYOUTS; i++) {
        struct plan_of_test t = {.layout = (enum ranks_layout)(i % RANKS_LAYOUTS),
                                 .seed = prng_mix(ranks_seed() + 1000 + i),
                                 .works_n = ranks_full() ? 60 : 12,
                                 .bytes_max = ranks_full() ? 16 << 20 : 512 << 10,
                                 .slices = true};

        run_group(one_by_one, SIZES[i / RANKS_LAYOUTS], &t);
    }
}

static void results_are_exact_by_tls(void **state)
{
    struct plan_of_test t = {.layout = RANKS_TCP,
                             .seed = prng_mix(ranks_seed() + 3000),
                             .works_n = ranks_full() ? 100 : 30,
                             .bytes_max = ranks_full() ? 8 << 20 : 512 << 10,
                             .tls = true};

    run_group(one_by_one, 3, &t);
}

/* ---- started calls ---- */

#define BATCH_MAX 5

static void batches(struct rank *r)
{
    const struct plan_of_test *t = r->arg;
    static struct work w[BATCH_MAX];
    struct comm_started *started[BATCH_MAX];
    struct prng p, own;

    rank_enter(r, 0);
    prng_init(&p, t->seed);
    prng_init(&own, t->seed ^ r->self);
    for (uint32_t i = 0; i < t->works_n; i++) {
        const uint32_t n = (uint32_t)prng_between(&p, 2, BATCH_MAX);
        const uint32_t waited = prng_below(&p, 3) == 0 ? n - 1 : n; /* the last in this thread */
        size_t room = 0;

        for (uint32_t k = 0; k < n; k++) {
            struct spec spec;

            spec_draw(&p, comm_size(r->comm), t->bytes_max, &spec);
            work_prepare(r, &spec, &room, &w[k]);
        }
        for (uint32_t k = 0; k < waited; k++) {
            int rc = w[k].mine ? comm_start(r->comm, &w[k].call, &started[k]) : MU_OK;

            rank_check(r, rc == MU_OK, "%s: not started: %s", w[k].text, mu_strerror(rc));
        }
        if (waited < n && w[waited].mine) {
            struct comm_result result = {0};
            int rc = comm_run(r->comm, &w[waited].call, &result);

            work_check(r, &w[waited], rc, &result);
        }
        for (uint32_t k = 0, first = (uint32_t)prng_below(&own, n); k < n; k++) {
            const uint32_t at = (first + k) % n;

            if (at < waited && w[at].mine) {
                struct comm_result result = {0};
                int rc;

                while ((rc = comm_finish(started[at], 1, &result)) == MU_ETIMEDOUT) {
                }
                work_check(r, &w[at], rc, &result);
            }
        }
        for (uint32_t k = 0; k < n; k++) {
            work_free(r, &w[k]);
        }
        works_meet(r);
    }
}

static void started_calls_overlap_and_are_exact(void **state)
{
    static const uint32_t SIZES[] = {1, 2, 4, 5};

    for (uint32_t i = 0; i < ARRAY_LEN(SIZES) * RANKS_LAYOUTS; i++) {
        struct plan_of_test t = {.layout = (enum ranks_layout)(i % RANKS_LAYOUTS),
                                 .seed = prng_mix(ranks_seed() + 2000 + i),
                                 .works_n = ranks_full() ? 60 : 6,
                                 .bytes_max = ranks_full() ? 4 << 20 : 256 << 10};

        run_group(batches, SIZES[i / RANKS_LAYOUTS], &t);
    }
}

/* ---- from one generation to the next ---- */

static const struct {
    uint32_t n, who[4];
} WANDERING[] = {{4, {0, 1, 2, 3}}, {4, {3, 1, 0, 2}}, {3, {0, 1, 2}},
                 {2, {2, 0}},       {3, {1, 2, 0}},    {4, {2, 0, 1, 3}}};

/* Adds up the numbers of the members, a few times. */
static void add_members(struct rank *r, const struct generation *g)
{
    float in = (float)wid_node(r->self), out = 0, want = 0;
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = &in,
                             .out = &out,
                             .count = 1,
                             .dtype = DTYPE_F32,
                             .timeout_ms = RANKS_LIMIT_MS / 2};
    struct comm_result result = {0};

    for (uint32_t k = 0; k < g->members_n; k++) {
        want += (float)wid_node(g->members[k].worker);
    }
    for (uint32_t k = 0; k < 5; k++) {
        int rc = comm_run(r->comm, &call, &result);

        rank_check(r, rc == MU_OK && out == want && result.members_n == g->members_n,
                   "generation %llu: %s, %g, not %g: %s", (unsigned long long)g->number,
                   mu_strerror(rc), (double)out, (double)want, result.error);
    }
}

static void wander(struct rank *r)
{
    struct comm_stats stats;

    for (uint64_t at = 0; at < ARRAY_LEN(WANDERING);) {
        const struct generation *g = rank_enter(r, at);

        at = g->number;
        add_members(r, g);
        rank_say(r, 1, at, 0);
    }
    comm_stats(r->comm, &stats);
    /* To three others at first, then anew to those who had left, or whom it had left. */
    rank_check(r, stats.linked_n <= 3 + 4 && stats.kept_n >= 3, "%llu links were made, %llu kept",
               (unsigned long long)stats.linked_n, (unsigned long long)stats.kept_n);
}

static void groups_change_and_links_stay(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        struct ranks_config config = {.n = 4, .body = wander};
        struct ranks s;

        ranks_lay_out(&config, (enum ranks_layout)layout);
        ranks_open(&s, &config);
        snprintf(s.what, sizeof(s.what), "moves, %s", ranks_layout_name((enum ranks_layout)layout));
        for (size_t i = 0; i < ARRAY_LEN(WANDERING); i++) {
            ranks_publish(&s, GENERATION_BOUNDARY, WANDERING[i].who, WANDERING[i].n);
            for (uint32_t k = 0; k < WANDERING[i].n; k++) {
                ranks_await(&s, WANDERING[i].who[k], 1, NULL);
            }
        }
        ranks_finish(&s);
    }
}

/* ---- many pieces ---- */

#define MANY_BYTES ((size_t)12 << 20)

/* Buffers of any kind, which need not be the same on all ranks: nobody waits for somebody who waits
 * for it, however much more there is than fits into what lies between them. */
static void many_pieces(struct rank *r)
{
    static const enum comm_op OPS[] = {COMM_REDUCE, COMM_BROADCAST};
    uint8_t *shared[2] = {comm_alloc(r->comm, MANY_BYTES), comm_alloc(r->comm, MANY_BYTES)};
    uint8_t *plain[2] = {malloc(MANY_BYTES), malloc(MANY_BYTES)};
    struct comm_result result = {0};

    rank_check(r, shared[0] && shared[1] && plain[0] && plain[1], "no memory");
    rank_enter(r, 0);
    for (uint32_t round = 0; round < 24; round++) {
        const uint32_t n = comm_size(r->comm), me = comm_rank(r->comm);

        if (!ranks_full() && round % 3 != n % 3) { /* Groups of other sizes have those. */
            continue;
        }
        const uint32_t bits = round >> (me % 2 * 2);
        uint8_t *in = (bits & 1 ? shared : plain)[0], *out = (bits & 2 ? shared : plain)[1];
        struct comm_call call = {.op = round < 16 ? COMM_ALLREDUCE : OPS[round % 2],
                                 .in = in,
                                 .out = out,
                                 .count = MANY_BYTES - round,
                                 .dtype = DTYPE_U8,
                                 .timeout_ms = RANKS_LIMIT_MS / 4};
        const bool sums = call.op != COMM_BROADCAST;
        int rc;

        memset(in, (int)(me + 1), MANY_BYTES);
        in[round] = 7;
        rc = comm_run(r->comm, &call, &result);
        rank_check(r, rc == MU_OK, "round %u: %s: %s", round, mu_strerror(rc), result.error);
        for (size_t i = 0; i < call.count && (call.op == COMM_ALLREDUCE || (me == 0) == sums);
             i++) {
            uint32_t want = !sums ? (i == round ? 7 : 1) : i == round ? 7 * n : n * (n + 1) / 2;

            rank_check(r, out[i] == (uint8_t)want, "round %u: element %zu is %u, not %u", round, i,
                       out[i], want);
        }
    }
    for (int i = 0; i < 2; i++) {
        comm_free(r->comm, shared[i]);
        free(plain[i]);
    }
}

static void nobody_waits_for_whoever_waits_for_it(void **state)
{
    for (uint32_t n = 2; n <= 4; n++) {
        struct plan_of_test t = {.layout = n == 4 ? RANKS_MIXED : RANKS_SHM};

        run_group(many_pieces, n, &t);
    }
}

/* ---- late ones ---- */

#define LATE_BYTES_MAX ((size_t)9 << 20)
#define LATE_MS 20

static void nap(void)
{
    poll(NULL, 0, LATE_MS);
}

/* One that is given something comes late, when the others may be in the next call already: what did
 * not fit between them must come to it nevertheless. */
static void late(struct rank *r)
{
    static const uint8_t holds[RANKS_MAX] = {1};
    uint8_t *data = malloc(LATE_BYTES_MAX), *all = malloc(96 * RANKS_MAX);
    struct comm_result result = {0};

    rank_check(r, data != NULL && all != NULL, "no memory");
    rank_enter(r, 0);
    const size_t less = (size_t)(ranks_full() ? 256 : 1536) << 10;

    for (size_t bytes = LATE_BYTES_MAX; bytes > 0; bytes -= less) {
        const uint32_t me = comm_rank(r->comm);
        const struct comm_call calls[] = {{.op = COMM_SHARE,
                                           .in = me == 0 ? data : NULL,
                                           .out = me == 0 ? NULL : data,
                                           .count = bytes,
                                           .dtype = DTYPE_U8,
                                           .timeout_ms = -1,
                                           .holds = holds},
                                          {.op = COMM_ALLGATHER,
                                           .in = data,
                                           .out = all,
                                           .count = 96,
                                           .dtype = DTYPE_U8,
                                           .timeout_ms = -1}};

        memset(data, me == 0 ? (int)(bytes >> 18) : 0, bytes);
        if (me == comm_size(r->comm) - 1) {
            nap();
        }
        for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
            int rc = comm_run(r->comm, &calls[i], &result);

            rank_check(r, rc == MU_OK, "%zu bytes: %s: %s", bytes, mu_strerror(rc), result.error);
        }
        rank_check(r, data[bytes - 1] == (uint8_t)(bytes >> 18) && data[bytes / 2] == data[0],
                   "%zu bytes: not what was given", bytes);
    }
    free(data);
    free(all);
}

static void one_that_comes_late_gets_all_of_it(void **state)
{
    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        const struct plan_of_test t = {.layout = (enum ranks_layout)layout};

        run_group(late, 4, &t);
    }
}

/* ---- more than two thousand million of them ---- */

#define HUGE_N ((UINT64_C(2) << 30) + 12345)

static void huge(struct rank *r)
{
    uint8_t *in = comm_alloc(r->comm, HUGE_N);
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = in,
                             .out = in,
                             .count = HUGE_N,
                             .dtype = DTYPE_U8,
                             .timeout_ms = RANKS_LIMIT_MS / 2};
    struct comm_result result = {0};
    int rc;

    rank_check(r, in != NULL, "no memory");
    for (uint64_t i = 0; i < HUGE_N; i++) {
        in[i] = (uint8_t)(i * (r->index + 3) >> 7);
    }
    rank_enter(r, 0);
    rc = comm_run(r->comm, &call, &result);
    rank_check(r, rc == MU_OK, "%s: %s", mu_strerror(rc), result.error);
    for (uint64_t i = 0; i < HUGE_N; i++) {
        uint8_t want = (uint8_t)((i * 3 >> 7) + (i * 4 >> 7));

        rank_check(r, in[i] == want, "element %llu is %u, not %u", (unsigned long long)i, in[i],
                   want);
    }
    comm_free(r->comm, in);
}

static uint64_t free_bytes(void)
{
    FILE *f = fopen("/proc/meminfo", "r");
    unsigned long long kb = 0;
    char line[128];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kb) == 1) {
            break;
        }
    }
    if (f != NULL) {
        fclose(f);
    }
    return (uint64_t)kb * 1024;
}

static void more_than_2_GiB_are_exact(void **state)
{
    const uint64_t need = 5 * HUGE_N; /* two buffers, a result beside each, and some */

    if (!ranks_full()) {
        print_message("# only with MUSTER_TEST_FULL=1\n");
        skip();
    }
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    print_message("# not under a sanitizer\n");
    skip();
#endif
#endif
    for (int layout = RANKS_SHM; layout <= RANKS_TCP; layout++) {
        struct plan_of_test t = {.layout = (enum ranks_layout)layout};

        if (free_bytes() < need) {
            print_message("# %.1f GB of memory are free, %.1f are needed\n",
                          (double)free_bytes() / 1e9, (double)need / 1e9);
            skip();
        }
        run_group(huge, 2, &t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_exact_by_shared_memory),
        cmocka_unit_test(results_are_exact_by_tcp),
        cmocka_unit_test(results_are_exact_by_both),
        cmocka_unit_test(results_are_exact_by_tls),
        cmocka_unit_test(subtrees_give_the_bits_of_one_process),
        cmocka_unit_test(started_calls_overlap_and_are_exact),
        cmocka_unit_test(nobody_waits_for_whoever_waits_for_it),
        cmocka_unit_test(one_that_comes_late_gets_all_of_it),
        cmocka_unit_test(groups_change_and_links_stay),
        cmocka_unit_test(more_than_2_GiB_are_exact),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
