#include "cli/run_flags.h"
#include "unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WORDS_MAX 64

struct kit {
    struct run_flags flags;
    char *argv[WORDS_MAX + 1]; /* parsing moves its words about: a copy for each test */
    char *words[WORDS_MAX];
    int argc;
    int status;
    char said[4096]; /* on stderr */
};

static const char *const variables[] = {"PET_NNODES",
                                        "PET_NPROC_PER_NODE",
                                        "PET_RDZV_ENDPOINT",
                                        "PET_RDZV_ID",
                                        "PET_MAX_RESTARTS",
                                        "PET_STANDALONE",
                                        "PET_MODULE",
                                        "PET_NO_PYTHON",
                                        "PET_TEE",
                                        "PET_NODE_RANK",
                                        "PET_MASTER_PORT",
                                        "PYTHON_EXEC",
                                        "MUSTER_ENDPOINT",
                                        "MUSTER_TOKEN_FILE",
                                        "MUSTER_NUMERICS",
                                        "MUSTER_CKPT_DIR",
                                        "MUSTER_CKPT_EVERY",
                                        "MUSTER_CKPT_KEEP",
                                        "MUSTER_CKPT_KEEP_EVERY",
                                        "MUSTER_CKPT_SHARED",
                                        "MUSTER_CKPT_ZSTD"};

static int set_up(void **state)
{
    struct kit *f = calloc(1, sizeof(*f));

    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        unsetenv(variables[i]);
    }
    *state = f;
    return f == NULL;
}

static void forget_words(struct kit *f)
{
    for (int i = 0; i < f->argc; i++) {
        free(f->words[i]);
    }
    f->argc = 0;
}

static int tear_down(void **state)
{
    forget_words(*state);
    free(*state);
    return 0;
}

/* Words with blanks between, as a shell would cut them. */
static bool parse(struct kit *f, const char *line)
{
    bool ok;

    forget_words(f);
    f->words[f->argc++] = strdup("run");
    while (*line != '\0') {
        size_t n = strcspn(line, " ");

        assert_true(f->argc < WORDS_MAX);
        f->words[f->argc++] = strndup(line, n);
        line += n + strspn(line + n, " ");
    }
    memcpy(f->argv, f->words, sizeof(f->words));
    f->argv[f->argc] = NULL;
    unit_stderr_begin();
    ok = run_flags_parse(f->argc, f->argv, &f->flags, &f->status);
    unit_stderr_end(f->said, sizeof(f->said));
    return ok;
}

static void refused_with(struct kit *f, const char *line, const char *text)
{
    assert_false(parse(f, line));
    assert_int_equal(f->status, 2);
    if (strstr(f->said, text) == NULL) {
        fail_msg("\"%s\" should be refused with \"%s\", but: %s", line, text, f->said);
    }
}

static void a_script_alone_is_one_node_with_one_worker(void **state)
{
    struct kit *f = *state;
    const struct node_config *node = &f->flags.node;

    assert_true(parse(f, "train.py"));
    assert_int_equal(node->min, 1);
    assert_int_equal(node->max, 1);
    assert_int_equal(node->slots, 1);
    assert_string_equal(node->job, "default");
    assert_null(node->name);
    assert_int_equal(node->role, ROLE_WORKER);
    assert_string_equal(node->role_name, "default");
    assert_int_equal(node->mode, MODE_AUTO);
    assert_int_equal(node->max_restarts, 3);
    assert_int_equal(node->monitor_ms, 2000);
    assert_int_equal(node->grace_ms, 30000);
    assert_int_equal(node->exit_timeout_ms, 300000);
    assert_int_equal(node->step_timeout_ms, 0);
    assert_int_equal(node->hung, HUNG_REPLACE);
    assert_int_equal(node->numerics, NUMERICS_STRICT);
    assert_null(node->ckpt.dir);
    assert_int_equal(node->endpoints.n, 1);
    assert_string_equal(node->endpoints.at[0].host, "127.0.0.1");
    assert_int_equal(node->endpoints.at[0].port, 5556);
    assert_false(node->standalone);
    assert_true(node->prefix);
    assert_null(node->log_dir);
    assert_int_equal(node->master_port, 0);
    assert_int_equal(f->flags.words_n, 1);
    assert_string_equal(f->flags.words[0], "train.py");
}

