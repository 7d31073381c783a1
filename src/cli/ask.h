/* What all commands share that ask an orchestrator something: where it is, the token, the answer.
 * Functions that return int give an exit status; if it is not EXIT_SUCCESS they have said why on
 * stderr. */
#ifndef CLI_ASK_H
#define CLI_ASK_H

#include "cli/cli.h"
#include "cli/opts.h"
#include "core/message.h"
#include "net/client.h"
#include "wire/ask.h"

#include <jansson.h>

struct ask_where {
    struct endpoints endpoints;
    const char *token_file; /* NULL: as token_find() looks for it */
    uint32_t wait_ms;
};

/* The entries for a table whose struct has a `struct ask_where` of that name. */
#define ASK_OPTIONS(type, where)                                                                \
    {OPT_GROUP, .help = "Orchestrator"},                                                        \
        {OPT_READ,                                                                              \
         .name = "endpoint",                                                                    \
         .aliases = "rdzv-endpoint",                                                            \
         .value = "LIST",                                                                       \
         .help = "where it listens: HOST:PORT, or several with commas, tried in order",         \
         .at = offsetof(type, where.endpoints),                                                 \
         .preset = CLI_ENDPOINT,                                                                \
         .env = "MUSTER_ENDPOINT",                                                              \
         .read = opts_endpoints},                                                               \
        {OPT_STRING,                                                                            \
         .name = "token-file",                                                                  \
         .value = "FILE",                                                                       \
         .help =                                                                                \
             "holds its token; otherwise MUSTER_TOKEN, or the file that `muster serve` of the " \
             "same user made",                                                                  \
         .at = offsetof(type, where.token_file),                                                \
         .env = "MUSTER_TOKEN_FILE"},                                                           \
    {                                                                                           \
        OPT_SECONDS, .name = "timeout", .help = "how long to wait for an answer",               \
                     .at = offsetof(type, where.wait_ms), .min = 1, .preset = "10"              \
    }

/* Questions to one orchestrator, one after the other. */
struct ask {
    const char *command; /* for errors: "status" */
    uint32_t wait_ms;
    struct client *client;
    uint64_t request; /* the last one: what comes late is told from what was asked for */
    uint16_t kind;
    char error[NET_ERROR_MAX]; /* why the orchestrator is not there */
    union wire_any body;       /* of what was said last */
    uint64_t room[512];        /* lists of `body` */
};

/* Connects. On success ask_close() is the caller's duty. */
int ask_open(const char *command, const struct ask_where *where, struct ask *a);
void ask_close(struct ask *a); /* also if it was never opened, but zero */

/* Only that; gives a status, and error (NET_ERROR_MAX) says why not. *client_out: client_close().
 */
int ask_dial(const struct ask_where *where, struct client **client_out, char *error);

/* Connects anew, for those who go on when the orchestrator comes back. Nobody there is no reason to
 * say anything. */
int ask_again(struct ask *a, const struct ask_where *where);

/* Says it and gives what is said next to it, valid until the next call, its body decoded in
 * a->body. Whatever the orchestrator answers is EXIT_SUCCESS here, also that it refuses.
 * EXIT_UNREACHABLE is not told: it may be worth another try. wait_ms 0: for ever. */
int ask_say(struct ask *a, const struct msg_ask *m, const void *body);
int ask_next(struct ask *a, uint32_t wait_ms, const struct msg_says **m_out);

/* Both; what goes wrong, and refusals, are told. */
int ask_call(struct ask *a, const struct msg_ask *m, const void *body,
             const struct msg_says **m_out);

/* Says that the connection was lost, as one does at the end. */
int ask_lost(const struct ask *a);
/* Says why an answer whose status is not MU_OK refuses. */
int ask_refused(const struct ask *a, const struct msg_says *m);

/* The exit status for a connection that failed with this status. */
int ask_exit_of(int status);

/* The status of one job, or of all (""). */
int ask_status(struct ask *a, const char *job, json_t **json_out);

/* Connects, and has it done. */
int ask_admin(const char *command, const struct ask_where *where, const struct msg_ask *m);

/* All of a command that is one word for one job, `muster COMMAND [OPTIONS] JOB`; the spec's table
 * is ask_job_table. `done` is what is printed when it is done, behind "job NAME". */
extern const struct opt ask_job_table[];
int ask_job_main(const struct opts *spec, enum ask_kind kind, const char *done, int argc,
                 char **argv);

/* "muster COMMAND: …" on stderr; gives `status`. */
int ask_failed(const char *command, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Copies a job's or a node's name from the command line, or says what is wrong with it. */
int ask_name(const struct opts *spec, const char *what, const char *text, char name[NAME_MAX_LEN]);

#endif
