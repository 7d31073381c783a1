/* Links over TCP between two workers: what is sent arrives, whole, in order, or not at all. */
#include "unit/comm/tcp_kit.h"

#include "link/stream.h"

#include "base/prng.h"
#include "comm/tcp.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS_MAX 400000000 /* against hanging */

static const struct tcp_pair_config kinds[] = {
    {false, false, false, false},
    {false, false, false, true},
    {true, true, false, false},
    {true, true, false, true},
};

static const size_t sizes[] = {0,     1,     3,     64,    1000,   4095,         8192,
                               65532, 65536, 65537, 70000, 300001, NOTE_DATA_MAX};

/* Notes from one side to the other, `call` being their number. `dropped`: voided by the sender. */
enum { FLOW_MAX = 400 };
struct flow {
    struct link *from, *to;
    uint64_t calls_n, sent_n,
        next;                  /* the reader has seen all before `next`, or they were dropped */
    uint64_t number[FLOW_MAX]; /* of link->sent_n */
    uint8_t *data[FLOW_MAX];
    size_t bytes[FLOW_MAX];
    bool dropped[FLOW_MAX]; /* may be missing */
    uint32_t seen_n, void_n;
    bool reading; /* body() was called for the note at hand */
    uint8_t *place;
};

static void begin_flow(struct flow *f, struct link *from, struct link *to, uint64_t calls_n)
{
    *f = (struct flow){.from = from, .to = to, .calls_n = calls_n};
    f->place = malloc(NOTE_DATA_MAX);
    assert_non_null(f->place);
}

/* Whoever touches the data of a note that was taken finds nothing there. */
static void free_taken(struct flow *f)
{
    const uint64_t taken = f->from->ops->taken(f->from);

    assert_true(taken <= f->from->sent_n);
    for (uint64_t i = 0; i < f->sent_n; i++) {
        if (f->data[i] != NULL && (f->number[i] <= taken || f->dropped[i])) {
            memset(f->data[i], 0xee, f->bytes[i]);
            free(f->data[i]);
            f->data[i] = NULL;
        }
    }
}

static void try_to_send(struct flow *f, struct prng *p)
{
    const uint64_t i = f->sent_n;
    const size_t bytes = sizes[prng_below(p, ARRAY_LEN(sizes))];
    const bool copy = bytes <= LINK_COPY_MAX && prng_below(p, 2) == 0;
    const struct note note = {.generation = 1,
                              .call = i,
                              .bytes = bytes,
                              .kind = NOTE_DATA,
                              .op = COMM_SEND,
                              .index = copy};

    if (i == f->calls_n) {
        return;
    }
    f->data[i] = malloc(bytes + 1);
    f->bytes[i] = bytes;
    assert_non_null(f->data[i]);
    tcp_kit_fill(i, f->data[i], bytes);
    int rc = f->from->ops->send(f->from, &note, f->data[i], copy);

    if (rc == MU_OK) {
        f->number[i] = f->from->sent_n;
        f->sent_n++;
    } else {
        assert_int_equal(rc, MU_EAGAIN);
        assert_true(tcp_kit_awaits(f->from, false, true) != 0);
    }
    if (rc != MU_OK || copy) {
        memset(f->data[i], 0xee, bytes);
        free(f->data[i]);
        f->data[i] = NULL;
    }
}

static void try_to_drop(struct flow *f)
{
    const uint64_t taken = f->from->ops->taken(f->from);

    f->from->ops->drop(f->from);
    for (uint64_t i = 0; i < f->sent_n; i++) {
        f->dropped[i] |= f->number[i] > taken;
    }
    assert_true(f->from->ops->taken(f->from) == f->from->sent_n);
}

