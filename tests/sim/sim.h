/* A simulated cluster: the real core, wire codec and journal logic under a seeded clock, network,
 * disk and fate. One seed is one run; the same seed gives the same run, event by event.
 *
 *   world.c    time and the queue of events          net.c      frames and broken links
 *   orch.c     the orchestrator on its journal       node.c     agents and processes
 *   trainer.c  workers with a toy model (model.c, reduce.c, peers.c, vouch.c)
 *   program.c  … or plain scripts, in restart mode
 *   heal.c     states that go wrong, and what they are to go back to
 *   check.c    what must hold, after every event
 *   fate.c     what goes wrong in a seed             script.c   scenarios written by hand
 *   script_run.c  … their commands                   story.c    … and what they tell
 *   trace.c    the run as prose                      main.c     the command line */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include "base/heap.h"
#include "base/prng.h"
#include "core/agent.h"
#include "core/cluster.h"
#include "core/mutation.h"
#include "core/order.h"
#include "core/step.h"
#include "store/memory.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdio.h>

#define NODES_N 8 /* machines there can be */
#define SLOTS_N 2
#define WORKERS_N (NODES_N * SLOTS_N)
#define STEPS_N 128
#define GENERATIONS_N 512
#define PARTS_N 2
#define SLICES_N 8
#define EVENTS_N 32768
#define FRAME_BYTES 2048
#define US_PER_MS 1000u
#define LEASE_MS 1000u
#define FOREVER_US (UINT64_C(1) << 43)

/* ---- the toy model ---- */

/* A part of the "gradient": h depends on every slice and on the shape of the tree along which they
 * were folded, n counts samples. A slice missed, doubled, of another step or in another order
 * changes one of them. */
struct value {
    uint64_t h, n;
};

struct model {
    uint64_t seed;
    struct order_walk walk;
    uint64_t steps_n;
    struct value sum[STEPS_N + 1][PARTS_N]; /* what step t must give */
    uint64_t weights[STEPS_N + 1][PARTS_N]; /* what the state after step t must be */
};

void model_init(struct model *m, uint64_t seed, uint64_t steps_n);
struct value model_leaf(const struct model *m, const uint64_t *weights, uint64_t step,
                        uint32_t slice, uint32_t part);
struct value model_add(struct value left, struct value right);
uint64_t model_update(uint64_t weight, struct value sum);

/* ---- who there is ---- */

struct trainer {
    bool running;
    uint64_t stopped_until_us;
    uint32_t life; /* of the process: events of an earlier one are void */
    wid self;
    struct step step;
    bool loaded, warm;
    uint64_t weights[PARTS_N];
    struct value gradient[SLICES_N][PARTS_N];
    uint64_t gradient_step[SLICES_N];
    /* The reduce under way. */
    uint64_t reduce_generation, reduce_step;
    struct value got[SLICES_N][PARTS_N]; /* subtrees sent to us as owner of a part, by lo */
    uint32_t got_width[SLICES_N][PARTS_N];
    struct value sum[PARTS_N];
    bool has_sum[PARTS_N];
    struct value result[PARTS_N]; /* committed, to be applied */
    /* Two-way contact, by worker. */
    wid heard_id[WORKERS_N];
    uint64_t heard_us[WORKERS_N];
    uint64_t probing_us; /* since when it wants to hear from everyone it asks; 0: it does not */
    uint64_t moved_us;   /* when anything last moved */
    uint64_t stuck_us;   /* since when it asks its peers whether they are there; 0: it does not */
    uint64_t saved;
    uint8_t fault; /* why it has stopped, if it has, … */
    wid odd;       /* … and who is not like most */
    uint64_t reached;
    struct generation known; /* the newest it was told of */
    struct member known_members[WORKERS_N];
    /* A script that knows nothing of muster, instead of all that. */
    bool plain, wants_addr, wants_attach, together;
    uint64_t in;      /* the generation it was started for */
    uint64_t done_in; /* the last in which it ended well */
    uint64_t work_end_us;
    uint32_t port_next, port_used;
};

