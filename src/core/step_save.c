/* States that are saved: who writes what, and when that is a checkpoint.
 *
 * The state after a step that is to be saved is cut by the members of one generation who have the
 * same folder: each writer copies its shard and writes it while training goes on. READY and SETTLE
 * say how each stands with its last attempt; a member whose shard is written, or is not going to
 * be, says so at once. The first of the writers ends the checkpoint (writes its manifest) when all
 * writers have said that their shards are durable, members still or not. Who has no shard counts
 * for nothing.
 *
 * A writer that has failed, or did not take part, or is lost before it has said so, makes the
 * attempt void, and so does the loss of the first writer before it has said that the checkpoint is
 * there. Then the next step's state is saved. If that can't be (there is no further step, or each
 * state is to be kept), the first of those who are left saves this one, alone, at once.
 *
 * What is kept in memory: nobody reduces a step before the state before it is kept. But a member
 * that has no part in a reduce is not waited for there, and may be lost before it has kept its
 * share. So members that all hold a result after a loss commit it only when one of each host has
 * said that the state before is kept. The last word after the final step is said when the last
 * state is saved; if by the last words of all nobody could, that is the run's fault. */
#include "core/step_state.h"

#include <stdlib.h>
#include <string.h>

int saves_open(struct step *s)
{
    for (int i = 0; i < SAVES_N; i++) {
        s->saves[i].said = calloc(s->config.members_max, 1);
        if (s->saves[i].said == NULL) {
            return MU_ENOMEM;
        }
    }
    return MU_OK;
}

static void end_attempt(struct saving *v)
{
    membership_close(v->group);
    v->group = NULL;
    v->ending = false;
}

void saves_close(struct step *s)
{
    for (int i = 0; i < SAVES_N; i++) {
        end_attempt(&s->saves[i]);
        free(s->saves[i].said);
    }
}

void saves_forget(struct step *s)
{
    for (int i = 0; i < SAVES_N; i++) {
        struct saving *v = &s->saves[i];

        end_attempt(v);
        *v = (struct saving){.own = v->own, .said = v->said};
        v->own.decided = 0;
    }
}

/* ---- those who write it ---- */

bool ends_attempt(const struct step *s, const struct saving *v)
{
    return v->group != NULL && v->group->members[v->first].worker == s->config.self;
}

static bool is_left(const struct step *s, const struct saving *v, uint32_t rank)
{
    const wid worker = v->group->members[rank].worker;

    return worker == s->config.self ||
           (s->phase != STEP_PARKED && membership_rank(s->group, worker) != NO_RANK);
}

/* ---- when ---- */

static bool is_due(const struct step *s, enum save_place place)
{
    const uint64_t every = s->config.save_every;

    return place == SAVE_MEMORY || s->save || (every != 0 && s->committed % every == 0) ||
           is_done(s);
}

/* What is written now is waited for, before the state that is here goes. */
static bool is_needed(const struct step *s, enum save_place place)
{
    return place == SAVE_DISK ? is_done(s) : !is_done(s);
}

bool is_busy(const struct saving *v)
{
    return v->own.how == SAVE_WRITING || v->ending;
}

static bool may_save(const struct step *s, enum save_place place)
{
    return s->config.saves[place] != SAVES_NEVER && s->committed > 0 && s->applied &&
           in_rounds(s) && s->phase != STEP_PARKED && s->phase != STEP_STOPPED &&
           s->phase != STEP_LOADING;
}

bool save_next(const struct step *s, struct step_todo *todo)
{
    for (int i = 0; i < SAVES_N; i++) {
        const struct saving *v = &s->saves[i];
        const bool alone = v->alone && (s->settled || s->there) && is_needed(s, i) &&
                           is_first(s, i) && knows_folders(s, i);

        if (!may_save(s, i) || is_busy(v) || (v->own.decided == s->committed && !alone)) {
            continue;
        }
        todo->what = STEP_SAVE;
        todo->place = (enum save_place)i;
        todo->alone = alone;
        return true;
    }
    return false;
}

