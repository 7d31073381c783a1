/* The variables of a worker, from generations made by hand. */
#include "agent/environ.h"
#include "unit/unit.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_MAX 16

struct group {
    struct generation g;
    struct member members[GROUP_MAX];
};

static void init(struct group *gr)
{
    memset(gr, 0, sizeof(*gr));
    strcpy(gr->g.job, "job");
    gr->g.run = 3;
    gr->g.number = 17;
    gr->g.members = gr->members;
}

static wid join(struct group *gr, uint32_t node, uint32_t slot, enum role role)
{
    struct member *m = &gr->members[gr->g.members_n];

    mu_assert(gr->g.members_n < GROUP_MAX);
    m->worker = wid_make(node, slot, 1);
    m->role = (uint8_t)role;
    snprintf(m->addr, sizeof(m->addr), "10.0.0.%u", node);
    m->port = 20000 + gr->g.members_n++;
    return m->worker;
}

static struct environ_config config_of(const struct group *gr, wid worker)
{
    return (struct environ_config){.generation = gr != NULL ? &gr->g : NULL,
                                   .worker = worker,
                                   .slots = 1,
                                   .job = "job",
                                   .node = "here",
                                   .restarts = 2,
                                   .max_restarts = 5,
                                   .socket = "/run/agent",
                                   .cookie = 0xabc};
}

static char **make(const struct environ_config *c)
{
    char **env = NULL;

    assert_int_equal(environ_make(c, &env), MU_OK);
    return env;
}

/* Every "NAME=value" of `want` is there, and each name once. */
static void assert_holds(char **env, const char *const *want)
{
    for (; *want != NULL; want++) {
        size_t name_n = strcspn(*want, "=") + 1;
        uint32_t n = 0;

        for (char **e = env; *e != NULL; e++) {
            if (strncmp(*e, *want, name_n) == 0) {
                assert_string_equal(*e, *want);
                n++;
            }
        }
        if (n != 1) {
            fail_msg("%s is there %u times", *want, n);
        }
    }
}

static void a_rank_is_a_position_by_node_and_by_role(void **state)
{
    static const char *const want[] = {"RANK=2", /* a parameter server has none */
                                       "WORLD_SIZE=5",
                                       "LOCAL_RANK=1",
                                       "LOCAL_WORLD_SIZE=3",
                                       "GROUP_RANK=1",
                                       "GROUP_WORLD_SIZE=3",
                                       "ROLE_RANK=2",
                                       "ROLE_WORLD_SIZE=5",
                                       "ROLE_NAME=default",
                                       "MASTER_ADDR=10.0.0.7",
                                       "MASTER_PORT=20000",
                                       "TORCHELASTIC_RESTART_COUNT=2",
                                       "TORCHELASTIC_MAX_RESTARTS=5",
                                       "TORCHELASTIC_RUN_ID=job",
                                       "TORCHELASTIC_USE_AGENT_STORE=False",
                                       "MUSTER_JOB=job",
                                       "MUSTER_NODE=here",
                                       "MUSTER_SLOT=4",
                                       "MUSTER_RUN=3",
                                       "MUSTER_GENERATION=17",
                                       "MUSTER_SOCKET=/run/agent",
                                       "MUSTER_COOKIE=0000000000000abc",
                                       NULL};
    struct environ_config c;
    struct group gr;
    char **env;
    wid me;

    init(&gr); /* Seniority goes before numbers, and slots may be missing. */
    join(&gr, 7, 0, ROLE_WORKER);
    join(&gr, 7, 1, ROLE_PS);
    join(&gr, 2, 1, ROLE_WORKER);
    me = join(&gr, 2, 4, ROLE_WORKER);
    join(&gr, 2, 5, ROLE_WORKER);
    join(&gr, 9, 0, ROLE_WORKER);
    c = config_of(&gr, me);
    env = make(&c);
    assert_holds(env, want);
    assert_null(environ_get(env, "OMP_NUM_THREADS"));
    free(env);
}