struct machine {
    char name[8];
    bool alive;
    bool leaves; /* its agent has ended by itself */
    int exit_code;
    uint32_t life;
    uint64_t stopped_until_us;
    uint64_t skew_us;
    uint32_t slots;
    uint32_t conn; /* 0: none */
    uint32_t conn_tries;
    uint64_t up_us, down_us; /* order on the connection */
    struct agent agent;
    struct trainer trainers[SLOTS_N];
};

struct pending {
    uint8_t *bytes;
    size_t n;
    bool applied;
};

struct orch {
    bool alive;
    uint32_t life;
    uint64_t stopped_until_us;
    uint64_t skew_us;
    struct cluster *cluster;
    struct store_disk *disk;
    struct store *store;
    struct pending pending[256]; /* records on their way to the disk, oldest first */
    uint32_t pending_first, pending_n;
    bool syncing;
    uint64_t slow_until_us;
    uint32_t conn_node[4096]; /* connection -> machine + 1 */
    uint32_t conns_n;
    int crash_on; /* scripts: a record kind; stop for ever once it was handed out */
};

/* ---- what may go wrong ---- */

struct fortune {
    uint32_t drop_ppm, duplicate_ppm, forge_ppm; /* of worker frames */
    uint32_t control_drop_ppm;
    uint64_t delay_min_us, delay_max_us;
    uint64_t sync_min_us, sync_max_us;
    uint64_t slice_min_us, slice_max_us;
    bool
        calm; /* nothing happens to the control plane but what happens to the orchestrator itself */
};

struct sim_config {
    uint32_t nodes_n, slots, min, max;
    uint64_t steps_n;
    uint32_t checkpoint_every; /* 0: never */
    uint64_t fate_end_us;      /* then everything heals */
    bool pair_stays_cut;
    bool long_faults;
    uint32_t digest_every, check_every;
    /* A worker gives one hash at or after this step that is not what the others have; or (heal)
     * its state is another one from there on, once in each of odd_times lineages. */
    enum { ODD_NEVER, ODD_DIGEST, ODD_CHECK, ODD_STATE } odd;
    uint32_t odd_times;
    bool heal;
    uint64_t odd_from;
    uint32_t odd_worker;
    uint8_t mode; /* enum mode, as the agents ask for it */
    bool plain;   /* the scripts know nothing of muster */
};

/* ---- what must hold ---- */

struct era {
    uint64_t number;
    uint64_t published_ms; /* on the orchestrator's clock */
    uint64_t members_hash;
    uint64_t lineage;
    uint32_t full_n; /* nodes with all their slots in it */
    uint8_t kind, flags;
    bool active;
    uint64_t vouched; /* the newest step of which a member has said the right hash … */
    bool vouched_odd; /* … and another one has said the odd one */
    bool told_stop;   /* a member settled in it as one who has stopped */
    uint64_t base;
    bool tainted;         /* of the one that began a lineage: a state in it went wrong */
    uint64_t head;        /* of the lineage that this one began: its newest committed step … */
    uint64_t last_active; /* … and its last active generation */
    uint32_t members_n;
    wid members[WORKERS_N];
    uint32_t workers[WORKERS_N]; /* where they run */
};

/* What a worker said last of its state, in this generation: of that before step `step`. */
struct said {
    uint64_t generation, step;
    uint8_t digest[HASH_BYTES];
};

struct check {
    struct era eras[GENERATIONS_N]; /* by number */
    uint64_t newest;
    uint64_t active;
    uint64_t lineage;
    uint64_t head;                  /* the newest step that anyone has committed in this lineage */
    uint64_t first_in[STEPS_N + 1]; /* the generation that committed it first */
    uint64_t checkpoint, checkpoint_before;
    struct {
        bool there;
        uint64_t weights[PARTS_N];
    } files[STEPS_N + 1];           /* what was saved after each step */
    struct said said[WORKERS_N][2]; /* … and in the one before */
    uint64_t agreed;                /* the newest step after which all members said the same */
    uint64_t given_up;              /* the newest active generation of which a record says so */
    bool most_found; /* … or may: more than half of its members were alike, one was not */
    uint64_t heal_at;
    uint32_t heal_count, flips_n;
    uint64_t flip_lineage, flip_first; /* where the last was; the first step after which one was */
    bool failed;                       /* the job has ended so */
    bool ended;
    uint64_t odd_step; /* whose READYs have an odd hash; 0: none yet */
    wid odd_self;
    bool stopped;    /* somebody has, for that reason */
    bool second_run; /* the job has ended, and somebody came late enough to start it again */
    uint64_t programs_done_n;
    uint64_t commits_n, takeovers_n, heals_n, healed_newest, healed_us, flaps_n;
};

