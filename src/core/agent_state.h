/* Inside of core/agent: what its files share. */
#ifndef CORE_AGENT_STATE_H
#define CORE_AGENT_STATE_H

#include "core/agent.h"

/* ---- agent.c: to the orchestrator ---- */

void agent_changed(struct agent *a, uint32_t slot, struct agent_effects *fx);
void agent_renew(struct agent *a, struct agent_effects *fx);

/* ---- agent_life.c: the lives of workers ---- */

wid slot_wid(const struct agent *a, uint32_t slot);

/* No process runs for it. */
bool slot_idle(const struct slot *s);

/* Scripts that are stopped and started for each generation, as far as is known yet. */
bool slot_by_generation(const struct agent *a, const struct slot *s);

/* Is its process to be told of the generation that we hold? */
bool slot_hears(const struct agent *a, uint32_t slot);

/* Everything the worker of a slot should know, to one that has just come. */
struct msg_lease agent_lease(const struct agent *a); /* as workers are told of it */
void slot_tell(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* The first life of a slot, or the next. */
void slot_begin(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* It goes on as a newcomer: what it held does not count any more. */
void slot_renew_life(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* A generation that was made before this worker said where it is may name another place, and nobody
 * would find it there: then it goes on as a newcomer. */
void slot_place(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* A newer generation is held. */
void slot_follow(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* Asks for another port, should this one be given out and come to nothing. */
void slot_offer(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* For good: it is not started again. */
void slot_stop(struct agent *a, uint32_t slot, struct agent_effects *fx);

/* The same for one whose node leaves: it is told, and may end by itself. `held`: it was in a
 * generation until now. */
void slot_leave(struct agent *a, uint32_t slot, bool held, struct agent_effects *fx);

void slot_exited(struct agent *a, uint32_t slot, uint32_t code, struct agent_effects *fx);

/* The job's mode is known, or known better. */
void slots_mode(struct agent *a, uint8_t mode, struct agent_effects *fx);

/* Auto: the scripts that run have had their time, and none has said that it is one of ours. */
bool slots_silent(const struct agent *a);

/* What is due by time; and when something will be. */
void slots_tick(struct agent *a, struct agent_effects *fx);
uint64_t slots_deadline(const struct agent *a);

/* How it stands, for a report. */
struct report slot_report(const struct agent *a, uint32_t slot);

#endif
