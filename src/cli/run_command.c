/* The command line of a worker. What can't be started is found out here, before anything is. */
#include "cli/run_flags.h"

#include "net/token.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PREFIX_MAX 4

static bool is_file(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_program(const char *path)
{
    return is_file(path) && access(path, X_OK) == 0;
}

static bool in_path(const char *name)
{
    const char *at = getenv("PATH");

    if (at == NULL || *at == '\0') {
        at = "/bin:/usr/bin";
    }
    for (;;) {
        size_t n = strcspn(at, ":");
        char path[PATH_MAX_LEN];

        if (n == 0) {
            snprintf(path, sizeof(path), "%s", name);
        } else {
            snprintf(path, sizeof(path), "%.*s/%s", (int)n, at, name);
        }
        if (is_program(path)) {
            return true;
        }
        if (at[n] == '\0') {
            return false;
        }
        at += n + 1;
    }
}

static bool ends_in_py(const char *name)
{
    size_t n = strlen(name);

    return n > 3 && strcmp(name + n - 3, ".py") == 0;
}

static int no_script(const char *script, char *error)
{
    snprintf(error, OPTS_ERROR_MAX,
             "there is no script '%.200s' (flags of muster run come before the script, those of "
             "the script after it)",
             script);
    return MU_ENOENT;
}

static int find_python(char **python_out, char *error)
{
    char *exec = getenv("PYTHON_EXEC");
    static char python3[] = "python3";

    if (exec == NULL || *exec == '\0') {
        exec = python3;
    }
    if (strchr(exec, '/') != NULL ? !is_program(exec) : !in_path(exec)) {
        snprintf(error, OPTS_ERROR_MAX,
                 "there is no Python interpreter '%.200s'; set PYTHON_EXEC to one", exec);
        return MU_ENOENT;
    }
    *python_out = exec;
    return MU_OK;
}

/* A program that is neither in PATH nor a path, but in this directory, needs its "./". */
static int check_program(const char *script, bool *here_out, char *error)
{
    *here_out = false;
    if (strchr(script, '/') == NULL) {
        if (in_path(script)) {
            return MU_OK;
        }
        *here_out = true;
    }
    if (is_program(script)) {
        return MU_OK;
    }
    if (!is_file(script)) {
        return no_script(script, error);
    }
    snprintf(error, OPTS_ERROR_MAX,
             "'%.200s' can't be executed: chmod +x it, or name it .py if it is Python", script);
    return MU_EINVAL;
}

/* Words that come before the script's own; the last is the script. */
static int front(const struct run_flags *f, char *prefix[PREFIX_MAX + 1], uint32_t *n_out,
                 bool *here_out, char *error)
{
    static char unbuffered[] = "-u", module[] = "-m", command[] = "-c";
    static char by_path[] = "import runpy, sys\n"
                            "sys.argv = sys.argv[1:]\n"
                            "runpy.run_path(sys.argv[0], run_name='__main__')\n";
    const char *script = f->words[0];
    bool file = !f->module && (f->run_path || (ends_in_py(script) && !f->no_python));
    uint32_t n = 0;
    int rc;

    *here_out = false;
    if (!f->module && !file) {
        rc = check_program(script, here_out, error);
        *n_out = 0;
        return rc;
    }
    if (file && access(script, R_OK) != 0) {
        return no_script(script, error);
    }
    rc = find_python(&prefix[n], error);
    if (rc != MU_OK) {
        return rc;
    }
    n++;
    prefix[n++] = unbuffered;
    if (f->module) {
        prefix[n++] = module;
    } else if (f->run_path) {
        prefix[n++] = command;
        prefix[n++] = by_path;
    }
    *n_out = n;
    return MU_OK;
}

int run_command(const struct run_flags *f, char ***argv_out, char *error)
{
    char *prefix[PREFIX_MAX + 1];
    uint32_t prefix_n;
    size_t path_n = strlen(f->words[0]) + 3;
    bool here;
    char **argv;
    int rc = front(f, prefix, &prefix_n, &here, error);

    if (rc != MU_OK) {
        return rc;
    }
    /* One block: the pointers, and room behind them for "./script". */
    argv = malloc((prefix_n + f->words_n + 1) * sizeof(*argv) + path_n);
    if (argv == NULL) {
        snprintf(error, OPTS_ERROR_MAX, "out of memory");
        return MU_ENOMEM;
    }
    memcpy(argv, prefix, prefix_n * sizeof(*argv));
    memcpy(argv + prefix_n, f->words, f->words_n * sizeof(*argv));
    argv[prefix_n + f->words_n] = NULL;
    if (here) {
        char *path = (char *)(argv + prefix_n + f->words_n + 1);

        snprintf(path, path_n, "./%s", f->words[0]);
        argv[0] = path;
    }
    *argv_out = argv;
    return MU_OK;
}