/* ---- events ---- */

enum sim_kind {
    SIM_UP,   /* a frame from an agent to the orchestrator */
    SIM_DOWN, /* … and back */
    SIM_DATA, /* a frame between workers */
    SIM_TO_AGENT,
    SIM_TO_WORKER,
    SIM_FORGET,
    SIM_EXITED,
    SIM_CLOSED_UP,
    SIM_CLOSED_DOWN,
    SIM_CONNECT,
    SIM_ORCH_TICK,
    SIM_ORCH_SYNC,
    SIM_ORCH_START,
    SIM_AGENT_TICK,
    SIM_WORKER_TICK,
    SIM_LOADED_DATA,
    SIM_BASE,
    SIM_COMPUTED,
    SIM_CHECKED,
    SIM_DIGESTED,
    SIM_APPLIED,
    SIM_STOP,
    SIM_PROGRAM,
    SIM_FATE
};

struct sim_event {
    enum sim_kind kind;
    uint32_t to;   /* machine, worker or fate, as the kind has it */
    uint32_t life; /* of the receiver; void if it has changed */
    uint32_t conn;
    uint64_t a, b;
    wid from;
    uint32_t n;
    uint32_t next_free;
    uint8_t key[KEY_BYTES];
    uint8_t bytes[FRAME_BYTES];
};

struct world {
    uint64_t seed;
    struct prng prng;
    bool quiet; /* scripts: every delay is the middle of its range, and no chance comes true */
    uint64_t now_us;
    uint64_t events_n;
    uint64_t order;
    struct sim_config config;
    struct fortune fortune;
    struct model model;
    struct orch orch;
    struct machine machines[NODES_N];
    bool cut_up[NODES_N], cut_down[NODES_N], cut[NODES_N][NODES_N];
    /* Scripts: frames of this type between these machines vanish. */
    struct {
        unsigned type;
        uint32_t from, to;
    } vanish[8];
    uint32_t vanish_n;
    struct check check;
    bool healed;
    bool failed;
    char why[512];
    bool traced;
    struct heap heap;
    struct heap_item items[EVENTS_N];
    struct sim_event *events;
    uint32_t free_event;
    uint8_t scratch[1 << 16];
};

/* world.c */
struct world *world_open(void);
void world_close(struct world *w);
void world_reset(struct world *w, uint64_t seed); /* everything as if it were new */
struct sim_event *world_after(struct world *w, uint64_t delay_us, enum sim_kind kind, uint32_t to,
                              uint32_t life);