static void both_spellings_and_both_ways_to_give_a_value(void **state)
{
    static const char *const lines[] = {
        "--nproc_per_node=4 --max_restarts=7 --rdzv_endpoint=head:99 --no_python x",
        "--nproc-per-node 4 --max-restarts 7 --rdzv-endpoint head:99 --no-python x",
        "--nproc_per-node 4 --max_restarts 7 --rdzv_endpoint head:99 --no_python=true x"};
    struct kit *f = *state;

    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        assert_true(parse(f, lines[i]));
        assert_int_equal(f->flags.node.slots, 4);
        assert_int_equal(f->flags.node.max_restarts, 7);
        assert_string_equal(f->flags.node.endpoints.at[0].host, "head");
        assert_int_equal(f->flags.node.endpoints.at[0].port, 99);
        assert_true(f->flags.no_python);
    }
}

static void whatever_follows_the_script_is_its_own(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--nnodes 2 train.py --nnodes 9 -m --lr 0.1 -- --help"));
    assert_int_equal(f->flags.node.min, 2);
    assert_false(f->flags.module);
    assert_int_equal(f->flags.words_n, 8);
    assert_string_equal(f->flags.words[1], "--nnodes");
    assert_string_equal(f->flags.words[7], "--help");
    assert_null(f->flags.words[8]);
}

static void two_dashes_end_the_flags(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--standalone -- ./trainer --standalone=no"));
    assert_true(f->flags.node.standalone);
    assert_int_equal(f->flags.words_n, 2);
    assert_string_equal(f->flags.words[0], "./trainer");
}

static void nnodes_is_min_or_min_and_max(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--nnodes=3 x"));
    assert_int_equal(f->flags.node.min, 3);
    assert_int_equal(f->flags.node.max, 3);
    assert_true(parse(f, "--nnodes=1:4 x"));
    assert_int_equal(f->flags.node.min, 1);
    assert_int_equal(f->flags.node.max, 4);
    refused_with(f, "--nnodes=0 x", "MIN or MIN:MAX");
    refused_with(f, "--nnodes=1: x", "MIN or MIN:MAX");
    refused_with(f, "--nnodes=:2 x", "MIN or MIN:MAX");
    refused_with(f, "--nnodes=two x", "MIN or MIN:MAX");
    refused_with(f, "--nnodes=4:2 x", "2:4");
}

static void workers_are_counted_or_one_for_each_core(void **state)
{
    struct kit *f = *state;
    uint32_t cores;

    assert_true(parse(f, "--nproc-per-node=auto x"));
    cores = f->flags.node.slots;
    assert_in_range(cores, 1, SLOTS_MAX);
    assert_true(parse(f, "--nproc-per-node=cpu x"));
    assert_int_equal(f->flags.node.slots, cores);
    assert_true(parse(f, "--nproc-per-node=64 x"));
    refused_with(f, "--nproc-per-node=65 x", "1 to 64");
    refused_with(f, "--nproc-per-node=0 x", "1 to 64");
    refused_with(f, "--nproc-per-node=gpu x", "--nproc-per-node 8");
}

static void endpoints_may_be_a_list(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--rdzv_endpoint=a:1,b,[::1]:3 x"));
    assert_int_equal(f->flags.node.endpoints.n, 3);
    assert_int_equal(f->flags.node.endpoints.at[1].port, 5556);
    assert_string_equal(f->flags.node.endpoints.at[2].host, "::1");
    assert_true(parse(f, "--endpoint b:2 x")); /* As the other commands call it. */
    assert_string_equal(f->flags.node.endpoints.at[0].host, "b");
    setenv("PET_RDZV_ENDPOINT", "pet:1", 1);
    setenv("MUSTER_ENDPOINT", "muster:1", 1);
    assert_true(parse(f, "x"));
    assert_string_equal(f->flags.node.endpoints.at[0].host, "muster");
    assert_false(parse(f, "--rdzv_endpoint=a:99999 x"));
    assert_int_equal(f->status, 2);
}

