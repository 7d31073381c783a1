/* The secret: its text, its keys, its file. Each test has a folder of its own. */
#include "unit/unit.h"

#include "net/token.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static int make_folder(void **state)
{
    strcpy(folder, "/tmp/muster-token-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int drop_folder(void **state)
{
    char command[128];

    unsetenv("MUSTER_TOKEN");
    unsetenv("XDG_STATE_HOME");
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[PATH_MAX_LEN];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void put(const char *name, mode_t mode, const char *text)
{
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    close(fd);
}

static uint32_t files_in_folder(void)
{
    DIR *d = opendir(folder);
    uint32_t n = 0;

    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        n += e->d_name[0] != '.';
    }
    closedir(d);
    return n;
}

#define SOME "mu1-000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static void the_text_form_is_fixed(void **state)
{
    struct token t;
    char text[TOKEN_TEXT_MAX];

    for (size_t i = 0; i < sizeof(t.secret); i++) {
        t.secret[i] = (uint8_t)i;
    }
    token_print(&t, text);
    assert_string_equal(text, SOME);
    memset(&t, 0, sizeof(t));
    assert_int_equal(token_parse(" \t" SOME "\r\n", &t), MU_OK);
    assert_int_equal(t.secret[31], 31);
}

static void what_is_no_token_is_not_taken(void **state)
{
    static const char *const bad[] = {
        "",
        " ",
        "mu1-",
        "mu1",
        SOME "0",
        SOME " x",
        "mu2-000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "MU1-000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "mu1-000102030405060708090A0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
        "mu1-000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1",
        "mu1-00010203040506070809 a0b0c0d0e0f101112131415161718191a1b1c1d1e1f",
    };

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct token t = {{42}};

        assert_int_equal(token_parse(bad[i], &t), MU_EINVAL);
        assert_int_equal(t.secret[0], 42);
    }
}

/* Computed apart from this code, by RFC 5869 with salt "muster token". */
static void keys_are_what_they_have_always_been(void **state)
{
    static const char *const hex[] = {
        [TOKEN_KEY_CONTROL] = "5d76091d7258c532e69b8cf8a39f53221ec25d04ef92b2d6071bf87875969fa3",
        [TOKEN_KEY_VIEWER] = "aef9214330bf581c54ed30bcd70ef7833c438e5c46962d67fcc8de2a3e1dcf85",
        [TOKEN_KEY_OPERATOR] = "d151d5edc59a548ed1a534fef3ffa9fe56a03de7be8016dbabbb9633e6707a61",
    };
    struct token t;

    assert_int_equal(token_parse(SOME, &t), MU_OK);
    for (size_t use = 0; use < ARRAY_LEN(hex); use++) {
        uint8_t key[32];
        char text[65];

        token_derive(&t, (enum token_key)use, key);
        for (size_t i = 0; i < sizeof(key); i++) {
            sprintf(text + 2 * i, "%02x", key[i]);
        }
        assert_string_equal(text, hex[use]);
    }
}

/* Computed apart from this code too: the label, a zero byte, the run in 4 bytes, the job. */
static void the_key_of_a_run_is_of_that_job_and_that_run_alone(void **state)
{
    static const struct {
        const char *job;
        uint32_t run;
        const char *hex;
    } cases[] = {
        {"mnist", 1, "bf8787016c065b32d3398d6ea575a50c3d0e416a6c8ad75fdc9709fe37186b12"},
        {"mnist", 2, "e4a59e0c09629146020a821d6d51eadd78cf9e8ca3c24b468d297549a56be98f"},
        {"mnist2", 1, "cb6ab29557cc36bd384144af5142112eeb8f224392df7ec551ef9fff0f58d825"},
    };
    struct token t;

    assert_int_equal(token_parse(SOME, &t), MU_OK);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t key[32];
        char text[65];

        token_derive_run(&t, cases[i].job, cases[i].run, key);
        for (size_t k = 0; k < sizeof(key); k++) {
            sprintf(text + 2 * k, "%02x", key[k]);
        }
        assert_string_equal(text, cases[i].hex);
    }
}

