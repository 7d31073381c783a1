/* Who saves where: those who have the same folder write one checkpoint together. Each member says
 * in its words which folder it has; whoever has not said yet is taken to have the one that it
 * should have. */
#include "core/step_state.h"

uint64_t own_folder(const struct step *s, int place)
{
    return s->config.saves[place] != SAVES_NEVER ? s->config.folders[place] : NO_FOLDER;
}

/* Where members save does not change with the group. */
void saves_enter(struct step *s, const struct membership *m)
{
    struct folders *old = s->folders;

    s->folders = s->scratch;
    s->scratch = old;
    for (uint32_t i = 0; i < m->g.members_n; i++) {
        const uint32_t was =
            s->group != NULL ? membership_rank(s->group, m->members[i].worker) : NO_RANK;

        s->folders[i] = was != NO_RANK ? old[was] : (struct folders){{0}};
        for (int k = 0; k < SAVES_N && m->members[i].worker == s->config.self; k++) {
            s->folders[i].at[k] = own_folder(s, k);
        }
    }
}

/* Of one who has not said where it saves. */
static bool may_be_near(const struct step *s, enum save_place place, uint32_t rank)
{
    const struct member *m = s->group->members;

    return s->config.saves[place] != SAVES_HOST || m[rank].host == m[s->me].host;
}

bool step_is_near(const struct step *s, enum save_place place, uint32_t rank)
{
    const uint64_t there = s->folders[rank].at[place];

    return there != 0 && !MUTATED(SHARDS_BY_FOLDER) ? there == s->folders[s->me].at[place]
                                                    : may_be_near(s, place, rank);
}

bool writes(const struct step *s, enum save_place place, uint32_t rank)
{
    return (s->committed >= s->first || is_caught_up(s->group, rank)) &&
           step_is_near(s, place, rank);
}

bool step_writes(const struct step *s, enum save_place place, uint32_t *writer_out,
                 uint32_t *writers_n_out)
{
    const bool one = s->config.saves[place] == SAVES_ONE;
    uint32_t n = 0, before_n = 0;

    *writer_out = *writers_n_out = 0;
    if (s->me == NO_RANK) {
        return false;
    }
    for (uint32_t i = 0; i < group_n(s); i++) {
        n += writes(s, place, i);
        before_n += writes(s, place, i) && i < s->me;
    }
    *writer_out = before_n;
    *writers_n_out = one ? 1 : n;
    return writes(s, place, s->me) && (!one || before_n == 0);
}

uint32_t first_near(const struct step *s, enum save_place place)
{
    uint32_t i = 0;

    while (i < s->me && (s->peers[i].lacks || !step_is_near(s, place, i))) {
        i++;
    }
    return i;
}

bool is_first(const struct step *s, enum save_place place)
{
    return first_near(s, place) == s->me;
}

bool knows_folders(const struct step *s, enum save_place place)
{
    bool knows = true;

    for (uint32_t i = 0; i < s->me && s->folders[s->me].at[place] != 0; i++) {
        knows &= s->folders[i].at[place] != 0 || !may_be_near(s, place, i);
    }
    return knows;
}
