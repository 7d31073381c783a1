/* `muster token`: the secret of this user's orchestrator, for those who run nodes elsewhere. */
#include "net/token.h"
#include "cli/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROLE_ALL, ROLE_OF_VIEWER, ROLE_OF_OPERATOR };

struct token_options {
    const char *data;
    uint8_t role;
};

static const struct opt table[] = {
    {OPT_STRING, .name = "data", .value = "DIR",
     .help = "the data directory of `muster serve` (default: $XDG_STATE_HOME/muster or "
             "~/.local/state/muster)",
     .at = offsetof(struct token_options, data)},
    {OPT_CHOICE, .name = "role", .value = "ROLE",
     .help = "print the bearer token for HTTP: a viewer may read, an operator may also change "
             "settings; agent is the secret itself",
     .at = offsetof(struct token_options, role), .choices = "agent|viewer|operator", .shown = true},
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
                "  ssh node7 muster run --token-file muster.token …\n"
                "  curl -H \"Authorization: Bearer $(muster token --role viewer)\" "
                "localhost:5580/v1/jobs\n",
    .table = table,
};

/* What is made from the secret for HTTP can't be turned back into it. */
static void print_bearer(const struct token *token, enum token_key use)
{
    uint8_t bytes[32];

    token_derive(token, use, bytes);
    for (size_t i = 0; i < sizeof(bytes); i++) {
        printf("%02x", bytes[i]);
    }
    putchar('\n');
}

static int print_token(const char *dir, uint8_t role, char *error)
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
    if (rc == MU_OK && role == ROLE_ALL) {
        token_print(&token, text);
        puts(text);
    } else if (rc == MU_OK) {
        print_bearer(&token, role == ROLE_OF_VIEWER ? TOKEN_KEY_VIEWER : TOKEN_KEY_OPERATOR);
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
        rc = print_token(o.data != NULL ? o.data : dir, o.role, error);
    }
    return rc == MU_OK ? EXIT_SUCCESS : ask_failed(spec.command, EXIT_FAILURE, "%s", error);
}
