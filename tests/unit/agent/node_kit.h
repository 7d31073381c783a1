/* Real agents and a real orchestrator for tests: each is a child process of the test, in a
 * directory of its own, with scripts of /bin/sh as workers. */
#ifndef UNIT_AGENT_NODE_KIT_H
#define UNIT_AGENT_NODE_KIT_H

#include "agent/node.h"
#include "unit/unit.h"

#include <sys/types.h>

/* To be called first in main(): the test is its own keeper, and the worker of kit_worker(), which
 * exits with what `worker` returns; NULL: there is none. Does not return if it is one of them. */
void kit_main(int argc, char **argv, int (*worker)(char *what));

struct kit {
    char dir[64]; /* everything is in there, and scripts run in it */
    struct token token;
    uint32_t lease_ms; /* so long that nobody's lapses; may be changed before kit_serve() */
    uint16_t port;
    pid_t orchestrator; /* 0: none runs */
    uint32_t nodes_n;
    pid_t nodes[8]; /* to be cleaned up */
};

int kit_open(void **state); /* cmocka's set-up and tear-down */
int kit_close(void **state);

/* On kit->port, which the first call sets, with the same data as before. */
void kit_serve(struct kit *k);
/* SIGKILL, or a clean close. */
void kit_serve_kill(struct kit *k);
void kit_serve_close(struct kit *k);

/* A node of that name, with a shell script of one slot; to be changed before kit_run(). */
struct node_config kit_config(struct kit *k, const char *name, char **argv);
/* argv for `sh -c script`; static, one at a time for each i. */
char **kit_script(int i, const char *script);
/* argv for this program as a worker, which is told what to do; static, one at a time. */
char **kit_worker(const char *what);

/* Runs it in a child, its stderr in DIR/<name>.err, its stdout in DIR/<name>.out. */
pid_t kit_run(struct kit *k, const struct node_config *config);

/* The exit code of a child; 128 + signal. Fails the test when it takes longer than a minute. */
int kit_wait(struct kit *k, pid_t pid);

/* What is in DIR/name; "" if it is not there. Static. */
const char *kit_read(struct kit *k, const char *name);
/* Lines in it. */
uint32_t kit_lines(struct kit *k, const char *name);
/* Waits until there are at least so many. */
void kit_await_lines(struct kit *k, const char *name, uint32_t n);
/* Waits until DIR/name has this in it. */
void kit_await_text(struct kit *k, const char *name, const char *text);
/* Waits until no process of that number lives. */
void kit_await_gone(pid_t pid);
/* Makes an empty file, for scripts that wait for it. */
void kit_touch(struct kit *k, const char *name);

/* For workers: appends to the file of that name, and waits until there is one. */
void worker_say(const char *name, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void worker_until(const char *name);

#endif
