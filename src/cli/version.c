#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

int version_main(int argc, char **argv)
{
    printf("muster %s\n", mu_version());
    return EXIT_SUCCESS;
}
