/* What a worker says of itself, how two of them are compared, and what becomes of one that differs.
 */
#include "unit/run/run_kit.h"

#include "lib/asks.h"
#include "train/kind.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

static struct fake agent;
static struct asks_frame frame;

/* ---- a BLAS ---- */

static int threads_n = 8;

const char *openblas_get_config(void);
int openblas_get_num_threads(void);
void openblas_set_num_threads(int n);

const char *openblas_get_config(void)
{
    return "OpenBLAS 0.0 made up";
}

int openblas_get_num_threads(void)
{
    return threads_n;
}

void openblas_set_num_threads(int n)
{
    threads_n = n;
}

static void a_library_has_one_thread_unless_the_environment_says_more(void **state)
{
    static const char *const names[] = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        unsetenv("OMP_NUM_THREADS");
        setenv(names[i], "8", 1);
        threads_n = 8;
        kind_threads();
        assert_int_equal(threads_n, 8);
        unsetenv(names[i]);
        kind_threads();
        assert_int_equal(threads_n, 1);
    }
}

/* ---- comparing ---- */

struct found {
    uint32_t n, numeric_n, told_n;
    char text[2048];
};

static void on_difference(void *arg, enum kind_weight weight, const char *text)
{
    struct found *f = arg;

    f->n++;
    f->numeric_n += weight == KIND_IF_STRICT;
    f->told_n += weight == KIND_IS_TOLD;
    snprintf(f->text + strlen(f->text), sizeof(f->text) - strlen(f->text), "%s|", text);
}

static void expect_differences(const char *here, const char *there, uint32_t numeric_n,
                               const char *want)
{
    struct found f = {0};

    assert_int_equal(kind_compare(here, there, on_difference, &f), want[0] != '\0');
    assert_string_equal(f.text, want);
    assert_int_equal(f.numeric_n, numeric_n);
}

static void the_same_text_has_no_difference(void **state)
{
    expect_differences("", "", 0, "");
    expect_differences("slices 8\nstate w 4 bytes\n", "slices 8\nstate w 4 bytes\n", 0, "");
}

static void a_value_that_differs_is_told_with_both(void **state)
{
    expect_differences("slices 8\nsteps 10\n", "slices 16\nsteps 10\n", 0,
                       "slices: here 8 / there 16|");
    expect_differences("state w 4 bytes\nstate m 8 bytes\n", "state w 4 bytes\nstate m 9 bytes\n",
                       0, "state m: here 8 bytes / there 9 bytes|");
    expect_differences("metrics\n", "metrics loss\n", 0, "metrics: here  / there loss|");
}

static void a_line_that_one_side_lacks_is_told(void **state)
{
    expect_differences("slices 8\nstate w 4 bytes\n", "slices 8\n", 0,
                       "state w: here 4 bytes / there none|");
    expect_differences("slices 8\n", "slices 8\nstate w 4 bytes\nnumeric mkl 7\n", 1,
                       "state w: here none / there 4 bytes|mkl: here none / there 7|");
    expect_differences("", "slices 8\n", 0, "slices: here none / there 8|");
    expect_differences("fact shape f32 [2]\nfact b 1\n", "fact shape f32 [3]\nfact b 1\n", 0,
                       "shape: here f32 [2] / there f32 [3]|");
}

static void numeric_lines_are_told_apart(void **state)
{
    expect_differences("slices 8\nnumeric cpu avx2\nnumeric libc 2.36\n",
                       "slices 4\nnumeric cpu avx2 fma\nnumeric libc 2.36\n", 1,
                       "slices: here 8 / there 4|cpu: here avx2 / there avx2 fma|");
}

static void another_order_is_a_difference(void **state)
{
    struct found f = {0};

    assert_true(kind_compare("state a 1 bytes\nstate b 2 bytes\n",
                             "state b 2 bytes\nstate a 1 bytes\n", on_difference, &f));
    assert_int_equal(f.n, 1);
    assert_non_null(strstr(f.text, "another order"));
}

static void a_long_value_is_cut(void **state)
{
    static char here[4096], there[4096];
    struct found f = {0};

    snprintf(here, sizeof(here), "numeric extra %02000d\n", 1);
    snprintf(there, sizeof(there), "numeric extra %02000d\n", 2);
    assert_true(kind_compare(here, there, on_difference, &f));
    assert_int_equal(f.n, 1);
    assert_true(strlen(f.text) < 1100);
}

