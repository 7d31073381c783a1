/* Settings, for the commands that read and change them. As in ask.h: functions that return int give
 * an exit status, and if it is not EXIT_SUCCESS they have said why. */
#ifndef CLI_CONFIG_ASK_H
#define CLI_CONFIG_ASK_H

#include "cli/ask.h"
#include "core/config.h"

/* Says it and gives the next answer to it, valid until the next call. Whatever the orchestrator
 * answers is EXIT_SUCCESS here, also that it refuses. EXIT_UNREACHABLE is not told: it may be worth
 * another try. */
int config_say(struct ask *a, const struct msg_config *m);
int config_next(struct ask *a, uint32_t wait_ms, const struct msg_setting **m_out);

/* Both, for what has one answer; refusals are said. */
int config_ask(struct ask *a, const struct msg_config *m, const struct msg_setting **m_out);

/* A connection that was lost, as one says so at the end. */
int config_lost(const struct ask *a);

/* The watch of `muster config watch`: goes on until it is interrupted, or fails. */
struct config_watch {
    const struct ask_where *where;
    const char *job;
    const char *key;
    bool json;
};
int config_watch(struct ask *a, const struct config_watch *w);

#endif
