#include "cli/cli.h"

#include "agent/will.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cli_command cli_commands[] = {
    {"serve", "run an orchestrator", serve_main, false},
    {"run", "run a script as a node of a job", run_main, false},
    {"status", "show jobs and their members", status_main, false},
    {"events", "show what has happened and what happens", events_main, false},
    {"config", "read, change and watch a job's settings", config_main, false},
    {"ckpt", "list, verify, remove and export checkpoints", ckpt_main, false},
    {"data", "list, print, verify and pack files of records", data_main, false},
    {"resize", "say how many nodes a job is to have", resize_main, false},
    {"drain", "let a node leave its job", drain_main, false},
    {"takeover", "start a job over that has lost all its members", takeover_main, false},
    {"shutdown", "end a job", shutdown_main, false},
    {"bench", "measure all-reduces on this machine", bench_main, false},
    {"token", "print the secret of an orchestrator", token_main, false},
    {"help", "explain muster or one of its commands", help_main, false},
    {"version", "print the version", version_main, false},
    {"keeper", "what an agent starts its workers with", will_keeper_main, true},
    {NULL, NULL, NULL, true},
};

const struct cli_command *cli_find(const char *name)
{
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        name = "help";
    } else if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) {
        name = "version";
    }
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        if (strcmp(c->name, name) == 0) {
            return c;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    const struct cli_command *command;
    int status;

    log_init();
    if (argc < 2) {
        char *help[] = {argv[0], NULL};

        help_main(1, help);
        return EXIT_USAGE;
    }
    command = cli_find(argv[1]);
    if (command == NULL) {
        return cli_unknown(argv[1]);
    }
    status = command->main(argc - 1, argv + 1);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "muster: could not write the output\n");
        return EXIT_FAILURE;
    }
    return status;
}
