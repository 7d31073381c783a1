/* Members that differ, and what becomes of the job.
 *
 * What they would commit is not to be trusted, and going on would hide it: the job ends, naming the
 * one that is not like most. With --heal it goes back instead, to the newest checkpoint whose state
 * all of them had. Then their generation is given up for good, by a record, and everyone starts
 * anew as a newcomer; whoever missed all that finds that it is out, and forgets.
 *
 * It is judged when every living member has said that it has stopped: each knows something that
 * another may lack, and whoever has stopped commits nothing that could be lost. The job heals if
 * the nodes of more than half of them were started with --heal, and that of whoever said it first.
 */
#include "core/cluster_state.h"
#include "core/mutation.h"
#include "core/text.h"

#include <string.h>

#define HEALS_MAX 3 /* in a row, without getting past the step where one began */

/* What those who have stopped say. */
struct findings {
    uint32_t living_n, living_stopped_n, stopped_n, heal_n;
    bool gradients;
    wid odd;
    uint64_t at, agreed;
};

static bool has_stopped(const struct worker *w)
{
    return w->active_inc != 0 && w->fault_inc == w->active_inc;
}

static struct findings gather(struct cluster *c, const struct job *j)
{
    struct findings f = {0};

    for (struct node *n = node_at(c, j->seniors.first); n != NULL; n = node_at(c, n->next)) {
        for (uint32_t s = 0; s < n->slots; s++) {
            const struct worker *w = node_worker(c, n, s);
            bool stopped = has_stopped(w), lives = worker_lives(n, w, w->active_inc);

            f.living_n += lives;
            f.living_stopped_n += lives && stopped;
            if (stopped) {
                f.stopped_n++;
                f.heal_n += n->heals;
                f.gradients |= w->fault == FAULT_GRADIENTS;
                f.odd = f.odd != 0 ? f.odd : w->odd;
                f.at = MAX(f.at, w->fault_step);
                f.agreed = MAX(f.agreed, w->agreed);
            }
        }
    }
    return f;
}

static void odd_text(struct cluster *c, wid odd, char *out, size_t cap)
{
    const struct node *n = node_by_number(c, wid_node(odd));

    if (odd == 0) {
        out[0] = '\0';
    } else if (n == NULL) {
        text_say(out, cap, "; the odd one is n%u.%u#%u", wid_node(odd), wid_slot(odd),
                 wid_incarnation(odd));
    } else {
        text_say(out, cap, "; the odd one is n%u.%u#%u (node '%s')", wid_node(odd), wid_slot(odd),
                 wid_incarnation(odd), n->name);
    }
}

static void end_job(struct cluster *c, struct job *j, const struct findings *f, const char *more,
                    struct effects *fx)
{
    char odd[NAME_MAX_LEN + 64];

    odd_text(c, f->odd, odd, sizeof(odd));
    record_failed(c, j, fx, "after step %llu %s%s%s", (unsigned long long)f->at,
                  f->gradients ? "workers computed different gradients"
                               : "the states of the workers differ",
                  odd, more);
}

void take_fault(struct cluster *c, struct job *j, const struct node *n, struct worker *w,
                const struct report *r, struct effects *fx)
{
    struct findings f = {.gradients = r->fault == FAULT_GRADIENTS, .odd = r->odd, .at = r->step};

    if (r->fault == FAULT_UNSAVED) {
        record_failed(c, j, fx,
                      "all %llu steps are done, but no worker could save the state after the last "
                      "one (their logs say why); started again, it goes on from what was saved "
                      "before",
                      (unsigned long long)r->step);
        return;
    }
    if (r->fault == FAULT_NONE || r->fault >= FAULT_N) {
        w->fault_inc = w->fault_inc == r->incarnation ? 0 : w->fault_inc;
        return;
    }
    w->fault_inc = w->incarnation;
    w->fault = r->fault;
    w->fault_step = r->step;
    w->odd = r->odd;
    w->agreed = r->agreed;
    /* Its generation is not active yet: it is judged when it is. Or one was given up, and it has
     * not heard of that. */
    if (w->active_inc != w->incarnation &&
        (r->entered != 0 || j->tally.survivors_n > 0 || job_heals(j))) {
        return;
    }
    if (w->active_inc != w->incarnation) {
        /* It has stopped before it had a state: its generation will never be active. */
        end_job(c, j, &f, n->heals ? "; it can't heal: what they started from differs" : "", fx);
    } else if (f.gradients || !n->heals || j->finished) {
        end_job(c, j, &f, "", fx);
    } else {
        j->faulted = true;
        job_touch(c, j);
    }
}

