/* A simulated cluster: the real core, wire codec and journal logic under a seeded clock, network,
 * disk and fate. One seed is one run; the same seed gives the same run, event by event.
 *
 *   world.c    time and the queue of events          net.c      frames of agents and orchestrator
 *   orch.c     the orchestrator on its journal       node.c     agents and processes
 *   trainer.c  workers with a toy model (model.c), driven by step_next(): what they do together
 *              (collect.c), over links that break and are dialed again (links.c), and what they
 *              vouch for (vouch.c)
 *   calls.c    … or with a program that makes calls all agree on
 *   program.c  … or plain scripts, in restart mode
 *   save.c     what is saved, and by whom
 *   heal.c     states that go wrong, and what they are to go back to
 *   helper.c   workers that are in no generation, and who is told of them
 *   again.c    who comes when the run is over
 *   check.c    what must hold, after every event     seed.c     … and in the end
 *   fate.c     what goes wrong in a seed             script.c   scenarios written by hand
 *   script_run.c, script_look.c  … their commands    story.c    … and what they tell
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
#include "journal/journal.h"
#include "lib/chance.h"
#include "lib/memory_store.h"
#include "lib/mind.h"
#include "lib/plan_tree.h"
#include "wire/wire.h"

#include <inttypes.h>
#include <stdio.h>

#define NODES_N 8 /* machines there can be */
#define SLOTS_N 2
#define WORKERS_N (NODES_N * SLOTS_N)
#define STEPS_N 128
#define GENERATIONS_N 512
#define LINEAGES_N 32
#define PARTS_N 2
#define SLICES_N 8
#define EVENTS_N 32768
#define FRAME_BYTES 2048
#define US_PER_MS 1000u
#define LEASE_MS 1000u
#define ORPHAN_MS 3000u
#define SILENT_MS 600u
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

/* ---- calls that all agree on ---- */

/* The result of one: whose contributions it is made of, and in which term they were together. */
struct outcome {
    uint64_t call, term, set; /* call 0: there is none */
};

/* A program that makes calls, and what the data plane keeps for it. */
struct caller {
    bool regroups; /* it is in mu_regroup() … */
    bool calls;    /* … or in a call … */
    bool left;     /* … or it has made all calls, and ends */
    uint64_t got;  /* the last call whose result it has … */
    uint64_t in;   /* … as it was found to be when this generation could first be used */
    /* The call: who has given its part, and who holds the result, by rank. */
    bool said;
    uint32_t here, ready;
    uint64_t newest;     /* the newest generation that all know of */
    bool holds, counts;  /* the result of a call is here; it was settled that it counts */
    struct outcome held; /* the last that was */
    uint32_t links;      /* the members of the generation that the data plane is in, a bit each */
};

/* ---- who there is ---- */

