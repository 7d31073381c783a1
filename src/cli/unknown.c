#include "cli/cli.h"
#include "cli/suggest.h"

#include <stdio.h>

int cli_unknown(const char *name)
{
    struct suggestion s;

    suggest_begin(&s, name);
    for (const struct cli_command *c = cli_commands; c->name != NULL; c++) {
        if (!c->hidden) {
            suggest_offer(&s, c->name);
        }
    }
    if (s.best != NULL) {
        fprintf(stderr, "muster: there is no command \"%s\". Did you mean \"muster %s\"?\n", name,
                s.best);
    } else {
        fprintf(stderr, "muster: there is no command \"%s\". \"muster help\" lists them all.\n",
                name);
    }
    return EXIT_USAGE;
}
