/* A worker's line to the orchestrator's checkpoints, with a thread that is its agent. */
#include "run/agent_line.h"
#include "unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define COOKIE 0x1122334455667788u

/* What the agent does when it has heard one DEPOT. */
enum manner { ANSWERS, ANSWERS_IN_BYTES, REFUSES, REFUSES_AT_ONCE, CLOSES, BABBLES, LISTENS };

struct stand {
    struct agent_place place;
    char dir[32];
    int fd;
    enum manner manner;
    pthread_t agent;
    struct msg_attach attach; /* as it was said */
    uint32_t heard_n;
};

/* ---- the agent ---- */

static void say(int fd, enum wire_type type, const void *msg, uint64_t request, size_t piece)
{
    static uint8_t frame[1 << 20];
    size_t n;

    assert_int_equal(wire_encode(type, msg, 0, request, frame, sizeof(frame), &n), MU_OK);
    for (size_t at = 0; at < n; at += piece) {
        (void)!send(fd, frame + at, MIN(piece, n - at), MSG_NOSIGNAL);
    }
}

static bool hear(int fd, struct intake *in, struct wire_header *h)
{
    struct wire_fault fault;

    for (;;) {
        ssize_t n;
        int rc = intake_next(in, h, &fault);

        if (rc == MU_OK) {
            return true;
        }
        assert_int_equal(rc, MU_EAGAIN);
        n = read(fd, in->bytes, sizeof(in->bytes));
        if (n <= 0) {
            return false;
        }
        intake_filled(in, (size_t)n);
    }
}

static void answer(struct stand *d, int fd, uint64_t request)
{
    static uint8_t data[5000];
    const struct msg_depot_says says = {
        .op = DEPOT_READ, .item = 7, .data = data, .data_n = sizeof(data)};
    const struct msg_refused no = {.status = MU_EIO, .text = "no line to the orchestrator: gone"};
    const struct msg_lease lease = {.sent_ms = 1};

    switch (d->manner) {
    case ANSWERS:
        say(fd, WIRE_DEPOT_SAYS, &says, request, SIZE_MAX / 2);
        break;
    case ANSWERS_IN_BYTES:
        say(fd, WIRE_DEPOT_SAYS, &says, request, 1);
        break;
    case REFUSES:
        say(fd, WIRE_REFUSED, &no, 0, SIZE_MAX / 2);
        break;
    case BABBLES:
        say(fd, WIRE_LEASE, &lease, 0, SIZE_MAX / 2);
        break;
    default:
        break;
    }
}

static void *serve(void *arg)
{
    struct stand *d = arg;
    const struct msg_refused no = {.status = MU_ESTALE, .text = "its MUSTER_COOKIE is another's"};
    struct wire_header h;
    static struct intake in;
    int fd;

    while ((fd = accept(d->fd, NULL, NULL)) >= 0) {
        assert_true(hear(fd, &in, &h));
        assert_int_equal(h.type, WIRE_ATTACH);
        d->attach = in.desk.msg.attach;
        if (d->manner == REFUSES_AT_ONCE) {
            say(fd, WIRE_REFUSED, &no, 0, SIZE_MAX / 2);
        } else {
            while (hear(fd, &in, &h)) {
                assert_int_equal(h.type, WIRE_DEPOT);
                d->heard_n++;
                answer(d, fd, h.request);
                if (d->manner != ANSWERS && d->manner != ANSWERS_IN_BYTES && d->manner != LISTENS) {
                    break;
                }
            }
        }
        intake_close(&in);
        close(fd);
    }
    return NULL;
}

static void stand_open(struct stand *d, enum manner manner)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    *d = (struct stand){.dir = "/tmp/muster-test-XXXXXX", .manner = manner};
    d->place.attach = (struct msg_attach){.slot = 5, .cookie = COOKIE, .pid = 4711};
    assert_non_null(mkdtemp(d->dir));
    snprintf(d->place.socket, sizeof(d->place.socket), "%s/agent", d->dir);
    strcpy(at.sun_path, d->place.socket);
    d->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(d->fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(d->fd, 8), 0);
    assert_int_equal(pthread_create(&d->agent, NULL, serve, d), 0);
}

static void stand_close(struct stand *d)
{
    shutdown(d->fd, SHUT_RDWR);
    pthread_join(d->agent, NULL);
    close(d->fd);
    unlink(d->place.socket);
    assert_int_equal(rmdir(d->dir), 0);
}

/* ---- the line ---- */

static const struct msg_depot READ = {.op = DEPOT_READ, .job = "job", .step = 3, .total = 5000};

/* One question; what becomes of it. */
static int ask(struct depot_line *l, uint64_t request, const struct msg_depot_says **m_out,
               struct ckpt_why *why)
{
    uint64_t number = 0;
    int rc = l->say(l->arg, &READ, request, why);

