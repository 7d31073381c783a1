/* A peer that says what can't be loses its link, and nothing else happens. */
#include "comm/shm_packet.h"
#include "unit/comm/shm_kit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

/* pair[0] is the victim; pair[1] does harm, by its own board, or by its socket. */
static struct kit_worker pair[2];
static int raw; /* a socket to a link of pair[0] whose peer is this test */
static struct link *fresh;

static int open_pair(void **state)
{
    int fds[2];

    kit_pair(pair);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    fresh = kit_link(&pair[0], 2, fds[0]);
    raw = fds[1];
    return 0;
}

static int close_pair(void **state)
{
    close(raw);
    kit_unpair(pair);
    return 0;
}

static struct link *victim(void)
{
    return pair[0].links[1];
}

static struct board_lane *lane(void)
{
    return shm_of(pair[1].links[0])->out_lane.lane;
}

static uint32_t open_files(void)
{
    uint32_t n = 0;

    for (int fd = 0; fd < 1024; fd++) {
        n += fcntl(fd, F_GETFD) >= 0;
    }
    return n;
}

/* ---- notes ---- */

/* The victim meets a note that was changed under way. */
static void change_note(void (*change)(struct board_note *slot))
{
    struct note note = kit_note(1, 8), got;
    struct link *l = pair[1].links[0];
    uint8_t *memory = kit_alloc(&pair[1], 4096);
    const void *data;
    int rc;

    assert_int_equal(l->ops->send(l, &note, memory, false), MU_OK);
    shm_link_hear(victim());
    change(&lane()->ring[0]);
    rc = victim()->ops->head(victim(), &got);
    if (rc == MU_OK) {
        rc = victim()->ops->body(victim(), NULL, &data);
    }
    assert_int_equal(rc, MU_EPEER);
    assert_int_equal(victim()->lost, MU_EPROTO);
    assert_int_equal(victim()->ops->head(victim(), &got), MU_EPEER);
    assert_int_equal(fresh->lost, MU_OK);
}

static void beyond_the_end(struct board_note *slot)
{
    slot->note.bytes = 4097;
}

static void from_beyond_the_end(struct board_note *slot)
{
    slot->offset = 4089;
}

static void from_so_far_that_it_wraps(struct board_note *slot)
{
    slot->offset = UINT64_MAX - 3;
}

static void more_than_there_is_anywhere(struct board_note *slot)
{
    slot->note.bytes = UINT64_MAX;
}

static void more_inline_than_fits(struct board_note *slot)
{
    slot->segment = 0;
    slot->note.bytes = LINK_COPY_MAX + 1;
}

static void of_no_kind(struct board_note *slot)
{
    slot->note.kind = 200;
}

static void of_no_dtype(struct board_note *slot)
{
    slot->note.dtype = DTYPE_N;
}

static void a_claim(struct board_note *slot)
{
    slot->note = (struct note){.kind = NOTE_MOVE, .generation = 1, .bytes = HELLO_PROOF_BYTES};
}

static void notes_that_say_what_can_not_be_lose_the_link(void **state)
{
    void (*changes[])(struct board_note *) = {beyond_the_end,
                                              from_beyond_the_end,
                                              from_so_far_that_it_wraps,
                                              more_than_there_is_anywhere,
                                              more_inline_than_fits,
                                              of_no_kind,
                                              of_no_dtype,
                                              a_claim};

    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        if (i > 0) {
            close_pair(state);
            open_pair(state);
        }
        change_note(changes[i]);
    }
}

static void memory_that_is_gone_loses_the_link_unless_the_note_is_void(void **state)
{
    struct note note = kit_note(1, 8), got;
    struct link *l = pair[1].links[0];
    uint8_t *memory = kit_alloc(&pair[1], 4096);
    const void *data;

    assert_int_equal(l->ops->send(l, &note, memory, false), MU_OK);
    segment_free(pair[1].c.segments, memory);
    shm_link_tell_gone(l, 1);
    shm_link_hear(victim());
    assert_int_equal(victim()->ops->head(victim(), &got), MU_OK);
    assert_int_equal(victim()->ops->body(victim(), NULL, &data), MU_EPEER);
    assert_int_equal(victim()->lost, MU_EPROTO);
}

