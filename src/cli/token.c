/* `muster token`: the secret of this user's orchestrator, for those who run nodes elsewhere. */
#include "net/token.h"
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct token_options {
    const char *data;
};

static const struct opt table[] = {
    {OPT_STRING, .name = "data", .value = "DIR",
     .help = "the data directory of `muster serve` (default: $XDG_STATE_HOME/muster or "
             "~/.local/state/muster)",
     .at = offsetof(struct token_options, data)},
    {.type = OPT_END},
};

static const struct opts spec = {
    .command = "token",
    .usage = "[OPTIONS]",
    .about = "Prints the secret of the orchestrator whose data directory this is; one is made if "
             "there is none yet. Who knows it may do everything, so pass it on by a way that "
             "others can't read.",
    .examples = "  export MUSTER_TOKEN=$(muster token)\n"
                "  muster token | ssh node7 'umask 077; cat > muster.token'\n"
                "  ssh node7 muster run --token-file muster.token …\n",
    .table = table,
};

static int print_token(const char *dir, char *error)
{
    char path[PATH_MAX_LEN], text[TOKEN_TEXT_MAX];
    struct token token;
    int rc;

    if ((size_t)snprintf(path, sizeof(path), "%s/token", dir) >= sizeof(path)) {
        snprintf(error, NET_ERROR_MAX, "%.100s…: the path is too long", dir);
        return MU_ELIMIT;
    }
    rc = token_file(path, false, &token, error);
    if (rc == MU_ENOENT) {
        rc = data_dir_make(dir, error);
        rc = rc == MU_OK ? token_file(path, true, &token, error) : rc;
        if (rc == MU_OK) {
            fprintf(stderr, "muster token: there was none yet; made one in %s\n", path);
        }
    }
    if (rc == MU_OK) {
        token_print(&token, text);
        puts(text);
    }
    return rc;
}

int token_main(int argc, char **argv)
{
    struct token_options o = {0};
    struct opts_words words;
    char dir[PATH_MAX_LEN], error[NET_ERROR_MAX] = "";
    int status, rc = MU_OK;

    if (!opts_parse(&spec, argc, argv, &o, &words, &status)) {
        return status;
    }
    if (o.data == NULL) {
        rc = data_dir_default(dir, error);
    }
    if (rc == MU_OK) {
        rc = print_token(o.data != NULL ? o.data : dir, error);
    }
    return rc == MU_OK ? EXIT_SUCCESS : ask_failed(spec.command, EXIT_FAILURE, "%s", error);
}
