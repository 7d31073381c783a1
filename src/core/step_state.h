/* The inside of a step, shared by the step*.c files and by nobody else. */
#ifndef CORE_STEP_STATE_H
#define CORE_STEP_STATE_H

#include "core/mutation.h"
#include "core/step.h"

/* step_group.c: which generation it is in */
void on_generation(struct step *s, const struct step_event *e, struct step_effects *fx);
void on_active(struct step *s, const struct step_event *e, struct step_effects *fx);
void on_base(struct step *s, const struct step_event *e, struct step_effects *fx);
void on_streamed(struct step *s, const struct step_event *e, struct step_effects *fx);
void move_on(struct step *s, struct step_effects *fx);
void load(struct step *s, uint64_t step, struct step_effects *fx);

/* step_round.c: links that break, and who can't be reached */
bool in_rounds(const struct step *s); /* it is in a group whose other members may need its word */
void on_links(struct step *s, const struct step_event *e);
void on_moved(struct step *s, const struct step_event *e, struct step_effects *fx);
void on_claim(struct step *s, const struct step_event *e, struct step_effects *fx);
void on_broken(struct step *s, const struct step_event *e);
void leave_calls(struct step *s);     /* calls: it is left out, and has gone */
void rounds_over(struct step *s);     /* all were together: whatever broke before is mended */
bool is_linked(const struct step *s); /* to every newcomer of `next` */
void silence_try(struct step *s);
void apart_try(struct step *s, struct step_effects *fx);
void apart_keep(struct step *s); /* it goes out, and still names those it can't reach */
uint64_t apart_due_ms(const struct step *s);

/* step_settle.c: what the members agree on after a loss or a break */
void say_settle(struct step *s, struct step_effects *fx); /* how it stands, once in a term */
void on_settle(struct step *s, const struct step_event *e);
void settle_try(struct step *s, struct step_effects *fx);

/* step_save.c: states that are saved */
int saves_open(struct step *s); /* MU_ENOMEM */
void saves_close(struct step *s);
void saves_forget(struct step *s); /* what was saved is of a state that counts no more */
void saves_commit(struct step *s); /* there will be another state */
void saves_load(struct step *s);   /* it was given a state */
void on_cut(struct step *s, const struct step_event *e);
void on_saved(struct step *s, const struct step_event *e);
void on_words(struct step *s, uint32_t rank, const struct attempt *saved, uint32_t saved_n);
void save_try(struct step *s, struct step_effects *fx);
bool save_next(const struct step *s, struct step_todo *todo); /* STEP_SAVE is */
bool save_lacks(const struct step *s, enum save_place place); /* the state is yet to be saved */
bool is_unsaved(const struct step *s); /* all have said how they stand: nobody could save it */
bool is_kept(const struct step *s);    /* this host has the state in memory, as far as is known */
bool save_waits_for(const struct step *s, uint32_t rank); /* its word, before the next reduce */
bool is_busy(const struct saving *v); /* its thread has not told yet how it went */
/* This worker is the first of those who write what is saved now: it ends that, or gives it up. */
bool ends_attempt(const struct step *s, const struct saving *v);

/* step_folder.c: who saves where */
uint64_t own_folder(const struct step *s, int place);         /* as it says */
void saves_enter(struct step *s, const struct membership *m); /* m will be its group */
/* Newcomers of a generation have no part in what the others came with. */
bool writes(const struct step *s, enum save_place place, uint32_t rank);
/* The one who saves alone what is here; newcomers by now have it, too. */
uint32_t first_near(const struct step *s, enum save_place place);
bool is_first(const struct step *s, enum save_place place);
/* Of those before this one it is known, or will be said in a moment, where they save: what one does
 * alone waits for that. */
bool knows_folders(const struct step *s, enum save_place place);

/* step_words.c: what it says of what it saves */
void put_words(struct step *s, struct attempt *saved, uint32_t *saved_n);
void words_try(struct step *s, struct step_effects *fx);
uint64_t words_due_ms(const struct step *s);

/* step_agree.c: are the members the same? */
void vouch_clear(struct step *s);        /* of another state */
bool digest_lacks(const struct step *s); /* one is due, and not there */
bool check_lacks(const struct step *s);
void on_digest(struct step *s, const struct step_event *e);
void on_checked(struct step *s, const struct step_event *e);
/* Stops, and is true, if those who said READY for this step differ. */
bool ready_differs(struct step *s, uint64_t step, struct step_effects *fx);
void agree_ready(struct step *s); /* committed by READYs: the state before may be that of all */
void agree_settle(struct step *s);
/* The same for those who stand at this step after a loss, or one of whom has stopped before. */
bool settle_differs(struct step *s, uint64_t newest, struct step_effects *fx);
void stop_told(struct step *s, struct step_effects *fx); /* nobody is named */

/* step.c */
void begin_step(struct step *s, struct step_effects *fx); /* by the plan of an undisturbed step */
void run_step(struct step *s, struct step_effects *fx);   /* by the plan that is there */
bool may_commit(struct step *s); /* asked when all members hold the same result */
void commit(struct step *s, bool settled, struct step_effects *fx);
void drop_gradients(struct step *s, struct step_effects *fx);
void say(struct step_effects *fx, enum step_effect_kind kind, uint64_t step);
/* Who has said READY or SETTLE: the rank of another member; NO_RANK: it is not to be looked at. */
uint32_t rank_of_frame(const struct step *s, const struct step_event *e, wid from);
bool is_done(const struct step *s); /* all steps are */

static inline uint32_t group_n(const struct step *s)
{
    return s->group != NULL ? s->group->g.members_n : 0;
}

static inline bool is_caught_up(const struct membership *m, uint32_t rank)
{
    return (m->members[rank].flags & MEMBER_CAUGHT_UP) != 0;
}

#endif