static bool read_one(struct flow *f, struct prng *p)
{
    struct link *l = f->to;
    const void *data = NULL;
    struct note note;
    int rc = l->ops->head(l, &note);

    if (rc != MU_OK) {
        assert_int_equal(rc, MU_EAGAIN);
        return false;
    }
    while (f->next < note.call) {
        assert_true(f->dropped[f->next++]);
    }
    assert_true(note.call == f->next && note.bytes == f->bytes[note.call]);
    if (!f->reading && note.call + 1 < f->calls_n && prng_below(p, 20) == 0) { /* not wanted */
        assert_int_equal(l->ops->done(l), MU_OK);
        f->next++;
        return true;
    }
    f->reading = true;
    rc = l->ops->body(l, note.index != 0 || note.call % 2 == 0 ? f->place : NULL, &data);
    if (rc == MU_EAGAIN) {
        if (prng_below(p, 10) == 0) { /* the place is no longer the link's */
            tcp_in_drop(tcp_of(l));
            memset(f->place, 0xdd, NOTE_DATA_MAX);
        }
        return false;
    }
    f->reading = false;
    f->next++;
    if (rc == MU_EPEER) {
        assert_true(f->dropped[note.call]);
        assert_int_equal(l->ops->done(l), MU_EPEER);
        f->void_n++;
        return true;
    }
    assert_int_equal(rc, MU_OK);
    assert_false(f->dropped[note.call]);
    assert_true((uintptr_t)data % 64 == 0 || data == f->place);
    assert_true(tcp_kit_filled(note.call, data, note.bytes));
    assert_int_equal(l->ops->done(l), MU_OK);
    f->seen_n++;
    return true;
}

static void end_flow(struct flow *f)
{
    assert_int_equal(f->from->lost, MU_OK);
    assert_true(f->from->ops->taken(f->from) == f->from->sent_n);
    free_taken(f);
    while (f->next < f->calls_n) {
        assert_true(f->dropped[f->next++]);
    }
    free(f->place);
}

/* One end sees what the other has dropped by what comes last. */
static void run_flows(struct flow *flows, struct prng *p, uint32_t drops)
{
    for (uint32_t turn = 0; turn < TURNS_MAX; turn++) {
        struct flow *f = &flows[prng_below(p, 2)];
        bool more = false;

        switch (prng_below(p, 4)) {
        case 0:
            try_to_send(f, p);
            break;
        case 1:
            f->from->ops->flush(f->from);
            free_taken(f);
            break;
        case 2:
            if (drops > 0 && f->sent_n < f->calls_n - 1 && prng_below(p, drops) == 0) {
                try_to_drop(f);
                free_taken(f);
            }
            break;
        default:
            read_one(f, p);
        }
        for (int i = 0; i < 2; i++) {
            more |= flows[i].next < flows[i].calls_n;
        }
        if (!more) {
            return;
        }
    }
    fail_msg("it never ends");
}

/* How many void frames were seen. */
static uint32_t play(const struct tcp_pair_config *kind, uint64_t seed, uint64_t n, uint32_t drops)
{
    uint32_t void_n = 0;
    struct tcp_pair p;
    static struct flow flows[2];
    struct prng prng;

    prng_init(&prng, seed);
    tcp_pair_open(&p, *kind);
    tcp_pair_move(&p, 1);
    begin_flow(&flows[0], p.a.link, p.b.link, n);
    begin_flow(&flows[1], p.b.link, p.a.link, n);
    run_flows(flows, &prng, drops);
    for (int i = 0; i < 2; i++) {
        void_n += flows[i].void_n;
        end_flow(&flows[i]);
    }
    tcp_pair_close(&p);
    return void_n;
}

static void notes_of_all_sizes_arrive_both_ways(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        assert_true(play(&kinds[i], i, kinds[i].narrow ? 30 : 100, 0) == 0);
    }
}

static void what_was_dropped_is_never_seen_and_the_rest_is(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        for (uint64_t seed = 1; seed <= (unit_full() ? 3 : 1); seed++) {
            play(&kinds[i], seed, kinds[i].narrow ? 30 : 80, kinds[i].narrow ? 3000 : 40);
        }
    }
}

static void send_data(struct link *l, uint8_t kind, uint64_t call, const void *data, size_t bytes,
                      bool copy, int expected)
{
    const struct note note = {.generation = 1,
                              .call = call,
                              .bytes = bytes,
                              .kind = kind,
                              .op = kind == NOTE_MAIL ? COMM_NONE : COMM_SEND};

    assert_int_equal(l->ops->send(l, &note, data, copy), expected);
}

/* The next note, with its bytes. */
static int receive(struct link *from, struct link *to, struct note *note_out, const void **data_out)
{
    int rc;

    do {
        from->ops->flush(from);
        rc = to->ops->head(to, note_out);
    } while (rc == MU_EAGAIN);
    while (rc == MU_OK || rc == MU_EAGAIN) {
        from->ops->flush(from);
        rc = to->ops->body(to, NULL, data_out);
        if (rc == MU_OK) {
            return rc;
        }
    }
    return rc;
}