static void facts_are_one_line_each_and_said_once(void **state)
{
    char *much = calloc(1, FACTS_MAX + 1);
    mu_run *run;

    assert_int_equal(mu_join(NULL, &run), MU_OK);
    assert_int_equal(mu_fact(run, "shape:w", "f32 [3, 4]", 0), MU_OK);
    assert_int_equal(mu_fact(run, "torch", "1.13", 1), MU_OK);
    assert_int_equal(mu_fact(run, "tor", "a part of a name is another", 1), MU_OK);
    assert_int_equal(mu_fact(run, "torch", "2.0", 1), MU_EEXIST);
    assert_int_equal(mu_fact(run, "two words", "x", 0), MU_EINVAL);
    assert_int_equal(mu_fact(run, "lines", "x\nslices 9", 0), MU_EINVAL);
    assert_int_equal(mu_fact(run, "", "x", 0), MU_EINVAL);
    assert_int_equal(mu_fact(run, "x", NULL, 0), MU_EINVAL);
    memset(much, 'x', FACTS_MAX);
    assert_int_equal(mu_fact(run, "much", much, 0), MU_ELIMIT);
    assert_int_equal(mu_fact(run, much, "much", 0), MU_ELIMIT);
    assert_string_equal(run->train->what.facts, "fact shape:w f32 [3, 4]\nnumeric torch 1.13\n"
                                                "numeric tor a part of a name is another\n");
    assert_int_equal(mu_leave(run), MU_OK);
    free(much);
}

/* ---- its text ---- */

static struct train trainer;
static float weights[4];

static void trainer_open(mu_run *run)
{
    struct state_part part = {.name = "weights", .data = weights, .bytes = sizeof(weights)};

    memset(&trainer, 0, sizeof(trainer));
    trainer.crew.run = run;
    trainer.what.parts[0] = (struct gradient_part){4, DTYPE_F32};
    trainer.what.parts[1] = (struct gradient_part){2, DTYPE_BF16};
    trainer.what.parts_n = 2;
    trainer.what.walk =
        (struct order_walk){.samples_n = 100, .batch_n = 10, .epochs_n = 2, .slices_n = 8};
    trainer.what.seed = 7;
    assert_int_equal(state_add(&trainer.what.state, &part), MU_OK);
}

static void expect_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);

    if (at == NULL || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n') {
        fail_msg("'%s' is no line of: %s", line, text);
    }
}

static void how_checkpoints_are_saved_is_only_told(void **state)
{
    struct found f = {0};

    assert_true(kind_compare("saves to a folder\nsaves every 5 steps\n",
                             "saves to a folder\nsaves every 7 steps\n", on_difference, &f));
    assert_string_equal(f.text, "every: here 5 steps / there 7 steps|");
    assert_int_equal(f.told_n, 1);
}

static void the_text_has_a_line_for_each_fact(void **state)
{
    struct mu_run *run = calloc(1, sizeof(*run));
    char *text;

    mu_config_init(&run->config);
    run->config.steps = 20;
    trainer_open(run);
    threads_n = 1;
    assert_int_equal(metrics_add(run, "loss"), MU_OK);
    setenv("MUSTER_NUMERICS_EXTRA", "torch 2.1\nand more", 1);
    assert_int_equal(kind_text(&trainer, &text), MU_OK);
    expect_line(text, "slices 8");
    expect_line(text, "steps 20");
    expect_line(text, "gradient 4 f32, 2 bf16");
    expect_line(text, "metrics loss");
    expect_line(text, "data 100 samples, batch 10, epochs 2, seed 7");
    expect_line(text, "digest every 100");
    expect_line(text, "check every 0");
    expect_line(text, "saves to none");
    expect_line(text, "saves in-memory no");
    expect_line(text, "state weights 16 bytes");
    expect_line(text, "numeric extra torch 2.1"); /* One fact can't make two lines. */
    expect_line(text, "numeric openblas OpenBLAS 0.0 made up");
    expect_line(text, "numeric threads-openblas 1");
    assert_non_null(strstr(text, "\nnumeric cpu"));
    assert_non_null(strstr(text, "\nnumeric libc "));
    free(text);
    unsetenv("MUSTER_NUMERICS_EXTRA");
    trainer.what.sharded = true;
    trainer.what.shard.elements_n = 5;
    assert_int_equal(kind_text(&trainer, &text), MU_OK);
    expect_line(text, "data shard of 5 elements");
    free(text);
    state_close(&trainer.what.state);
    free(run);
}

