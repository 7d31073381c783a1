/* What `muster serve` was asked for. */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/opts.h"
#include "net/token.h"
#include "orchestrator/orchestrator.h"

struct serve_options {
    struct orchestrator_config config; /* complete */
    struct endpoint http;
    bool http_given;
    const char *data_arg;
    const char *token_arg;
    char data[PATH_MAX_LEN];
    char token_path[PATH_MAX_LEN];
};

/* Parses, makes the data directory, and reads the token, or makes it on the first start. False: it
 * has said why; the command ends with *status_out. */
bool serve_options(int argc, char **argv, struct serve_options *o, int *status_out);

#endif
