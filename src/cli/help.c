/* `muster help`: the commands, one of them, or what their exit statuses mean. */
#include "cli/cli.h"
#include "orchestrator/web.h"

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
           "they\nexit with, \"muster help http\" what `muster serve --http` answers.\n");
}

static void exit_codes(void)
{
    printf("What muster's commands exit with:\n\n"
           "  0            done\n"
           "  1            it failed; stderr says why\n"
           "  %d            it was not asked for rightly: an unknown option, a bad value\n"
           "  %d            no orchestrator could be reached\n"
           "  %d            no token, or not the right one\n"
           "  %d            there is no such job, node, setting, checkpoint or file\n"
           "  %d            the setting was changed by somebody else meanwhile\n\n"
           "`muster run` passes on its script's exit code; 128 + N when signal N killed it.\n",
           EXIT_USAGE, EXIT_UNREACHABLE, EXIT_DENIED, EXIT_NOT_FOUND, EXIT_CONFLICT);
}

/* Also as the table in docs/http.md (scripts/http_docs.py). */
static void http_markdown(void)
{
    printf("| request | role | what it gives |\n|---|---|---|\n");
    for (uint32_t i = 0; i < web_routes_n; i++) {
        const struct http_route *r = &web_routes[i];

        printf("| `%s %s` | %s | %s |\n", r->method, r->path, web_role(r->role), r->doc);
    }
}

static void http(void)
{
    printf("What `muster serve --http` answers:\n\n");
    for (uint32_t i = 0; i < web_routes_n; i++) {
        const struct http_route *r = &web_routes[i];

        printf("  %s %s (%s)\n      %s\n", r->method, r->path, web_role(r->role), r->doc);
    }
    printf("\nIn brackets is the role that it needs: `muster token --role viewer` or `--role "
           "operator` prints\na token, which goes into the header \"Authorization: Bearer TOKEN\". "
           "docs/http.md says more.\n");
}

static void self(void)
{
    printf("usage: muster help [COMMAND | exit-codes | http]\n\n"
           "Lists the commands, or explains one of them, or what they exit with, or what `muster\n"
           "serve --http` answers.\n");
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
    if (strcmp(argv[1], "http") == 0) {
        if (argc > 2 && strcmp(argv[2], "--markdown") == 0) {
            http_markdown();
        } else {
            http();
        }
        return EXIT_SUCCESS;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        self();
        return EXIT_SUCCESS;
    }
    return command(argv[1]);
}