/* What a worker saves, in one of the places. */
struct sim_copy {
    uint64_t step, generation;
    uint32_t writer, shards_n;
    uint64_t weights[PARTS_N];
    bool works;         /* it is being written, or ended … */
    uint32_t op;        /* … by this one: the end of an older one is void */
    enum save_how news; /* what became of it, until the trainer looks */
};

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

    /* What it is doing, as step_next() wanted it; numbered, so that the end of an older one is
     * void. */
    struct step_todo doing;
    bool busy;    /* … in its own code, deaf to all */
    bool driving; /* it is being driven: what happens meanwhile is looked at in turn */
    uint32_t op;
    bool said; /* of what is done with all others: its own part */
    uint64_t due_us;

    /* What is done with the others: a reduce, words of all, the state. */
    struct value got[SLICES_N][PARTS_N]; /* subtrees sent to us as owner of a part, by lo */
    uint32_t got_width[SLICES_N][PARTS_N];
    struct value sum[PARTS_N];
    bool has_sum[PARTS_N];
    uint32_t words;               /* of whom, by rank, a word has come */
    uint64_t base_step;           /* … rank 0's */
    struct value result[PARTS_N]; /* committed, to be applied */
    uint64_t made_in;             /* the term in which `sum` was made */

    /* Its data plane: the term it is in, and its links by worker. */
    uint64_t at;
    uint32_t link[WORKERS_N];    /* the epoch of the link; 0: there is none that it knows of */
    uint64_t claim[WORKERS_N];   /* the term that the peer has proved to be in, by this link */
    uint64_t claimed[WORKERS_N]; /* … and what it was told */
    uint32_t lost;               /* links of the group that broke in this term, a bit each */
    bool links_changed;
    uint64_t links_term; /* in which the core was told of them last */

    /* What its agent has said, and it has not looked at. */
    struct membership *told;
    uint64_t told_active, told_lease_ms;
    uint64_t active, lease_ms; /* … and has */
    bool forgetting;

    wid left; /* the life in which it left in the middle of its work; 0: in none */
    struct caller caller;
    struct sim_copy copies[SAVES_N];

    uint64_t saved;
    uint64_t reached;
    struct report reported;
    struct generation known; /* the newest it was told of */
    struct member known_members[WORKERS_N];
    /* What it was told of the helpers. */
    struct msg_roster roster;
    struct roster_entry roster_helpers[WORKERS_N];
    bool helps; /* it is one itself, and does nothing else */
    /* A script that knows nothing of muster, instead of all that. */
    bool plain, wants_addr, wants_attach, wants_ours, ours, together;
    uint64_t attach_us, ours_us;
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
    uint32_t known_run; /* … in which its agent knows the job's mode; 0: it does not */
    struct trainer trainers[SLOTS_N];
};

struct orch_effects {
    struct effects base; /* first */
    struct world *w;
};

struct orch {
    bool alive;
    uint32_t life;
    uint64_t stopped_until_us;
    uint64_t skew_us;
    struct orch_effects fx;
    struct mind mind, shadow;
    struct machine_type judged; /* the cluster's, watched */
    struct store_disk *disk;
    struct journal *journal;
    bool dumping;      /* a snapshot has been asked for */
    uint32_t last_sum; /* of what was there when it died … */
    uint64_t last_seq; /* … after this record */
    bool syncing;
    uint64_t slow_until_us;
    uint32_t conn_node[4096]; /* connection -> machine + 1 */
    uint32_t conns_n;
    uint32_t hello_from; /* the machine + 1 whose hello is being heard; 0: none is */
    int crash_on;        /* scripts: a record kind; stop for ever once it was handed out */
};

/* ---- what may go wrong ---- */

struct fortune {
    uint32_t break_ppm, forge_ppm; /* of worker frames: the link breaks */
    uint32_t boundary_ppm;         /* of generations: links break when it is published */
    uint32_t duplicate_ppm;        /* of levels between agents and the orchestrator */
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
    uint32_t chunks_n;         /* of the state: it has so many shards at most */
    uint32_t unsaved_ppm;      /* of writes: they fail … */
    bool full;                 /* … and all of the last state do */
    bool keeps;                /* each host keeps every state in memory */
    bool containers;           /* each machine has folders of its own, whatever the host */
    uint64_t fate_end_us;      /* then everything heals */
    enum { PAIR_HEALS, PAIR_STAYS_CUT, PAIR_FLAPS } pair; /* … but for two nodes */
    bool long_faults;
    uint32_t digest_every, check_every, silence_ms;
    /* A worker gives one hash at or after this step that is not what the others have; or (heal)
     * its state is another one from there on, once in each of odd_times lineages. */
    enum { ODD_NEVER, ODD_DIGEST, ODD_CHECK, ODD_STATE } odd;
    uint32_t odd_times;
    bool heal;
    uint64_t odd_from;
    uint32_t odd_worker;
    uint8_t mode;  /* enum mode, as the agents ask for it */
    bool plain;    /* the scripts know nothing of muster */
    bool calls;    /* the workers do not train: they make steps_n calls that all agree on … */
    bool together; /* … and all move to a newer generation after the same one */
    uint32_t group_max; /* members that can train together; 0: all */
    uint32_t helpers_n; /* the last machines help */
};

