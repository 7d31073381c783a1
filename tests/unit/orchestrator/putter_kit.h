/* One who puts checkpoints to an orchestrator and reads them, frame by frame. The state is that of
 * a ckpt_kit. Whatever fails, fails the test. */
#ifndef UNIT_ORCHESTRATOR_PUTTER_KIT_H
#define UNIT_ORCHESTRATOR_PUTTER_KIT_H

#include "unit/ckpt/ckpt_kit.h"
#include "unit/orchestrator/orchestrator_kit.h"

struct putter {
    struct client *cl;
    const struct ckpt_kit *state;
    char job[NAME_MAX_LEN];
    uint64_t step;
    uint64_t request; /* the last that was said */
};

void putter_open(struct putter *p, const struct kit *k, const struct ckpt_kit *state,
                 const char *job, uint64_t step);
void putter_close(struct putter *p); /* as if its process had died */

/* A message of this op, for its job and step. */
struct msg_depot putter_msg(const struct putter *p, enum depot_op op);
/* Gives its number. */
uint64_t putter_say(struct putter *p, const struct msg_depot *m);
/* The next answer, which must be to this one; its data is valid until the next. */
struct msg_depot_says putter_hear(struct putter *p, uint64_t request);
struct msg_depot_says putter_ask(struct putter *p, const struct msg_depot *m);

/* How many chunks are there; they must be the state's. */
uint32_t putter_begin(struct putter *p);
/* All pieces of a chunk of the state; gives the number of the question. */
uint64_t putter_say_chunk(struct putter *p, uint32_t chunk);
/* Chunks [first, end), each answered with MU_OK. */
void putter_put(struct putter *p, uint32_t first, uint32_t end);
/* Its status. */
int putter_commit(struct putter *p, uint32_t keep);
/* All of it: begin, what is missing, commit. */
void putter_whole(struct putter *p, uint32_t keep);

/* A file of the checkpoint, read in pieces: free(). NULL: there is none. */
uint8_t *putter_read(struct putter *p, uint32_t item, size_t *n_out);
/* The steps that there are, the newest first, as "30 20 10"; in a static buffer. */
const char *putter_list(struct putter *p);

/* In the orchestrator's folder there is this checkpoint, and it is the state. */
void putter_kit_has(const struct kit *k, const struct ckpt_kit *state, uint64_t step);

#endif
