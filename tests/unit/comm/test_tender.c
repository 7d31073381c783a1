/* Connections from outside: who is let in, who is not, which of two links stays, who has gone. */
#include "unit/comm/group_kit.h"
#include "unit/unit.h"

#include "lib/move.h"
#include "link/addr.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct comm_stats stats_of(struct comm *c)
{
    struct comm_stats stats;

    comm_stats(c, &stats);
    return stats;
}

static uint64_t turned_away(struct comm *c)
{
    const struct comm_stats stats = stats_of(c);

    return stats.refused_n + stats.timed_out_n;
}

/* A connection to worker i that is in nobody's name. */
static int stranger(const struct kit *kit, uint32_t i, uint8_t path)
{
    struct address to, local;
    int fd;

    assert_int_equal(addr_parse(kit->members[i].addr, &to), MU_OK);
    addr_local(LINK_GROUP, address_port(&to.sa), &local);
    fd = path == COMM_SHM ? addr_connect(&local, SOCK_SEQPACKET) : addr_connect(&to, SOCK_STREAM);
    assert_true(fd >= 0);
    return fd;
}

static bool was_closed(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN | POLLRDHUP};
    char byte;

    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 &&
           recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* ---- who is wanted ---- */

static void links_are_made_to_all_who_are_wanted(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        struct kit_room room;
        struct kit kit;

        kit_open_all(&kit, 4, 0, apart != 0);
        kit_enter(&kit, 1, 0x7);
        kit_generation(&kit, 1, 0x7, &room);
        memset(room.generation.key, 0, KEY_BYTES); /* A newcomer has none. */
        kit_link_all(kit.comms[3], &room.generation);
        assert_int_equal(stats_of(kit.comms[3]).linked_n, 3);
        /* Again: nothing new. In the group: these are used. */
        kit_link_all(kit.comms[3], &room.generation);
        kit_barrier(&kit, 0x7);
        kit_enter(&kit, 2, 0xf);
        kit_barrier(&kit, 0xf);
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(stats_of(kit.comms[i]).linked_n, 3);
            assert_int_equal(stats_of(kit.comms[i]).lost_n, 0);
        }
        kit_close(&kit);
    }
}

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint32_t *)arg, 1);
}

static void lose_all(struct comm *c)
{
    pthread_mutex_lock(&c->lock);
    for (struct link *l = c->links; l != NULL; l = l->next) {
        link_lose(l, MU_EPEER, "test");
    }
    pthread_mutex_unlock(&c->lock);
}

static void a_lost_link_takes_the_level_back_until_it_is_made_again(void **state)
{
    for (int apart = 0; apart < 2; apart++) {
        _Atomic uint32_t told_n = 0;
        struct comm_config config;
        struct kit_room room;
        struct kit kit;
        wid missing[KIT_MAX] = {0};
        char error[COMM_ERROR_MAX];

        kit_open_all(&kit, 3, 0, apart != 0);
        kit_config(3, 0, apart != 0, &config);
        config.on_linked = count_up;
        config.arg = &told_n;
        assert_int_equal(comm_open(&config, &kit.comms[3], error), MU_OK);
        assert_int_equal(comm_linked(kit.comms[3]), 0);
        kit_link_all(kit.comms[3], kit_generation(&kit, 1, 0x7, &room));
        kit_until(told_n == 1);
        assert_int_equal(comm_unlinked(kit.comms[3], 0, missing, KIT_MAX), 0);

        lose_all(kit.comms[1]); /* It did not go for good. */
        kit_until(told_n >= 3 && comm_linked(kit.comms[3]) == 1);
        assert_int_equal(stats_of(kit.comms[3]).linked_n, 4);

        comm_close(kit.comms[1]);
        kit.comms[1] = NULL;
        kit_until(comm_linked(kit.comms[3]) == 0);
        assert_int_equal(comm_unlinked(kit.comms[3], 0, missing, KIT_MAX), 1);
        assert_int_equal(missing[0], kit.members[1].worker);
        assert_int_equal(comm_unlinked(kit.comms[3], KIT_LONG_MS, missing, KIT_MAX), 0);
        kit_open(&kit, 1, 0, apart != 0); /* Elsewhere: its name means another address now. */
        kit_link_all(kit.comms[3], kit_generation(&kit, 1, 0x7, &room));
        kit_close(&kit);
    }
}