static inline uint32_t sim_group_max(const struct sim_config *k)
{
    return k->group_max != 0 ? k->group_max : WORKERS_N;
}

/* ---- what must hold ---- */

struct era {
    uint64_t number;
    uint64_t proposed_us;
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
    bool tainted;  /* of the one that began a lineage: a state in it went wrong */
    bool finished; /* a member has ended, with this state */
    uint64_t weights[PARTS_N];
    uint64_t head;        /* of the lineage that this one began: its newest committed step … */
    uint64_t last_active; /* … and its last active generation */
    uint32_t outcomes;    /* … and where its calls are, from 1 on */
    uint32_t members_n;
    wid members[WORKERS_N];
    uint32_t workers[WORKERS_N]; /* where they run */
};

/* What a worker said last of its state, in this generation: of that before step `step`. */
struct said {
    uint64_t generation, step;
    uint8_t digest[HASH_BYTES];
};

#define SHARDS_KEPT 24

/* What lies on the disk of an attempt to save a step. */
struct shards {
    uint64_t generation, folder;
    uint32_t durable; /* a bit for each */
    uint64_t weights[PARTS_N];
};

struct check {
    struct era eras[GENERATIONS_N]; /* by number */
    uint64_t newest;
    uint64_t active;
    uint64_t lineage;
    uint64_t head;                  /* the newest step that anyone has committed in this lineage */
    uint64_t first_in[STEPS_N + 1]; /* the generation that committed it first */
    uint64_t made_in[STEPS_N + 1];  /* … and the term in which that result was made */
    uint64_t checkpoint, checkpoint_before;
    struct {
        bool there;
        uint64_t weights[PARTS_N];
    } files[STEPS_N + 1];                           /* what was saved after each step */
    struct shards shards[STEPS_N + 1][SHARDS_KEPT]; /* … and is being, the newest attempts */
    struct kept {
        uint64_t step, lineage;
    } kept[NODES_N];                /* in memory, by host */
    bool last_unsaved;              /* a write of the last state has failed */
    struct said said[WORKERS_N][2]; /* … and in the one before */
    uint64_t agreed;                /* the newest step after which all members said the same */
    uint64_t given_up;              /* the newest active generation of which a record says so */
    bool most_found;  /* … or may: more than half of its members were alike, one was not */
    uint64_t most_in; /* … of this one; those who saw it may have been lost before they said so */
    uint64_t heal_at;
    uint32_t heal_count, flips_n;
    uint64_t flip_lineage, flip_first; /* where the last was; the first step after which one was */
    bool failed;                       /* the job has ended so */
    bool done;                         /* the journal says that a worker has finished */
    bool deserted;                     /* … or because all have left */
    bool ended;
    uint64_t odd_step; /* whose READYs have an odd hash; 0: none yet */
    wid odd_self;
    bool stopped;    /* somebody has, for that reason */
    bool second_run; /* the job has ended, and somebody came late enough to start it again */
    uint64_t programs_done_n;
    struct outcome outcomes[LINEAGES_N][STEPS_N + 1]; /* of all calls that count */
    uint32_t lineages_n;
    bool leaving; /* a program has made all its calls, and ends: the others may go on without it */
    uint64_t commits_n, takeovers_n, heals_n, healed_newest, healed_us, flaps_n;
    uint64_t rosters_us;  /* all who ask knew all helpers, when that was looked at last */
    wid shown[WORKERS_N]; /* by worker: its life that a roster has shown as one that serves */
};

/* ---- events ---- */