    rc = rc == MU_OK ? l->next(l->arg, 60000, &number, m_out, why) : rc;
    if (rc == MU_OK) {
        assert_int_equal(number, request);
    }
    return rc;
}

static void questions_are_answered_in_whatever_pieces_that_comes(void **state)
{
    const enum manner MANNERS[] = {ANSWERS, ANSWERS_IN_BYTES};

    for (size_t i = 0; i < ARRAY_LEN(MANNERS); i++) {
        const struct msg_depot_says *m = NULL;
        struct ckpt_why why = {.text = ""};
        struct agent_line own;
        struct depot_line l;
        struct stand d;

        stand_open(&d, MANNERS[i]);
        agent_line_init(&own, &d.place);
        l = agent_line_hooks(&own, 1000);
        assert_int_equal(l.patience_ms, 1000);
        assert_int_equal(l.open(l.arg, &why), MU_OK);
        for (uint64_t request = 1; request < 4; request++) {
            assert_int_equal(ask(&l, request, &m, &why), MU_OK);
            assert_int_equal(m->item, 7);
            assert_int_equal(m->data_n, 5000);
        }
        assert_int_equal(l.open(l.arg, &why), MU_OK); /* anew */
        assert_int_equal(ask(&l, 9, &m, &why), MU_OK);
        l.close(l.arg);
        l.close(l.arg);
        agent_line_close(&own);
        stand_close(&d);
        assert_int_equal(d.heard_n, 4);
        assert_int_equal(d.attach.slot, 5);
        assert_int_equal(d.attach.cookie, COOKIE);
        assert_int_equal(d.attach.why, ATTACH_DEPOT);
    }
}

static void the_end_of_a_line_is_told_with_its_reason(void **state)
{
    static const struct {
        enum manner manner;
        int status;
        const char *text;
    } CASES[] = {{REFUSES, MU_EIO, "no line to the orchestrator: gone"},
                 {REFUSES_AT_ONCE, MU_EREFUSED, "its MUSTER_COOKIE is another's"},
                 {CLOSES, MU_EIO, "the agent has closed the line"},
                 {BABBLES, MU_EIO, "no place on this line"}};

    for (size_t i = 0; i < ARRAY_LEN(CASES); i++) {
        const struct msg_depot_says *m;
        struct ckpt_why why = {.text = ""};
        struct agent_line own;
        struct depot_line l;
        struct stand d;

        stand_open(&d, CASES[i].manner);
        agent_line_init(&own, &d.place);
        l = agent_line_hooks(&own, 1000);
        assert_int_equal(l.open(l.arg, &why), MU_OK);
        if (CASES[i].manner == REFUSES_AT_ONCE) {
            usleep(20000); /* It is closed when something is said, or was not yet: the same. */
        }
        assert_int_equal(ask(&l, 1, &m, &why), CASES[i].status);
        assert_non_null(strstr(why.text, CASES[i].text));
        agent_line_close(&own);
        assert_int_equal(l.say(l.arg, &READ, 2, &why), MU_EIO);
        agent_line_close(&own); /* It kept what it could not say. */
        stand_close(&d);
    }
}

static void without_an_answer_the_time_runs_out_and_the_line_stays(void **state)
{
    const struct msg_depot_says *m;
    struct ckpt_why why = {.text = ""};
    struct agent_line own;
    struct depot_line l;
    uint64_t request;
    struct stand d;

    stand_open(&d, LISTENS);
    agent_line_init(&own, &d.place);
    l = agent_line_hooks(&own, 0);
    assert_int_equal(l.open(l.arg, &why), MU_OK);
    assert_int_equal(l.say(l.arg, &READ, 1, &why), MU_OK);
    assert_int_equal(l.next(l.arg, 10, &request, &m, &why), MU_ETIMEDOUT);
    d.manner = ANSWERS;
    assert_int_equal(ask(&l, 2, &m, &why), MU_OK);
    agent_line_close(&own);
    stand_close(&d);
}

static void without_an_agent_there_is_no_line(void **state)
{
    const struct agent_place place = {.socket = "/nowhere/agent"};
    struct ckpt_why why = {.text = ""};
    struct agent_line own;
    struct depot_line l;

    agent_line_init(&own, &place);
    l = agent_line_hooks(&own, 0);
    assert_int_equal(l.open(l.arg, &why), MU_EIO);
    assert_non_null(
        strstr(why.text, "no agent answers at /nowhere/agent (MUSTER_SOCKET): No such file"));
    agent_line_close(&own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(questions_are_answered_in_whatever_pieces_that_comes),
        cmocka_unit_test(the_end_of_a_line_is_told_with_its_reason),
        cmocka_unit_test(without_an_answer_the_time_runs_out_and_the_line_stays),
        cmocka_unit_test(without_an_agent_there_is_no_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
