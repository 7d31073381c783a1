/* What `muster serve` was asked for. */
#ifndef CLI_SERVE_H
#define CLI_SERVE_H

#include "cli/opts.h"
#include "net/token.h"
#include "orchestrator/orchestrator.h"

#define SERVE_HOSTS_MAX 16

/* Names of this machine, for HTTP. */
struct serve_hosts {
    uint32_t n;
    char text[SERVE_HOSTS_MAX][HOST_MAX_LEN];
    const char *at[SERVE_HOSTS_MAX];
};

struct serve_options {
    struct orchestrator_config config; /* complete */
    struct serve_hosts hosts;
    const char *data_arg;
    const char *token_arg;
    char data[PATH_MAX_LEN];
    char token_path[PATH_MAX_LEN];
};

/* Parses, makes the data directory, and reads the token, or makes it on the first start. False: it
 * has said why; the command ends with *status_out. */
bool serve_options(int argc, char **argv, struct serve_options *o, int *status_out);

#endif