static void who_is_in_another_generation_is_wanted_no_more(void **state)
{
    struct kit_room room;
    struct kit kit;
    wid missing;

    kit_open_all(&kit, 4, 0, false);
    kit_link_all(kit.comms[3], kit_generation(&kit, 1, 0x3, &room));
    comm_close(kit.comms[1]);
    kit.comms[1] = NULL;
    kit_until(comm_linked(kit.comms[3]) == 0);
    kit_link_all(kit.comms[3], kit_generation(&kit, 2, 0x5, &room));
    assert_int_equal(comm_unlinked(kit.comms[3], 0, &missing, 1), 0);
    kit.members[3].worker = wid_make(4, 0, 2); /* Another life wants nothing yet. */
    comm_rename(kit.comms[3], kit.members[3].worker);
    assert_int_equal(comm_self(kit.comms[3]), kit.members[3].worker);
    assert_int_equal(comm_linked(kit.comms[3]), 0);
    kit_link_all(kit.comms[3], kit_generation(&kit, 3, 0xd, &room));
    kit_close(&kit);
}

/* All name all others at once: the links are the same for both ends, and a move uses them. */
static void members_that_want_each_other_are_linked_once(void **state)
{
    struct kit_room room;
    struct kit kit;

    kit_open_all(&kit, 4, 0, true);
    kit_generation(&kit, 1, 0xf, &room);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(comm_want(kit.comms[i], &room.generation), MU_OK);
    }
    for (uint32_t i = 0; i < 4; i++) {
        kit_until(comm_linked(kit.comms[i]) == 1);
    }
    kit_enter(&kit, 1, 0xf);
    kit_barrier(&kit, 0xf);
    lose_all(kit.comms[0]);
    kit_until(comm_linked(kit.comms[0]) == 1);
    kit_enter(&kit, 2, 0xf);
    kit_barrier(&kit, 0xf);
    kit_close(&kit);
}

/* It comes up while it is being dialed, by its unix socket and by TCP in turn: it is reached by
 * the better one all the same. */
static void a_member_that_comes_late_is_reached_by_the_best_path(void **state)
{
    for (uint32_t round = 0; round < 20; round++) {
        struct comm_config config;
        struct kit_room room;
        struct kit kit;
        char error[COMM_ERROR_MAX] = "";

        kit_open_all(&kit, 2, 0, false);
        comm_close(kit.comms[0]);
        kit_generation(&kit, 1, 0x3, &room);
        assert_int_equal(comm_want(kit.comms[1], &room.generation), MU_OK);
        for (uint32_t i = 0; i < round; i++) {
            kit_nap();
        }
        kit_config(0, 0, false, &config);
        config.address = kit.members[0].addr;
        if (comm_open(&config, &kit.comms[0], error) != MU_OK) {
            print_message("%s\n", error); /* Somebody else has got the port meanwhile. */
            kit.comms[0] = NULL;
            kit_close(&kit);
            continue;
        }
        assert_string_equal(comm_address(kit.comms[0]), kit.members[0].addr);
        kit_until(comm_linked(kit.comms[1]) == 1);
        assert_int_equal(stats_of(kit.comms[1]).shm_links, 1);
        kit_close(&kit);
    }
}

/* ---- which path ---- */

static void without_a_unix_socket_a_neighbour_is_reached_by_tcp(void **state)
{
    struct kit kit = {0};

    kit_open(&kit, 0, COMM_TCP, false);
    kit_open(&kit, 1, COMM_TCP | COMM_SHM, false);
    kit_enter(&kit, 1, 0x3);
    assert_int_equal(kit_link(&kit, 1, 0)->path, COMM_TCP);
    kit_barrier(&kit, 0x3);
    kit_close(&kit);
}