/* It saves the last state if those who write it now fail: so it waits until it knows that. */
static bool stands_by(const struct step *s, enum save_place place)
{
    return place == SAVE_DISK && is_needed(s, place) && is_first(s, place);
}

bool save_lacks(const struct step *s, enum save_place place)
{
    const struct saving *v = &s->saves[place];

    return may_save(s, place) &&
           (v->own.decided != s->committed || (v->own.step == s->committed && is_busy(v)) ||
            (v->group != NULL && v->step == s->committed &&
             (ends_attempt(s, v) || stands_by(s, place))) ||
            (v->alone && is_needed(s, place) && (is_first(s, place) || !knows_folders(s, place))));
}

/* How a member stands with its last one. */
static const struct attempt *attempt_of(const struct step *s, enum save_place place, uint32_t rank)
{
    return rank == s->me ? &s->saves[place].own : &s->peers[rank].saved[place];
}

/* It is there, or nobody else tries. */
static bool ends_there(const struct step *s, uint32_t rank, const struct attempt *a)
{
    return a->how == SAVE_WHOLE || (a->how == SAVE_FAILED && rank == first_near(s, SAVE_MEMORY));
}

bool is_kept(const struct step *s)
{
    bool kept = s->config.saves[SAVE_MEMORY] == SAVES_NEVER || s->committed == 0;

    for (uint32_t i = 0; i < group_n(s) && !kept; i++) {
        const struct attempt *a = attempt_of(s, SAVE_MEMORY, i);

        kept = step_is_near(s, SAVE_MEMORY, i) &&
               (a->step > s->committed || /* It has committed a step more. */
                (a->step == s->committed && ends_there(s, i, a)));
    }
    return kept;
}

bool is_unsaved(const struct step *s)
{
    bool failed = false, whole = false;

    for (uint32_t i = 0; i < group_n(s); i++) {
        const struct attempt *a = attempt_of(s, SAVE_DISK, i);

        failed |= a->step == s->committed && a->how == SAVE_FAILED;
        whole |= a->step == s->committed && a->how == SAVE_WHOLE;
    }
    return failed && !whole;
}

bool step_awaits_words(const struct step *s)
{
    bool awaits = false;

    for (int i = 0; i < SAVES_N; i++) {
        const struct saving *v = &s->saves[i];

        awaits |= ends_attempt(s, v) && !is_busy(v);
    }
    return awaits;
}

bool save_waits_for(const struct step *s, uint32_t rank)
{
    const struct saving *v = &s->saves[s->phase == STEP_CLOSING ? SAVE_DISK : SAVE_MEMORY];
    uint32_t writer;

    if ((s->phase != STEP_COMPUTING && s->phase != STEP_CLOSING) || !ends_attempt(s, v) ||
        is_busy(v)) {
        return false;
    }
    writer = membership_rank(v->group, s->group->members[rank].worker);
    return writer != NO_RANK && v->said[writer] == SAVE_WRITING;
}

static void ask_again(struct step *s, enum save_place place, bool lost)
{
    struct saving *v = &s->saves[place];

    if (is_needed(s, place)) {
        v->alone = true;
    } else if (place == SAVE_DISK && (lost || !v->again)) {
        s->save_asked = true;
        v->again = true; /* If the disk is full, say, that is enough until the next is due. */
    }
}

static void say_unsaved(enum save_place place, uint64_t step, enum step_unsaved why,
                        struct step_effects *fx)
{
    fx->emit(fx, &(struct step_effect){
                     .kind = STEP_UNSAVED, .place = place, .step = step, .unsaved = why});
}

