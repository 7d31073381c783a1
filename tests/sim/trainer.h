/* The inside of a simulated worker, shared by trainer.c, reduce.c and peers.c. */
#ifndef SIM_TRAINER_H
#define SIM_TRAINER_H

#include "sim/sim.h"

/* trainer.c */
void trainer_step(struct world *w, uint32_t worker, struct step_event *e);
void trainer_report(struct world *w, uint32_t worker);
void trainer_send(struct world *w, uint32_t worker, wid to, const struct group *g,
                  enum wire_type type, const void *msg);
void trainer_send_all(struct world *w, uint32_t worker, const struct group *g, enum wire_type type,
                      const void *msg);

/* reduce.c */
void reduce_begin(struct world *w, uint32_t worker, uint64_t step);
void reduce_go_on(struct world *w, uint32_t worker); /* with what is here */
void reduce_part(struct world *w, uint32_t worker, uint64_t generation, const struct msg_part *m);
void reduce_sum(struct world *w, uint32_t worker, uint64_t generation, const struct msg_sum *m);
void reduce_resend(struct world *w, uint32_t worker);

/* vouch.c */
void vouch_ask(struct world *w, uint32_t worker, const struct step_effect *e);
void vouch_event(struct world *w, uint32_t worker, const struct sim_event *f);
void vouch_ready(struct world *w, uint32_t worker, const struct step_effect *e);
void vouch_settle(struct world *w, uint32_t worker, const struct step_effect *e);
void vouch_stop(struct world *w, uint32_t worker, const struct step_effect *e);

/* peers.c */
void peers_link(struct world *w, uint32_t worker);
void peers_answer(struct world *w, uint32_t worker, const struct msg_probe *m);
void peers_tick(struct world *w, uint32_t worker);

#endif
