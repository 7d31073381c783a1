/* One agent, moved by hand. What it does is kept as lines of text:
 *
 *   hello, renew, reports, bye 7              to the orchestrator
 *   start 7.0#1, life 7.0#2, stop 0           node.slot#life
 *   start 7.0#1 in 4 failed 0                 a script, in a generation, that has failed so often
 *   kill 0                                    it hangs
 *   addr 0                                    it needs another address and port
 *   tell 0 generation 4, … active 4, … lease 100000, … ended run=1, … left run=1
 *   connect, done 0 */
#ifndef UNIT_CORE_AGENT_KIT_H
#define UNIT_CORE_AGENT_KIT_H

#include "unit/unit.h"

#include "core/agent.h"

#define LEASE_MS 3000u
#define RENEW_MS 500u
#define LINE_MAX 96

#define AGENT_CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define STEP(...) step((struct agent_event){__VA_ARGS__})

extern struct agent agent;
extern uint64_t now_ms;

/* As it last said to the orchestrator. */
extern struct report reported[SLOTS_MAX];
extern uint64_t reported_seq, renewed_seq, held, active;
extern uint32_t flags, said_node;

/* The job's, as the orchestrator says; in-process unless a test sets it. */
extern uint8_t mode;
extern uint32_t saves; /* wishes for a checkpoint, as the orchestrator counts them */

int setup(void **state);
int teardown(void **state);
void open_agent(uint32_t slots); /* anew, with that many */
void up(void); /* connected, welcome as node 7, workers started, all of it known */

void step(struct agent_event e);
void welcome(uint32_t node, uint64_t store);
void ack(uint64_t seq, uint64_t reports, uint32_t ack_flags, uint64_t generation);
void refuse(int status);
void generation(uint64_t number);                /* of worker 7.0#1 alone */
void generation_of(uint64_t number, wid member); /* … or of another */
void report(uint32_t slot, enum phase phase, uint64_t entered);
void pass(uint64_t ms, bool beats); /* with ticks when they are wanted; workers beat if so */

uint32_t said(const char *start); /* lines that begin so */
uint32_t saves_told(void);        /* to a worker, with its last lease */
void forget(void);

#endif
