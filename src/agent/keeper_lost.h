/* When the keeper itself was killed, its workers' leaders die with it, but not what they started.
 * The agent hunts those down: by group, by session, by marker, until there is nobody to be seen. */
#ifndef AGENT_KEEPER_LOST_H
#define AGENT_KEEPER_LOST_H

#include "core/message.h"

#include <sys/types.h>
#include <uv.h>

struct keeper_hunt {
    uv_timer_t timer;
    void (*done)(void *data);
    void *data;
    bool on;
    uint32_t looks_n;
    uint32_t found_n; /* at the last look */
    uint32_t clean_n; /* looks in a row that found nobody */
    uint32_t prey_n;
    struct {
        pid_t session; /* 0: not known */
        uint64_t marker;
    } prey[SLOTS_MAX];
};

void keeper_hunt_init(struct keeper_hunt *h, uv_loop_t *loop);
void keeper_hunt_add(struct keeper_hunt *h, pid_t session, uint64_t marker);

/* done is called from the loop, once nobody is left, or nobody who can be killed. */
void keeper_hunt_start(struct keeper_hunt *h, void (*done)(void *data), void *data);
bool keeper_hunt_is_on(const struct keeper_hunt *h);
void keeper_hunt_close(struct keeper_hunt *h, uv_close_cb closed);

#endif
