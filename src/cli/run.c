/* `muster run`: this machine as a node of a job. */
#include "base/log.h"
#include "cli/cli.h"
#include "cli/run_flags.h"

#include <stdio.h>
#include <stdlib.h>

#define AREA "run"

static void note(void *data, const char *text)
{
    log_info(AREA, "%s", text);
}

static int failed(const char *error)
{
    fprintf(stderr, "muster run: %s\n", error);
    return EXIT_FAILURE;
}

int run_main(int argc, char **argv)
{
    struct run_flags flags;
    char error[MAX(OPTS_ERROR_MAX, NET_ERROR_MAX)] = "";
    char **command;
    int status, code;

    if (!run_flags_parse(argc, argv, &flags, &status)) {
        return status;
    }
    if (run_command(&flags, &command, error) != MU_OK) {
        return opts_usage_error(&run_opts, "%s", error);
    }
    flags.node.argv = command;
    if (run_ckpt_prepare(&flags, error) != MU_OK) {
        free(command);
        return failed(error);
    }
    if (!flags.node.standalone && token_find(flags.token_file, &flags.node.token, error) != MU_OK) {
        free(command);
        return failed(error);
    }
    run_flags_notes(&flags, note, NULL);
    status = node_run(&flags.node, &code, error);
    free(command);
    return status == MU_OK ? code : failed(error);
}
