/* The agent of a node: the driver around core/agent. One libuv loop; the keeper starts and ends
 * processes, net/conn talks to the orchestrator, local.h to workers that know muster. */
#ifndef AGENT_NODE_H
#define AGENT_NODE_H

#include "agent/environ.h"
#include "core/message.h"
#include "net/net.h"
#include "net/token.h"

enum stream_to { STREAM_CONSOLE = 0, STREAM_FILE = 1, STREAM_BOTH = 2 };

/* Of a worker that hangs, once the others have gone on without it. */
enum hung { HUNG_REPLACE, HUNG_KEEP };

/* Of a worker whose numeric kind is not that of the others: it is refused, or only told so. */
enum numerics { NUMERICS_STRICT, NUMERICS_WARN };

/* What `muster run` was asked for. Strings are borrowed until node_run() returns. */
struct node_config {
    struct endpoints endpoints;
    struct token token;
    bool standalone;  /* an orchestrator of its own, inside */
    char **argv;      /* the worker's program and arguments, as to exec; NULL-terminated */
    const char *job;  /* "default" */
    const char *name; /* of the node; NULL: host name, with a number if taken */
    uint32_t min, max;
    uint32_t slots;        /* workers on this node */
    uint8_t role;          /* enum role */
    const char *role_name; /* ROLE_NAME, as given */
    uint8_t mode;          /* enum mode */
    uint32_t max_restarts;
    uint32_t monitor_ms; /* renewals at least this often */
    uint32_t grace_ms;
    uint32_t exit_timeout_ms;
    uint32_t silent_ms;       /* auto: a script may be restarted after so long without a word */
    uint32_t step_timeout_ms; /* a worker that does nothing for so long hangs; 0: none does */
    uint8_t hung;             /* enum hung: what becomes of it */
    uint8_t numerics;         /* enum numerics */
    struct environ_ckpt ckpt;
    bool heal;  /* when states differ, go back to what all workers had */
    bool rerun; /* begin another run of a job that is done, though this node has not seen its end */
    const char
        *address; /* of this node for other workers, "host" or "host:port"; NULL: found out */
    const char *log_dir;             /* NULL: none */
    uint8_t redirects[SLOTS_MAX][2]; /* by slot; [0] stdout, [1] stderr: to a file only */
    uint8_t tee[SLOTS_MAX][2];       /* the same: to the console and to a file */
    bool prefix;                     /* lines on the console begin with "[rank]" */
    const char *master_addr;         /* NULL: rank 0's */
    uint16_t master_port;            /* 0: one that is free for the generation */
};

/* Runs to the end. *code_out: what `muster run` exits with. An error, with its text in `error`
 * (NET_ERROR_MAX), means that nothing was started. */
int node_run(const struct node_config *config, int *code_out, char *error);

#endif
