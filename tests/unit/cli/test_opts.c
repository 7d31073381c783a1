#include "unit/unit.h"

#include "cli/cli.h"
#include "cli/opts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct wanted {
    bool loud;
    bool prefix;
    bool no_python;
    const char *job;
    uint32_t restarts;
    uint32_t wait_ms;
    uint8_t mode;
    uint32_t range[2];
};

static int read_range(const char *text, void *to, char *error)
{
    uint32_t *range = to;
    char end;

    if (strcmp(text, "odd") == 0) {
        snprintf(error, OPTS_ERROR_MAX, "that is odd");
        return MU_EINVAL;
    }
    return sscanf(text, "%u:%u%c", &range[0], &range[1], &end) == 2 ? MU_OK : MU_EINVAL;
}

#define AT(field) .at = offsetof(struct wanted, field)

static const struct opt table[] = {
    {OPT_GROUP, .help = "Some"},
    {OPT_FLAG, .letter = 'l', .name = "loud", .help = "say more", AT(loud), .env = "T_LOUD"},
    {OPT_FLAG, .name = "prefix", .help = "lines have one", AT(prefix), .preset = "true"},
    {OPT_FLAG, .name = "no-python", .help = "run it as it is", AT(no_python)},
    {OPT_STRING, .name = "job-name", .aliases = "rdzv-id run-id", .help = "its name", AT(job),
     .value = "NAME", .preset = "default", .env = "T_JOB T_RDZV_ID"},
    {OPT_GROUP, .help = "Others"},
    {OPT_U32, .letter = 'r', .name = "max-restarts", .help = "how often", AT(restarts), .min = 1,
     .max = 100, .shown = true},
    {OPT_SECONDS, .name = "wait", .help = "how long", AT(wait_ms), .min = 10, .preset = "1.5"},
    {OPT_CHOICE, .name = "mode", .help = "which way", AT(mode), .choices = "auto|restart|inprocess",
     .shown = true},
    {OPT_READ, .name = "nnodes", .value = "MIN:MAX…", .help = "how many", AT(range),
     .wants = "MIN or MIN:MAX", .read = read_range, .env = "T_NNODES"},
    {OPT_U32, .name = "secret-knob", .hidden = true, .help = "not shown", AT(restarts)},
    {.type = OPT_END},
};

static const struct opts plain = {.command = "try",
                                  .usage = "[OPTIONS] WORD",
                                  .about = "Tries things.\nTwice.",
                                  .examples = "  muster try it\n",
                                  .table = table,
                                  .words_min = 0,
                                  .words_max = 2};

static struct wanted got;
static struct opts_words words;
static int status;
static char said[4096];
static char line[512];

/* Parses "muster try LINE", split at blanks, into got. */
static bool parse_as(const struct opts *spec, const char *text)
{
    static char *argv[32];
    int argc = 0;
    char *rest = line;
    bool goes_on;

    snprintf(line, sizeof(line), "try %s", text);
    while ((argv[argc] = strsep(&rest, " ")) != NULL) {
        argc += *argv[argc] != '\0';
    }
    got = (struct wanted){.restarts = 3, .mode = 1};
    status = -1;
    unit_stderr_begin();
    goes_on = opts_parse(spec, argc, argv, &got, &words, &status);
    unit_stderr_end(said, sizeof(said));
    return goes_on;
}

static bool parse(const char *text)
{
    return parse_as(&plain, text);
}

static void expect_refused(const char *text, const char *why)
{
    assert_false(parse(text));
    assert_int_equal(status, EXIT_USAGE);
    if (strstr(said, why) == NULL) {
        fail_msg("'%s' says: %s", text, said);
    }
}

static void presets_hold_when_nothing_is_given(void **state)
{
    assert_true(parse(""));
    assert_string_equal(got.job, "default");
    assert_int_equal(got.wait_ms, 1500);
    assert_true(got.prefix);
    assert_false(got.loud);
    assert_int_equal(got.restarts, 3);
    assert_int_equal(got.mode, 1);
    assert_int_equal(words.n, 0);
    assert_null(words.words[0]);
}

static void both_spellings_and_both_forms_are_the_same(void **state)
{
    static const char *const texts[] = {
        "--job-name a --max-restarts 7",
        "--job_name=a --max_restarts=7",
        "--rdzv_id a -r 7",
        "--rdzv-id=a -r7",
        "--run_id a --max_restarts 7",
    };

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        assert_true(parse(texts[i]));
        assert_string_equal(got.job, "a");
        assert_int_equal(got.restarts, 7);
    }
}

