/* `muster help`: the commands, one of them, or what their exit statuses mean. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list(void)
{
    printf("muster %s: elastic distributed training\n\n"
           "usage: muster COMMAND [ARGUMENTS]\n\n"
           "commands:\n",
           mu_version());
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        if (!c->hidden) {
            printf("  %-12s %s\n", c->name, c->summary);
        }
    }
    printf("\n\"muster help COMMAND\" says more about one of them, \"muster help exit-codes\" what "
           "they\nexit with.\n");
}

static void exit_codes(void)
{
    printf("What muster's commands exit with:\n\n"
           "  0            done\n"
           "  1            it failed; stderr says why\n"
           "  %d            it was not asked for rightly: an unknown option, a bad value\n"
           "  %d            no orchestrator could be reached\n"
           "  %d            no token, or not the right one\n"
           "  %d            there is no such job, node or setting\n"
           "  %d            the setting was changed by somebody else meanwhile\n\n"
           "`muster run` passes on its script's exit code; 128 + N when signal N killed it.\n",
           EXIT_USAGE, EXIT_UNREACHABLE, EXIT_DENIED, EXIT_NOT_FOUND, EXIT_CONFLICT);
}

static void self(void)
{
    printf("usage: muster help [COMMAND | exit-codes]\n\n"
           "Lists the commands, or explains one of them, or what they exit with.\n");
}

static int command(const char *name)
{
    static char ask[] = "--help";
    const struct cli_command *c = cli_find(name);

    if (c == NULL) {
        return cli_unknown(name);
    }
    return c->main(2, (char *[]){(char *)(uintptr_t)c->name, ask, NULL});
}

int help_main(int argc, char **argv)
{
    if (argc < 2) {
        list();
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "exit-codes") == 0) {
        exit_codes();
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        self();
        return EXIT_SUCCESS;
    }
    return command(argv[1]);
}