static void a_head_that_runs_away_loses_the_link(void **state)
{
    struct note got;

    atomic_store(&lane()->head, BOARD_RING + 1);
    assert_int_equal(victim()->ops->head(victim(), &got), MU_EPEER);
    assert_int_equal(victim()->lost, MU_EPROTO);
}

static void a_tail_that_runs_away_loses_the_link(void **state)
{
    struct note note = kit_note(1, 0);

    assert_int_equal(victim()->ops->send(victim(), &note, NULL, true), MU_OK);
    atomic_store(&lane()->tail, 2);
    assert_int_equal(victim()->ops->taken(victim()), 0);
    assert_int_equal(victim()->lost, MU_EPROTO);
    assert_int_equal(victim()->ops->flush(victim()), MU_EPEER);
}

/* ---- packets ---- */

static void say(const void *data, size_t n, const int *fds, size_t fds_n)
{
    char control[CMSG_SPACE(4 * sizeof(int))] __attribute__((aligned(8))) = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fds_n > 0) {
        struct cmsghdr *c;

        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(fds_n * sizeof(int));
        c = CMSG_FIRSTHDR(&msg);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fds_n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fds_n * sizeof(int));
    }
    assert_int_equal(sendmsg(raw, &msg, 0), (ssize_t)n);
}

static void say_packet(struct packet packet, const int *fds, size_t fds_n)
{
    say(&packet, sizeof(packet), fds, fds_n);
}

/* What pair[1] would say to rank 0 if it were rank 2. */
static struct packet good_board(int fds[2])
{
    fds[0] = shm_of(pair[1].links[0])->out_lane.fd;
    fds[1] = pair[1].c.alarm_fd;
    return (struct packet){.kind = PACKET_BOARD, .id = 9, .bytes = sizeof(struct board)};
}

static void is_refused(uint32_t files)
{
    shm_link_hear(fresh);
    assert_int_equal(fresh->lost, MU_EPROTO);
    assert_int_equal(open_files(), files); /* Whatever came with it has been closed. */
    assert_int_equal(victim()->lost, MU_OK);
    close_pair(NULL);
    open_pair(NULL);
}

static void boards_that_are_none_are_refused(void **state)
{
    const uint32_t files = open_files();
    struct packet packet;
    int fds[3], pipes[2], event;

    fresh->session.peer = pair[1].c.hello.self;
    say_packet(good_board(fds), fds, 2);
    shm_link_hear(fresh);
    assert_int_equal(fresh->lost, MU_OK); /* So what follows is refused for its own sake. */
    packet = good_board(fds);
    say_packet(packet, fds, 2); /* a second one */
    is_refused(files + 1);      /* the alarm_fd of the first */

    packet = good_board(fds); /* of another owner than the handshake's */
    say_packet(packet, fds, 2);
    is_refused(files);

    packet = good_board(fds);
    packet.id = BOARD_LANES;
    say_packet(packet, fds, 2);
    is_refused(files);

    packet = good_board(fds);
    packet.bytes--;
    say_packet(packet, fds, 2);
    is_refused(files);

    packet = good_board(fds);
    say_packet(packet, fds, 1);
    is_refused(files);

    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    packet = good_board(fds);
    fds[1] = pipes[1];
    say_packet(packet, fds, 2);
    is_refused(files + 2);
    packet = good_board(fds);
    fds[0] = pipes[0];
    say_packet(packet, fds, 2);
    is_refused(files + 2);
    close(pipes[0]);
    close(pipes[1]);

    event = eventfd(0, EFD_CLOEXEC); /* one that could make us wait */
    packet = good_board(fds);
    fds[1] = event;
    say_packet(packet, fds, 2);
    is_refused(files + 1);
    close(event);
}