/* The unix socket that should be worker 0's is somebody else's, who hangs up on whoever comes. */
static void a_unix_socket_of_somebody_else_is_given_up(void **state)
{
    struct kit kit = {0};
    struct kit_room room;
    struct address at, local;
    int fd, other;

    kit_open(&kit, 0, COMM_TCP, false);
    kit_open(&kit, 1, 0, false);
    assert_int_equal(addr_parse(kit.members[0].addr, &at), MU_OK);
    addr_local(LINK_GROUP, address_port(&at.sa), &local);
    fd = addr_bind(&local, SOCK_SEQPACKET);
    assert_true(fd >= 0 && listen(fd, 16) == 0);
    kit_generation(&kit, 1, 0x3, &room);
    assert_int_equal(comm_want(kit.comms[1], &room.generation), MU_OK);
    while (comm_linked(kit.comms[1]) != 1) {
        other = accept(fd, NULL, NULL);
        if (other >= 0) {
            close(other);
        }
        kit_nap();
    }
    assert_int_equal(stats_of(kit.comms[1]).tcp_links, 1);
    close(fd);
    kit_close(&kit);
}

/* ---- two at once ---- */

static bool same_single_link(struct kit *kit)
{
    struct hello_session session[2];

    for (int i = 0; i < 2; i++) {
        struct comm *c = kit->comms[i];
        uint32_t n = 0;

        pthread_mutex_lock(&c->lock);
        for (struct link *l = c->links; l != NULL; l = l->next) {
            if (atomic_load(&l->lost) == MU_OK) {
                session[i] = l->session;
                n++;
            }
        }
        pthread_mutex_unlock(&c->lock);
        if (n != 1) {
            return false;
        }
    }
    return memcmp(session[0].id, session[1].id, HELLO_NONCE_BYTES) == 0;
}

/* Both dial at the same time, over and over: one link remains, the same for both, and it works. */
static void workers_that_dial_each_other_end_up_with_one_link(void **state)
{
    uint64_t linked_n = 0;

    for (int round = 0; round < 60; round++) {
        struct kit kit;

        kit_open_all(&kit, 2, 0, round % 2 == 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(links_seek(kit.comms[i], &kit.members[!i]), MU_OK);
        }
        kit_until(same_single_link(&kit));
        kit_enter(&kit, 1, 0x3);
        kit_barrier(&kit, 0x3);
        assert_true(same_single_link(&kit));
        linked_n += stats_of(kit.comms[0]).linked_n;
        kit_close(&kit);
    }
    assert_true(linked_n >= 60);
}

/* The other side has lost a link and dials again, before this one has noticed. */
static void a_worker_that_dials_again_is_believed(void **state)
{
    for (int higher = 0; higher < 2; higher++) {
        for (int apart = 0; apart < 2; apart++) {
            struct kit_room room;
            struct kit kit;

            kit_open_all(&kit, 2, 0, apart != 0);
            kit_enter(&kit, 1, 0x3); /* Worker 1 has dialed. */
            link_lose(kit_link(&kit, (uint32_t)higher, (uint32_t)!higher), MU_EPEER, "test");
            kit_generation(&kit, 1, 0x3, &room);
            kit_link_all(kit.comms[higher], &room.generation);
            kit_until(same_single_link(&kit));
            kit_enter(&kit, 2, 0x3);
            kit_barrier(&kit, 0x3);
            kit_close(&kit);
        }
    }
}

/* ---- strangers ---- */

static void garbage_is_refused_and_disturbs_nobody(void **state)
{
    static const uint8_t paths[] = {COMM_SHM, COMM_TCP};
    struct kit kit;
    uint8_t bytes[512];
    unsigned seed = 7;

    kit_open_all(&kit, 2, 0, false);
    kit_enter(&kit, 1, 0x3);
    struct link *l = kit_link(&kit, 0, 1);

    for (uint32_t i = 0; i < 100; i++) {
        const uint64_t before = turned_away(kit.comms[0]);
        const size_t n = 1 + (size_t)rand_r(&seed) % sizeof(bytes);
        const int fd = stranger(&kit, 0, paths[i % 2]);

        for (size_t j = 0; j < n; j++) {
            bytes[j] = (uint8_t)rand_r(&seed);
        }
        assert_true(send(fd, bytes, n, MSG_NOSIGNAL) >= 0);
        if (n < HELLO_BYTES) {
            shutdown(fd, SHUT_WR);
        }
        kit_until(was_closed(fd));
        kit_until(turned_away(kit.comms[0]) > before);
        close(fd);
    }
    assert_ptr_equal(kit_link(&kit, 0, 1), l);
    kit_barrier(&kit, 0x3);
    kit_close(&kit);
}

