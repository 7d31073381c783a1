/* Settings over a connection, for tests of the orchestrator; and a journal that fails or stands
 * still when it is told to. */
#ifndef UNIT_ORCHESTRATOR_SETTINGS_KIT_H
#define UNIT_ORCHESTRATOR_SETTINGS_KIT_H

#include "lib/asks.h"
#include "unit/orchestrator/orchestrator_kit.h"

/* Shared with the server; all zero at the beginning of a case. */
struct settings_kit {
    volatile int refuse_n; /* appends that fail */
    volatile int hold;     /* nothing is delivered */
    volatile int appends_n;
};
extern struct settings_kit *settings_kit;

/* As kit_setup_running(), with a job "job" of one node, "a", which is not connected. */
int settings_setup(void **state);

/* Ends hold: with a record that makes the journal speak. */
void settings_release(const struct kit *k);

/* The job's node comes and goes. */
void settings_job(const struct kit *k, const char *job);

/* Says it; value may be NULL. */
void settings_say(struct client *cl, uint64_t request, const struct asked *m, const char *value);

/* The next answer, which must be to this request; its value is valid until the next call on cl. */
const struct said *settings_next(struct client *cl, uint64_t request);

/* One change of "job", or of another, in any version; gives the answer's status. */
int settings_put(struct client *cl, const char *job, const char *key, const char *value);
int settings_remove(struct client *cl, const char *job, const char *key);

/* The value is that text. */
void settings_is(struct client *cl, const char *job, const char *key, const char *value);

/* There is no answer yet, nor on the way: everything said before has been handled. */
void settings_quiet(struct client *cl);

/* An end of a list or a watch: that version, nothing follows. */
void settings_end(struct client *cl, uint64_t request, uint64_t version);

/* All up to that version has been said to who watches; more will come. */
void settings_mark(struct client *cl, uint64_t request, uint64_t version);

#endif
