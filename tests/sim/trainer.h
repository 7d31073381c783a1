/* The inside of a simulated worker, shared by trainer.c, collect.c, links.c and vouch.c. */
#ifndef SIM_TRAINER_H
#define SIM_TRAINER_H

#include "sim/sim.h"

/* What goes between workers. */
enum frame_type {
    FRAME_CLAIM, /* "I am in this term": a proof */
    FRAME_MAIL,  /* READY and SETTLE, as wire/ has them */
    FRAME_PART,  /* of a reduce: a subtree, for the owner of a part … */
    FRAME_SUM,   /* … and its sum, for all */
    FRAME_WORD,  /* "here" to all, for what all do together */
    FRAME_CALL,  /* a contribution to a call, for all … */
    FRAME_HOLDS, /* … and "I hold its result" */
    FRAME_STATE
};

struct part_frame {
    uint64_t step;
    uint32_t lo, width, part;
    struct value v;
};

struct state_frame {
    uint64_t step, weights[PARTS_N];
};

/* trainer.c */
void trainer_step(struct world *w, uint32_t worker, struct step_event *e);
void trainer_report(struct world *w, uint32_t worker);
void trainer_drive(struct world *w, uint32_t worker); /* does what is next, until it has to wait */
bool trainer_listens(const struct trainer *t);        /* it is not in its own code */

/* collect.c: what is done with all members; each may end at once */
void collect_begin(struct world *w, uint32_t worker);
void collect_go_on(struct world *w, uint32_t worker); /* something has come, or changed */
bool collect_is_on(const struct trainer *t);

/* links.c */
void links_tick(struct world *w, uint32_t worker); /* dials who is missing */
void links_event(struct world *w, struct sim_event *f);
bool links_are_there(struct world *w, uint32_t worker, const struct generation *g);
/* Who of the group and of the newest generation is not linked. */
uint32_t links_missing(struct world *w, uint32_t worker, wid *missing);
uint32_t links_worker(struct world *w, wid id); /* whose it is; WORKERS_N: nobody's now */
void links_send(struct world *w, uint32_t worker, uint32_t to, enum frame_type type, uint64_t term,
                const void *bytes, uint32_t n);
void links_send_all(struct world *w, uint32_t worker, enum frame_type type, const void *bytes,
                    uint32_t n);
/* The next frame from a peer that is of this worker's term; NULL: none yet. Claims on the way are
 * taken, and what is of an older term is dropped. */
struct sim_frame *links_head(struct world *w, uint32_t worker, uint32_t from);
void links_done(struct world *w, uint32_t worker, uint32_t from);
/* Mail, put aside from wherever it comes at the head; NULL: none. */
struct sim_frame *links_mail(struct world *w, uint32_t worker);
void links_mail_done(struct world *w, uint32_t worker);

/* calls.c: the program of a worker that makes calls, and comm/agree.c */
void calls_ask(struct world *w, uint32_t worker);  /* to move, while it is in mu_regroup() */
void calls_open(struct world *w, uint32_t worker); /* that ends: calls can be made */
void calls_next(struct world *w, uint32_t worker); /* it has done what it does between calls */
void calls_go_on(struct world *w, uint32_t worker);
void calls_move(struct world *w, uint32_t worker); /* the data plane goes to another term */
void calls_settled(struct trainer *t);             /* what is held counts */
void trainer_busy(struct world *w, uint32_t worker, uint64_t for_us); /* in its own code */
/* save.c */
uint64_t save_folder(const struct world *w, uint32_t worker, enum save_place place);
void save_cut(struct world *w, uint32_t worker); /* STEP_SAVE */
void save_effect(struct world *w, uint32_t worker, const struct step_effect *e);
void save_news(struct world *w, uint32_t worker); /* the trainer looks */
void save_event(struct world *w, struct sim_event *f);
/* What is being written of a state after this step is of no use. */
void save_drop(struct world *w, uint32_t worker, uint64_t after);

/* vouch.c */
void vouch_digest(struct world *w, uint32_t worker);
void vouch_check(struct world *w, uint32_t worker, uint32_t slice);
void vouch_ready(struct world *w, uint32_t worker, const struct step_effect *e);
void vouch_settle(struct world *w, uint32_t worker, const struct step_effect *e);
void vouch_stop(struct world *w, uint32_t worker, const struct step_effect *e);

#endif
