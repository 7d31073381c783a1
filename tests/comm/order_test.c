/* Ranks that do not make the same calls: all of them hear of it, and of both calls; in the
 * next generation they can go on. */
#include "comm/ranks.h"
#include "comm/reference.h"
#include "unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT 5000

struct mismatch {
    const char *name;
    struct comm_call usual, odd;
    const char *usual_word, *odd_word; /* what their texts must have */
};

#define CALL(op_, count_, dtype_, reduce_, root_)                                                 \
    {                                                                                             \
        .op = COMM_##op_, .count = (count_), .dtype = DTYPE_##dtype_, .reduce = REDUCE_##reduce_, \
        .root = (root_), .timeout_ms = RANKS_LIMIT_MS / 2                                         \
    }
#define SHARE(count_, holds_)                                                      \
    {                                                                              \
        .op = COMM_SHARE, .count = (count_), .dtype = DTYPE_U8, .holds = (holds_), \
        .timeout_ms = RANKS_LIMIT_MS / 2                                           \
    }
#define USUAL CALL(ALLREDUCE, COUNT, F32, SUM, 0)
#define BARRIER CALL(BARRIER, 0, F32, SUM, 0)

static const uint8_t HELD_BY_0[RANKS_MAX] = {1}, HELD_BY_1[RANKS_MAX] = {0, 1};

static const struct mismatch MISMATCHES[] = {
    {"op", USUAL, CALL(ALLGATHER, COUNT, F32, SUM, 0), "allreduce", "allgather"},
    {"a barrier", USUAL, BARRIER, "allreduce", "barrier"},
    {"count", USUAL, CALL(ALLREDUCE, COUNT - 1, F32, SUM, 0), "5000", "4999"},
    {"nothing", USUAL, CALL(ALLREDUCE, 0, F32, SUM, 0), "5000", " 0 "},
    {"dtype", USUAL, CALL(ALLREDUCE, COUNT, I32, SUM, 0), "f32", "i32"},
    {"reduce", USUAL, CALL(ALLREDUCE, COUNT, F32, MAX, 0), "sum", "max"},
    {"root of a reduce", CALL(REDUCE, COUNT, F32, SUM, 0), CALL(REDUCE, COUNT, F32, SUM, 1),
     "reduce", "reduce"},
    {"root of a broadcast", CALL(BROADCAST, COUNT, F32, SUM, 0),
     CALL(BROADCAST, COUNT, F32, SUM, 1), "broadcast", "broadcast"},
    {"count of a broadcast", CALL(BROADCAST, COUNT, F32, SUM, 0), CALL(BROADCAST, 1, F32, SUM, 0),
     "5000", " 1 "},
    {"count of a gather", CALL(ALLGATHER, COUNT, F32, SUM, 0), CALL(ALLGATHER, 9, F32, SUM, 0),
     "5000", " 9 "},
    {"count of a scatter", CALL(REDUCE_SCATTER, COUNT, F32, SUM, 0),
     CALL(REDUCE_SCATTER, 7, F32, SUM, 0), "5000", " 7 "},
    {"count of a share", SHARE(COUNT, HELD_BY_0), SHARE(6, HELD_BY_0), "5000", " 6 "},
    {"holders of a share", SHARE(COUNT, HELD_BY_0), SHARE(COUNT, HELD_BY_1), "share", "share"},
};

struct order_arg {
    const struct mismatch *m;
    uint32_t odd; /* who makes the odd call */
    bool extra;   /* … and makes it before the usual one, which it makes too */
};

#define SAYS_FAILED 1 /* value: it named the usual call and the odd one */

static int call_once(struct rank *r, const struct comm_call *like, struct comm_result *result)
{
    /* Room for whatever any of them may read or write. */
    uint8_t *in = calloc(4 * COUNT, 8), *out = calloc(4 * COUNT, 8);
    struct comm_call call = *like;
    int rc;

    rank_check(r, in != NULL && out != NULL, "no memory");
    call.in = in;
    call.out = out;
    rc = comm_run(r->comm, &call, result);
    free(in);
    free(out);
    return rc;
}

static void check_works(struct rank *r)
{
    enum { N = 1000 };
    static float in[N], out[N], want[N], all[RANKS_MAX][N];
    const void *leaves[RANKS_MAX];
    struct comm_call call = {.op = COMM_ALLREDUCE,
                             .in = in,
                             .out = out,
                             .count = N,
                             .dtype = DTYPE_F32,
                             .timeout_ms = RANKS_LIMIT_MS / 2};
    struct comm_result result = {0};
    int rc;

    for (uint32_t i = 0; i < r->config->n; i++) {
        reference_fill(DTYPE_F32, 1, i, all[i], N);
        leaves[i] = all[i];
    }
    memcpy(in, all[comm_rank(r->comm)], sizeof(in));
    reference_fold(DTYPE_F32, REDUCE_SUM, 1, want, leaves, comm_size(r->comm), 0, N);
    rc = comm_run(r->comm, &call, &result);
    rank_check(r, rc == MU_OK && memcmp(out, want, sizeof(out)) == 0,
               "in the next generation: %s: %s", mu_strerror(rc), result.error);
}

