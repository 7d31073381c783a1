/* The commands of `muster`, one file each, in the table of main.c. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/base.h"

/* Exit statuses of all commands but `run`, which passes on its script's: 0 done, 1 it failed, and:
 */
#define EXIT_USAGE 2       /* it was not asked for rightly */
#define EXIT_UNREACHABLE 3 /* no orchestrator answers there */
#define EXIT_DENIED 4      /* no token, or not the right one */
#define EXIT_NOT_FOUND 5   /* there is no such job, node, setting, checkpoint or file */
#define EXIT_CONFLICT 6    /* the setting was changed by somebody else meanwhile */

/* Where an orchestrator listens unless it is told otherwise. */
#define CLI_PORT 5556
#define CLI_ENDPOINT "127.0.0.1:5556"

struct cli_command {
    const char *name;
    const char *summary;                /* one line for the list */
    int (*main)(int argc, char **argv); /* argv[0] is the command's name; gives the exit status */
    bool hidden;                        /* not for people */
};

/* Ends with an entry whose name is NULL. */
extern const struct cli_command cli_commands[];

/* NULL when there is none of that name. */
const struct cli_command *cli_find(const char *name);

/* Says on stderr that there is no such command, and which one may have been meant. */
int cli_unknown(const char *name);

int bench_main(int argc, char **argv);
int ckpt_main(int argc, char **argv);
int config_main(int argc, char **argv);
int data_main(int argc, char **argv);
int drain_main(int argc, char **argv);
int events_main(int argc, char **argv);
int help_main(int argc, char **argv);
int resize_main(int argc, char **argv);
int run_main(int argc, char **argv);
int serve_main(int argc, char **argv);
int shutdown_main(int argc, char **argv);
int status_main(int argc, char **argv);
int takeover_main(int argc, char **argv);
int token_main(int argc, char **argv);
int version_main(int argc, char **argv);

#endif