static void what_training_needs_to_know_is_passed_on_if_it_was_said(void **state)
{
    static const char *const want[] = {"MUSTER_STEP_TIMEOUT_MS=2500", "MUSTER_NUMERICS=warn", NULL};
    char mine[] = "MUSTER_STEP_TIMEOUT_MS=7";
    char *base[] = {mine, NULL};
    struct environ_config c = config_of(NULL, wid_make(1, 0, 1));
    char **env;

    c.base = base;
    env = make(&c);
    assert_string_equal(environ_get(env, "MUSTER_STEP_TIMEOUT_MS"), "7");
    assert_null(environ_get(env, "MUSTER_NUMERICS"));
    free(env);
    c.step_timeout_ms = 2500;
    c.numerics = "warn";
    env = make(&c);
    assert_holds(env, want);
    free(env);
}

static void flags_for_checkpoints_replace_all_that_was_inherited(void **state)
{
    static const char *const defaults[] = {"MUSTER_CKPT_DIR=/data", "MUSTER_CKPT_EVERY=10m",
                                           "MUSTER_CKPT_KEEP=3", "MUSTER_CKPT_KEEP_EVERY=0", NULL};
    static const char *const said[] = {"MUSTER_CKPT_DIR=/data",
                                       "MUSTER_CKPT_EVERY=200",
                                       "MUSTER_CKPT_KEEP=7",
                                       "MUSTER_CKPT_KEEP_EVERY=1000",
                                       "MUSTER_CKPT_SHARED=1",
                                       "MUSTER_CKPT_ZSTD=1",
                                       NULL};
    char dir[] = "MUSTER_CKPT_DIR=/inherited", every[] = "MUSTER_CKPT_EVERY=1h",
         shared[] = "MUSTER_CKPT_SHARED=1", zstd[] = "MUSTER_CKPT_ZSTD=1";
    char *base[] = {dir, every, shared, zstd, NULL};
    struct environ_config c = config_of(NULL, wid_make(1, 0, 1));
    char **env;

    env = make(&c);
    assert_null(environ_get(env, "MUSTER_CKPT_DIR"));
    assert_null(environ_get(env, "MUSTER_CKPT_KEEP"));
    free(env);
    c.base = base;
    env = make(&c);
    assert_string_equal(environ_get(env, "MUSTER_CKPT_DIR"), "/inherited");
    assert_string_equal(environ_get(env, "MUSTER_CKPT_SHARED"), "1");
    free(env);
    c.ckpt.dir = "/data";
    env = make(&c);
    assert_holds(env, defaults);
    assert_null(environ_get(env, "MUSTER_CKPT_SHARED"));
    assert_null(environ_get(env, "MUSTER_CKPT_ZSTD"));
    free(env);
    c.ckpt = (struct environ_ckpt){.dir = "/data",
                                   .every = "200",
                                   .keep = 7,
                                   .keep_every = 1000,
                                   .shared = true,
                                   .zstd = true};
    env = make(&c);
    assert_holds(env, said);
    free(env);
}

static void every_rank_of_a_generation_is_told_apart(void **state)
{
    static const uint32_t sizes[] = {3, 1, 4};
    struct group gr;
    uint32_t rank = 0;

    init(&gr);
    for (uint32_t node = 0; node < ARRAY_LEN(sizes); node++) {
        for (uint32_t slot = 0; slot < sizes[node]; slot++) {
            join(&gr, 10 - node, slot, ROLE_WORKER);
        }
    }
    for (uint32_t node = 0; node < ARRAY_LEN(sizes); node++) {
        for (uint32_t slot = 0; slot < sizes[node]; slot++, rank++) {
            struct environ_config c = config_of(&gr, wid_make(10 - node, slot, 1));
            char **env = make(&c);

            assert_int_equal(atoi(environ_get(env, "RANK")), rank);
            assert_int_equal(atoi(environ_get(env, "ROLE_RANK")), rank);
            assert_int_equal(atoi(environ_get(env, "GROUP_RANK")), node);
            assert_int_equal(atoi(environ_get(env, "LOCAL_RANK")), slot);
            assert_int_equal(atoi(environ_get(env, "LOCAL_WORLD_SIZE")), sizes[node]);
            free(env);
        }
    }
}