bool world_next(struct world *w); /* one event; false when there is none or it has failed */
uint64_t world_next_us(const struct world *w); /* when that will be; UINT64_MAX if never */
void world_run_until(struct world *w, uint64_t until_us);
uint64_t world_between(struct world *w, uint64_t lo, uint64_t hi);
bool world_chance(struct world *w, uint32_t ppm);
void world_fail(struct world *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* orch.c */
void orch_start(struct world *w);
void orch_crash(struct world *w);
void orch_event(struct world *w, struct sim_event *e);
/* People change a setting of the job; value NULL: they remove it. */
void orch_setting(struct world *w, const char *key, const char *value);
void orch_size(struct world *w, uint32_t size); /* 0: as many as there are */
void orch_want_all(struct world *w);            /* takes back what was wanted, one at a time */
void orch_list(struct world *w, const uint32_t *machines, uint32_t n);
int orch_admin(struct world *w, enum admin_verb verb, uint32_t machine); /* as cluster_step() */
uint64_t orch_now_ms(const struct world *w);

/* node.c */
void machine_start(struct world *w, uint32_t m);
void machine_crash(struct world *w, uint32_t m);
void machine_drain(struct world *w, uint32_t m);
void machine_reset_conn(struct world *w, uint32_t m);
void machine_event(struct world *w, struct sim_event *e);
uint64_t machine_now_ms(const struct world *w, uint32_t m);

/* trainer.c */
void trainer_start(struct world *w, uint32_t worker, wid self);
void trainer_life(struct world *w, uint32_t worker, wid self);
void trainer_kill(struct world *w, uint32_t worker, uint32_t code);
void trainer_event(struct world *w, struct sim_event *e);
struct trainer *trainer_at(struct world *w, uint32_t worker);

/* vouch.c */
void vouch_commit(struct world *w, uint32_t worker, const struct era *era, uint64_t step);
bool vouch_stopped(const struct world *w); /* the whole job has */

/* heal.c */
void heal_flip(struct world *w, uint32_t worker, uint64_t step); /* the state after it, perhaps */
void heal_save(struct world *w, uint32_t worker, uint64_t step);
void heal_told(struct world *w, uint32_t worker, const struct generation *g);
/* What a fresh generation starts from: the newest that is not after `limit`. */
uint64_t heal_load(struct world *w, uint32_t worker, uint64_t generation, uint64_t limit);
bool heal_tainted(struct world *w, uint64_t generation);
void heal_said(struct world *w, uint32_t worker, uint64_t generation, uint64_t step,
               const uint8_t *digest);
void heal_stop(struct world *w, uint32_t worker, const struct step_effect *e);
void heal_commit(struct world *w, const struct era *era, uint64_t step, bool settled);
void heal_record(struct world *w, const struct rec_heal *r);
void heal_ended(struct world *w, const char *why);

/* program.c */
void program_start(struct world *w, uint32_t worker, wid self, const struct generation *g);
void program_event(struct world *w, struct sim_event *e);
void program_addr(struct world *w, uint32_t worker, struct report *r);

/* net.c */
void net_up(struct world *w, uint32_t m, enum wire_type type, const void *msg);
void net_keeper(struct world *w, uint32_t m, const struct msg_bye *bye);
void net_down(struct world *w, uint32_t conn, enum wire_type type, const void *msg);
void net_data(struct world *w, uint32_t from, wid to, const char *addr, const struct group *g,
              enum wire_type type, const void *msg);
void net_to_agent(struct world *w, uint32_t worker, enum wire_type type, const void *msg);
void net_to_worker(struct world *w, uint32_t worker, enum wire_type type, const void *msg);
bool net_decode(struct world *w, struct sim_event *e, struct wire_header *h, union wire_any *msg);

/* check.c */
void check_generation(struct world *w, const struct generation *g);
void check_active(struct world *w, uint64_t generation);
void check_commit(struct world *w, uint32_t worker, uint64_t step, bool settled);
void check_forget(struct world *w, uint32_t worker);
void check_restart(struct world *w);
void check_after(struct world *w);
bool check_done(const struct world *w);

/* fate.c */
void fate_draw(struct world *w);
void fate_event(struct world *w, struct sim_event *e);
void fate_heal(struct world *w);
void fate_strike(struct world *w, uint64_t delay_us); /* every worker dies */

/* seed.c: a whole run; true if nothing was wrong */
bool seed_run(struct world *w, uint64_t seed, bool traced);

/* script.c: 0 if the scenario did what it says */
enum script_mode {
    SCRIPT_CHECK,   /* compare what happens with what the file says */
    SCRIPT_REWRITE, /* take what happens as right */
    SCRIPT_TELL     /* print comments, commands and what happens */
};
int script_main(const char *path, enum script_mode mode);

/* Whoever tells the run in a way of its own. */
struct trace_sink {
    void (*line)(struct trace_sink *s, struct world *w, const char *who, const char *text);
    void (*commit)(struct trace_sink *s, struct world *w, uint32_t worker, uint64_t step,
                   bool settled);
};

/* trace.c */
void trace(struct world *w, const char *who, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void trace_note(struct world *w, const struct note *n);
void trace_commit(struct world *w, uint32_t worker, uint64_t step, bool settled);
void trace_to(struct trace_sink *sink); /* borrowed; NULL: to stdout again */
const char *trace_worker(struct world *w, wid id);

#endif
