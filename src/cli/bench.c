/* `muster bench` is a program of its own, which is installed beside this one: nobody who trains
 * needs it. Its sources are in bench/allreduce. */
#include "cli/cli.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "muster-bench"

int bench_main(int argc, char **argv)
{
    char path[PATH_MAX + sizeof(PROGRAM)];
    const ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    char *name;

    path[MAX(n, 0)] = '\0';
    name = strrchr(path, '/');
    strcpy(name != NULL ? name + 1 : path, PROGRAM);
    execv(path, argv);
    fprintf(stderr,
            "muster: can't run %s: %s. `muster bench` is a program of its own, which is to be "
            "installed beside muster\n",
            path, strerror(errno));
    return EXIT_FAILURE;
}
