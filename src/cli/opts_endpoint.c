#include "cli/opts.h"

#include "cli/cli.h"
#include "net/net.h"

_Static_assert(OPTS_ERROR_MAX >= NET_ERROR_MAX, "an endpoint's error fits");

int opts_endpoint(const char *text, void *to, char *error)
{
    return endpoint_parse(text, CLI_PORT, to, error);
}

int opts_endpoints(const char *text, void *to, char *error)
{
    return endpoints_parse(text, CLI_PORT, to, error);
}