/* Fills the queue and whatever the kernel takes; the number of notes. */
static uint64_t stuff(struct link *l, const void *data)
{
    uint64_t n = 0;
    const struct note note = {
        .generation = 1, .bytes = NOTE_DATA_MAX, .kind = NOTE_DATA, .op = COMM_SEND};

    while (l->ops->send(l, &note, data, false) == MU_OK) {
        n++;
    }
    return n;
}

/* The reader has the head, and some of the bytes, or nothing yet. */
static void a_note_cut_off_is_void_for_its_reader(void **state)
{
    static uint8_t data[NOTE_DATA_MAX], place[NOTE_DATA_MAX];
    const void *got;
    struct note note;

    for (size_t i = 1; i < ARRAY_LEN(kinds); i += 2) { /* narrow: it can't have left as a whole */
        for (int looks = 0; looks < 2; looks++) {
            struct tcp_pair p;

            tcp_pair_open(&p, kinds[i]);
            tcp_pair_move(&p, 1);
            struct link *a = p.a.link, *b = p.b.link;

            send_data(a, NOTE_DATA, 1, data, sizeof(data), false, MU_OK);
            send_data(a, NOTE_DATA, 2, data, 100, false, MU_OK);
            assert_true(a->ops->taken(a) == a->sent_n - 2);
            while (looks > 0 && b->ops->head(b, &note) == MU_EAGAIN) {
                a->ops->flush(a);
            }
            if (looks > 0) {
                assert_true(note.call == 1);
                assert_int_equal(b->ops->body(b, place, &got), MU_EAGAIN);
            }
            a->ops->drop(a);
            assert_true(a->ops->taken(a) == a->sent_n);
            memset(data, 1, sizeof(data));
            send_data(a, NOTE_DATA, 3, "next", 4, true, MU_OK);
            int rc = receive(a, b, &note, &got);

            if (note.call == 1) { /* always, if it had looked */
                assert_int_equal(rc, MU_EPEER);
                assert_int_equal(b->ops->done(b), MU_EPEER);
                rc = receive(a, b, &note, &got);
            } else {
                assert_true(looks == 0);
            }
            assert_int_equal(rc, MU_OK);
            assert_true(note.call == 3 && memcmp(got, "next", 4) == 0);
            memset(data, 0, sizeof(data));
            tcp_pair_close(&p);
        }
    }
}

static void mail_aborts_and_proofs_outlive_a_drop_and_a_full_queue(void **state)
{
    static uint8_t data[NOTE_DATA_MAX];
    uint8_t proof[HELLO_PROOF_BYTES];
    const void *got;
    struct note note;
    struct tcp_pair p;

    tcp_pair_open(&p, kinds[0]);
    tcp_pair_move(&p, 1);
    struct link *a = p.a.link, *b = p.b.link;

    while (a->sent_n - a->ops->taken(a) < 5) {
        send_data(a, NOTE_DATA, 1, data, sizeof(data), false, MU_OK);
    }
    send_data(a, NOTE_MAIL, 2, "mail", 4, true, MU_OK);
    send_data(a, NOTE_DATA, 3, "data", 4, true, MU_OK);
    send_data(a, NOTE_ABORT, 4, NULL, 0, true, MU_OK);
    stuff(a, data);
    for (uint64_t g = 2; g < 40; g++) { /* of which only the last is sent */
        tcp_kit_proof(g, proof);
        assert_int_equal(a->ops->prove(a, g, proof), MU_OK);
    }
    a->ops->drop(a);
    memset(data, 1, sizeof(data));
    for (;;) {
        int rc = receive(a, b, &note, &got);

        if (note.kind != NOTE_DATA) {
            break;
        }
        assert_true(note.call == 1);
        if (rc == MU_OK) {
            for (size_t i = 0; i < sizeof(data); i++) {
                assert_true(((const uint8_t *)got)[i] == 0);
            }
        }
        assert_int_equal(b->ops->done(b), rc);
    }
    assert_true(note.kind == NOTE_MAIL && note.call == 2 && memcmp(got, "mail", 4) == 0);
    b->ops->done(b);
    assert_int_equal(receive(a, b, &note, &got), MU_OK);
    assert_true(note.kind == NOTE_ABORT && note.call == 4);
    b->ops->done(b);
    assert_int_equal(a->ops->flush(a), MU_OK);
    assert_int_equal(b->ops->head(b, &note), MU_EAGAIN);
    assert_true(b->claim == 39);
    tcp_pair_close(&p);
}