static void another_runs_key_opens_nothing(void **state)
{
    struct comm_config config;
    struct kit_room room;
    struct kit kit;
    wid missing = 0;
    char error[COMM_ERROR_MAX] = "";

    for (int apart = 0; apart < 2; apart++) {
        kit_open_all(&kit, 1, 0, apart != 0);
        kit_config(1, 0, apart != 0, &config);
        memset(config.run_key, 'x', KEY_BYTES);
        assert_int_equal(comm_open(&config, &kit.comms[1], error), MU_OK);
        kit_generation(&kit, 1, 0x1, &room);
        assert_int_equal(comm_want(kit.comms[1], &room.generation), MU_OK);
        kit_until(stats_of(kit.comms[0]).refused_n > 2);
        assert_int_equal(comm_unlinked(kit.comms[1], 0, &missing, 1), 1);
        assert_int_equal(missing, kit.members[0].worker);
        assert_int_equal(stats_of(kit.comms[0]).linked_n, 0);
        kit_close(&kit);
    }
}

/* They cost a bounded number of descriptors, and whoever has something to say gets in. */
static void silent_connections_are_bounded_and_keep_nobody_out(void **state)
{
    static const uint8_t paths[] = {COMM_SHM, COMM_TCP};
    struct kit_room room;

    for (int p = 0; p < 2; p++) {
        uint32_t open_n = 0;
        struct kit kit;
        int fds[200];

        kit_open_all(&kit, 2, 0, paths[p] == COMM_TCP);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
            fds[i] = stranger(&kit, 0, paths[p]);
        }
        kit_until(stats_of(kit.comms[0]).timed_out_n >= ARRAY_LEN(fds) - 64);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
            open_n += !was_closed(fds[i]);
        }
        assert_int_equal(open_n, 64);
        kit_generation(&kit, 1, 0x3, &room);
        kit_link_all(kit.comms[1], &room.generation);
        kit_enter(&kit, 1, 0x3);
        kit_barrier(&kit, 0x3);
        for (size_t i = 0; i < ARRAY_LEN(fds); i++) {
            close(fds[i]);
        }
        kit_close(&kit);
    }
}

/* The tender's clock, which can be put forward. */
static _Atomic uint64_t ahead_ns;
uint64_t __real_clock_ns(void);
uint64_t __wrap_clock_ns(void);

uint64_t __wrap_clock_ns(void)
{
    return __real_clock_ns() + ahead_ns;
}

/* As if so much time had passed that nobody who has come by now may be silent any longer; another
 * one who comes has it look at its clock. */
static void put_clock_forward(const struct kit *kit)
{
    ahead_ns += HELLO_TIMEOUT_MS * UINT64_C(1000000);
    close(stranger(kit, 0, COMM_TCP));
}

static void whoever_says_nothing_is_timed_out(void **state)
{
    struct kit kit;

    kit_open_all(&kit, 1, 0, false);
    const int tcp = stranger(&kit, 0, COMM_TCP), local = stranger(&kit, 0, COMM_SHM);

    assert_true(send(tcp, "m", 1, 0) == 1); /* … or only a little */
    for (int i = 0; !was_closed(tcp) || !was_closed(local); i++) {
        assert_true(i < 10000);
        if (i % 100 == 10) { /* They may not have been let in the first time. */
            put_clock_forward(&kit);
        }
        kit_nap();
    }
    assert_true(stats_of(kit.comms[0]).timed_out_n >= 2);
    close(tcp);
    close(local);
    kit_close(&kit);
    ahead_ns = 0;
}

/* ---- death ---- */

struct child {
    pid_t pid;
    int to, from; /* pipes */
};

static void read_all(int fd, void *data, size_t n)
{
    for (size_t at = 0; at < n;) {
        const ssize_t got = read(fd, (char *)data + at, n - at);

        if (got <= 0) {
            _exit(3);
        }
        at += (size_t)got;
    }
}