/* A setting can't hold thousands of lines; a difference is found all the same. */
static void a_state_of_many_parts_has_one_line(void **state)
{
    struct mu_run *run = calloc(1, sizeof(*run));
    char *text, *other;

    mu_config_init(&run->config);
    trainer_open(run);
    for (int i = 0; i < 2000; i++) {
        struct state_part part = {.data = weights, .bytes = 4};

        snprintf(part.name, sizeof(part.name), "layer%d", i);
        assert_int_equal(state_add(&trainer.what.state, &part), MU_OK);
    }
    assert_int_equal(kind_text(&trainer, &text), MU_OK);
    trainer.what.state.parts[1999].bytes = 8;
    assert_int_equal(kind_text(&trainer, &other), MU_OK);
    assert_true(strlen(text) < MU_VALUE_MAX);
    assert_true(strcmp(text, other) != 0);
    assert_non_null(strstr(text, "\nstate 2001-parts "));
    free(text);
    free(other);
    state_close(&trainer.what.state);
    free(run);
}

/* ---- asking the others ---- */

struct asker {
    pthread_t thread;
    int status;
    char error[ERROR_MAX];
};

static void *asker_main(void *arg)
{
    struct asker *a = arg;

    a->status = kind_check(&trainer);
    snprintf(a->error, sizeof(a->error), "%s", mu_error());
    return NULL;
}

static mu_run *begin(struct asker *a)
{
    mu_run *run = fake_join(&agent, FAKE_LIFE);

    trainer_open(run);
    assert_int_equal(pthread_create(&a->thread, NULL, asker_main, a), 0);
    return run;
}

static void end(struct asker *a, mu_run *run, int status)
{
    pthread_join(a->thread, NULL);
    if (a->status != status) {
        fail_msg("status %d: %s", a->status, a->error);
    }
    state_close(&trainer.what.state);
    fake_leave(&agent, run);
}

static struct asked next_asked(enum asked_verb verb)
{
    union wire_any msg;
    struct asked m;

    assert_true(asks_is_asked(&fake_next(&agent, WIRE_ASK, &msg)->ask, &m));
    assert_int_equal(m.verb, verb);
    return m;
}

static void answer(const struct asked *to, int status, const char *value)
{
    struct said m = {.worker = to->worker,
                     .request = to->request,
                     .status = status,
                     .version = 1,
                     .value_n = value != NULL ? (uint32_t)strlen(value) : 0,
                     .value = (uint8_t *)(uintptr_t)value};

    memcpy(m.key, to->key, sizeof(m.key));
    asks_said(&frame, &m);
    fake_say(&agent, WIRE_SAYS, &frame.says);
}

/* The text that the worker wants to leave, to be freed. */
static char *put_asked(struct asked *m_out)
{
    *m_out = next_asked(ASKED_PUT);
    assert_true(m_out->expect == 0);
    assert_non_null(strstr(m_out->key, "muster/"));
    assert_non_null(strstr(m_out->key, "/kind"));
    return strndup((const char *)m_out->value, m_out->value_n);
}

static void forget_asked(uint32_t run)
{
    if (run > 1) {
        struct asked m = next_asked(ASKED_REMOVE);

        answer(&m, MU_ENOENT, NULL);
    }
}

static void the_first_leaves_its_text(void **state)
{
    struct asker a;
    mu_run *run = begin(&a);
    struct asked m;
    char *text = put_asked(&m);

    expect_line(text, "state weights 16 bytes");
    answer(&m, MU_OK, NULL);
    forget_asked(run->life.run);
    end(&a, run, MU_OK);
    free(text);
}

static void one_like_the_first_is_taken(void **state)
{
    struct asker a;
    mu_run *run = begin(&a);
    struct asked m;
    char *text = put_asked(&m);

    answer(&m, MU_EEXIST, NULL);
    m = next_asked(ASKED_GET);
    answer(&m, MU_OK, text);
    end(&a, run, MU_OK);
    free(text);
}