static void another_life_is_no_member(void **state)
{
    struct environ_config c;
    char **env = NULL, *text = NULL;
    struct group gr;

    init(&gr);
    join(&gr, 1, 0, ROLE_WORKER);
    c = config_of(&gr, wid_make(1, 0, 2));
    assert_int_equal(environ_make(&c, &env), MU_EINVAL);
    assert_null(env);
    assert_int_equal(environ_tf_config(&gr.g, wid_make(1, 0, 2), &text), MU_EINVAL);
    assert_null(text);
}

static void a_newcomer_has_no_rank_not_even_an_inherited_one(void **state)
{
    static const char *const ranks[] = {
        "RANK",       "WORLD_SIZE",       "LOCAL_RANK", "LOCAL_WORLD_SIZE",
        "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",  "ROLE_WORLD_SIZE",
        "TF_CONFIG",  "MASTER_ADDR",      "MASTER_PORT"};
    static const char *const want[] = {"MUSTER_SLOT=6", "MUSTER_GENERATION=0", "ROLE_NAME=trainer",
                                       "KEPT=as it is", NULL};
    struct environ_config c = config_of(NULL, wid_make(1, 6, 1));
    char inherited[ARRAY_LEN(ranks)][64], kept[] = "KEPT=as it is";
    char *base[ARRAY_LEN(ranks) + 2], **env;

    for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
        snprintf(inherited[i], sizeof(inherited[i]), "%s=99", ranks[i]);
        base[i] = inherited[i];
    }
    base[ARRAY_LEN(ranks)] = kept;
    base[ARRAY_LEN(ranks) + 1] = NULL;
    c.base = base;
    c.role_name = "trainer";
    env = make(&c);
    for (size_t i = 0; i < ARRAY_LEN(ranks); i++) {
        assert_null(environ_get(env, ranks[i]));
    }
    assert_holds(env, want);
    free(env);
}

static void what_is_inherited_is_replaced_and_the_rest_kept(void **state)
{
    char rank[] = "RANK=99", like[] = "RANKED=yes", token[] = "MUSTER_TOKEN=mu1-secret",
         socket[] = "MUSTER_SOCKET=/of/another", odd[] = "NO_VALUE",
         empty[] = "EMPTY=", log[] = "MUSTER_LOG=debug";
    char *base[] = {rank, like, token, socket, odd, empty, log, NULL};
    static const char *const want[] = {"RANK=0", "RANKED=yes",       "MUSTER_SOCKET=/run/agent",
                                       "EMPTY=", "MUSTER_LOG=debug", NULL};
    struct environ_config c;
    bool odd_kept = false;
    struct group gr;
    char **env;

    init(&gr);
    c = config_of(&gr, join(&gr, 1, 0, ROLE_WORKER));
    c.base = base;
    env = make(&c);
    assert_holds(env, want);
    for (char **e = env; *e != NULL; e++) {
        assert_null(strstr(*e, "mu1-secret"));
        odd_kept = odd_kept || strcmp(*e, "NO_VALUE") == 0;
    }
    assert_true(odd_kept);
    free(env);
    c.socket = NULL; /* none of ours, then none at all */
    env = make(&c);
    assert_null(environ_get(env, "MUSTER_SOCKET"));
    free(env);
}

static void threads_are_one_if_there_are_several_workers_and_nobody_said(void **state)
{
    char four[] = "OMP_NUM_THREADS=4", *base[] = {four, NULL}, **env;
    struct environ_config c;
    struct group gr;

    init(&gr);
    c = config_of(&gr, join(&gr, 1, 0, ROLE_WORKER));
    c.slots = 2;
    env = make(&c);
    assert_string_equal(environ_get(env, "OMP_NUM_THREADS"), "1");
    free(env);
    c.base = base;
    env = make(&c);
    assert_string_equal(environ_get(env, "OMP_NUM_THREADS"), "4");
    free(env);
}

