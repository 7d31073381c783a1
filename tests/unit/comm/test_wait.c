/* Processes that wait for each other: nobody sleeps on when there is something to do. */
#include "unit/comm/shm_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOREVER_MS 60000 /* against hanging */

static uint64_t in_ms(uint64_t ms)
{
    return clock_ns() + ms * 1000000u;
}

/* ---- processes ---- */

struct play {
    int rank, n;
    int sockets[4];   /* by rank of the other one */
    uint32_t cores_n; /* that each thinks it has: decides whether it looks or sleeps at once */
    unsigned by_poll; /* bit by rank: that one has a socket to wait for, too */
    unsigned without_waitv; /* … this one's kernel has no futex_waitv */
    uint64_t rounds_n;
    void (*script)(struct play *p, struct kit_worker *w);
};

static void deny_waitv(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 449, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = ARRAY_LEN(code), .filter = code};

    mu_assert(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    mu_assert(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    mu_assert(syscall(449, NULL, 0, 0, NULL, 0) == -1 && errno == ENOSYS);
}

static _Noreturn void play_one(struct play *p)
{
    static struct kit_worker w;

    alarm(FOREVER_MS / 1000);
    if (p->without_waitv >> p->rank & 1) {
        deny_waitv();
    }
    kit_open(&w, (uint32_t)p->rank, (uint32_t)p->n, p->cores_n);
    for (int r = 0; r < p->n; r++) {
        if (p->sockets[r] >= 0) {
            kit_link(&w, (uint32_t)r, p->sockets[r]);
        }
    }
    for (int r = 0; r < p->n; r++) {
        if (w.links[r] != NULL) {
            kit_meet(w.links[r]);
        }
    }
    wait_begin(&w.c.waiter, &w.c);
    p->script(p, &w);
    kit_close(&w);
    _exit(0);
}

/* All ranks, each linked to each, in a process of its own; each must end well. */
static void play(struct play *p)
{
    int sockets[4][4];
    pid_t pids[4];

    memset(sockets, -1, sizeof(sockets));
    for (int a = 0; a < p->n; a++) {
        for (int b = a + 1; b < p->n; b++) {
            int fds[2];

            assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
            sockets[a][b] = fds[0];
            sockets[b][a] = fds[1];
        }
    }
    for (int r = 0; r < p->n; r++) {
        pids[r] = fork();
        assert_true(pids[r] >= 0);
        if (pids[r] == 0) {
            p->rank = r;
            memcpy(p->sockets, sockets[r], sizeof(p->sockets));
            play_one(p);
        }
    }
    for (int r = 0; r < p->n; r++) {
        int status;

        assert_int_equal(waitpid(pids[r], &status, 0), pids[r]);
        assert_int_equal(status, 0);
    }
    for (int a = 0; a < p->n; a++) {
        for (int b = 0; b < p->n; b++) {
            if (sockets[a][b] >= 0) {
                close(sockets[a][b]);
            }
        }
    }
}

static void wait_a_turn(struct play *p, struct kit_worker *w, struct link *l, bool rx, bool tx)
{
    l->ops->await(l, rx, tx, &w->c.waiter);
    if (p->by_poll >> p->rank & 1) {
        wait_add_fd(&w->c.waiter, l->fd, POLLIN);
    }
    mu_assert(wait_for(&w->c.waiter, in_ms(FOREVER_MS)) == MU_OK);
    mu_assert(l->lost == MU_OK);
}

static void post(struct play *p, struct kit_worker *w, struct link *l, uint64_t number)
{
    struct note note = kit_note(number, sizeof(number));
    int rc;

    while ((rc = l->ops->send(l, &note, &number, true)) == MU_EAGAIN) {
        wait_a_turn(p, w, l, false, true);
    }
    mu_assert(rc == MU_OK);
}

static void take(struct play *p, struct kit_worker *w, struct link *l, uint64_t number)
{
    struct note note;
    const void *data;
    int rc;

    while ((rc = l->ops->head(l, &note)) == MU_EAGAIN) {
        wait_a_turn(p, w, l, true, false);
    }
    mu_assert(rc == MU_OK && note.count == number);
    mu_assert(l->ops->body(l, NULL, &data) == MU_OK);
    mu_assert(memcmp(data, &number, sizeof(number)) == 0);
    mu_assert(l->ops->done(l) == MU_OK);
    wait_restart(&w->c.waiter);
}

/* Waits until all was taken, so that nobody leaves while the other still has to be woken. */
static void finish(struct play *p, struct kit_worker *w, struct link *l)
{
    while (l->ops->taken(l) < l->sent_n) {
        wait_a_turn(p, w, l, false, true);
    }
}

static void ping_pong(struct play *p, struct kit_worker *w)
{
    struct link *l = w->links[p->rank ^ 1];

    for (uint64_t i = 0; i < p->rounds_n; i++) {
        if (p->rank % 2 == 0) {
            post(p, w, l, i);
            take(p, w, l, i);
        } else {
            take(p, w, l, i);
            post(p, w, l, i);
        }
    }
    finish(p, w, l);
}

static void two_wake_each_other_by_futex_or_event(void **state)
{
    for (unsigned by_poll = 0; by_poll < 4; by_poll++) {
        for (uint32_t cores_n = 1; cores_n <= 2; cores_n++) {
            play(&(struct play){.n = 2,
                                .cores_n = cores_n,
                                .by_poll = by_poll,
                                .rounds_n = 5000,
                                .script = ping_pong});
        }
    }
}

static void four_on_fewer_cores_get_on(void **state)
{
    play(&(struct play){.n = 4, .cores_n = 2, .rounds_n = 10000, .script = ping_pong});
    play(
        &(struct play){.n = 4, .cores_n = 2, .by_poll = 6, .rounds_n = 10000, .script = ping_pong});
}

static void round_robin(struct play *p, struct kit_worker *w)
{
    struct link *next = w->links[(p->rank + 1) % p->n];
    struct link *last = w->links[(p->rank + p->n - 1) % p->n];

    for (uint64_t i = 0; i < p->rounds_n; i++) {
        post(p, w, next, i);
        take(p, w, last, i);
    }
    finish(p, w, next);
}

static void a_round_of_four_gets_on(void **state)
{
    play(&(struct play){.n = 4, .cores_n = 2, .rounds_n = 10000, .script = round_robin});
}

static void flood(struct play *p, struct kit_worker *w)
{
    struct link *l = w->links[!p->rank];

    for (uint64_t i = 0; i < p->rounds_n; i++) {
        if (p->rank == 0) {
            post(p, w, l, i);
        } else {
            take(p, w, l, i);
        }
    }
    finish(p, w, l);
}

static void a_writer_whose_ring_is_full_is_woken(void **state)
{
    for (unsigned by_poll = 0; by_poll < 4; by_poll++) {
        play(&(struct play){.n = 2,
                            .cores_n = 1 + by_poll % 2,
                            .by_poll = by_poll,
                            .rounds_n = 100000,
                            .script = flood});
    }
}

static void without_futex_waitv_it_goes_on(void **state)
{
    play(&(struct play){
        .n = 2, .cores_n = 1, .without_waitv = 1, .rounds_n = 500, .script = ping_pong});
    play(&(struct play){
        .n = 2, .cores_n = 1, .without_waitv = 3, .rounds_n = 500, .script = ping_pong});
}

/* ---- the alarm and the clock ---- */

static void *ring_soon(void *arg)
{
    usleep(20000);
    comm_ring(arg);
    return NULL;
}

static void the_alarm_wakes_whoever_waits(void **state)
{
    static struct kit_worker pair[2];

    kit_pair(pair);
    for (int i = 0; i < 6; i++) {
        struct waiter *w = &pair[0].c.waiter;
        struct link *l = pair[0].links[1];
        const uint64_t since_ns = clock_ns();
        pthread_t thread;
        int rc = MU_OK;

        assert_int_equal(pthread_create(&thread, NULL, ring_soon, &pair[0].c), 0);
        wait_begin(w, &pair[0].c);
        const uint32_t before = atomic_load(&pair[0].c.alarm);

        while (rc == MU_OK && atomic_load(&pair[0].c.alarm) == before) {
            if (i % 3 > 0) {
                l->ops->await(l, true, true, w);
            }
            if (i % 3 == 2) {
                wait_add_fd(w, l->fd, POLLIN);
            }
            rc = wait_for(w, since_ns + UINT64_C(1000000) * FOREVER_MS);
        }
        assert_int_equal(rc, MU_OK);
        pthread_join(thread, NULL);
    }
    kit_unpair(pair);
}

static void it_ends_when_it_is_due_and_not_before(void **state)
{
    static struct kit_worker pair[2];

    kit_pair(pair);
    for (int i = 0; i < 3; i++) {
        struct waiter *w = &pair[0].c.waiter;
        struct link *l = pair[0].links[1];
        const uint64_t due_ns = in_ms(20);
        int rc = MU_OK;

        wait_begin(w, &pair[0].c);
        while (rc == MU_OK) {
            if (i > 0) {
                l->ops->await(l, true, true, w);
            }
            if (i == 2) {
                wait_add_fd(w, l->fd, POLLIN);
            }
            rc = wait_for(w, due_ns);
        }
        assert_int_equal(rc, MU_ETIMEDOUT);
        assert_true(clock_ns() >= due_ns);
    }
    kit_unpair(pair);
}

struct change {
    _Atomic uint32_t *word, *flag;
};

static void *change_soon(void *arg)
{
    struct change *c = arg;

    usleep(20000);
    atomic_store(c->word, 1);
    wait_wake(c->word, c->flag, -1);
    return NULL;
}

static void a_change_of_any_of_many_words_is_seen(void **state)
{
    static _Atomic uint32_t words[WAIT_WORDS_MAX + 10], flags[WAIT_WORDS_MAX + 10];
    const uint32_t tries[] = {0, WAIT_WORDS_MAX - 1, WAIT_WORDS_MAX, WAIT_WORDS_MAX + 9};
    static struct kit_worker w;

    kit_open(&w, 0, 1, 1);
    for (size_t t = 0; t < ARRAY_LEN(tries); t++) {
        struct change c = {&words[tries[t]], &flags[tries[t]]};
        const uint64_t due_ns = in_ms(FOREVER_MS);
        pthread_t thread;

        memset(words, 0, sizeof(words));
        assert_int_equal(pthread_create(&thread, NULL, change_soon, &c), 0);
        wait_begin(&w.c.waiter, &w.c);
        while (atomic_load(c.word) == 0) {
            const size_t n = tries[t] < WAIT_WORDS_MAX ? WAIT_WORDS_MAX : ARRAY_LEN(words);

            for (size_t i = 0; i < n; i++) {
                wait_add_word(&w.c.waiter, &words[i], 0, &flags[i]);
            }
            assert_int_equal(wait_for(&w.c.waiter, due_ns), MU_OK);
        }
        pthread_join(thread, NULL);
        for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
            assert_int_equal(flags[i], WAIT_AWAKE);
        }
    }
    kit_close(&w);
}

