/* Workers' lines to the orchestrator's checkpoints: the kit's server is the orchestrator. */
#include "agent/local.h"
#include "unit/net/net_kit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define COOKIE 0x1122334455667788u
#define SLOT 3

struct bench {
    struct kit kit;
    struct endpoints to;
    struct relay_dial dial;
    struct local *l;
    char runtime[32]; /* XDG_RUNTIME_DIR */
    uint32_t attached_n, detached_n, frames_n;
};

/* ---- the agent ---- */

static void on_attached(void *data, uint32_t slot, uint32_t pid)
{
    ((struct bench *)data)->attached_n++;
}

static void on_frame(void *data, uint32_t slot, const struct wire_header *h,
                     const union wire_any *msg)
{
    ((struct bench *)data)->frames_n++;
}

static void on_detached(void *data, uint32_t slot)
{
    ((struct bench *)data)->detached_n++;
}

static const struct local_handler handler = {
    .attached = on_attached, .frame = on_frame, .detached = on_detached};

static void bench_open(struct bench *b)
{
    char error[NET_ERROR_MAX] = "";

    memset(b, 0, sizeof(*b));
    kit_open(&b->kit, NULL);
    strcpy(b->runtime, "/tmp/muster-test-XXXXXX");
    assert_non_null(mkdtemp(b->runtime));
    setenv("XDG_RUNTIME_DIR", b->runtime, 1);
    b->to = kit_to("127.0.0.1:%u", listen_port(b->kit.l));
    b->dial = (struct relay_dial){
        .loop = &b->kit.loop, .to = &b->to, .tls = b->kit.client_tls, .job = "job"};
    if (local_open(&b->kit.loop, &handler, b, &b->l, error) != MU_OK) {
        fail_msg("%s", error);
    }
    local_relay(b->l, &b->dial);
    local_expect(b->l, SLOT, COOKIE);
}

static void bench_close(struct bench *b)
{
    local_close(b->l, 1000);
    kit_close(&b->kit);
    assert_int_equal(rmdir(b->runtime), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

static void turn(struct bench *b)
{
    kit_turn(&b->kit);
}

#define await(b, cond) unit_await(cond, #cond, turn(b))

/* ---- a worker ---- */

static int dial(const struct bench *b)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    strcpy(at.sun_path, local_path(b->l));
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    return fd;
}

static void say(struct bench *b, int fd, enum wire_type type, const void *msg, uint64_t request)
{
    struct frame *f = frame_make(type, msg, 0, request);
    size_t at = 0;

    assert_non_null(f);
    while (at < f->n) {
        ssize_t n = send(fd, f->bytes + at, f->n - at, MSG_NOSIGNAL);

        if (n < 0) {
            assert_int_equal(errno, EAGAIN);
            turn(b);
        }
        at += n > 0 ? (size_t)n : 0;
    }
    frame_unref(f);
}

static int attach(struct bench *b, uint64_t cookie, bool depot)
{
    struct msg_attach m = {.slot = SLOT,
                           .cookie = cookie,
                           .pid = (uint32_t)getpid(),
                           .why = depot ? ATTACH_DEPOT : ATTACH_JOINS};
    int fd = dial(b);

    say(b, fd, WIRE_ATTACH, &m, 0);
    return fd;
}

static const struct msg_depot LIST = {.op = DEPOT_LIST, .job = "job"};

/* A line that the orchestrator has heard of. */
static int line(struct bench *b)
{
    const uint32_t before = b->kit.server.frames_n;
    int fd = attach(b, COOKIE, true);

    say(b, fd, WIRE_DEPOT, &LIST, 1);
    await(b, b->kit.server.frames_n > before);
    return fd;
}

/* The next frame; 0: it is closed. */
static uint16_t hear(struct bench *b, int fd, struct wire_header *h, union wire_any *msg)
{
    static uint8_t bytes[1 << 20];
    static uint64_t scratch[1 << 12];
    struct wire_scratch sc = {.mem = (uint8_t *)scratch, .cap = sizeof(scratch)};
    size_t n = 0, want = WIRE_HEADER_BYTES;

    while (n < want) {
        ssize_t got = read(fd, bytes + n, want - n);

        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            return 0;
        }
        if (got < 0) {
            turn(b);
            continue;
        }
        n += (size_t)got;
        if (n == WIRE_HEADER_BYTES && want == n) {
            assert_int_equal(wire_header_decode(bytes, h, NULL), MU_OK);
            want += h->length;
        }
    }
    assert_int_equal(wire_frame_decode(bytes, n, h, msg, &sc, NULL), MU_OK);
    return h->type;
}