static void variables_of_torchrun_count_unless_a_flag_does(void **state)
{
    struct kit *f = *state;

    setenv("PET_NNODES", "2:5", 1);
    setenv("PET_NPROC_PER_NODE", "3", 1);
    setenv("PET_RDZV_ENDPOINT", "head:7", 1);
    setenv("PET_RDZV_ID", "night", 1);
    setenv("PET_TEE", "0:2", 1);
    setenv("PET_MASTER_PORT", "29500", 1);
    setenv("PET_NODE_RANK", "1", 1);
    assert_true(parse(f, "--nproc-per-node 1 x"));
    assert_int_equal(f->flags.node.min, 2);
    assert_int_equal(f->flags.node.max, 5);
    assert_int_equal(f->flags.node.slots, 1);
    assert_string_equal(f->flags.node.endpoints.at[0].host, "head");
    assert_string_equal(f->flags.node.job, "night");
    assert_int_equal(f->flags.node.tee[0][1], 1);
    assert_int_equal(f->flags.node.master_port, 29500);
    assert_string_equal(f->flags.ignored.node_rank, "1");

    setenv("PET_NNODES", "many", 1);
    refused_with(f, "x", "PET_NNODES");
}

static void seconds_may_have_a_fraction(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--monitor_interval=0.25 --grace 1.5 --exit-timeout=10 x"));
    assert_int_equal(f->flags.node.monitor_ms, 250);
    assert_int_equal(f->flags.node.grace_ms, 1500);
    assert_int_equal(f->flags.node.exit_timeout_ms, 10000);
    assert_true(parse(f, "--grace 0 x"));
    refused_with(f, "--monitor-interval 0 x", "seconds");
    refused_with(f, "--grace -1 x", "seconds");
    refused_with(f, "--grace soon x", "seconds");
}

static void a_worker_that_hangs_or_differs_is_dealt_with_as_said(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--step-timeout 2.5 --hung keep --numerics=warn x"));
    assert_int_equal(f->flags.node.step_timeout_ms, 2500);
    assert_int_equal(f->flags.node.hung, HUNG_KEEP);
    assert_int_equal(f->flags.node.numerics, NUMERICS_WARN);
    refused_with(f, "--step_timeout 0 x", "seconds");
    refused_with(f, "--numerics loose x", "strict");
    refused_with(f, "--hung up x", "replace");
    setenv("MUSTER_NUMERICS", "warn", 1);
    assert_true(parse(f, "x"));
    assert_int_equal(f->flags.node.numerics, NUMERICS_WARN);
    assert_true(parse(f, "--numerics strict x"));
    assert_int_equal(f->flags.node.numerics, NUMERICS_STRICT);
    setenv("MUSTER_NUMERICS", "loose", 1);
    refused_with(f, "x", "MUSTER_NUMERICS");
}

/* ---- checkpoints ---- */

static void checkpoints_are_saved_as_said(void **state)
{
    struct kit *f = *state;
    const struct environ_ckpt *c = &f->flags.node.ckpt;

    assert_true(parse(f, "--ckpt-dir /data x"));
    assert_string_equal(c->dir, "/data");
    assert_null(c->every);
    assert_int_equal(c->keep, 0);
    assert_int_equal(c->keep_every, 0);
    assert_false(c->shared);
    assert_false(c->zstd);
    assert_true(parse(f, "--ckpt-dir=/data --ckpt-every 200 --ckpt_keep=5 --ckpt-keep-every 1000 "
                         "--ckpt-shared --ckpt_zstd x"));
    assert_string_equal(c->every, "200");
    assert_int_equal(c->keep, 5);
    assert_int_equal(c->keep_every, 1000);
    assert_true(c->shared);
    assert_true(c->zstd);

    setenv("MUSTER_CKPT_DIR", "/of/env", 1);
    setenv("MUSTER_CKPT_EVERY", "1h", 1);
    setenv("MUSTER_CKPT_SHARED", "1", 1);
    assert_true(parse(f, "--no-ckpt-shared --ckpt-every 5m x"));
    assert_string_equal(c->dir, "/of/env");
    assert_string_equal(c->every, "5m");
    assert_false(c->shared);
    setenv("MUSTER_CKPT_EVERY", "often", 1);
    refused_with(f, "x", "MUSTER_CKPT_EVERY wants steps");
}

