/* The rules that the protocol stands on, each of which can be taken out on purpose, so
 * that the simulator can show that it would notice. Only builds with MUSTER_MUTATIONS can:
 * in all others MUTATED() is false and RULE(name, cond) is just (cond). */
#ifndef CORE_MUTATION_H
#define CORE_MUTATION_H

#define MUTATION_MAP(X)                                                                            \
    X(READY_NEEDS_ALL, "a step is committed without every member's READY")                         \
    X(MINIMUM_RULE, "a member moves to its own newest generation, not the minimum of all")         \
    X(SETTLE_ALL_HOLD, "after a loss a held result is committed though not every member holds it") \
    X(SETTLE_LAGGARD, "after a loss a member one step behind drops the result it holds")           \
    X(ACTIVE_BEFORE_COMMIT, "results are committed before the generation is known to be active")   \
    X(ACTIVE_NEEDS_ALL, "a generation becomes active when one member has entered it")              \
    X(CAUGHT_UP_BEFORE_ENTER, "a newcomer reports that it has entered before it has the state")    \
    X(FAILURE_FROM_ACTIVE, "a failure generation is made of the published one's members")          \
    X(BOUNDARY_KEEPS_ONE, "a planned generation may have no caught-up member")                     \
    X(LEAVER_WAITS, "a leaver forgets its state before the generation without it is active")       \
    X(ORPHAN_PAUSES, "workers out of touch never pause")                                           \
    X(TAKEOVER_WAITS, "a takeover does not wait for the unproved to pause")                        \
    X(GENERATION_FENCE, "frames of another generation are taken")                                  \
    X(KEY_FENCE, "frames under another key are taken")                                             \
    X(STALE_GENERATION, "an older generation than the one acted in is entered")                    \
    X(APPLY_AFTER_DURABLE, "records are applied before they are durable")                          \
    X(FENCE_HOLDS, "a machine goes on past the fence while it is dumped")                          \
    X(STALE_INCARNATION, "reports of an earlier life of a worker are taken")                       \
    X(GRACE_AFTER_JUMP, "leases are judged right after the clock jumped")                          \
    X(GRADIENT_OF_STEP, "kept gradients of another step are taken for this one's")                 \
    X(MIN_HOLDS, "a generation below min trains on")                                               \
    X(LEASE_NEEDS_GENERATION, "an agent that has not heard of the newest generation has a lease")  \
    X(LEASE_STOPS_AT_PROPOSAL, "leases are given while a generation is on its way to the journal") \
    X(LOST_HAS_NO_LEASE, "a worker that was lost has a lease before its return is known")          \
    X(JUMP_RESTARTS_WAIT, "a clock that jumped shortens the wait before a takeover")               \
    X(LOST_AGENT_IS_HEARD, "a lost worker's agent keeps its takeover waiting for ever")            \
    X(ROUND_FENCE, "what was said in a lower round of a generation counts")                        \
    X(HELD_BY_TERM, "results that different groups made are committed as one")                     \
    X(CLAIM_ANSWERS, "a member does not follow those who have moved at a boundary")                \
    X(LEAVER_ANSWERS, "a leaver's word that it left at a boundary is not followed")                \
    X(LEAVER_LEAVES_CALLS,                                                                         \
      "a leaver makes no more calls, and nobody who waits in one hears of it")                     \
    X(ROUNDS_END, "a link that breaks again and again is nobody's fault")                          \
    X(LAST_IS_COMPARED, "the states after the last step are not compared")                         \
    X(WARM_NEEDS_PROBE, "a worker is warm without having reached every member")                    \
    X(UNDECIDED_ENTERS_NOTHING, "workers enter before their agent knows the job's mode")           \
    X(MODE_STAYS, "a late word of an undecided mode is believed")                                  \
    X(SILENCE_IS_AWAITED, "scripts that may still connect are restarted for a planned change")     \
    X(OURS_IS_KEPT, "a script that has loaded libmuster is restarted before it can join")          \
    X(STOP_BEFORE_START, "a script is started before the one before it has ended")                 \
    X(HEARS_ITS_OWN, "a script that is to end with its generation takes part in the next")         \
    X(LEFT_IS_NOT_MISSED, "a node is waited for because a worker of it has left")                  \
    X(ALL_LEFT_ENDS, "a job that all have left is begun again by whoever waits")                   \
    X(HOLD_STARTS_NOTHING, "scripts are started in a generation that holds")                       \
    X(PORT_IS_NEW, "scripts meet at the port of the generation before")                            \
    X(DIGEST_WITHHOLDS, "a step is committed though the members' states differ")                   \
    X(CHECK_WITHHOLDS, "a step is committed though two members got different gradients")           \
    X(STOP_SPREADS, "after a loss members go on though one of them has seen a difference")         \
    X(HEAL_NEEDS_MOST, "a job heals though no more than half of its members are alike")            \
    X(HEAL_NEEDS_AGREED, "a job heals by a checkpoint of a state that not all members had")        \
    X(HEAL_FORGETS_NEWER, "after a job has healed a newer checkpoint of before counts")            \
    X(HEAL_ENDS_APART, "a job that heals leaves out whom members that stopped could not reach")    \
    X(HEALS_END, "a job that differs each time goes back for ever")                                \
    X(SHARDS_BY_FOLDER, "those of one host share a state out though their folders differ")         \
    X(SAVED_BY_ALL, "a checkpoint is ended before every writer's shard is durable")                \
    X(LOST_WRITER_VOIDS, "an attempt to save waits for a writer that was lost")                    \
    X(LAST_IS_SAVED, "a run ends well though nobody could save its last state")                    \
    X(KEPT_BEFORE_REDUCE, "a step is reduced before the state before it is kept in memory")        \
    X(APART_IS_KEPT, "an agent without an orchestrator drops whom its worker can't reach")         \
    X(REACHED_AGAIN, "a worker that is out names for ever whom it could not reach once")           \
    X(APART_OUTLIVES_PLAN, "whom a worker can't reach is forgotten when a generation is planned")  \
    X(LATE_IS_TOLD, "one that comes after the end, and has not seen it, begins another run")       \
    X(RERUN_WAITS, "another run begins while nodes of the last one are here")                      \
    X(SEEN_IS_KEPT, "a node that saw the end can't begin another run")                             \
    X(FORGOTTEN_IS_KNOWN, "nothing is known of a job whose place was needed")                      \
    X(GROUP_HAS_ROOM, "a generation has more members than can train together")                     \
    X(HELPERS_STAY_OUT, "a worker that serves is taken into a generation")                         \
    X(ROSTER_IS_REPEATED, "a roster that was lost on its way is not sent again")                   \
    X(ROSTER_OUTGROWS,                                                                             \
      "an orchestrator that restarted tells rosters that are older than the last")                 \
    X(ROSTER_AWAITS_ALL, "an orchestrator that restarted leaves out helpers it has yet to hear")   \
    X(ROSTER_HAS_LIVING, "the roster has helpers that are known to be lost")                       \
    X(PLACE_IS_FREE, "two helpers of a role have the same number")                                 \
    X(LOST_HELPER_ENDS, "a helper that hangs keeps its place for ever")

