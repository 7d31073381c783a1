#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

static void list(void)
{
    printf("muster %s: elastic distributed training\n\n"
           "usage: muster COMMAND [ARGUMENTS]\n\n"
           "commands:\n",
           mu_version());
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        printf("  %-12s %s\n", c->name, c->summary);
    }
    printf("\n\"muster help COMMAND\" says more about one of them.\n");
}

int help_main(int argc, char **argv)
{
    const struct cli_command *command;

    if (argc < 2) {
        list();
        return EXIT_SUCCESS;
    }
    command = cli_find(argv[1]);
    if (command == NULL) {
        return cli_unknown(argv[1]);
    }
    printf("usage: muster %s%s%s\n\n%s: %s\n", command->name, *command->usage != '\0' ? " " : "",
           command->usage, command->name, command->summary);
    return EXIT_SUCCESS;
}