bool job_heals(const struct job *j)
{
    return j->active != 0 && j->active_n == 0 && !j->ended;
}

bool job_must_heal(const struct job *j)
{
    bool begun = (j->flags & GENERATION_HEALS) != 0 && j->number > j->heal.generation;

    return job_heals(j) && !begun;
}

/* Is there a checkpoint of a state that all had? All but the newest are, if one is known at all:
 * the newest but one is of a state that was compared before the newest was made. */
static bool can_go_back(const struct job *j, uint64_t agreed)
{
    return (j->checkpoint != 0 && j->checkpoint <= agreed) ||
           (j->checkpoint_before != 0 && j->checkpoint_before <= agreed);
}

static void give_up(struct job *j, const struct findings *f, uint32_t count, struct effects *fx)
{
    struct record r = {.kind = RECORD_HEAL,
                       .u.heal = {.run = j->run,
                                  .generation = j->active,
                                  .step = MUTATED(HEAL_NEEDS_AGREED) ? j->checkpoint : f->agreed,
                                  .at = f->at,
                                  .count = count,
                                  .odd = f->odd}};

    strcpy(r.u.heal.job, j->name);
    j->pending = true;
    say_record(fx, &r, false);
}

bool heal_try(struct cluster *c, struct job *j, bool deserted, struct effects *fx)
{
    struct findings f = gather(c, j);
    uint32_t count = f.at > j->heal.at ? 1 : j->heal.count + 1;
    bool judged = f.living_n > 0 ? f.living_stopped_n == f.living_n : deserted;
    char more[96];

    j->faulted = f.stopped_n > 0;
    if (!j->faulted && j->saved > j->checkpoint) {
        job_touch(c, j); /* That had to wait for this. */
    }
    if (!j->faulted || !judged || j->saving) {
        return false;
    }
    if (f.gradients || j->finished) {
        end_job(c, j, &f, "", fx);
    } else if (f.heal_n * 2 <= f.stopped_n) {
        end_job(c, j, &f, f.heal_n > 0 ? "; most nodes were started without --heal" : "", fx);
    } else if (!RULE(HEAL_NEEDS_MOST, f.odd != 0)) {
        end_job(c, j, &f, "; it can't heal: no more than half of them are alike", fx);
    } else if (!can_go_back(j, f.agreed)) {
        end_job(c, j, &f, "; it can't heal: there is no checkpoint of a state that all had", fx);
    } else if (!RULE(HEALS_END, count <= HEALS_MAX)) {
        text_say(more, sizeof(more), "; it went back %u times, and did not get past step %llu",
                 HEALS_MAX, (unsigned long long)j->heal.at);
        end_job(c, j, &f, more, fx);
    } else {
        give_up(j, &f, count, fx);
    }
    return true;
}

/* All have what they start from, and say so. */
void note_healed(struct cluster *c, struct job *j, struct effects *fx)
{
    const struct node *first = node_at(c, j->seniors.first);
    char odd[NAME_MAX_LEN + 64], text[TEXT_MAX_LEN];
    uint64_t step = j->base_step;

    for (uint32_t s = 0; first != NULL && s < first->slots; s++) {
        const struct worker *w = node_worker(c, first, s);

        step = w->active_inc != 0 ? w->step : step;
    }
    j->step = step;
    odd_text(c, j->heal.odd, odd, sizeof(odd));
    text_say(text, sizeof(text), "after step %llu the states of the workers differed%s",
             (unsigned long long)j->heal.at, odd);
    say_note(fx, &(struct note){.kind = NOTE_HEALED,
                                .job = j->name,
                                .worker = j->heal.odd,
                                .generation = j->active,
                                .value = step,
                                .reason = text});
}