/* There is a state: is it to be saved by the members of this generation? */
static void decide(struct step *s, enum save_place place, struct step_effects *fx)
{
    struct saving *v = &s->saves[place];

    if (v->own.decided == s->committed || !s->applied) {
        return;
    }
    if (s->config.saves[place] == SAVES_NEVER || !is_due(s, place)) {
        v->own.decided = s->committed;
    } else if (s->number != s->committed_in || !may_save(s, place)) {
        /* Others may have cut it before the loss; or this one left, and may come back. */
        v->own.decided = s->committed;
        ask_again(s, place, true);
        say_unsaved(place, s->committed, STEP_UNSAVED_LOST, fx);
    } else if (!is_needed(s, place) && (is_busy(v) || ends_attempt(s, v))) {
        v->own.decided = s->committed;
        s->save_asked |= v->again; /* It stops writing what is of no use: the next one, then. */
        say_unsaved(place, s->committed, STEP_UNSAVED_BUSY, fx);
    }
}

void saves_commit(struct step *s)
{
    for (int i = 0; i < SAVES_N; i++) {
        s->saves[i].alone = false;
    }
    s->committed_in = s->number;
}

/* What a state was read from is there; but each folder in memory has its own. The last state may be
 * on its way to the disk, and whoever writes it be lost: so this worker follows that attempt, or,
 * in another folder, saves it, too. */
void saves_load(struct step *s)
{
    for (int i = 0; i < SAVES_N; i++) {
        struct saving *v = &s->saves[i];
        bool given = i == SAVE_MEMORY, follows = false;

        for (uint32_t r = 0; i == SAVE_DISK && is_done(s) && r < group_n(s); r++) {
            given |= is_caught_up(s->group, r);
            follows |= is_caught_up(s->group, r) && step_is_near(s, i, r);
        }
        end_attempt(v);
        if (v->own.how == SAVE_FAILED) {
            v->own.how = SAVE_NONE; /* That was before; what is here now was saved, or is there. */
        }
        given &= s->config.saves[i] != SAVES_NEVER;
        v->own.decided = given && follows ? 0 : s->committed;
        v->alone = given && !follows;
    }
    s->committed_in = s->number;
}

/* ---- the attempt ---- */

/* What a writer has said, before or after this worker has cut the state itself. */
static void take_word(struct saving *v, uint32_t rank, const struct attempt *a)
{
    const bool same = a->step == v->step && a->generation == v->group->g.number;

    if (same && rank == v->first && a->how == SAVE_WHOLE) {
        v->own.how = SAVE_WHOLE; /* It is known here, too, should the first writer be lost. */
        end_attempt(v);
    } else if (same && rank == v->first && a->how == SAVE_FAILED) {
        v->said[rank] = SAVE_FAILED; /* Its own shard may have been durable before. */
    } else if (v->said[rank] == SAVE_WRITING && (same || a->decided >= v->step)) {
        v->said[rank] = same && a->how != SAVE_NONE ? a->how : SAVE_FAILED;
    }
}

void on_cut(struct step *s, const struct step_event *e)
{
    struct saving *v = &s->saves[e->place];
    struct step_todo todo = {.what = STEP_WAIT};
    uint32_t n = 0;

    if (e->step != s->committed || e->term != s->term || !save_next(s, &todo) ||
        todo.place != e->place) {
        return;
    }
    end_attempt(v);
    v->group = membership_keep(s->group);
    v->step = s->committed;
    v->first = NO_RANK;
    for (uint32_t i = 0; i < group_n(s); i++) {
        const bool may = todo.alone ? i == s->me : writes(s, e->place, i);

        v->said[i] = may && n < e->shards_n ? SAVE_WRITING : SAVE_NONE;
        v->first = may && n == 0 ? i : v->first;
        n += may;
    }
    if (v->said[s->me] != SAVE_NONE) {
        v->said[s->me] = e->how;
    }
    v->own = (struct attempt){s->committed, s->number, v->said[s->me], s->committed, 0};
    s->heard_ms = s->now_ms;
    v->was_alone = todo.alone;
    v->alone = v->first == NO_RANK; /* Those who write it have other folders. */
    if (v->alone) {
        end_attempt(v);
    }
    for (uint32_t i = 0; v->group != NULL && i < group_n(s); i++) {
        if (i != s->me) {
            take_word(v, i, &s->peers[i].saved[e->place]);
        }
    }
}