/* Those of the task manager, for tests/sim/tasks. */
#define TASKS_MUTATION_MAP(X)                                                                     \
    X(FIRST_DESCRIPTION, "data that differ from what was described first are taken for the same") \
    X(START_IS_DURABLE, "tasks are given out before this life has a number of its own")           \
    X(UNCLAIMED_WAITS, "after a start tasks are given out before their workers can claim them")   \
    X(ATTEMPT_FENCE, "an attempt counts though a newer one was given out")                        \
    X(ONE_RESULT, "a result counts though the task is done")                                      \
    X(WINNER_IS_TOLD, "a report that counts is refused when it is repeated")                      \
    X(KEPT_UNTIL_ACKED, "who won is forgotten before the winner knows")                           \
    X(LOST_GOES_BACK, "what a lost worker holds is never given to others")                        \
    X(LATE_GOES_BACK, "what a worker never finishes is never given to others")                    \
    X(FAILED_IS_PARKED, "a task that always fails is tried for ever")                             \
    X(EPOCH_AFTER_EPOCH, "an epoch begins before the last one is done")                           \
    X(ONE_EVALUATION, "an evaluation begins before the last one is done")                         \
    X(NEWER_IS_EVALUATED, "a version is evaluated twice")

enum mutation {
    MUTATION_NONE,
#define X(name, text) MUTATION_##name,
    MUTATION_MAP(X) TASKS_MUTATION_MAP(X)
#undef X
        MUTATION_N
};

#ifdef MUSTER_MUTATIONS
extern enum mutation core_mutation; /* set once, before anything runs */
#define MUTATED(name) (core_mutation == MUTATION_##name)
#else
#define MUTATED(name) false
#endif

/* `cond` is demanded, unless the rule has been taken out. */
#define RULE(name, cond) (MUTATED(name) || (cond))

#endif