static void a_full_queue_says_so_and_goes_on_when_there_is_room(void **state)
{
    static uint8_t data[NOTE_DATA_MAX];
    const void *got;
    struct note note;
    struct tcp_pair p;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        tcp_pair_open(&p, kinds[i]);
        tcp_pair_move(&p, 1);
        struct link *a = p.a.link, *b = p.b.link;
        const uint64_t n = stuff(a, data);

        assert_true(n >= TCP_QUEUE);
        assert_int_equal(a->ops->flush(a), MU_EAGAIN);
        assert_true(tcp_kit_awaits(a, false, true) == POLLOUT);
        assert_true(tcp_kit_awaits(a, true, false) == (POLLIN | POLLOUT)); /* It leaves anyway. */
        for (uint64_t k = 0; k < n; k++) {
            assert_int_equal(receive(a, b, &note, &got), MU_OK);
            assert_int_equal(b->ops->done(b), MU_OK);
        }
        assert_int_equal(a->ops->flush(a), MU_OK);
        assert_true(a->ops->taken(a) == a->sent_n && tcp_kit_awaits(a, false, true) == 0);
        tcp_pair_close(&p);
    }
}

/* Nobody is woken for what nobody can use yet. */
static void what_is_awaited_follows_what_was_asked_for(void **state)
{
    static uint8_t data[NOTE_DATA_MAX];
    const void *got;
    struct note note;
    struct tcp_pair p;

    tcp_pair_open(&p, kinds[0]);
    struct link *a = p.a.link, *b = p.b.link;

    assert_true(tcp_kit_awaits(b, true, true) == POLLIN);
    assert_true(tcp_kit_awaits(b, false, true) == 0);
    tcp_pair_move(&p, 1);
    send_data(a, NOTE_DATA, 1, data, sizeof(data), false, MU_OK);
    tcp_kit_wait(b, true, false);
    assert_int_equal(b->ops->head(b, &note), MU_OK);
    assert_true(tcp_kit_awaits(b, true, false) == 0); /* the head is there, the body not wanted */
    while (b->ops->body(b, NULL, &got) == MU_EAGAIN) {
        assert_true(tcp_kit_awaits(b, true, false) == POLLIN);
        a->ops->flush(a);
    }
    assert_true(tcp_kit_awaits(b, true, false) == 0);
    b->ops->done(b);
    assert_int_equal(b->ops->head(b, &note), MU_EAGAIN);
    assert_true(tcp_kit_awaits(b, true, false) == POLLIN);

    tcp_side_move(&p.a, 2); /* the next note waits until b has moved, too */
    const struct note newer = {.generation = 2, .kind = NOTE_HERE, .op = COMM_BARRIER};

    assert_int_equal(a->ops->send(a, &newer, NULL, true), MU_OK);
    for (int i = 0; tcp_kit_awaits(b, true, false) != 0; i++) {
        assert_true(i < 100000);
        assert_int_equal(b->ops->head(b, &note), MU_EAGAIN);
    }
    assert_true(b->claim == 2);
    tcp_side_move(&p.b, 2);
    assert_int_equal(b->ops->head(b, &note), MU_OK);
    assert_true(note.generation == 2 && note.kind == NOTE_HERE);
    link_lose(b, MU_EPEER, "test");
    assert_true(tcp_kit_awaits(b, true, true) == 0);
    assert_int_equal(b->ops->head(b, &note), MU_EPEER);
    assert_int_equal(b->ops->flush(b), MU_EPEER);
    send_data(b, NOTE_DATA, 1, data, 1, false, MU_EPEER);
    tcp_pair_close(&p);
}