/* What the first of the run has left, with one word of its own changed. */
static void meet_other(struct asker *a, mu_run **run_out, const char *from, const char *to)
{
    struct asked m;
    char *text, *at, other[8192];

    *run_out = begin(a);
    text = put_asked(&m);
    at = strstr(text, from);
    assert_non_null(at);
    snprintf(other, sizeof(other), "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    answer(&m, MU_EEXIST, NULL);
    m = next_asked(ASKED_GET);
    answer(&m, MU_OK, other);
    free(text);
}

static void one_with_another_state_is_refused_whatever_numerics_are(void **state)
{
    struct asker a;
    mu_run *run;

    setenv("MUSTER_NUMERICS", "warn", 1);
    meet_other(&a, &run, "weights 16", "weights 12");
    end(&a, run, MU_EREFUSED);
    unsetenv("MUSTER_NUMERICS");
    fake_explains(a.error, "state weights: here 16 bytes / there 12 bytes");
    fake_explains(a.error, "muster config rm --job mnist muster/");
}

static void one_of_another_numeric_kind_is_refused_unless_warnings_do(void **state)
{
    struct asker a;
    mu_run *run;

    meet_other(&a, &run, "numeric libc ", "numeric libc 1.");
    end(&a, run, MU_EREFUSED);
    fake_explains(a.error, "libc: here ");
    setenv("MUSTER_NUMERICS", "warn", 1);
    meet_other(&a, &run, "numeric libc ", "numeric libc 1.");
    end(&a, run, MU_OK);
    unsetenv("MUSTER_NUMERICS");
}

static void an_orchestrator_that_was_away_is_asked_again(void **state)
{
    struct asker a;
    mu_run *run = begin(&a);
    struct asked m;
    char *text = put_asked(&m);

    answer(&m, MU_EAGAIN, NULL);
    free(text);
    text = put_asked(&m);
    answer(&m, MU_EEXIST, NULL); /* The first one was written after all. */
    m = next_asked(ASKED_GET);
    answer(&m, MU_OK, text);
    end(&a, run, MU_OK);
    free(text);
}

static void settings_that_can_not_be_read_are_an_error(void **state)
{
    struct asker a;
    mu_run *run = begin(&a);
    struct asked m;
    char *text = put_asked(&m);

    answer(&m, MU_ELIMIT, NULL);
    end(&a, run, MU_ELIMIT);
    free(text);
}

static void a_worker_alone_is_like_itself(void **state)
{
    static const char *const MODES[] = {"", "strict", "warn"};
    struct mu_run *run = calloc(1, sizeof(*run));

    run->alone = true;
    trainer_open(run);
    assert_int_equal(kind_check(&trainer), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(MODES); i++) {
        setenv("MUSTER_NUMERICS", MODES[i], 1);
        assert_int_equal(kind_check(&trainer), MU_OK);
    }
    setenv("MUSTER_NUMERICS", "sometimes", 1);
    assert_int_equal(kind_check(&trainer), MU_EINVAL);
    fake_explains(mu_error(), "strict or warn");
    unsetenv("MUSTER_NUMERICS");
    state_close(&trainer.what.state);
    free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_library_has_one_thread_unless_the_environment_says_more),
        cmocka_unit_test(the_same_text_has_no_difference),
        cmocka_unit_test(a_value_that_differs_is_told_with_both),
        cmocka_unit_test(a_line_that_one_side_lacks_is_told),
        cmocka_unit_test(numeric_lines_are_told_apart),
        cmocka_unit_test(another_order_is_a_difference),
        cmocka_unit_test(a_long_value_is_cut),
        cmocka_unit_test(facts_are_one_line_each_and_said_once),
        cmocka_unit_test(how_checkpoints_are_saved_is_only_told),
        cmocka_unit_test(the_text_has_a_line_for_each_fact),
        cmocka_unit_test(a_state_of_many_parts_has_one_line),
        cmocka_unit_test(the_first_leaves_its_text),
        cmocka_unit_test(one_like_the_first_is_taken),
        cmocka_unit_test(one_with_another_state_is_refused_whatever_numerics_are),
        cmocka_unit_test(one_of_another_numeric_kind_is_refused_unless_warnings_do),
        cmocka_unit_test(an_orchestrator_that_was_away_is_asked_again),
        cmocka_unit_test(settings_that_can_not_be_read_are_an_error),
        cmocka_unit_test(a_worker_alone_is_like_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
