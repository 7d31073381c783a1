/* The inside of a step, shared by the step*.c files and by nobody else. */
#ifndef CORE_STEP_STATE_H
#define CORE_STEP_STATE_H

#include "core/step.h"

#define NO_RANK UINT32_MAX

/* step_group.c: which generation it is in */
int group_init(struct group *g, uint32_t members_max);
void group_close(struct group *g);
void group_take(struct group *g, const struct generation *from, wid self);
void group_swap(struct group *a, struct group *b);
uint32_t group_rank(const struct group *g, wid id);
void on_generation(struct step *s, const struct generation *g, struct step_effects *fx);
void on_active(struct step *s, uint64_t generation, struct step_effects *fx);
void on_loaded(struct step *s, const struct step_event *e, struct step_effects *fx);
void move_on(struct step *s, struct step_effects *fx);

/* step_settle.c: what the survivors agree on */
void settle_begin(struct step *s, struct step_effects *fx);
void on_settle(struct step *s, const struct step_event *e);
void settle_try(struct step *s, struct step_effects *fx);

/* step_agree.c: are the members the same? */
void vouch_clear(struct step *s); /* of another state */
void digest_ask(struct step *s, struct step_effects *fx);
bool digest_lacks(const struct step *s); /* one is due, and not there */
void check_ask(struct step *s, struct step_effects *fx);
bool check_lacks(const struct step *s);
void on_digest(struct step *s, const struct step_event *e);
void on_checked(struct step *s, const struct step_event *e);
/* Stops, and is true, if those who said READY for this step differ … */
bool ready_differs(struct step *s, uint64_t step, struct step_effects *fx);
void agree_ready(struct step *s); /* it is committed: its state before may be that of all … */
void agree_settle(struct step *s);
/* … or those who stand at this step after a loss, or one of them has stopped before. */
bool settle_differs(struct step *s, uint64_t newest, struct step_effects *fx);

/* step.c */
void begin_step(struct step *s, struct step_effects *fx); /* by the plan of an undisturbed step */
void run_step(struct step *s, struct step_effects *fx);   /* by the plan that is there */
void commit(struct step *s, struct step_effects *fx);
void say(struct step_effects *fx, enum step_effect_kind kind, uint64_t step);

#endif