/* Opens as worker i, enters generation 1 with all members, says so, and waits for its death. */
static void child_run(uint32_t i, unsigned paths, bool apart, uint32_t n, int in, int out)
{
    struct kit kit = {0};
    struct kit_room room;
    char byte = 'k';

    kit_open(&kit, i, paths, apart);
    if (write(out, &kit.members[i], sizeof(kit.members[i])) < 0) {
        _exit(4);
    }
    read_all(in, kit.members, sizeof(kit.members));
    kit_generation(&kit, 1, (1u << n) - 1, &room);
    if (move_to(kit.comms[i], &room.generation, 0, KIT_LONG_MS, NULL) != MU_OK ||
        write(out, &byte, 1) != 1) {
        _exit(5);
    }
    read_all(in, &byte, 1);
    _exit(6);
}

static void child_start(struct child *child, uint32_t i, unsigned paths, bool apart, uint32_t n)
{
    int to[2], from[2];

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    child->pid = fork();
    assert_true(child->pid >= 0);
    if (child->pid == 0) {
        close(to[1]);
        close(from[0]);
        child_run(i, paths, apart, n, to[0], from[1]);
    }
    close(to[0]);
    close(from[1]);
    child->to = to[1];
    child->from = from[0];
}

/* Two survivors in this process, in a call that waits for the third. */
static void survive(unsigned paths, bool apart)
{
    const struct comm_call call = {.op = COMM_BARRIER, .timeout_ms = -1};
    struct comm_started *started[2];
    struct comm_result result;
    struct kit_waiting waiting[2];
    struct kit_room room;
    struct child child;
    struct kit kit = {0};
    char byte;

    child_start(&child, 2, paths, apart, 3);
    kit_open(&kit, 0, paths, apart);
    kit_open(&kit, 1, paths, apart);
    read_all(child.from, &kit.members[2], sizeof(kit.members[2]));
    assert_true(write(child.to, kit.members, sizeof(kit.members)) == sizeof(kit.members));
    kit_generation(&kit, 1, 0x7, &room);
    for (int i = 0; i < 2; i++) {
        kit_wait_begin(&waiting[i], kit.comms[i], &room.generation);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(kit_wait_end(&waiting[i]), MU_OK);
        assert_int_equal(comm_start(kit.comms[i], &call, &started[i]), MU_OK);
    }
    read_all(child.from, &byte, 1);
    assert_int_equal(comm_finish(started[0], 20, NULL), MU_ETIMEDOUT); /* It waits for the third. */
    assert_int_equal(kill(child.pid, SIGKILL), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(comm_finish(started[i], KIT_LONG_MS, &result), MU_EPEER);
        assert_int_equal(result.rank, 2);
        assert_int_equal(stats_of(kit.comms[i]).lost_n, 1);
    }
    kit_enter(&kit, 2, 0x3);
    kit_barrier(&kit, 0x3);
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    close(child.to);
    close(child.from);
    kit_close(&kit);
}

static void survivors_of_a_kill_notice_and_go_on(void **state)
{
    survive(COMM_SHM, false);
    survive(COMM_TCP, false);
    survive(0, true);
}

/* ---- addresses ---- */

static void check_open(const char *address, const char *iface, int status, const char *says)
{
    struct comm_config config;
    struct comm *c = NULL;
    char error[COMM_ERROR_MAX] = "";

    kit_config(0, 0, false, &config);
    config.address = address;
    config.iface = iface;
    assert_int_equal(comm_open(&config, &c, error), status);
    if (status == MU_OK) {
        assert_non_null(strstr(comm_address(c), says));
    } else {
        assert_null(c);
        assert_non_null(strstr(error, says));
    }
    comm_close(c);
}