/* "this rank makes X, but rank 2 (…) makes Y": two calls, of which X is this rank's. */
static bool names_two(const char *error, const struct comm_call *mine)
{
    const char *x = strstr(error, " makes "), *y = x != NULL ? strstr(x + 1, " makes ") : NULL;
    const char *name = comm_op_name(mine->op);
    const size_t n = y != NULL ? strcspn(x + 7, ",(") : 0;

    return y != NULL && strncmp(x + 7, name, strlen(name)) == 0 &&
           (strncmp(x + 7, y + 7, n) != 0 || strcmp(strchr(x + 7, '('), strchr(y + 7, '(')) != 0);
}

static void body(struct rank *r)
{
    const struct order_arg *a = r->arg;
    const bool odd = r->index == a->odd;
    struct comm_result result = {0};
    const struct comm_call barrier = BARRIER, *last;
    int rc;

    rank_enter(r, 0);
    rc = call_once(r, &barrier, &result);
    rank_check(r, rc == MU_OK, "a barrier of all: %s: %s", mu_strerror(rc), result.error);
    last = odd ? &a->m->odd : &a->m->usual;
    rc = call_once(r, last, &result);
    if (rc == MU_OK && odd && a->extra) {
        last = &a->m->usual;
        rc = call_once(r, last, &result);
    }
    /* A root may have had all that it needed of the others; the next call can't go well. */
    if (rc == MU_OK) {
        last = &barrier;
        rc = call_once(r, last, &result);
    }
    rank_check(r, rc == MU_EORDER, "%s: %s: %s", a->m->name, mu_strerror(rc), result.error);
    rank_check(r, result.rank < r->config->n && result.rank != comm_rank(r->comm),
               "%s: it names rank %u: %s", a->m->name, result.rank, result.error);
    rank_check(r, names_two(result.error, last), "%s: it does not name two calls: %s", a->m->name,
               result.error);
    rank_say(r, SAYS_FAILED,
             strstr(result.error, a->m->usual_word) != NULL &&
                 strstr(result.error, a->m->odd_word) != NULL,
             0);
    rc = call_once(r, &barrier, &result);
    rank_check(r, rc == MU_EORDER, "%s: a call after it: %s", a->m->name, mu_strerror(rc));
    rank_enter(r, 1);
    check_works(r);
}

static void run_mismatch(const struct mismatch *m, uint32_t n, uint32_t odd, bool extra,
                         enum ranks_layout layout)
{
    struct order_arg arg = {m, odd, extra};
    struct ranks_config config = {.n = n, .body = body, .arg = &arg};
    uint32_t named_n = 0;
    struct ranks s;

    ranks_lay_out(&config, layout);
    ranks_open(&s, &config);
    snprintf(s.what, sizeof(s.what), "%s, %u of %u is odd, %s", m->name, odd, n,
             ranks_layout_name(layout));
    ranks_publish_all(&s);
    for (uint32_t i = 0; i < n; i++) {
        struct ranks_event e;

        ranks_await(&s, i, SAYS_FAILED, &e);
        named_n += e.value != 0;
    }
    /* Those who are a call ahead by then name that one. */
    if (named_n == 0 && !(m->odd.count == 0 && m->odd.op != COMM_BARRIER)) {
        ranks_fail(&s, "nobody names both %s and %s", m->usual_word, m->odd_word);
    }
    ranks_publish_all(&s);
    ranks_finish(&s);
}

static void a_mismatch_is_told_to_all_with_both_calls(void **state)
{
    for (uint32_t i = 0; i < ARRAY_LEN(MISMATCHES); i++) {
        for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
            /* One that gives takes another for it: all only wait, until time is over. */
            const struct comm_call *odd_call = &MISMATCHES[i].odd, *usual = &MISMATCHES[i].usual;
            const bool all_wait =
                (odd_call->op == COMM_BROADCAST && odd_call->root != usual->root) ||
                (odd_call->op == COMM_SHARE && odd_call->holds != usual->holds);
            const uint32_t first = all_wait ? 1 : 0;

            run_mismatch(&MISMATCHES[i], 2, i % 2 == 0 ? first : 1, false,
                         (enum ranks_layout)layout);
            for (uint32_t odd = first; odd < 4; odd++) {
                if (ranks_full() || odd == MAX(first, (i + (uint32_t)layout) % 4)) {
                    run_mismatch(&MISMATCHES[i], 4, odd, false, (enum ranks_layout)layout);
                }
            }
        }
    }
}

static void one_call_too_many_is_told_to_all(void **state)
{
    static const struct mismatch EXTRA = {"one too many", USUAL, BARRIER, "allreduce", "barrier"};

    for (int layout = 0; layout < RANKS_LAYOUTS; layout++) {
        run_mismatch(&EXTRA, 3, 1, true, (enum ranks_layout)layout);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mismatch_is_told_to_all_with_both_calls),
        cmocka_unit_test(one_call_too_many_is_told_to_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