static void flags_can_be_given_taken_back_and_spelled_out(void **state)
{
    static const struct {
        const char *text;
        bool loud, prefix, no_python;
    } cases[] = {
        {"-l", true, true, false},
        {"--loud --no-prefix", true, false, false},
        {"--loud --no-loud", false, true, false},
        {"--loud=yes --prefix=0", true, false, false},
        {"--no_python", false, true, true},
        {"--no-no-python", false, true, false},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_true(parse(cases[i].text));
        assert_int_equal(got.loud, cases[i].loud);
        assert_int_equal(got.prefix, cases[i].prefix);
        assert_int_equal(got.no_python, cases[i].no_python);
    }
    expect_refused("--loud=maybe", "--loud wants true or false, got 'maybe'");
    expect_refused("--no-loud=true", "there is no option '--no-loud'");
    expect_refused("--no-mode", "there is no option '--no-mode'");
}

static void seconds_become_milliseconds(void **state)
{
    static const struct {
        const char *text;
        uint32_t ms;
    } cases[] = {{"--wait 2", 2000}, {"--wait .25", 250}, {"--wait=0.01", 10}, {"--wait 1.", 1000}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        assert_true(parse(cases[i].text));
        assert_int_equal(got.wait_ms, cases[i].ms);
    }
}

static void bad_values_are_named_with_what_is_wanted(void **state)
{
    expect_refused("--max-restarts x", "muster try: --max-restarts wants a whole number from 1 to "
                                       "100, got 'x'");
    expect_refused("--max_restarts=0", "--max_restarts wants");
    expect_refused("-r 101", "-r wants a whole number from 1 to 100, got '101'");
    expect_refused("-r -1", "got '-1'");
    expect_refused("-r 99999999999999999999999", "-r wants");
    expect_refused("--max-restarts=", "got ''");
    expect_refused("--wait soon", "--wait wants seconds, like 2 or 0.5, from 0.01, got 'soon'");
    expect_refused("--wait 0.001", "--wait wants");
    expect_refused("--wait -1", "--wait wants");
    expect_refused("--wait nan", "--wait wants");
    expect_refused("--wait 0x10", "--wait wants");
    expect_refused("--wait .", "--wait wants");
    expect_refused("--wait 1.2.3", "--wait wants");
    expect_refused("--wait 99999999999", "--wait wants");
    expect_refused("--mode fast", "--mode wants one of auto, restart, inprocess, got 'fast'");
    expect_refused("--mode auto|restart", "--mode wants one of");
    expect_refused("--mode aut", "--mode wants one of");
    expect_refused("--nnodes x", "muster try: --nnodes wants MIN or MIN:MAX, got 'x'");
    expect_refused("--nnodes odd", "muster try: --nnodes: that is odd");
    expect_refused("--job-name", "--job-name needs a value");
}

static void choices_and_custom_readers_give_their_values(void **state)
{
    assert_true(parse("--mode inprocess --nnodes 1:4"));
    assert_int_equal(got.mode, 2);
    assert_int_equal(got.range[0], 1);
    assert_int_equal(got.range[1], 4);
}

static void an_unknown_option_gets_the_nearest_known_one(void **state)
{
    expect_refused("--max-restart 3", "there is no option '--max-restart'. Did you mean "
                                      "--max-restarts?");
    expect_refused("--max_restrats=3", "'--max_restrats'. Did you mean --max-restarts?");
    expect_refused("--nnode 3", "Did you mean --nnodes?");
    expect_refused("--job x", "Did you mean --job-name?");
    expect_refused("--hepl", "Did you mean --help?");
    expect_refused("--xyzzy", "there is no option '--xyzzy'\n");
    expect_refused("-x", "there is no option '-x'\n");
    expect_refused("-lx", "there is no option '-lx'\n");
    expect_refused("--secret-knop 1", "there is no option '--secret-knop'\n");
    assert_true(parse("--secret-knob 1"));
}

static void the_command_line_goes_before_the_environment(void **state)
{
    setenv("T_RDZV_ID", "second", 1);
    assert_true(parse(""));
    assert_string_equal(got.job, "second");
    setenv("T_JOB", "first", 1);
    setenv("T_LOUD", "1", 1);
    assert_true(parse(""));
    assert_string_equal(got.job, "first");
    assert_true(got.loud);
    assert_true(parse("--job-name given --no-loud"));
    assert_string_equal(got.job, "given");
    assert_false(got.loud);
    setenv("T_NNODES", "x", 1);
    expect_refused("", "muster try: T_NNODES wants MIN or MIN:MAX, got 'x'");
    setenv("T_NNODES", "", 1); /* Empty is as good as not set. */
    assert_true(parse(""));
    unsetenv("T_NNODES");
    unsetenv("T_JOB");
    unsetenv("T_RDZV_ID");
    unsetenv("T_LOUD");
}