static void one_listens_where_one_was_told_or_hears_why_not(void **state)
{
    const int v6 = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct address loop6;

    check_open(NULL, NULL, MU_OK, "127.0.0.1:");
    check_open("127.0.0.1", "", MU_OK, "127.0.0.1:");
    check_open("127.0.0.2:0", NULL, MU_OK, "127.0.0.2:");
    check_open("localhost", NULL, MU_OK, "127.0.0.1:");
    check_open("10.1.2.3", "lo", MU_OK, "127.0.0.1:"); /* The interface counts. */
    check_open(NULL, "nosuch0", MU_ENOENT, "there is none of that name; use one of lo");
    check_open("0.0.0.0", NULL, MU_EINVAL, "one address");
    check_open("::", NULL, MU_EINVAL, "one address");
    check_open("", NULL, MU_EINVAL, "no address");
    check_open("127.0.0.1:x", NULL, MU_EINVAL, "it should look like");
    check_open("127.0.0.1:65536", NULL, MU_EINVAL, "it should look like");
    check_open("[::1", NULL, MU_EINVAL, "it should look like");
    check_open("192.0.2.1", NULL, MU_EIO, "this host has no such address");
    check_open("no.such.host.invalid", NULL, MU_ENOENT, "check the spelling");
    assert_int_equal(addr_parse("[::1]:1", &loop6), MU_OK);
    if (v6 >= 0 && bind(v6, &loop6.sa, loop6.n) == 0) {
        check_open("[::1]", NULL, MU_OK, "[::1]:");
        check_open("::1", NULL, MU_OK, "[::1]:");
    }
    close(v6);
}

static void a_port_that_is_taken_is_said_so(void **state)
{
    struct kit kit;

    kit_open_all(&kit, 1, 0, false);
    check_open(kit.members[0].addr, NULL, MU_EIO, "another process does; give another port");
    kit_close(&kit);
}

static void members_addresses_are_numbers(void **state)
{
    char text[ADDR_MAX_LEN];
    struct address a;

    assert_int_equal(addr_parse("10.0.0.2:4711", &a), MU_OK);
    address_print(&a.sa, text, sizeof(text));
    assert_string_equal(text, "10.0.0.2:4711");
    assert_int_equal(addr_parse("[fd00::2]:4711", &a), MU_OK);
    address_print(&a.sa, text, sizeof(text));
    assert_string_equal(text, "[fd00::2]:4711");
    assert_int_equal(address_port(&a.sa), 4711);
    assert_int_equal(addr_parse("localhost:4711", &a), MU_EINVAL);
    assert_int_equal(addr_parse("10.0.0.2", &a), MU_EINVAL);
    assert_int_equal(addr_parse("10.0.0.2:0", &a), MU_EINVAL);
    assert_int_equal(addr_parse("", &a), MU_EINVAL);
    assert_int_equal(addr_parse("fd00::2:4711:", &a), MU_EINVAL);
}

/* ---- a process that exits ---- */

static void openssl_goes(void)
{
    _exit(77);
}

/* Its threads are still at it, and OpenSSL's things are theirs until the very end. */
static void a_process_may_exit_while_its_links_are_made(void **state)
{
    uint8_t sum[EVP_MAX_MD_SIZE];
    struct kit kit;
    pid_t child = fork();
    int status;

    if (child == 0) {
        kit_open_all(&kit, 2, 0, false);
        assert_true(EVP_Digest("", 0, sum, NULL, EVP_sha256(), NULL)); /* as any link does */
        OPENSSL_atexit(openssl_goes);
        exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_may_exit_while_its_links_are_made), /* It must be the first. */
        cmocka_unit_test(survivors_of_a_kill_notice_and_go_on),
        cmocka_unit_test(links_are_made_to_all_who_are_wanted),
        cmocka_unit_test(a_lost_link_takes_the_level_back_until_it_is_made_again),
        cmocka_unit_test(who_is_in_another_generation_is_wanted_no_more),
        cmocka_unit_test(members_that_want_each_other_are_linked_once),
        cmocka_unit_test(a_member_that_comes_late_is_reached_by_the_best_path),
        cmocka_unit_test(without_a_unix_socket_a_neighbour_is_reached_by_tcp),
        cmocka_unit_test(a_unix_socket_of_somebody_else_is_given_up),
        cmocka_unit_test(workers_that_dial_each_other_end_up_with_one_link),
        cmocka_unit_test(a_worker_that_dials_again_is_believed),
        cmocka_unit_test(garbage_is_refused_and_disturbs_nobody),
        cmocka_unit_test(another_runs_key_opens_nothing),
        cmocka_unit_test(silent_connections_are_bounded_and_keep_nobody_out),
        cmocka_unit_test(whoever_says_nothing_is_timed_out),
        cmocka_unit_test(one_listens_where_one_was_told_or_hears_why_not),
        cmocka_unit_test(a_port_that_is_taken_is_said_so),
        cmocka_unit_test(members_addresses_are_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
