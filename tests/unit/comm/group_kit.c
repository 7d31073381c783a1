#include "unit/comm/group_kit.h"

#include "lib/move.h"
#include "unit/unit.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

void kit_nap(void)
{
    const struct timespec t = {.tv_nsec = 1000000};

    nanosleep(&t, NULL);
}

void kit_config(uint32_t i, unsigned paths, bool apart, struct comm_config *config_out)
{
    *config_out = (struct comm_config){.job = "kit",
                                       .run = 1,
                                       .self = wid_make(i + 1, 0, 1),
                                       .host = apart ? i + 1 : 1,
                                       .paths = paths};
    memset(config_out->run_key, 'r', KEY_BYTES);
}

void kit_open(struct kit *kit, uint32_t i, unsigned paths, bool apart)
{
    struct comm_config config;
    struct member *m = &kit->members[i];
    char error[COMM_ERROR_MAX] = "";

    kit_config(i, paths, apart, &config);
    if (comm_open(&config, &kit->comms[i], error) != MU_OK) {
        fail_msg("%s", error);
    }
    *m = (struct member){.worker = config.self, .host = config.host};
    snprintf(m->addr, sizeof(m->addr), "%s", comm_address(kit->comms[i]));
}

void kit_open_all(struct kit *kit, uint32_t n, unsigned paths, bool apart)
{
    *kit = (struct kit){0};
    for (uint32_t i = 0; i < n; i++) {
        kit_open(kit, i, paths, apart);
    }
}

void kit_close(struct kit *kit)
{
    for (uint32_t i = 0; i < KIT_MAX; i++) {
        comm_close(kit->comms[i]);
        kit->comms[i] = NULL;
    }
}

const struct generation *kit_generation(const struct kit *kit, uint64_t number, unsigned who,
                                        struct kit_room *room)
{
    struct generation *g = &room->generation;

    *g = (struct generation){.job = "kit",
                             .run = 1,
                             .number = number,
                             .kind = GENERATION_FAILURE,
                             .members = room->members};
    memset(g->key, (int)number, KEY_BYTES);
    for (uint32_t i = 0; i < KIT_MAX; i++) {
        if (who & 1u << i) {
            g->members[g->members_n++] = kit->members[i];
        }
    }
    return g;
}

/* ---- all at once ---- */

struct mover {
    pthread_t thread;
    struct comm *comm;
    const struct generation *g;
    uint32_t round;
    int64_t timeout_ms;
    wid missing;
    int rc;
};

static void *move_one(void *arg)
{
    struct mover *m = arg;

    m->rc = move_to(m->comm, m->g, m->round, m->timeout_ms, &m->missing);
    return NULL;
}

void kit_move_each(struct kit *kit, const struct generation *const g[KIT_MAX], int64_t timeout_ms,
                   struct kit_moved *moved_out)
{
    struct mover movers[KIT_MAX] = {0};

    for (uint32_t i = 0; i < KIT_MAX; i++) {
        if (g[i] != NULL) {
            movers[i] = (struct mover){
                .comm = kit->comms[i], .g = g[i], .round = kit->round, .timeout_ms = timeout_ms};
            assert_int_equal(pthread_create(&movers[i].thread, NULL, move_one, &movers[i]), 0);
        }
    }
    for (uint32_t i = 0; i < KIT_MAX; i++) {
        if (g[i] != NULL) {
            assert_int_equal(pthread_join(movers[i].thread, NULL), 0);
        }
        moved_out->rc[i] = movers[i].rc;
        moved_out->missing[i] = movers[i].missing;
    }
}

void kit_move(struct kit *kit, const struct generation *g, unsigned who, int64_t timeout_ms,
              struct kit_moved *moved_out)
{
    const struct generation *each[KIT_MAX] = {0};

    for (uint32_t i = 0; i < KIT_MAX; i++) {
        each[i] = who & 1u << i ? g : NULL;
    }
    kit_move_each(kit, each, timeout_ms, moved_out);
}

void kit_enter(struct kit *kit, uint64_t number, unsigned who)
{
    struct kit_room room;
    struct kit_moved moved;

    kit_move(kit, kit_generation(kit, number, who, &room), who, KIT_LONG_MS, &moved);
    for (uint32_t i = 0; i < KIT_MAX; i++) {
        assert_int_equal(moved.rc[i], MU_OK);
    }
}

void kit_link_all(struct comm *c, const struct generation *g)
{
    assert_int_equal(comm_want(c, g), MU_OK);
    kit_until(comm_linked(c) == g->number);
}

static void *wait_for_ever(void *arg)
{
    struct kit_waiting *w = arg;

    w->rc = move_to(w->comm, w->g, 0, -1, NULL);
    return NULL;
}

void kit_wait_begin(struct kit_waiting *w, struct comm *c, const struct generation *g)
{
    *w = (struct kit_waiting){.comm = c, .g = g, .rc = MU_EAGAIN};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_ever, w), 0);
}

int kit_wait_end(struct kit_waiting *w)
{
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    return w->rc;
}

static void *barrier_one(void *arg)
{
    const struct comm_call call = {.op = COMM_BARRIER, .timeout_ms = KIT_LONG_MS};
    struct mover *m = arg;

    m->rc = comm_run(m->comm, &call, NULL);
    return NULL;
}

void kit_barrier(struct kit *kit, unsigned who)
{
    struct mover movers[KIT_MAX] = {0};

    for (uint32_t i = 0; i < KIT_MAX; i++) {
        if (who & 1u << i) {
            movers[i].comm = kit->comms[i];
            assert_int_equal(pthread_create(&movers[i].thread, NULL, barrier_one, &movers[i]), 0);
        }
    }
    for (uint32_t i = 0; i < KIT_MAX; i++) {
        if (who & 1u << i) {
            assert_int_equal(pthread_join(movers[i].thread, NULL), 0);
            assert_int_equal(movers[i].rc, MU_OK);
        }
    }
}

struct link *kit_link(struct kit *kit, uint32_t i, uint32_t j)
{
    const struct comm_group *g = &kit->comms[i]->group;

    for (uint32_t r = 0; r < g->n; r++) {
        if (g->members[r].worker == kit->members[j].worker) {
            return g->links[r];
        }
    }
    return NULL;
}