static void anything_before_the_board_is_refused(void **state)
{
    const uint32_t files = open_files();

    for (uint32_t kind = 0; kind < 8; kind++) {
        if (kind != PACKET_BOARD) {
            say_packet((struct packet){.kind = kind, .id = 1, .generation = 1}, NULL, 0);
            is_refused(files);
            assert_int_equal(pair[0].claim, 0);
        }
    }
    say("hello", 5, NULL, 0);
    is_refused(files);
    say((char[200]){0}, 200, NULL, 0);
    is_refused(files);
}

static void meet_fresh(void)
{
    int fds[2];

    fresh->session.peer = pair[1].c.hello.self;
    say_packet(good_board(fds), fds, 2);
    shm_link_hear(fresh);
    assert_int_equal(fresh->lost, MU_OK);
}

static int unsealed(size_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
    return fd;
}

static int sealed(size_t bytes)
{
    int fd = unsealed(bytes);

    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE), 0);
    return fd;
}

static void segments_that_could_do_harm_are_refused(void **state)
{
    const struct {
        uint64_t bytes;
        uint32_t id;
        bool is_sealed;
        size_t fds_n;
    } cases[] = {
        {4096, 7, false, 1},      {8192, 7, true, 1}, {4095, 7, true, 1}, {0, 7, true, 1},
        {UINT64_MAX, 7, true, 1}, {4096, 5, true, 1}, {4096, 0, true, 1}, {4096, 7, true, 0},
    };
    const uint32_t files = open_files();

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        int good = sealed(4096), fd = cases[i].is_sealed ? sealed(4096) : unsealed(4096);

        meet_fresh();
        say_packet((struct packet){.kind = PACKET_SEGMENT, .id = 5, .bytes = 4096}, &good, 1);
        shm_link_hear(fresh);
        assert_int_equal(fresh->lost, MU_OK);
        say_packet(
            (struct packet){.kind = PACKET_SEGMENT, .id = cases[i].id, .bytes = cases[i].bytes},
            &fd, cases[i].fds_n);
        close(fd);
        close(good);
        is_refused(files + 2); /* the alarm_fd, and the good one */
    }
}

static void more_segments_than_allowed_are_refused(void **state)
{
    struct shm_peer peer = {0};
    const char *why = NULL;
    struct rlimit old, high;
    int fd = sealed(4096);

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    high = old;
    high.rlim_cur = old.rlim_max;
    if (old.rlim_max < SEGMENTS_MAX + 100 || setrlimit(RLIMIT_NOFILE, &high) != 0) {
        skip();
    }
    shm_peer_init(&peer);
    for (uint32_t id = 1; id <= SEGMENTS_MAX; id++) {
        assert_int_equal(shm_peer_add(&peer, id, dup(fd), 4096, &why), MU_OK);
    }
    assert_null(why);
    assert_int_equal(shm_peer_add(&peer, SEGMENTS_MAX + 1, fd, 4096, &why), MU_EPROTO);
    assert_non_null(why);
    shm_peer_gone(&peer, 7);
    assert_int_equal(shm_peer_add(&peer, SEGMENTS_MAX + 1, fd, 4096, &why), MU_OK);
    shm_peer_close(&peer);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_pair, close_pair)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(notes_that_say_what_can_not_be_lose_the_link),
        TEST(memory_that_is_gone_loses_the_link_unless_the_note_is_void),
        TEST(a_head_that_runs_away_loses_the_link),
        TEST(a_tail_that_runs_away_loses_the_link),
        TEST(boards_that_are_none_are_refused),
        TEST(anything_before_the_board_is_refused),
        TEST(segments_that_could_do_harm_are_refused),
        TEST(more_segments_than_allowed_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
