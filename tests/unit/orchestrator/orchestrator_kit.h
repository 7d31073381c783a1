/* A real orchestrator in a process of its own, and clients that speak the protocol to it. Whatever
 * fails, fails the test; nothing waits for more than KIT_WAIT_MS. */
#ifndef UNIT_ORCHESTRATOR_ORCHESTRATOR_KIT_H
#define UNIT_ORCHESTRATOR_ORCHESTRATOR_KIT_H

#include "net/client.h"
#include "orchestrator/orchestrator.h"
#include "wire/ask.h"

#include <jansson.h>
#include <sys/types.h>

#define KIT_WAIT_MS 30000

struct kit {
    char root[64]; /* a temporary directory; `data` and `log` are in it */
    char data[96];
    char log[96];
    struct token token;
    struct cluster_config cluster;
    bool web;            /* serve HTTP too */
    bool fenced;         /* another writes its store from the beginning */
    uint64_t ckpt_quota; /* 0: none */
    uint16_t port, http_port;
    pid_t pid;
};

/* Short times for a test: nobody is lost unless somebody hangs. Nothing is started yet. */
void kit_init(struct kit *k);

/* Starts it, or another one on the same data; returns when it listens. */
void kit_start(struct kit *k);

void kit_kill(struct kit *k);  /* kill -9 */
void kit_stop(struct kit *k);  /* in order; everything must have been freed */
void kit_close(struct kit *k); /* stop if it runs, then remove the directory */

/* One for each case of a group: nothing started yet, or running. */
int kit_setup(void **state);
int kit_setup_running(void **state);
int kit_teardown(void **state);

/* Whether its log has this text by now, or gets it soon. */
bool kit_logged(const struct kit *k, const char *text);

struct client *kit_connect(const struct kit *k);
void kit_say(struct client *cl, enum wire_type type, const void *msg, uint64_t request);

/* The next frame of this type; others are skipped. */
const union wire_any *kit_next(struct client *cl, enum wire_type type);

/* The connection ends, whatever comes before that. */
void kit_closes(struct client *cl);

/* ---- a node ---- */

struct puppet {
    struct client *cl;
    struct msg_hello hello;
    struct report report; /* of its only slot */
    uint64_t seq, renewals;
    /* What it was told last. hello.held and hello.active too. */
    bool has_key;
    uint8_t key[KEY_BYTES];
    uint32_t members_n;
    wid members[8];
    struct msg_ack ack;
    struct msg_refused refused;
    struct msg_ended ended;
};

/* A node of one slot that knows how to be in a job of min to max nodes, in-process. */
void puppet_init(struct puppet *p, const char *job, const char *name, uint32_t min, uint32_t max);
void puppet_connect(struct puppet *p, const struct kit *k);
void puppet_close(struct puppet *p);

/* Says hello and is welcomed; the node's number. */
uint32_t puppet_join(struct puppet *p, const struct kit *k);

/* Reports its worker as it stands in p->report, and is acknowledged. */
void puppet_report(struct puppet *p, enum phase phase, uint64_t entered);
void puppet_renew(struct puppet *p);

/* Reads until a frame of this type has come; everything on the way is noted. */
const union wire_any *puppet_next(struct puppet *p, enum wire_type type);

/* Reads until it holds a generation of at least this number, or knows it to be active. */
void puppet_holds(struct puppet *p, uint64_t generation);
void puppet_active(struct puppet *p, uint64_t generation);

/* The only node of its job, up to an active generation. */
void puppet_alone(struct puppet *p, const struct kit *k, const char *job, const char *name);

/* The nodes "a" and "b" of "job", min to 2 nodes, up to holding the first generation, of both. */
void puppet_pair(struct puppet *a, struct puppet *b, const struct kit *k, uint32_t min);

/* ---- people ---- */

/* An answer, in *m_out; its data is valid until the next call on cl. */
void kit_answer(struct client *cl, uint64_t request, struct msg_says *m_out);
void kit_ask(struct client *cl, const struct msg_ask *m, uint64_t request);
/* The next one; its metrics are valid until the next call. */
struct msg_event kit_event(struct client *cl);

/* Connects, asks, and gives the whole answer. "" for all jobs. To be released. */
json_t *kit_status(const struct kit *k, const char *job);

int kit_admin(const struct kit *k, enum ask_kind verb, const char *job, const char *node,
              char text[TEXT_MAX_LEN]);

#endif