static void assert_refused(struct bench *b, int fd, int status)
{
    union wire_any msg;
    struct wire_header h;

    assert_int_equal(hear(b, fd, &h, &msg), WIRE_REFUSED);
    assert_int_equal(msg.refused.status, status);
    assert_true(strlen(msg.refused.text) > 10);
    assert_int_equal(hear(b, fd, &h, &msg), 0);
    close(fd);
}

static void assert_closed(struct bench *b, int fd)
{
    union wire_any msg;
    struct wire_header h;

    assert_int_equal(hear(b, fd, &h, &msg), 0);
    close(fd);
}

/* ---- as it should be ---- */

static void frames_go_up_and_come_down_in_order_with_their_numbers(void **state)
{
    static uint8_t data[DEPOT_DATA_MAX];
    struct msg_depot put = {.op = DEPOT_PUT, .job = "job", .data = data, .data_n = sizeof(data)};
    struct msg_depot_says says = {.op = DEPOT_READ, .data = data, .data_n = sizeof(data)};
    struct wire_header h;
    union wire_any msg;
    struct bench b;
    uint64_t want = 0;
    int fd;

    bench_open(&b);
    fd = attach(&b, COOKIE, true);
    for (uint32_t i = 0; i < 64; i++) { /* The first are said before there is a connection. */
        struct frame *f;

        put.item = i;
        data[0] = (uint8_t)i;
        say(&b, fd, WIRE_DEPOT, &put, 100 + i);
        f = frame_make(WIRE_DEPOT, &put, 0, 100 + i);
        want = kit_digest(want, f);
        frame_unref(f);
    }
    await(&b, b.kit.server.frames_n == 64);
    assert_true(b.kit.server.digest == want);
    for (uint32_t i = 0; i < 8; i++) {
        says.item = i;
        conn_say(b.kit.server.c, WIRE_DEPOT_SAYS, &says, 0, 500 + i);
    }
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(hear(&b, fd, &h, &msg), WIRE_DEPOT_SAYS);
        assert_int_equal(msg.depot_says.item, i);
        assert_int_equal(msg.depot_says.data_n, sizeof(data));
        assert_int_equal(h.request, 500 + i);
    }
    assert_int_equal(b.kit.server.opened_n, 1);
    assert_int_equal(b.attached_n + b.frames_n + b.detached_n, 0); /* It is nobody's seat. */
    close(fd);
    await(&b, b.kit.server.closed_n == 1);
    bench_close(&b);
}

/* Each has its own connection; neither's end touches the other. */
static void a_line_is_there_beside_the_worker(void **state)
{
    struct msg_beat beat = {.worker = 1};
    struct bench b;
    int worker, own;

    bench_open(&b);
    own = line(&b); /* whichever comes first */
    worker = attach(&b, COOKIE, false);
    await(&b, b.attached_n == 1);
    say(&b, worker, WIRE_BEAT, &beat, 0);
    await(&b, b.frames_n == 1);
    close(own);
    await(&b, b.kit.server.closed_n == 1);
    assert_true(local_is_attached(b.l, SLOT));
    own = line(&b);
    close(worker);
    await(&b, b.detached_n == 1);
    say(&b, own, WIRE_DEPOT, &LIST, 2);
    await(&b, b.kit.server.frames_n == 3);
    close(own);
    bench_close(&b);
}

/* ---- as it should not ---- */

static void a_line_needs_the_cookie_of_a_start(void **state)
{
    struct bench b;

    bench_open(&b);
    assert_refused(&b, attach(&b, COOKIE + 1, true), MU_ESTALE);
    local_forget(b.l, SLOT);
    assert_refused(&b, attach(&b, COOKIE, true), MU_ENOENT);
    assert_int_equal(b.kit.server.opened_n, 0);
    bench_close(&b);
}

/* It has given up the first, and that may not be known yet. */
static void a_second_line_of_a_slot_takes_the_place_of_the_first(void **state)
{
    struct bench b;
    int first, second;

    bench_open(&b);
    first = line(&b);
    second = line(&b);
    await(&b, b.kit.server.closed_n == 1);
    assert_closed(&b, first);
    say(&b, second, WIRE_DEPOT, &LIST, 2);
    await(&b, b.kit.server.frames_n == 3);
    assert_int_equal(b.kit.server.closed_n, 1);
    close(second);
    bench_close(&b);
}

static void the_end_of_a_process_ends_its_line(void **state)
{
    struct bench b;
    int fd;

    bench_open(&b);
    fd = line(&b);
    local_forget(b.l, SLOT);
    await(&b, b.kit.server.closed_n == 1);
    assert_closed(&b, fd);
    bench_close(&b);
}