static void a_checkpoint_is_due_after_steps_or_a_time(void **state)
{
    static const char *const good[] = {"1", "1000000000000", "50ms", "1s", "90s", "10m", "720h"};
    static const char *const bad[] = {"0",   "-1",   "1000000000001", "0s", "m",   "10min",
                                      "1.5", "1.5h", "721h",          "5d", "10M", "",
                                      "1e3"};
    struct kit *f = *state;
    char line[64];

    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        snprintf(line, sizeof(line), "--ckpt-dir /d --ckpt-every=%s x", good[i]);
        assert_true(parse(f, line));
        assert_string_equal(f->flags.node.ckpt.every, good[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        snprintf(line, sizeof(line), "--ckpt-dir /d --ckpt-every=%s x", bad[i]);
        refused_with(f, line, "--ckpt-every wants steps, like 200, or a time, like 90s");
    }
    refused_with(f, "--ckpt-dir /d --ckpt-keep 0 x", "from 1");
    refused_with(f, "--ckpt-dir /d --ckpt-keep-every -2 x", "whole number");
}

static void a_folder_for_checkpoints_is_made_absolute(void **state)
{
    struct kit *f = *state;
    char here[4096], want[4200], line[4200], longest[RUN_CKPT_DIR_MAX + 1];

    assert_non_null(getcwd(here, sizeof(here)));
    assert_true(parse(f, "--ckpt-dir some/where x"));
    snprintf(want, sizeof(want), "%s/some/where", here);
    assert_string_equal(f->flags.node.ckpt.dir, want);
    assert_true(parse(f, "--ckpt-dir ././/../up x"));
    snprintf(want, sizeof(want), "%s/../up", here);
    assert_string_equal(f->flags.node.ckpt.dir, want);

    memset(longest, 'd', sizeof(longest));
    longest[0] = '/';
    longest[RUN_CKPT_DIR_MAX] = '\0';
    snprintf(line, sizeof(line), "--ckpt-dir %s x", longest);
    refused_with(f, line, "longer than a path may be");
    longest[RUN_CKPT_DIR_MAX - 1] = '\0';
    snprintf(line, sizeof(line), "--ckpt-dir %s x", longest);
    assert_true(parse(f, line));
    assert_string_equal(f->flags.node.ckpt.dir, longest);
    snprintf(line, sizeof(line), "--ckpt-dir %s x", longest + 1);
    refused_with(f, line, "longer than a path may be");
}

static void flags_for_checkpoints_need_a_folder_to_save_to(void **state)
{
    static const char *const alone[] = {"--ckpt-every 10m", "--ckpt-keep 3", "--ckpt-keep-every 9",
                                        "--ckpt-shared", "--ckpt-zstd"};
    struct kit *f = *state;
    char line[64], want[64];

    for (size_t i = 0; i < ARRAY_LEN(alone); i++) {
        snprintf(line, sizeof(line), "%s x", alone[i]);
        snprintf(want, sizeof(want), "%.*s needs --ckpt-dir", (int)strcspn(alone[i], " "),
                 alone[i]);
        refused_with(f, line, want);
    }
    refused_with(f, "--ckpt-dir= x", "--ckpt-dir wants a folder, or orchestrator:");
    refused_with(f, "--ckpt-dir /d --job .hidden x", "does not begin with '.'");
    assert_true(parse(f, "--job .hidden x"));
    setenv("MUSTER_CKPT_EVERY", "5", 1); /* It may be for a script that names the folder itself. */
    setenv("MUSTER_CKPT_ZSTD", "1", 1);
    assert_true(parse(f, "x"));
    assert_null(f->flags.node.ckpt.dir);
    refused_with(f, "--ckpt-shared x", "--ckpt-shared needs --ckpt-dir");
}

static void what_the_orchestrator_keeps_needs_no_folder(void **state)
{
    struct kit *f = *state;
    char error[OPTS_ERROR_MAX] = "";

    assert_true(parse(f, "--ckpt-dir orchestrator: --ckpt-every 5 --ckpt-zstd x"));
    assert_string_equal(f->flags.node.ckpt.dir, "orchestrator:");
    assert_int_equal(run_ckpt_prepare(&f->flags, error), MU_OK);
    assert_int_equal(access("orchestrator:", F_OK), -1);
    refused_with(f, "--ckpt-dir orchestrator:/data x", "'orchestrator:' and no more");
    refused_with(f, "--ckpt-dir orchestrator: --ckpt-shared x", "leave it out");
    refused_with(f, "--ckpt-dir orchestrator: --standalone x", "needs an orchestrator that stays");
    refused_with(f, "--ckpt-dir orchestrator: --job .hidden x", "does not begin with '.'");
    assert_true(parse(f, "--ckpt-dir ./orchestrator:/data x"));
    assert_int_equal(f->flags.node.ckpt.dir[0], '/');
}

static void what_is_wrong_with_a_folder_is_known_before_anything_starts(void **state)
{
    struct kit *f = *state;
    char root[] = "/tmp/muster-flags-XXXXXX", path[64], line[128], error[OPTS_ERROR_MAX] = "";
    struct stat st;
    int fd;

    assert_non_null(mkdtemp(root));
    assert_true(parse(f, "x"));
    assert_int_equal(run_ckpt_prepare(&f->flags, error), MU_OK);
    snprintf(line, sizeof(line), "--ckpt-dir %s/a//b x", root);
    assert_true(parse(f, line));
    for (int again = 0; again < 2; again++) {
        assert_int_equal(run_ckpt_prepare(&f->flags, error), MU_OK);
        snprintf(path, sizeof(path), "%s/a/b", root);
        assert_int_equal(stat(path, &st), 0);
        assert_true(S_ISDIR(st.st_mode));
    }
    rmdir(path);
    fd = open(path, O_CREAT | O_WRONLY, 0600); /* a file where the folder should be, or above it */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(run_ckpt_prepare(&f->flags, error), MU_EIO);
    assert_non_null(strstr(error, "a//b is no folder"));
    snprintf(line, sizeof(line), "--ckpt-dir %s/a/b/c x", root);
    assert_true(parse(f, line));
    assert_int_equal(run_ckpt_prepare(&f->flags, error), MU_EIO);
    assert_non_null(strstr(error, "a/b/c can't be made: Not a directory"));
    unlink(path);
    snprintf(path, sizeof(path), "%s/a", root);
    rmdir(path);
    assert_int_equal(rmdir(root), 0);
}

static void roles_are_known_by_name_and_others_are_workers(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--role chief x"));
    assert_int_equal(f->flags.node.role, ROLE_CHIEF);
    assert_string_equal(f->flags.node.role_name, "chief");
    assert_true(parse(f, "--role evaluator x"));
    assert_int_equal(f->flags.node.role, ROLE_EVALUATOR);
    assert_true(parse(f, "--role ps x"));
    assert_int_equal(f->flags.node.role, ROLE_PS);
    assert_true(parse(f, "--role trainer x"));
    assert_int_equal(f->flags.node.role, ROLE_WORKER);
    assert_string_equal(f->flags.node.role_name, "trainer");
}

static void modes_are_words(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--mode restart x"));
    assert_int_equal(f->flags.node.mode, MODE_RESTART);
    assert_true(parse(f, "--mode=inprocess x"));
    assert_int_equal(f->flags.node.mode, MODE_INPROCESS);
    refused_with(f, "--mode elastic x", "auto, restart, inprocess");
}

static void a_job_goes_by_either_name(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--rdzv_id a.b-1 x"));
    assert_string_equal(f->flags.node.job, "a.b-1");
    assert_true(parse(f, "--job c --node-name n1 x"));
    assert_string_equal(f->flags.node.job, "c");
    assert_string_equal(f->flags.node.name, "n1");
    refused_with(f, "--job a/b x", "is no name");
}

static void output_goes_where_torchrun_would_put_it(void **state)
{
    struct kit *f = *state;
    const struct node_config *node = &f->flags.node;

    assert_true(parse(f, "-r 3 -t1 x"));
    assert_int_equal(node->redirects[63][0], 1);
    assert_int_equal(node->redirects[0][1], 1);
    assert_int_equal(node->tee[5][0], 1);
    assert_int_equal(node->tee[5][1], 0);

    assert_true(parse(f, "--redirects=0:1,1:2 --tee 2:3 x"));
    assert_int_equal(node->redirects[0][0], 1);
    assert_int_equal(node->redirects[0][1], 0);
    assert_int_equal(node->redirects[1][0], 0);
    assert_int_equal(node->redirects[1][1], 1);
    assert_int_equal(node->redirects[2][0], 0);
    assert_int_equal(node->tee[2][0], 1);
    assert_int_equal(node->tee[2][1], 1);
    refused_with(f, "-r 4 x", "0 to 3");
    refused_with(f, "-t 0:1,2 x", "0 to 3");
    refused_with(f, "-t 64:1 x", "0 to 3");
    refused_with(f, "-t 0:1, x", "0 to 3");
}

static void a_log_directory_alone_keeps_everything_and_shows_it(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--log_dir logs x"));
    assert_string_equal(f->flags.node.log_dir, "logs");
    assert_int_equal(f->flags.node.tee[0][0], 1);
    assert_int_equal(f->flags.node.tee[0][1], 1);
    assert_int_equal(f->flags.node.redirects[0][0], 0);
    assert_true(parse(f, "--log_dir logs -r 1 x"));
    assert_int_equal(f->flags.node.tee[0][0], 0);
}

static void the_prefix_can_be_left_out(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--no-prefix x"));
    assert_false(f->flags.node.prefix);
}

static void standalone_is_one_node(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--standalone --nnodes=1:3 --nproc_per_node=2 x"));
    assert_int_equal(f->flags.node.max, 1);
    assert_int_equal(f->flags.node.slots, 2);
    refused_with(f, "--standalone --nnodes=2 x", "muster serve");
}

static void a_typing_error_gets_a_suggestion(void **state)
{
    struct kit *f = *state;

    refused_with(f, "--nproc_per_nod=2 x", "--nproc-per-node");
    refused_with(f, "--standalon x", "--standalone");
    refused_with(f, "--node_nam a x", "--node-name");
}

static void there_must_be_a_script(void **state)
{
    struct kit *f = *state;

    refused_with(f, "--nnodes 2", "SCRIPT");
    refused_with(f, "--module --no-python x", "exclude");
    refused_with(f, "--nnodes", "needs a value");
}

static void an_address_goes_by_two_names(void **state)
{
    struct kit *f = *state;

    assert_true(parse(f, "--address=127.0.0.1:5555 x"));
    assert_string_equal(f->flags.node.address, "127.0.0.1:5555");
    assert_true(parse(f, "--local_addr=10.0.0.7 x"));
    assert_string_equal(f->flags.node.address, "10.0.0.7");
    assert_true(parse(f, "--local_addr=10.0.0.7 --address=h:1 x"));
    assert_string_equal(f->flags.node.address, "h:1");
}

/* ---- notes ---- */

static void gather(void *data, const char *text)
{
    char *all = data;

    strcat(all, text);
    strcat(all, "\n");
}

static void what_is_ignored_is_said(void **state)
{
    struct kit *f = *state;
    char all[4096] = "";

    assert_true(parse(f, "train.py"));
    assert_int_equal(run_flags_notes(&f->flags, gather, all), 0);

    assert_true(parse(f, "--rdzv_backend=c10d --rdzv_conf=join_timeout=60 --node_rank=0 "
                         "--start_method spawn --use_env train.py"));
    assert_int_equal(run_flags_notes(&f->flags, gather, all), 5);
    assert_non_null(strstr(all, "--rdzv-backend c10d is ignored"));
    assert_non_null(strstr(all, "--rdzv-conf join_timeout=60 is ignored"));
    assert_non_null(strstr(all, "--node-rank 0 is ignored"));
    assert_non_null(strstr(all, "--start-method spawn is ignored"));
    assert_non_null(strstr(all, "--use-env is ignored"));
}

static void a_master_without_an_endpoint_gets_a_hint(void **state)
{
    struct kit *f = *state;
    char all[1024] = "";

    assert_true(parse(f, "--master_addr=head --master_port=29500 train.py"));
    assert_string_equal(f->flags.node.master_addr, "head");
    assert_int_equal(f->flags.node.master_port, 29500);
    assert_int_equal(run_flags_notes(&f->flags, gather, all), 1);
    assert_non_null(strstr(all, "--rdzv-endpoint head:5556"));
    assert_true(parse(f, "--master_addr=head --rdzv_endpoint=head train.py"));
    assert_int_equal(run_flags_notes(&f->flags, gather, all), 0);
}

/* ---- the command of a worker ---- */

static char dir[64];

static int enter_directory(void **state)
{
    FILE *file;

    strcpy(dir, "/tmp/muster-test-XXXXXX");
    if (mkdtemp(dir) == NULL || chdir(dir) != 0) {
        return -1;
    }
    for (const char *const *name = (const char *const[]){"t.py", "prog", "plain", NULL};
         *name != NULL; name++) {
        file = fopen(*name, "w");
        if (file == NULL) {
            return -1;
        }
        fputs("#!/bin/sh\n", file);
        fclose(file);
    }
    if (chmod("prog", 0755) != 0) {
        return -1;
    }
    return set_up(state);
}

static int leave_directory(void **state)
{
    unlink("t.py");
    unlink("prog");
    unlink("plain");
    if (chdir("/") != 0 || rmdir(dir) != 0) {
        return -1;
    }
    return tear_down(state);
}

static void becomes(struct kit *f, const char *line, const char *expected)
{
    char error[OPTS_ERROR_MAX] = "", all[1024] = "";
    char **argv;

    assert_true(parse(f, line));
    if (run_command(&f->flags, &argv, error) != MU_OK) {
        fail_msg("\"%s\": %s", line, error);
    }
    for (char **word = argv; *word != NULL; word++) {
        strcat(all, word == argv ? "" : " ");
        strcat(all, *word);
    }
    free(argv);
    assert_string_equal(all, expected);
}

static void fails_with(struct kit *f, const char *line, int status, const char *text)
{
    char error[OPTS_ERROR_MAX] = "";
    char **argv = NULL;

    assert_true(parse(f, line));
    assert_int_equal(run_command(&f->flags, &argv, error), status);
    assert_null(argv);
    if (strstr(error, text) == NULL) {
        fail_msg("\"%s\": \"%s\" is not in: %s", line, text, error);
    }
}

static void python_scripts_run_under_python(void **state)
{
    struct kit *f = *state;

    setenv("PYTHON_EXEC", "/bin/sh", 1);
    becomes(f, "t.py --lr 1", "/bin/sh -u t.py --lr 1");
    becomes(f, "-m pkg.mod a", "/bin/sh -u -m pkg.mod a");
    becomes(f, "--run-path plain a",
            "/bin/sh -u -c import runpy, sys\n"
            "sys.argv = sys.argv[1:]\n"
            "runpy.run_path(sys.argv[0], run_name='__main__')\n"
            " plain a");
    setenv("PYTHON_EXEC", "/no/python", 1);
    fails_with(f, "t.py", MU_ENOENT, "PYTHON_EXEC");
}

static void programs_run_as_they_are(void **state)
{
    struct kit *f = *state;

    becomes(f, "./prog a b", "./prog a b");
    becomes(f, "prog a", "./prog a");
    becomes(f, "sh -c true", "sh -c true");
    becomes(f, "/bin/sh -c true", "/bin/sh -c true");
    fails_with(f, "--no-python t.py", MU_EINVAL, "chmod +x");
    fails_with(f, "./plain", MU_EINVAL, "chmod +x");
}

static void a_script_that_is_not_there_is_found_out_first(void **state)
{
    struct kit *f = *state;

    fails_with(f, "missing.py", MU_ENOENT, "no script 'missing.py'");
    fails_with(f, "./missing", MU_ENOENT, "no script './missing'");
    fails_with(f, "no-such-program-anywhere", MU_ENOENT, "no script");
    fails_with(f, "/tmp", MU_ENOENT, "no script");
}

#define HERE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define THERE(name) cmocka_unit_test_setup_teardown(name, enter_directory, leave_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(a_script_alone_is_one_node_with_one_worker),
        HERE(both_spellings_and_both_ways_to_give_a_value),
        HERE(whatever_follows_the_script_is_its_own),
        HERE(two_dashes_end_the_flags),
        HERE(nnodes_is_min_or_min_and_max),
        HERE(workers_are_counted_or_one_for_each_core),
        HERE(endpoints_may_be_a_list),
        HERE(variables_of_torchrun_count_unless_a_flag_does),
        HERE(seconds_may_have_a_fraction),
        HERE(a_worker_that_hangs_or_differs_is_dealt_with_as_said),
        HERE(checkpoints_are_saved_as_said),
        HERE(a_checkpoint_is_due_after_steps_or_a_time),
        HERE(a_folder_for_checkpoints_is_made_absolute),
        HERE(flags_for_checkpoints_need_a_folder_to_save_to),
        HERE(what_the_orchestrator_keeps_needs_no_folder),
        HERE(what_is_wrong_with_a_folder_is_known_before_anything_starts),
        HERE(roles_are_known_by_name_and_others_are_workers),
        HERE(modes_are_words),
        HERE(a_job_goes_by_either_name),
        HERE(output_goes_where_torchrun_would_put_it),
        HERE(a_log_directory_alone_keeps_everything_and_shows_it),
        HERE(the_prefix_can_be_left_out),
        HERE(standalone_is_one_node),
        HERE(a_typing_error_gets_a_suggestion),
        HERE(there_must_be_a_script),
        HERE(an_address_goes_by_two_names),
        HERE(what_is_ignored_is_said),
        HERE(a_master_without_an_endpoint_gets_a_hint),
        THERE(python_scripts_run_under_python),
        THERE(programs_run_as_they_are),
        THERE(a_script_that_is_not_there_is_found_out_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