/* ---- death ---- */

/* A process with a real connection, which a child of it holds as well if `held`; until it is
 * killed. */
static pid_t start_victim(const struct sockaddr_un *addr, socklen_t n, bool held, const int hold[2])
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
        static struct kit_worker w;
        char byte;

        alarm(FOREVER_MS / 1000);
        mu_assert(connect(fd, (const struct sockaddr *)addr, n) == 0);
        close(hold[1]);
        if (held && fork() == 0) {
            alarm(FOREVER_MS / 1000);
            _exit(read(hold[0], &byte, 1) != 0); /* until the test closes its end */
        }
        kit_open(&w, 1, 2, 2);
        kit_link(&w, 0, fd);
        kit_meet(w.links[0]);
        for (;;) {
            pause();
        }
    }
    return pid;
}

static void hear_until_lost(struct link *l)
{
    while (l->lost == MU_OK) {
        struct pollfd polls[2] = {{.fd = l->fd, .events = POLLIN},
                                  {.fd = shm_link_pidfd(l), .events = POLLIN}};

        assert_true(poll(polls, 2, FOREVER_MS) > 0);
        shm_link_hear(l);
    }
}

static void a_peer_that_is_killed_is_lost(bool held)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    socklen_t n = sizeof(addr);
    static struct kit_worker w;
    int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    int hold[2];
    pid_t pid;

    assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(sa_family_t)), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&addr, &n), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    pid = start_victim(&addr, n, held, hold);
    kit_open(&w, 0, 2, 2);
    kit_link(&w, 1, accept(listener, NULL, NULL));
    kit_meet(w.links[1]);
    shm_link_hear(w.links[1]);
    assert_int_equal(w.links[1]->lost, MU_OK);
    assert_int_equal(kill(pid, SIGKILL), 0);
    hear_until_lost(w.links[1]);
    assert_int_equal(w.links[1]->lost, MU_EPEER);
    assert_string_equal(w.why, held ? "its process has ended" : "its connection has ended");
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    close(hold[0]);
    close(hold[1]);
    close(listener);
    kit_close(&w);
}

static void a_peer_that_is_killed_is_lost_by_its_socket(void **state)
{
    a_peer_that_is_killed_is_lost(false);
}

static void a_peer_that_is_killed_is_lost_even_if_a_child_holds_its_socket(void **state)
{
    a_peer_that_is_killed_is_lost(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_wake_each_other_by_futex_or_event),
        cmocka_unit_test(four_on_fewer_cores_get_on),
        cmocka_unit_test(a_round_of_four_gets_on),
        cmocka_unit_test(a_writer_whose_ring_is_full_is_woken),
        cmocka_unit_test(without_futex_waitv_it_goes_on),
        cmocka_unit_test(the_alarm_wakes_whoever_waits),
        cmocka_unit_test(it_ends_when_it_is_due_and_not_before),
        cmocka_unit_test(a_change_of_any_of_many_words_is_seen),
        cmocka_unit_test(a_peer_that_is_killed_is_lost_by_its_socket),
        cmocka_unit_test(a_peer_that_is_killed_is_lost_even_if_a_child_holds_its_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