static void a_file_is_made_once_and_for_its_owner_only(void **state)
{
    struct token a, b;
    struct stat st;
    char error[NET_ERROR_MAX];
    const mode_t was = umask(0);

    assert_int_equal(token_file(path_of("token"), true, &a, error), MU_OK);
    umask(was);
    assert_int_equal(stat(path_of("token"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(token_file(path_of("token"), true, &b, error), MU_OK);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(token_file(path_of("token"), false, &b, error), MU_OK);
    assert_memory_equal(&a, &b, sizeof(a));
    assert_int_equal(files_in_folder(), 1); /* nothing is left of its making */
    assert_int_equal(token_file(path_of("other"), true, &b, error), MU_OK);
    assert_memory_not_equal(&a, &b, sizeof(a));
}

/* Eight processes that start at once all hold the same token. */
static void all_who_make_it_at_once_get_the_same(void **state)
{
    enum { RACERS = 8 };
    int start[2], ends[2];
    struct token first, t;
    char error[NET_ERROR_MAX];

    assert_int_equal(pipe(start), 0);
    assert_int_equal(pipe(ends), 0);
    for (int i = 0; i < RACERS; i++) {
        if (fork() == 0) {
            char byte;

            close(start[1]);
            (void)!read(start[0], &byte, 1);
            _exit(token_file(path_of("token"), true, &t, error) != MU_OK ||
                  write(ends[1], &t, sizeof(t)) != (ssize_t)sizeof(t));
        }
    }
    close(start[0]);
    close(start[1]);
    for (int i = 0; i < RACERS; i++) {
        int status;

        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
        assert_int_equal(read(ends[0], i == 0 ? &first : &t, sizeof(t)), sizeof(t));
        if (i > 0) {
            assert_memory_equal(&first, &t, sizeof(t));
        }
    }
    close(ends[0]);
    close(ends[1]);
    assert_int_equal(files_in_folder(), 1);
}

static void a_file_that_others_can_use_is_refused(void **state)
{
    static const mode_t modes[] = {0644, 0640, 0604, 0620, 0602, 0610, 0666};

    for (size_t i = 0; i < ARRAY_LEN(modes); i++) {
        struct token t;
        char error[NET_ERROR_MAX] = "";

        put("token", modes[i], SOME "\n");
        assert_int_equal(token_file(path_of("token"), true, &t, error), MU_EREFUSED);
        assert_non_null(strstr(error, "chmod 600"));
        assert_null(strstr(error, "000102"));
    }
    struct token t;
    char error[NET_ERROR_MAX];

    put("token", 0400, SOME "\n");
    assert_int_equal(token_file(path_of("token"), true, &t, error), MU_OK);
}

/* It might be the one that everybody has: another is never made in its place. */
static void a_file_that_holds_no_token_is_an_error_and_stays(void **state)
{
    static const char *const bad[] = {"", "\n", "hello", SOME "f", SOME "\n" SOME "\n"};

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct token t;
        struct stat st;
        char error[NET_ERROR_MAX] = "";

        put("token", 0600, bad[i]);
        assert_int_equal(token_file(path_of("token"), true, &t, error), MU_EINVAL);
        assert_non_null(strstr(error, "holds no token"));
        assert_non_null(strstr(error, path_of("token")));
        assert_null(strstr(error, "000102"));
        assert_int_equal(stat(path_of("token"), &st), 0);
        assert_int_equal(st.st_size, strlen(bad[i]));
    }
}

static void what_is_no_file_is_an_error(void **state)
{
    struct token t;
    char error[NET_ERROR_MAX];

    assert_int_equal(token_file(path_of("none"), false, &t, error), MU_ENOENT);
    assert_non_null(strstr(error, path_of("none")));
    assert_int_equal(token_file(path_of("no/folder/token"), true, &t, error), MU_EIO);
    assert_int_equal(mkdir(path_of("dir"), 0700), 0);
    assert_int_equal(token_file(path_of("dir"), true, &t, error), MU_EINVAL);
    assert_int_equal(mkfifo(path_of("fifo"), 0600), 0);
    assert_int_equal(token_file(path_of("fifo"), true, &t, error), MU_EINVAL); /* and no hang */
    assert_int_equal(symlink(path_of("gone"), path_of("link")), 0);
    assert_int_not_equal(token_file(path_of("link"), false, &t, error), MU_OK);
}

static void it_is_found_by_option_then_environment_then_data_directory(void **state)
{
    struct token t;
    char error[NET_ERROR_MAX], text[TOKEN_TEXT_MAX];

    setenv("XDG_STATE_HOME", folder, 1);
    assert_int_equal(token_find(NULL, &t, error), MU_ENOENT);
    assert_non_null(strstr(error, "MUSTER_TOKEN"));
    assert_non_null(strstr(error, path_of("muster/token")));
    assert_non_null(strstr(error, "muster token"));

    assert_int_equal(mkdir(path_of("muster"), 0700), 0);
    put("muster/token", 0600, SOME "\n");
    assert_int_equal(token_find(NULL, &t, error), MU_OK);
    assert_int_equal(t.secret[0], 0x00);

    memset(&t, 0xaa, sizeof(t));
    token_print(&t, text);
    setenv("MUSTER_TOKEN", text, 1);
    assert_int_equal(token_find(NULL, &t, error), MU_OK);
    assert_int_equal(t.secret[0], 0xaa);

    memset(&t, 0xbb, sizeof(t));
    token_print(&t, text);
    put("given", 0600, text);
    assert_int_equal(token_find(path_of("given"), &t, error), MU_OK);
    assert_int_equal(t.secret[0], 0xbb);
}

/* What was asked for and can't be had is not made up for by another. */
static void a_source_that_fails_is_not_passed_over(void **state)
{
    struct token t;
    char error[NET_ERROR_MAX];

    setenv("XDG_STATE_HOME", folder, 1);
    assert_int_equal(mkdir(path_of("muster"), 0700), 0);
    put("muster/token", 0600, SOME "\n");
    setenv("MUSTER_TOKEN", "mu1-secret", 1);
    assert_int_equal(token_find(NULL, &t, error), MU_EINVAL);
    assert_non_null(strstr(error, "MUSTER_TOKEN"));
    assert_null(strstr(error, "mu1-secret"));
    setenv("MUSTER_TOKEN", SOME, 1);
    assert_int_equal(token_find(path_of("none"), &t, error), MU_ENOENT);
    setenv("MUSTER_TOKEN", "", 1); /* as good as not set */
    put("muster/token", 0644, SOME "\n");
    assert_int_equal(token_find(NULL, &t, error), MU_EREFUSED);
}

static void the_data_directory_follows_the_environment(void **state)
{
    char path[PATH_MAX_LEN], error[NET_ERROR_MAX], home[PATH_MAX_LEN];
    const char *was = getenv("HOME");

    snprintf(home, sizeof(home), "%s", was != NULL ? was : "/");
    setenv("XDG_STATE_HOME", "/x/y", 1);
    assert_int_equal(data_dir_default(path, error), MU_OK);
    assert_string_equal(path, "/x/y/muster");
    setenv("XDG_STATE_HOME", "relative", 1); /* which the standard says to ignore */
    setenv("HOME", "/h", 1);
    assert_int_equal(data_dir_default(path, error), MU_OK);
    assert_string_equal(path, "/h/.local/state/muster");
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    assert_int_equal(data_dir_default(path, error), MU_OK); /* from the list of users */
    assert_int_equal(path[0], '/');
    setenv("HOME", home, 1);
}

static void data_directories_are_made_for_their_owner_only(void **state)
{
    struct stat st;
    char error[NET_ERROR_MAX];
    const mode_t was = umask(0);

    assert_int_equal(data_dir_make(path_of("a/b//c/"), error), MU_OK);
    assert_int_equal(data_dir_make(path_of("a/b/c"), error), MU_OK);
    umask(was);
    assert_int_equal(stat(path_of("a/b"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    put("file", 0600, "x");
    assert_int_equal(data_dir_make(path_of("file"), error), MU_EIO);
    assert_int_equal(data_dir_make(path_of("file/below"), error), MU_EIO);
    assert_non_null(strstr(error, path_of("file")));
    assert_int_equal(data_dir_make("", error), MU_EINVAL);
}

#define in_a_folder(test) cmocka_unit_test_setup_teardown(test, make_folder, drop_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_text_form_is_fixed),
        cmocka_unit_test(what_is_no_token_is_not_taken),
        cmocka_unit_test(keys_are_what_they_have_always_been),
        cmocka_unit_test(the_key_of_a_run_is_of_that_job_and_that_run_alone),
        in_a_folder(a_file_is_made_once_and_for_its_owner_only),
        in_a_folder(all_who_make_it_at_once_get_the_same),
        in_a_folder(a_file_that_others_can_use_is_refused),
        in_a_folder(a_file_that_holds_no_token_is_an_error_and_stays),
        in_a_folder(what_is_no_file_is_an_error),
        in_a_folder(it_is_found_by_option_then_environment_then_data_directory),
        in_a_folder(a_source_that_fails_is_not_passed_over),
        in_a_folder(the_data_directory_follows_the_environment),
        in_a_folder(data_directories_are_made_for_their_owner_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