static void the_master_is_rank_0_unless_it_is_given(void **state)
{
    static const struct {
        const char *addr;
        uint32_t port;
        const char *host, *want_port, *tf;
    } cases[] = {
        {"node1", 4000, "node1", "4000", "node1:4000"},
        {"node1:5555", 4000, "node1", "4000", "node1:5555"},
        {"node1:5555", 0, "node1", "5555", "node1:5555"},
        {"[::1]:5555", 0, "::1", "5555", "[::1]:5555"},
        {"[fe80::2]", 4000, "fe80::2", "4000", "[fe80::2]:4000"},
        {"fe80::2", 4000, "fe80::2", "4000", "[fe80::2]:4000"},
        {"", 4000, "127.0.0.1", "4000", "127.0.0.1:4000"},
        {"node1", 0, "node1", "29500", "node1:0"},
    };
    struct environ_config c;
    struct group gr;
    char **env;
    wid me;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        init(&gr);
        join(&gr, 1, 0, ROLE_WORKER);
        me = join(&gr, 2, 0, ROLE_WORKER);
        strcpy(gr.members[0].addr, cases[i].addr);
        gr.members[0].port = cases[i].port;
        c = config_of(&gr, me);
        env = make(&c);
        assert_string_equal(environ_get(env, "MASTER_ADDR"), cases[i].host);
        assert_string_equal(environ_get(env, "MASTER_PORT"), cases[i].want_port);
        assert_non_null(strstr(environ_get(env, "TF_CONFIG"), cases[i].tf));
        free(env);
    }
    c.master_addr = "head";
    c.master_port = 1234;
    env = make(&c);
    assert_string_equal(environ_get(env, "MASTER_ADDR"), "head");
    assert_string_equal(environ_get(env, "MASTER_PORT"), "1234");
    free(env);
}

static void whoever_only_helps_has_no_rank_and_is_no_master(void **state)
{
    char *base[] = {(char *)(uintptr_t) "RANK=9", NULL};
    struct environ_config c;
    struct group gr;
    char **env;
    wid ps;

    init(&gr);
    ps = join(&gr, 1, 0, ROLE_PS);
    join(&gr, 2, 0, ROLE_WORKER);
    c = config_of(&gr, ps);
    c.base = base;
    env = make(&c);
    assert_null(environ_get(env, "RANK"));
    assert_string_equal(environ_get(env, "WORLD_SIZE"), "1");
    assert_string_equal(environ_get(env, "ROLE_RANK"), "0");
    assert_string_equal(environ_get(env, "MASTER_ADDR"), "10.0.0.2");
    assert_non_null(strstr(environ_get(env, "TF_CONFIG"), "\"type\":\"ps\""));
    free(env);
}

/* ---- TF_CONFIG ---- */

static void assert_tf(const struct group *gr, wid worker, const char *want)
{
    json_t *a, *b;
    char *text = NULL;

    assert_int_equal(environ_tf_config(&gr->g, worker, &text), MU_OK);
    a = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    b = json_loads(want, 0, NULL);
    assert_non_null(b);
    if (!json_equal(a, b)) {
        fail_msg("%s is not %s", text, want);
    }
    json_decref(a);
    json_decref(b);
    free(text);
}

static void workers_alone_are_a_cluster_of_workers(void **state)
{
    struct group gr;
    wid second;

    init(&gr);
    join(&gr, 1, 0, ROLE_WORKER);
    second = join(&gr, 2, 0, ROLE_WORKER);
    assert_tf(&gr, second,
              "{\"cluster\": {\"worker\": [\"10.0.0.1:20000\", \"10.0.0.2:20001\"]},"
              " \"task\": {\"type\": \"worker\", \"index\": 1}}");
}

