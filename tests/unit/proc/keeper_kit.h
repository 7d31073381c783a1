/* A keeper on a loop, and what it said; and children that are hard to get rid of. A program that
 * uses it begins main() with kit_child(). */
#ifndef UNIT_PROC_KEEPER_KIT_H
#define UNIT_PROC_KEEPER_KIT_H

#include "proc/keeper.h"
#include "unit/unit.h"

#include <sys/types.h>

/* Against hanging only: nothing here takes long. */
#define KIT_WAIT_MS 30000

#define KIT_SLOTS 64

struct kit_slot {
    uint64_t cookie;
    uint32_t started_n, exited_n;
    int pid;
    uint32_t code;
    char why[KEEPER_WHY_MAX];
};

struct kit {
    uv_loop_t loop;
    struct keeper *keeper;
    uint32_t lost_n;
    uint32_t events_n;
    struct kit_slot slots[KIT_SLOTS]; /* the newest start of each */
};

/* Plays the keeper (`keeper FD`) or a child (`kit-NAME`), if the arguments say so, and exits. */
void kit_child(int argc, char **argv);

/* A process of the test's own, which ends with it even if the test fails. */
pid_t kit_fork(void);

void kit_open(struct kit *k);
/* Closes the keeper, runs the loop empty, and checks that nothing is left of any start. */
void kit_close(struct kit *k);

/* Starts argv in a slot, its output to `out` (-1: /dev/null). */
void kit_start_in(struct kit *k, uint32_t slot, char *const *argv, char *const *env,
                  const char *dir, int out);
/* Starts a shell command, or a child of the kit by name. */
void kit_start_sh(struct kit *k, uint32_t slot, const char *command);
void kit_start_child(struct kit *k, uint32_t slot, const char *name);

void kit_stop(struct kit *k, uint32_t slot, uint32_t grace_ms);

/* Runs the loop until the slot has started or exited as often as that, or the keeper is lost. */
void kit_wait_started(struct kit *k, uint32_t slot, uint32_t n);
void kit_wait_exited(struct kit *k, uint32_t slot, uint32_t n);
/* Runs the loop until a child of the kit has set itself up: stopped, deaf, graceful, chain. */
void kit_wait_ready(struct kit *k, uint32_t slot);
void kit_wait_lost(struct kit *k);
/* Runs the loop for so long. */
void kit_run_ms(struct kit *k, uint64_t ms);

/* Processes that carry the marker of that start and have not ended. */
uint32_t kit_count(uint64_t cookie);
/* Waits until there are at least that many; until there is none. */
void kit_wait_count(uint64_t cookie, uint32_t n);
void kit_wait_none(uint64_t cookie);

/* A process below `parent` that has the name; 0 if none. */
pid_t kit_find(pid_t parent, const char *comm);
bool kit_is_alive(pid_t pid);

uint64_t kit_now_ms(void);
void kit_sleep_ms(uint32_t ms);

#endif