enum sim_kind {
    SIM_UP,     /* a frame from an agent to the orchestrator */
    SIM_DOWN,   /* … and back */
    SIM_DATA,   /* a frame between workers */
    SIM_BROKEN, /* a worker sees that a link is lost */
    SIM_DIAL,   /* … and tries again */
    SIM_FLAP,   /* a link breaks by itself */
    SIM_OP,     /* … and what it is doing gets on, or takes too long */
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
    SIM_COMPUTED,
    SIM_DIGESTED,
    SIM_APPLIED,
    SIM_SAVED,
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

/* A link between two workers: frames go in order, each way, and none is lost while it lives. */
struct sim_link {
    uint32_t epoch; /* of the connection: what was sent by an older one is lost */
    bool up;
    uint64_t cut_us;          /* since when nothing comes through; 0: it does */
    uint64_t last_us[2];      /* when the last frame arrives, each way … */
    uint32_t sent[2], got[2]; /* … and how many there were */
};

#define INBOX_N 96

struct sim_frame {
    uint8_t type; /* enum frame_type */
    uint64_t term;
    uint32_t n;
    uint8_t key[KEY_BYTES];
    uint8_t bytes[320];
};

struct inbox {
    uint32_t first, n;
    struct sim_frame frames[INBOX_N];
};

/* What comes after the end, by machine. */
struct again {
    bool saw[NODES_N];  /* it knows that the run is over, or ending */
    bool left[NODES_N]; /* … and that it has left, knowing it, is durable */
    bool at_once;       /* the first of those is started again, while others may be here */
    bool late;          /* `machine` is started when all have left … */
    bool restart;       /* … after the orchestrator … */
    bool crowd;         /* … and after other jobs, which need the place */
    bool forgotten;
    uint32_t machine;
    uint64_t delay_us;
    uint32_t back; /* the machine + 1 that has seen the end and is to begin another run; 0: none */
    bool started;  /* … and is there */
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
    bool flaps[NODES_N][NODES_N]; /* links that do not last */
    uint32_t split;               /* a machine + 1 that is to be alone with a result */
    struct sim_link links[WORKERS_N][WORKERS_N]; /* [lower][higher] */
    struct inbox *inboxes;                       /* [to][from], and [to][to]: mail put aside */
    /* Scripts: frames of this name between these machines, and all behind them, are held up. */
    struct {
        const char *name;
        uint32_t from, to;
    } vanish[8];
    uint32_t vanish_n;
    struct check check;
    struct again again;
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
void orch_drop(struct orch *o); /* all but the disk */
void orch_start(struct world *w);
void orch_crash(struct world *w);
void orch_event(struct world *w, struct sim_event *e);
/* People change a setting of the job; value NULL: they remove it. */
void orch_setting(struct world *w, const char *key, const char *value);
void orch_size(struct world *w, uint32_t size); /* 0: as many as there are */
void orch_want_all(struct world *w);            /* takes back what was wanted, one at a time */
void orch_list(struct world *w, const uint32_t *machines, uint32_t n);
int orch_admin(struct world *w, enum admin_verb verb, uint32_t machine); /* as cluster_step() */
void orch_stranger(struct world *w, const char *job); /* a node of another job says hello */
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
void trainer_leave(struct world *w, uint32_t worker); /* in the middle, of its own will */
void trainer_kill(struct world *w, uint32_t worker, uint32_t code);
void trainer_event(struct world *w, struct sim_event *e);
struct trainer *trainer_at(struct world *w, uint32_t worker);
uint64_t trainer_generation(const struct trainer *t); /* that it acts in; 0: none */

/* links.c */
void links_reset(struct world *w);
void links_break(struct world *w, uint32_t a, uint32_t b);    /* both sides see it soon */
void links_drop(struct world *w, uint32_t worker, bool seen); /* all of a worker that is gone */
void links_break_machine(struct world *w, uint32_t m);
extern const char *const links_names[]; /* of frames; the last is NULL */

/* calls.c */
void calls_commit(struct world *w, uint32_t worker, uint64_t call);
void calls_active(struct world *w, const struct era *era); /* it is, from now on */

/* vouch.c */
void vouch_commit(struct world *w, uint32_t worker, const struct era *era, uint64_t step);
bool vouch_stopped(const struct world *w); /* the whole job has */

/* save.c */
void save_commit(struct world *w, uint32_t worker, uint64_t generation, uint64_t step);
bool save_ended(struct world *w, const char *why); /* … for nobody could save the last state */
void save_done(struct world *w);                   /* the run is over */

/* heal.c */
void heal_flip(struct world *w, uint32_t worker, uint64_t step); /* the state after it, perhaps */
void heal_save(struct world *w, uint64_t generation, uint64_t step, const uint64_t *weights);
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

/* helper.c */
bool helper_is(const struct world *w, uint32_t m); /* this machine helps */
void helper_draw(struct world *w);
uint32_t helper_pick(const struct world *w, uint32_t m, uint64_t draw); /* or that one */
void helper_event(struct world *w, struct sim_event *e);
void helper_report(struct world *w, uint32_t worker);
void helper_told(struct world *w, uint32_t worker, const struct msg_roster *m);
void helper_active(struct world *w, uint64_t generation);        /* it is */
void helper_roster(struct world *w, const struct msg_roster *m); /* it is told */
void helper_demand(struct world *w); /* after healing: those who ask know who helps */

/* program.c */
void program_start(struct world *w, uint32_t worker, wid self, const struct generation *g);
void program_event(struct world *w, struct sim_event *e);
void program_hears(struct world *w, uint32_t worker, const struct generation *g);
void program_addr(struct world *w, uint32_t worker, struct report *r);

/* net.c */
void net_up(struct world *w, uint32_t m, enum wire_type type, const void *msg);
void net_keeper(struct world *w, uint32_t m, const struct msg_bye *bye);
void net_down(struct world *w, uint32_t conn, enum wire_type type, const void *msg);
void net_to_agent(struct world *w, uint32_t worker, enum wire_type type, const void *msg);
void net_to_worker(struct world *w, uint32_t worker, enum wire_type type, const void *msg);
bool net_decode(struct world *w, struct sim_event *e, struct wire_header *h, union wire_any *msg);

/* check.c */
void check_proposed(struct world *w, const struct generation *g);
void check_generation(struct world *w, const struct generation *g);
void check_active(struct world *w, uint64_t generation);
void check_commit(struct world *w, uint32_t worker, uint64_t step, bool settled);
void check_finish(struct world *w, uint32_t worker);
void check_forget(struct world *w, uint32_t worker);
void check_restart(struct world *w);
void check_after(struct world *w);
/* Does a generation keep all members of another? */
bool check_grows(struct world *w, uint64_t from, uint64_t to);
void check_deserted(struct world *w); /* the job ends because all have left */
bool check_done(const struct world *w);
uint64_t check_stopped_us(const struct world *w); /* until when somebody is, or was */

/* again.c */
void again_draw(struct world *w);
void again_saw(struct world *w, uint32_t m);
bool again_over(const struct world *w, uint32_t m); /* for it: it is not to come back by chance */
void again_gone(struct world *w, const struct rec_gone *r);
void again_run(struct world *w, uint32_t m, uint32_t run);
void again_done(struct world *w, uint32_t m);
void again_start(struct world *w, uint32_t m);
void again_late(struct world *w);

/* fate.c */
void fate_draw(struct world *w);
void fate_again(struct world *w, uint64_t delay_us, uint32_t m); /* started again */
void fate_event(struct world *w, struct sim_event *e);
void fate_heal(struct world *w);
void fate_after(struct world *w);      /* every event */
void fate_generation(struct world *w); /* one was published */
void fate_commit(struct world *w, uint32_t worker);
void fate_reduced(struct world *w, uint32_t worker);
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