/* A shard of an attempt that was given up. Whoever is to save the state on disk instead may wait
 * for this word alone; what is kept in memory is saved again by its own rule (ask_again()). */
static void void_own(struct saving *v, enum save_place place)
{
    if (place == SAVE_DISK && v->own.how == SAVE_DURABLE) {
        v->own.how = SAVE_FAILED;
    }
}

/* How it went here; what is no longer waited for only frees the writer. */
void on_saved(struct step *s, const struct step_event *e)
{
    struct saving *v = &s->saves[e->place];

    if (e->step != v->own.step || e->generation != v->own.generation) {
        return;
    }
    v->own.how = e->how;
    s->heard_ms = s->now_ms;
    if (v->group == NULL || v->step != e->step || v->group->g.number != e->generation) {
        void_own(v, e->place);
        return;
    }
    v->ending = false;
    if (e->how == SAVE_WHOLE) {
        end_attempt(v);
        v->again = false;
    } else {
        v->said[membership_rank(v->group, s->config.self)] = e->how;
    }
}

void on_words(struct step *s, uint32_t rank, const struct attempt *saved, uint32_t saved_n)
{
    for (uint32_t i = 0; i < SAVES_N; i++) {
        struct attempt *a = &s->peers[rank].saved[i];
        struct saving *v = &s->saves[i];
        uint32_t writer;

        *a = i < saved_n ? saved[i] : (struct attempt){.decided = UINT64_MAX, .folder = NO_FOLDER};
        s->folders[rank].at[i] = a->folder;
        writer =
            v->group != NULL ? membership_rank(v->group, s->group->members[rank].worker) : NO_RANK;
        if (writer != NO_RANK) {
            take_word(v, writer, a);
        }
    }
}

static void give_up(struct step *s, enum save_place place, bool lost, struct step_effects *fx)
{
    struct saving *v = &s->saves[place];
    const bool here = v->step == s->committed;

    say_unsaved(place, v->step, lost ? STEP_UNSAVED_LOST : STEP_UNSAVED_FAILED, fx);
    void_own(v, place);
    end_attempt(v);
    if ((lost || !v->was_alone) && (here || !is_needed(s, place))) {
        ask_again(s, place, lost);
    }
}

/* The first of the writers has all their words, or one of them will not come. */
static void end_try(struct step *s, enum save_place place, struct step_effects *fx)
{
    struct saving *v = &s->saves[place];
    bool lost = false, failed = false, all = true;

    for (uint32_t i = 0; i < v->group->g.members_n; i++) {
        const bool writing = v->said[i] == SAVE_WRITING;

        all &= !writing;
        failed |= v->said[i] == SAVE_FAILED;
        lost |= writing && !is_left(s, v, i);
    }
    lost &= !MUTATED(LOST_WRITER_VOIDS);
    if (failed || lost) {
        give_up(s, place, !failed, fx);
    } else if (v->own.how == SAVE_DURABLE && RULE(SAVED_BY_ALL, all)) {
        v->ending = true;
        fx->emit(fx, &(struct step_effect){.kind = STEP_SAVED, .place = place, .step = v->step});
    }
}

/* It is for another to end: will that be? If this worker may have to save the state instead, it
 * matters, too, that the other could not. */
static void follow_try(struct step *s, enum save_place place, struct step_effects *fx)
{
    const struct saving *v = &s->saves[place];
    const bool lost = !is_left(s, v, v->first);
    const bool needed = is_needed(s, place) && v->step == s->committed;

    if (lost || (needed && v->said[v->first] == SAVE_FAILED)) {
        give_up(s, place, lost, fx);
    }
}

void save_try(struct step *s, struct step_effects *fx)
{
    for (int i = 0; i < SAVES_N && s->group != NULL; i++) {
        struct saving *v = &s->saves[i];

        if (ends_attempt(s, v) && !v->ending) {
            end_try(s, i, fx);
        } else if (v->group != NULL && !ends_attempt(s, v)) {
            follow_try(s, i, fx);
        }
        decide(s, i, fx);
    }
}
