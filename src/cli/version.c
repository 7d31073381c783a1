#include "cli/cli.h"
#include "cli/opts.h"

#include <stdio.h>
#include <stdlib.h>

static const struct opt table[] = {{.type = OPT_END}};

static const struct opts spec = {
    .command = "version",
    .usage = "",
    .about = "Prints the version.",
    .table = table,
};

int version_main(int argc, char **argv)
{
    struct opts_words words;
    int status;

    if (!opts_parse(&spec, argc, argv, NULL, &words, &status)) {
        return status;
    }
    printf("muster %s\n", mu_version());
    return EXIT_SUCCESS;
}
