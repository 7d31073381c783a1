#include "unit/run/peer_kit.h"

#include "comm/comm_state.h"
#include "run/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum what { JOIN, LEAVE, GENERATION, ACTIVE, CALL, AWAIT_LOSS };

struct order {
    enum what what;
    char addr[ADDR_MAX_LEN];
    struct generation g;
    struct member members[4];
    bool regroups;
    int32_t mine;
    unsigned flags;
};

struct answer {
    int status;
    int32_t sum;
    char addr[ADDR_MAX_LEN];
};

/* ---- in its process ---- */

static struct fake fake;
static mu_run *self;

static void join(const char *address, struct answer *a)
{
    union wire_any msg;
    mu_config config;

    mu_config_init(&config);
    config.address = address[0] != '\0' ? address : NULL;
    fake_open_as(&fake, PEER, FAKE_LIFE, 1000);
    assert_int_equal(mu_join(&config, &self), MU_OK);
    fake_attached(&fake);
    strcpy(a->addr, fake_next(&fake, WIRE_REPORT, &msg)->report.addr);
    fake_warm(&fake, self);
}

static void leave(void)
{
    if (self != NULL) {
        fake_leave(&fake, self);
        self = NULL;
    }
}

static void call(const struct order *o, struct answer *a)
{
    mu_call c;

    mu_call_init(&c, MU_ALLREDUCE);
    c.in = &o->mine;
    c.out = &a->sum;
    c.count = 1;
    c.dtype = MU_I32;
    c.flags = o->flags;
    c.timeout_ms = PEER_LONG_MS;
    a->status = o->regroups ? mu_regroup(self, PEER_LONG_MS) : MU_OK;
    a->status = a->status == MU_OK ? mu_make(self, &c, NULL) : a->status;
}

static void await_active(uint64_t generation)
{
    bool knows = false;

    while (!knows) {
        pthread_mutex_lock(&self->lock);
        knows = self->active == generation;
        pthread_mutex_unlock(&self->lock);
        usleep(1000);
    }
}

static void await_loss(mu_run *run, uint32_t rank)
{
    while (atomic_load(&run->data.comm->group.links[rank]->lost) == MU_OK) {
        usleep(100);
    }
}

static void obey(struct order *o, struct answer *a)
{
    struct msg_active active = {o->g.number};

    o->g.members = o->members;
    switch (o->what) {
    case JOIN:
        join(o->addr, a);
        break;
    case LEAVE:
        leave();
        break;
    case GENERATION:
        fake_say(&fake, WIRE_GENERATION, &o->g);
        fake_told(self, o->g.number);
        break;
    case ACTIVE:
        fake_say(&fake, WIRE_ACTIVE, &active);
        await_active(active.generation);
        break;
    case CALL:
        call(o, a);
        break;
    case AWAIT_LOSS:
        await_loss(self, 1);
        break;
    }
}

_Noreturn static void live(int fd)
{
    struct order o;

    setenv("CMOCKA_TEST_ABORT", "1", 1); /* A failure here is for the other process to see. */
    while (recv(fd, &o, sizeof(o), 0) == (ssize_t)sizeof(o)) {
        struct answer a = {0};

        obey(&o, &a);
        if (send(fd, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a)) {
            break;
        }
    }
    if (self != NULL) { /* One that was left out would wait to be let go. */
        fake_say(&fake, WIRE_ENDED, &(struct msg_ended){.run = 1});
    }
    leave();
    _exit(0);
}

/* ---- in the test ---- */

static void begin(struct peer *p, const struct order *o)
{
    assert_true(send(p->fd, o, sizeof(*o), MSG_NOSIGNAL) == (ssize_t)sizeof(*o));
}

static struct answer end(struct peer *p)
{
    struct answer a;

    assert_true(recv(p->fd, &a, sizeof(a), 0) == (ssize_t)sizeof(a));
    return a;
}

void peer_join(struct peer *p)
{
    struct order o = {.what = JOIN};

    strcpy(o.addr, p->addr);
    begin(p, &o);
    strcpy(p->addr, end(p).addr);
}

void peer_open(struct peer *p)
{
    int fds[2];

    *p = (struct peer){0};
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    p->pid = fork();
    assert_true(p->pid >= 0);
    if (p->pid == 0) {
        close(fds[0]);
        live(fds[1]);
    }
    close(fds[1]);
    p->fd = fds[0];
    peer_join(p);
}

void peer_leave(struct peer *p)
{
    begin(p, &(struct order){.what = LEAVE});
    (void)end(p);
}

void peer_close(struct peer *p)
{
    int status;

    if (p->pid != 0) {
        close(p->fd);
        assert_true(waitpid(p->pid, &status, 0) == p->pid && status == 0);
        p->pid = 0;
    }
}

void peer_generation(struct peer *p, const struct generation *g)
{
    struct order o = {.what = GENERATION, .g = *g};

    assert_true(g->members_n <= ARRAY_LEN(o.members));
    memcpy(o.members, g->members, g->members_n * sizeof(*g->members));
    begin(p, &o);
    (void)end(p);
}

void peer_active(struct peer *p, uint64_t generation)
{
    begin(p, &(struct order){.what = ACTIVE, .g.number = generation});
    (void)end(p);
}

void peer_begin(struct peer *p, bool regroups, int32_t mine, unsigned flags)
{
    begin(p, &(struct order){.what = CALL, .regroups = regroups, .mine = mine, .flags = flags});
}

int peer_end(struct peer *p, int32_t *sum_out)
{
    struct answer a = end(p);

    *sum_out = a.sum;
    return a.status;
}

void peer_reset_link(struct peer *p, mu_run *run)
{
    (void)shutdown(run->data.comm->group.links[0]->fd, SHUT_RDWR);
    await_loss(run, 0);
    begin(p, &(struct order){.what = AWAIT_LOSS});
    (void)end(p);
}