static void roles_have_their_own_indices_and_an_evaluator_is_in_no_cluster(void **state)
{
#define CLUSTER                                              \
    "{\"cluster\": {\"chief\": [\"10.0.0.3:20003\"],"        \
    " \"worker\": [\"10.0.0.1:20000\", \"10.0.0.5:20005\"]," \
    " \"ps\": [\"10.0.0.2:20001\", \"10.0.0.2:20002\"]}, \"task\": "
    struct group gr;
    wid chief, ps, late, evaluator;

    init(&gr);
    join(&gr, 1, 0, ROLE_WORKER);
    join(&gr, 2, 0, ROLE_PS);
    ps = join(&gr, 2, 1, ROLE_PS);
    chief = join(&gr, 3, 0, ROLE_CHIEF);
    evaluator = join(&gr, 4, 0, ROLE_EVALUATOR);
    late = join(&gr, 5, 0, ROLE_WORKER);
    assert_tf(&gr, chief, CLUSTER "{\"type\": \"chief\", \"index\": 0}}");
    assert_tf(&gr, ps, CLUSTER "{\"type\": \"ps\", \"index\": 1}}");
    assert_tf(&gr, late, CLUSTER "{\"type\": \"worker\", \"index\": 1}}");
    assert_tf(&gr, evaluator, CLUSTER "{\"type\": \"evaluator\", \"index\": 0}}");
#undef CLUSTER
}

static void there_is_one_chief_only(void **state)
{
    struct group gr;
    wid second;

    init(&gr);
    join(&gr, 1, 0, ROLE_CHIEF);
    second = join(&gr, 1, 1, ROLE_CHIEF);
    assert_tf(&gr, second,
              "{\"cluster\": {\"chief\": [\"10.0.0.1:20000\"], \"worker\": [\"10.0.0.1:20001\"]},"
              " \"task\": {\"type\": \"worker\", \"index\": 0}}");
}

static void a_tf_config_that_exec_would_not_take_is_left_out(void **state)
{
    enum { MANY = 20000 };
    struct group gr;
    struct member *members = calloc(MANY, sizeof(*members));
    char inherited[] = "TF_CONFIG={}", *base[] = {inherited, NULL}, **env, text[512];
    struct environ_config c;

    init(&gr);
    for (uint32_t i = 0; i < MANY; i++) {
        members[i] = (struct member){.worker = wid_make(i + 1, 0, 1), .port = 20000};
        snprintf(members[i].addr, ADDR_MAX_LEN, "10.0.%u.%u", i >> 8, i & 255);
    }
    gr.g.members = members;
    gr.g.members_n = MANY;
    c = config_of(&gr, wid_make(MANY, 0, 1));
    c.base = base;
    unit_stderr_begin();
    env = make(&c);
    unit_stderr_end(text, sizeof(text));
    assert_non_null(strstr(text, "TF_CONFIG is left out: with 20000 members"));
    assert_null(environ_get(env, "TF_CONFIG"));
    assert_string_equal(environ_get(env, "RANK"), "19999");
    for (char **e = env; *e != NULL; e++) {
        assert_true(strlen(*e) < 128 << 10);
    }
    free(env);
    free(members);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_training_needs_to_know_is_passed_on_if_it_was_said),
        cmocka_unit_test(flags_for_checkpoints_replace_all_that_was_inherited),
        cmocka_unit_test(a_rank_is_a_position_by_node_and_by_role),
        cmocka_unit_test(every_rank_of_a_generation_is_told_apart),
        cmocka_unit_test(another_life_is_no_member),
        cmocka_unit_test(a_newcomer_has_no_rank_not_even_an_inherited_one),
        cmocka_unit_test(what_is_inherited_is_replaced_and_the_rest_kept),
        cmocka_unit_test(threads_are_one_if_there_are_several_workers_and_nobody_said),
        cmocka_unit_test(the_master_is_rank_0_unless_it_is_given),
        cmocka_unit_test(whoever_only_helps_has_no_rank_and_is_no_master),
        cmocka_unit_test(workers_alone_are_a_cluster_of_workers),
        cmocka_unit_test(roles_have_their_own_indices_and_an_evaluator_is_in_no_cluster),
        cmocka_unit_test(there_is_one_chief_only),
        cmocka_unit_test(a_tf_config_that_exec_would_not_take_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
