/* `muster config watch`, and settings as they come in answers. */
#ifndef CLI_CONFIG_WATCH_H
#define CLI_CONFIG_WATCH_H

#include "cli/ask.h"
#include "core/config.h"

/* What was said last, as a setting; its value is a's. */
struct rec_config setting_of(const struct ask *a, const struct msg_says *m);

/* Goes on until it is interrupted, or fails. */
struct config_watch {
    const struct ask_where *where;
    const char *job;
    const char *key;
    bool json;
};
int config_watch(struct ask *a, const struct config_watch *w);

#endif