static void an_orchestrator_that_goes_ends_the_line_and_says_so(void **state)
{
    struct wire_header h;
    union wire_any msg;
    struct bench b;
    int fd, worker;

    bench_open(&b);
    worker = attach(&b, COOKIE, false);
    await(&b, b.attached_n == 1);
    fd = line(&b);
    conn_close(b.kit.server.c, 0);
    b.kit.server.c = NULL;
    assert_int_equal(hear(&b, fd, &h, &msg), WIRE_REFUSED);
    assert_non_null(strstr(msg.refused.text, "orchestrator"));
    assert_closed(&b, fd);
    fd = line(&b); /* It is there again. */
    assert_int_equal(b.kit.server.opened_n, 2);
    close(fd);
    assert_true(local_is_attached(b.l, SLOT));
    close(worker);
    bench_close(&b);
}

static void without_an_orchestrator_it_is_said_that_there_is_none(void **state)
{
    struct bench b;
    int fd;

    bench_open(&b);
    listen_close(b.kit.l);
    fd = attach(&b, COOKIE, true);
    say(&b, fd, WIRE_DEPOT, &LIST, 1);
    assert_refused(&b, fd, MU_EIO);
    local_relay(b.l, NULL);
    assert_refused(&b, attach(&b, COOKIE, true), MU_EREFUSED);
    /* The listener is closed: another is for kit_close(). */
    local_close(b.l, 1000);
    uv_close((uv_handle_t *)&b.kit.tick, NULL);
    uv_run(&b.kit.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&b.kit.loop), 0);
    tls_close(b.kit.server_tls);
    tls_close(b.kit.client_tls);
    assert_int_equal(rmdir(b.runtime), 0);
}

static void what_is_not_for_the_checkpoints_of_the_own_job_is_not_passed_on(void **state)
{
    struct msg_depot other = {.op = DEPOT_LIST, .job = "another"}, all = {.op = DEPOT_LIST};
    struct msg_ask shutdown_it = {.kind = 12, .job = "job"};
    struct msg_beat beat = {.worker = 1};
    struct msg_attach again = {.slot = SLOT, .cookie = COOKIE, .why = ATTACH_DEPOT};
    const struct {
        enum wire_type type;
        const void *msg;
    } BAD[] = {{WIRE_DEPOT, &other},
               {WIRE_DEPOT, &all},
               {WIRE_ASK, &shutdown_it},
               {WIRE_BEAT, &beat},
               {WIRE_ATTACH, &again}};
    struct bench b;

    bench_open(&b);
    for (uint32_t i = 0; i < ARRAY_LEN(BAD); i++) {
        int fd = line(&b);

        say(&b, fd, BAD[i].type, BAD[i].msg, 2);
        assert_closed(&b, fd);
        await(&b, b.kit.server.closed_n == i + 1);
        assert_int_equal(b.kit.server.frames_n, i + 1);
    }
    assert_int_equal(b.frames_n + b.detached_n, 0);
    bench_close(&b);
}

static void what_the_orchestrator_should_not_say_ends_the_line(void **state)
{
    struct msg_lease lease = {.sent_ms = 1};
    struct bench b;
    int fd;

    bench_open(&b);
    fd = line(&b);
    conn_say(b.kit.server.c, WIRE_LEASE, &lease, 0, 0);
    assert_refused(&b, fd, MU_EPROTO);
    await(&b, b.kit.server.closed_n == 1);
    bench_close(&b);
}

/* More than may be unanswered, to a worker that does not read: its line ends, not the agent. */
static void a_worker_that_does_not_read_loses_its_line(void **state)
{
    static uint8_t data[DEPOT_DATA_MAX];
    struct msg_depot_says says = {.op = DEPOT_READ, .data = data, .data_n = sizeof(data)};
    struct bench b;
    int fd;

    bench_open(&b);
    fd = line(&b);
    for (int i = 0; i < 256 && b.kit.server.c != NULL; i++) {
        conn_say(b.kit.server.c, WIRE_DEPOT_SAYS, &says, 0, 1);
        turn(&b);
    }
    await(&b, b.kit.server.closed_n == 1);
    close(fd);
    bench_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_go_up_and_come_down_in_order_with_their_numbers),
        cmocka_unit_test(a_line_is_there_beside_the_worker),
        cmocka_unit_test(a_line_needs_the_cookie_of_a_start),
        cmocka_unit_test(a_second_line_of_a_slot_takes_the_place_of_the_first),
        cmocka_unit_test(the_end_of_a_process_ends_its_line),
        cmocka_unit_test(an_orchestrator_that_goes_ends_the_line_and_says_so),
        cmocka_unit_test(without_an_orchestrator_it_is_said_that_there_is_none),
        cmocka_unit_test(what_is_not_for_the_checkpoints_of_the_own_job_is_not_passed_on),
        cmocka_unit_test(what_the_orchestrator_should_not_say_ends_the_line),
        cmocka_unit_test(a_worker_that_does_not_read_loses_its_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
