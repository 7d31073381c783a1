/* What a member says of what it saves: with each READY and SETTLE, and at once when somebody may be
 * waiting for nothing else. How the others take it is in step_save.c. */
#include "core/step_state.h"

void put_words(struct step *s, struct attempt *saved, uint32_t *saved_n)
{
    *saved_n = 0;
    for (int i = 0; i < SAVES_N; i++) {
        saved[i] = s->saves[i].own;
        saved[i].folder = own_folder(s, i);
        s->saves[i].told = s->saves[i].own;
        *saved_n = s->config.saves[i] != SAVES_NEVER ? SAVES_N : *saved_n;
    }
    s->words_in = s->term;
    s->words_ms = s->now_ms;
}

/* How its own shard went, or that there will be none, for the one who waits for it. */
static bool has_word(const struct step *s, const struct saving *v)
{
    const struct attempt *a = &v->own, *told = &v->told;
    const bool part = v->group != NULL && !ends_attempt(s, v) &&
                      (a->how == SAVE_DURABLE || a->how == SAVE_FAILED);

    return (part || v->alone || (!s->settled && a->how >= SAVE_WHOLE)) &&
           (a->how != told->how || a->step != told->step || a->generation != told->generation ||
            a->decided != told->decided || s->words_in != s->term);
}

static bool can_say(const struct step *s)
{
    return s->there && in_rounds(s) && s->phase != STEP_PARKED;
}

/* Newcomers know of nobody's folder, nor anybody of theirs. */
static bool has_folder(const struct step *s)
{
    bool saves = false;

    for (int i = 0; i < SAVES_N; i++) {
        saves |= s->config.saves[i] != SAVES_NEVER;
    }
    return saves && s->words_in != s->term && membership_has_newcomers(s->group);
}

uint64_t words_due_ms(const struct step *s)
{
    bool saves = false;

    for (int i = 0; i < SAVES_N; i++) {
        const struct saving *v = &s->saves[i];

        saves |= is_busy(v) || ends_attempt(s, v);
    }
    return saves && can_say(s) && s->config.silence_ms != 0 ? s->words_ms + s->config.silence_ms / 2
                                                            : UINT64_MAX;
}

/* Said at once, not with the next step only: somebody may be waiting for nothing else. While it
 * saves it says so now and then, for it may do nothing else for longer than one may be silent. */
void words_try(struct step *s, struct step_effects *fx)
{
    struct msg_ready word = {.from = s->config.self, .step = s->committed, .newest = s->number};
    bool due = words_due_ms(s) <= s->now_ms;

    if (!can_say(s)) {
        return;
    }
    due |= has_folder(s);
    for (int i = 0; i < SAVES_N; i++) {
        due |= has_word(s, &s->saves[i]);
    }
    if (!due) {
        return;
    }
    word = s->has_said ? s->said : word;
    put_words(s, word.saved, &word.saved_n);
    fx->emit(fx, &(struct step_effect){.kind = STEP_SEND_READY, .term = s->term, .ready = &word});
}
