/* Whole workers (mu_join() to mu_leave()), each a process, and this process as their agents and
 * their orchestrator: small, and fast enough to let one of them die at every point that it comes
 * to, or want for memory at each.
 *
 *   sweep_worker.c  what a worker does: a trainer whose weights depend on every gradient
 *   sweep_agent.c   what they hear: lives, generations, which is active, the end; a few settings
 *   sweep_case.c    one case from start to end
 *   sweep_test.c    all cases in which one dies, or a sample of them
 *   retry_test.c    … in which one lacks memory, and calls mu_next() again */
#ifndef RUN_SWEEP_H
#define RUN_SWEEP_H

#include "core/message.h"

#include <stdatomic.h>
#include <sys/types.h>

#define SWEEP_FIRST 3 /* workers that begin … */
#define SWEEP_MAX 4   /* … and one that joins, in some cases */
#define SWEEP_SLICES 8
#define SWEEP_STEPS 8
#define SWEEP_ARMED 2 /* the victim counts its points from the end of this step */
#define SWEEP_WEIGHTS 300
#define SWEEP_SAMPLES 50 /* steps of 16, 16, 16 and 2 samples: some slices are empty */
#define SWEEP_BATCH 16
#define SWEEP_NOBODY UINT32_MAX

enum sweep_layout { SWEEP_SHM, SWEEP_TCP, SWEEP_MIXED, SWEEP_LAYOUTS };

/* From when on the victim counts. */
enum sweep_story {
    SWEEP_WHOLE, /* from its start: it may die before there is a generation */
    SWEEP_STEPPING,
    SWEEP_JOINING, /* from when a fourth one is about to be taken in; the victim may be that one */
    SWEEP_STORIES
};

struct sweep_case {
    enum sweep_layout layout;
    enum sweep_story story;
    uint32_t victim;
    unsigned long k; /* it dies at its k-th point; 0: they are only counted */
    bool denied;     /* it lives: in mu_next() its k-th piece of memory is denied, once */
    const char *dir; /* for checkpoints; NULL: none are saved */
    uint64_t from;   /* the step whose checkpoint is the newest there */
};

/* What processes share. */
struct sweep_shared {
    _Atomic uint32_t may_go; /* JOINING: the generation with the newcomer has been published */
    struct {
        _Atomic uint64_t points;
        _Atomic uint64_t steps, slices, slices_again;
        _Atomic uint32_t done, failed_n; /* failed_n: so often mu_next() was called again */
        float weights[2 * SWEEP_WEIGHTS];
    } worker[SWEEP_MAX];
};

/* ---- sweep_worker.c ---- */

/* In a child; agent "": alone. Ends the process. */
_Noreturn void sweep_worker(const struct sweep_case *c, uint32_t index, const char *agent,
                            struct sweep_shared *shared);

/* ---- sweep_agent.c ---- */

struct sweep_seat {
    int fd;    /* -1 */
    pid_t pid; /* 0: it has not begun; -1: it has ended */
    int status;
    wid self;
    uint32_t lives_n;
    bool attached;
    struct report said;
};

#define SWEEP_GENERATIONS_MAX 64
#define SWEEP_SETTINGS_MAX 8

struct sweep_agent {
    const struct sweep_case *c;
    struct sweep_shared *shared;
    char path[64];
    int listen_fd;
    int log_fd; /* of the workers; -1: this process's own */
    struct sweep_seat seats[SWEEP_MAX];
    struct generation newest; /* number 0: none */
    struct member members[SWEEP_MAX];
    struct generation last_active; /* who was in it */
    struct member last_members[SWEEP_MAX];
    uint64_t lease_due_ms;
    bool ended;
    uint32_t suspicions_n;
    struct {
        char key[CONFIG_KEY_MAX];
        uint8_t value[CONFIG_VALUE_MAX];
        uint32_t value_n;
    } settings[SWEEP_SETTINGS_MAX];
    uint32_t settings_n;
};

void sweep_open(struct sweep_agent *a, const struct sweep_case *c, struct sweep_shared *shared,
                int log_fd);
/* Kills whoever is left. */
void sweep_close(struct sweep_agent *a);
void sweep_start(struct sweep_agent *a, uint32_t index);
/* Waits for something to happen, and does what is due then. */
void sweep_turn(struct sweep_agent *a);
bool sweep_is_member(const struct sweep_agent *a, uint32_t index);
uint64_t sweep_now_ms(void);

/* ---- sweep_case.c ---- */

struct sweep_result {
    bool well;
    bool died;            /* the victim did */
    unsigned long points; /* that it came to, if it lived */
    uint32_t failed_n;
    uint64_t generations, suspicions;
    char why[256];
};

/* Who has not ended by then stands still. Nothing here takes long: a rule that was taken out may
 * show in that, and then it is soon. */
extern uint64_t sweep_limit_ms;

/* show: what the workers say goes to stderr at once; else only if something went wrong. */
void sweep_run(const struct sweep_case *c, bool show, struct sweep_result *result_out);
const char *sweep_layout_name(enum sweep_layout layout);
const char *sweep_story_name(enum sweep_story story);
/* "shm stepping 1 17", as sweep_test takes it. */
const char *sweep_name(const struct sweep_case *c, char text[64]);

#endif