static void closing_delivers_what_was_sent(void **state)
{
    static uint8_t data[30000];
    const void *got;
    struct note note;

    tcp_kit_fill(5, data, sizeof(data));
    for (size_t i = 0; i < ARRAY_LEN(kinds); i += 2) {
        struct tcp_pair p;

        tcp_pair_open(&p, kinds[i]);
        tcp_pair_move(&p, 1);
        /* Something for it to read, which it never does. */
        send_data(p.b.link, NOTE_DATA, 1, data, 1000, false, MU_OK);
        send_data(p.a.link, NOTE_DATA, 2, data, sizeof(data), false, MU_OK);
        tcp_side_close(&p.a);
        struct link *b = p.b.link;

        send_data(b, NOTE_DATA, 3, data, 1000, false, MU_OK); /* too late, and found out later */
        send_data(b, NOTE_DATA, 4, data, 1000, false, MU_OK);
        send_data(b, NOTE_DATA, 5, data, 1000, false, MU_OK);
        assert_int_equal(receive(b, b, &note, &got), MU_OK);
        assert_true(note.call == 2 && tcp_kit_filled(5, got, sizeof(data)));
        assert_int_equal(b->ops->done(b), MU_OK);
        assert_int_equal(receive(b, b, &note, &got), MU_EPEER);
        assert_int_equal(b->lost, MU_EPEER);
        tcp_pair_close(&p);
    }
}

static void closing_does_not_wait_for_one_who_does_not_read(void **state)
{
    static uint8_t data[NOTE_DATA_MAX];
    struct tcp_pair p;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        tcp_pair_open(&p, kinds[i]);
        if (i % 2 == 1) {
            tcp_pair_move(&p, 1);
            stuff(p.a.link, data);
        }
        const uint64_t begun_ns = clock_ns();

        tcp_side_close(&p.a);
        assert_true(clock_ns() - begun_ns < UINT64_C(10000000000));
        tcp_side_close(&p.b);
    }
}

static void only_workers_that_all_have_tls_and_the_key_get_on(void **state)
{
    static const struct tcp_pair_config wrong[] = {
        {true, false, false, false}, {false, true, false, false}, {true, true, true, false}};

    uint8_t proof[HELLO_PROOF_BYTES];

    tcp_kit_proof(1, proof);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct tcp_pair p;
        struct note note;

        tcp_pair_open(&p, wrong[i]);
        struct link *a = p.a.link, *b = p.b.link;

        p.a.comm.group.number = p.b.comm.group.number = 1;
        a->ops->prove(a, 1, proof);
        b->ops->prove(b, 1, proof);

        for (int k = 0; a->lost == MU_OK && b->lost == MU_OK; k++) {
            struct link *l = k % 2 == 0 ? a : b;

            assert_true(k < 10000000);
            l->ops->flush(l);
            l->ops->head(l, &note);
        }
        assert_int_equal(a->lost != MU_OK ? a->lost : b->lost, MU_EPROTO);
        assert_true(a->proved == 0 && b->proved == 0);
        assert_non_null(strstr(tcp_kit_why(), "TLS"));
        tcp_pair_close(&p);
    }
}

static void a_link_says_where_it_goes(void **state)
{
    struct tcp_pair p;

    tcp_pair_open(&p, kinds[0]);
    assert_true(strncmp(p.a.link->where, "tcp 127.0.0.1:", 14) == 0);
    assert_int_equal(p.a.link->path, COMM_TCP);
    assert_false(link_stream_is_silent(p.a.link->fd));
    tcp_pair_close(&p);
    tcp_pair_open(&p, kinds[2]);
    assert_true(strncmp(p.b.link->where, "tcp+tls 127.0.0.1:", 18) == 0);
    tcp_pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(notes_of_all_sizes_arrive_both_ways),
        cmocka_unit_test(what_was_dropped_is_never_seen_and_the_rest_is),
        cmocka_unit_test(a_note_cut_off_is_void_for_its_reader),
        cmocka_unit_test(mail_aborts_and_proofs_outlive_a_drop_and_a_full_queue),
        cmocka_unit_test(a_full_queue_says_so_and_goes_on_when_there_is_room),
        cmocka_unit_test(what_is_awaited_follows_what_was_asked_for),
        cmocka_unit_test(closing_delivers_what_was_sent),
        cmocka_unit_test(closing_does_not_wait_for_one_who_does_not_read),
        cmocka_unit_test(only_workers_that_all_have_tls_and_the_key_get_on),
        cmocka_unit_test(a_link_says_where_it_goes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