static void words_may_stand_anywhere_among_the_options(void **state)
{
    assert_true(parse("a --loud b --wait 3"));
    assert_int_equal(words.n, 2);
    assert_string_equal(words.words[0], "a");
    assert_string_equal(words.words[1], "b");
    assert_null(words.words[2]);
    assert_true(got.loud);
    assert_int_equal(got.wait_ms, 3000);
    assert_true(parse("-- --loud -"));
    assert_int_equal(words.n, 2);
    assert_string_equal(words.words[0], "--loud");
    assert_false(got.loud);
    expect_refused("a b c", "'c' is one word too many");
    expect_refused("-- a b c", "'c' is one word too many");
}

static void after_the_first_word_everything_belongs_to_it(void **state)
{
    struct opts script = plain;

    script.stop_at_word = true;
    script.words_min = script.words_max = 1;
    assert_true(parse_as(&script, "--loud train.py --max-restarts x -h --"));
    assert_true(got.loud);
    assert_int_equal(words.n, 5);
    assert_string_equal(words.words[0], "train.py");
    assert_string_equal(words.words[3], "-h");
    assert_string_equal(words.words[4], "--");
    assert_null(words.words[5]);
    assert_true(parse_as(&script, "-l -- ./trainer --x"));
    assert_int_equal(words.n, 2);
    assert_string_equal(words.words[0], "./trainer");
    assert_false(parse_as(&script, "--loud"));
    assert_int_equal(status, EXIT_USAGE);
    assert_non_null(strstr(said, "usage: muster try [OPTIONS] WORD"));
}

/* What opts_help() prints, through a file. */
static void help_text(char *text, size_t cap)
{
    FILE *file = tmpfile();
    int saved = dup(STDOUT_FILENO);
    size_t n;

    assert_non_null(file);
    fflush(stdout);
    dup2(fileno(file), STDOUT_FILENO);
    assert_false(parse("--help"));
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    rewind(file);
    n = fread(text, 1, cap - 1, file);
    text[n] = '\0';
    fclose(file);
}

static void help_is_made_of_the_table(void **state)
{
    static const char *const lines[] = {
        "usage: muster try [OPTIONS] WORD\n\nTries things.\nTwice.\n\nSome:\n",
        "\n  -l, --loud                  say more [$T_LOUD]\n",
        "\n  --[no-]prefix               lines have one\n",
        ("\n  --job-name, --rdzv-id, --run-id NAME\n                              its name "
         "(default: "
         "default) [$T_JOB T_RDZV_ID]\n"),
        "\n\nOthers:\n  -r, --max-restarts N        how often (default: 3)\n",
        "\n  --wait SECONDS              how long (default: 1.5)\n",
        ("\n  --mode auto|restart|inprocess\n                              which way (default: "
         "restart)\n"),
        "\n  --nnodes MIN:MAX…           how many [$T_NNODES]\n",
        "\n  -h, --help                  show this and exit\n\nExamples:\n  muster try it\n",
    };
    char text[4096];

    help_text(text, sizeof(text));
    assert_int_equal(status, EXIT_SUCCESS);
    assert_string_equal(said, "");
    for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
        if (strstr(text, lines[i]) == NULL) {
            fail_msg("not in the help: %s\nwhich is:\n%s", lines[i], text);
        }
    }
    assert_null(strstr(text, "secret-knob"));
}

static void help_works_whatever_the_environment_holds(void **state)
{
    char text[4096];

    setenv("T_NNODES", "x", 1);
    help_text(text, sizeof(text));
    unsetenv("T_NNODES");
    assert_int_equal(status, EXIT_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(presets_hold_when_nothing_is_given),
        cmocka_unit_test(both_spellings_and_both_forms_are_the_same),
        cmocka_unit_test(flags_can_be_given_taken_back_and_spelled_out),
        cmocka_unit_test(seconds_become_milliseconds),
        cmocka_unit_test(bad_values_are_named_with_what_is_wanted),
        cmocka_unit_test(choices_and_custom_readers_give_their_values),
        cmocka_unit_test(an_unknown_option_gets_the_nearest_known_one),
        cmocka_unit_test(the_command_line_goes_before_the_environment),
        cmocka_unit_test(words_may_stand_anywhere_among_the_options),
        cmocka_unit_test(after_the_first_word_everything_belongs_to_it),
        cmocka_unit_test(help_is_made_of_the_table),
        cmocka_unit_test(help_works_whatever_the_environment_holds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
