/* Options of an example: one table parses them, checks them, and makes its --help. */
#ifndef EXAMPLES_COMMON_ARGS_H
#define EXAMPLES_COMMON_ARGS_H

#include <stddef.h>

/* A COUNT is a whole number, which may end with K, M or G (1024 of them, and so on). */
enum arg_kind { ARG_COUNT, ARG_REAL, ARG_TEXT };

struct arg {
    const char *name; /* without "--" */
    enum arg_kind kind;
    void *to;        /* uint64_t, double, const char *: has the default, if any */
    double min, max; /* of numbers */
    const char *help;
};

/* Sets what argv gives: "--name VALUE" or "--name=VALUE". It ends the process after --help (0), and
 * when something is wrong (2), having said what. Texts point into argv. */
void args_parse(const char *program, const char *about, const struct arg *args, size_t args_n,
                int argc, char **argv);

#endif
