/* Links over TCP with a peer that may say anything: what it reads, byte by byte. */
#include "unit/comm/tcp_kit.h"

#include "base/prng.h"
#include "comm/tcp.h"
#include "wire/bytes.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A stream that the test makes, and says. */
struct flow {
    struct tcp_side side;
    int fd;
    uint8_t bytes[1u << 18];
    size_t n;
};

static void begin(struct flow *s, uint64_t generation)
{
    tcp_raw_open(&s->side, false, &s->fd);
    s->side.comm.group.number = generation;
    s->n = 0;
}

static void end(struct flow *s)
{
    tcp_side_close(&s->side);
    if (s->fd >= 0) {
        close(s->fd);
    }
}

static void add(struct flow *s, const struct note *note, const void *data, uint32_t word)
{
    note_encode(note, s->bytes + s->n);
    s->n += NOTE_BYTES;
    if (note->bytes > 0) {
        memcpy(s->bytes + s->n, data, note->bytes);
        s->n += note->bytes;
    }
    put_u32(s->bytes + s->n, word);
    s->n += TCP_WORD_BYTES;
}

static void add_move(struct flow *s, uint64_t generation)
{
    const struct note note = {
        .generation = generation, .kind = NOTE_MOVE, .bytes = HELLO_PROOF_BYTES};
    uint8_t proof[HELLO_PROOF_BYTES];

    tcp_kit_proof(generation, proof);
    add(s, &note, proof, TCP_COUNTS);
}

static void add_data(struct flow *s, uint64_t generation, uint64_t call, size_t bytes,
                     uint32_t word)
{
    const struct note note = {.generation = generation,
                              .call = call,
                              .kind = bytes == 0 ? NOTE_HERE : NOTE_DATA,
                              .op = COMM_SEND,
                              .bytes = bytes};
    uint8_t *data = malloc(bytes + 1);

    assert_non_null(data);
    tcp_kit_fill(call, data, bytes);
    add(s, &note, data, word);
    free(data);
}

static void say(const struct flow *s, size_t from, size_t to)
{
    while (from < to) {
        const ssize_t sent = send(s->fd, s->bytes + from, to - from, MSG_NOSIGNAL);

        assert_true(sent > 0);
        from += (size_t)sent;
    }
}

/* Notes that the link gives until it has to wait, or is lost; each checked. */
static int read_all(struct flow *s, uint32_t *seen_n)
{
    struct link *l = s->side.link;
    struct note note;
    const void *data;
    int rc;

    for (;;) {
        rc = l->ops->head(l, &note);
        if (rc == MU_OK) {
            assert_true(note.generation == s->side.comm.group.number);
            rc = l->ops->body(l, NULL, &data);
        }
        if (rc != MU_OK) {
            return rc;
        }
        assert_true(tcp_kit_filled(note.call, data, note.bytes));
        assert_int_equal(l->ops->done(l), MU_OK);
        (*seen_n)++;
    }
}

/* … and what comes is waited for. */
static int read_to_end(struct flow *s, uint32_t *seen_n)
{
    int rc;

    while ((rc = read_all(s, seen_n)) == MU_EAGAIN) {
        tcp_kit_wait(s->side.link, true, false);
    }
    return rc;
}

static int lost_by(struct flow *s)
{
    uint32_t seen_n = 0;

    say(s, 0, s->n);
    assert_int_equal(read_to_end(s, &seen_n), MU_EPEER);
    assert_true(seen_n == 0);
    return s->side.link->lost;
}

static void one_byte_at_a_time_is_enough(void **state)
{
    struct flow s;
    uint32_t seen_n = 0;

    begin(&s, 1);
    add_move(&s, 1);
    add_data(&s, 1, 1, 10, TCP_COUNTS);
    add_data(&s, 1, 2, 10, TCP_VOID);
    add_data(&s, 1, 3, 0, TCP_VOID);
    add_data(&s, 1, 4, 0, TCP_COUNTS);
    add_data(&s, 1, 5, 300, TCP_COUNTS);
    for (size_t i = 0; i < s.n; i++) {
        struct link *l = s.side.link;
        struct note note;
        const void *data;
        int rc;

        say(&s, i, i + 1);
        struct pollfd fd = {l->fd, POLLIN, 0};

        assert_true(poll(&fd, 1, 20000) == 1);
        rc = l->ops->head(l, &note);
        if (rc == MU_OK) {
            rc = l->ops->body(l, NULL, &data);
        }
        if (rc == MU_EPEER) {
            assert_true(note.call == 2); /* the head was there before the word */
            assert_int_equal(l->ops->done(l), MU_EPEER);
        } else if (rc == MU_OK) {
            assert_true(tcp_kit_filled(note.call, data, note.bytes));
            assert_int_equal(l->ops->done(l), MU_OK);
            seen_n++;
        } else {
            assert_int_equal(rc, MU_EAGAIN);
        }
    }
    assert_true(seen_n == 3);
    end(&s);
}

static void after_the_last_byte_whole_notes_are_seen_and_the_peer_is_lost(void **state)
{
    struct flow s;
    size_t ends[3];

    for (size_t cut = 0;; cut++) {
        uint32_t seen_n = 0, expected = 0;

        begin(&s, 1);
        add_move(&s, 1);
        for (uint64_t k = 0; k < ARRAY_LEN(ends); k++) {
            add_data(&s, 1, k, k * 10, TCP_COUNTS);
            ends[k] = s.n;
        }
        for (size_t k = 0; k < ARRAY_LEN(ends); k++) {
            expected += ends[k] <= cut;
        }
        say(&s, 0, MIN(cut, s.n));
        close(s.fd);
        s.fd = -1;
        assert_int_equal(read_to_end(&s, &seen_n), MU_EPEER);
        assert_int_equal(s.side.link->lost, MU_EPEER);
        assert_true(seen_n == expected);
        end(&s);
        if (cut >= s.n) {
            break;
        }
    }
}

static void nothing_is_read_before_a_proof(void **state)
{
    struct flow s;

    for (uint64_t generation = 1; generation <= 3; generation++) {
        begin(&s, 2);
        add_data(&s, generation, 1, 10, TCP_COUNTS);
        assert_int_equal(lost_by(&s), MU_EPROTO);
        end(&s);
    }
    begin(&s, 2); /* one for another generation is none */
    add_move(&s, 2);
    add_data(&s, 3, 1, 10, TCP_COUNTS);
    assert_int_equal(lost_by(&s), MU_EPROTO);
    end(&s);
    begin(&s, 2); /* a void one, too */
    add_move(&s, 2);
    put_u32(s.bytes + s.n - TCP_WORD_BYTES, TCP_VOID);
    add_data(&s, 2, 1, 10, TCP_COUNTS);
    assert_int_equal(lost_by(&s), MU_EPROTO);
    end(&s);
    begin(&s, 2); /* nor a wrong one */
    add_move(&s, 2);
    s.bytes[NOTE_BYTES] ^= 1;
    add_data(&s, 2, 1, 10, TCP_COUNTS);
    assert_int_equal(lost_by(&s), MU_EREFUSED);
    end(&s);
}

static void what_is_no_note_loses_the_link(void **state)
{
    struct flow s;

    begin(&s, 1); /* garbage */
    memset(s.bytes, 0x5a, NOTE_BYTES);
    s.n = NOTE_BYTES;
    assert_int_equal(lost_by(&s), MU_EPROTO);
    end(&s);
    begin(&s, 1); /* too large, though it is well formed */
    add_move(&s, 1);
    const struct note large = {
        .generation = 1, .kind = NOTE_DATA, .op = COMM_SEND, .bytes = NOTE_DATA_MAX + 1};

    note_encode(&large, s.bytes + s.n);
    s.n += NOTE_BYTES;
    assert_int_equal(lost_by(&s), MU_EPROTO);
    assert_non_null(strstr(tcp_kit_why(), "too large"));
    end(&s);
    begin(&s, 1); /* ends as no note ends */
    add_move(&s, 1);
    add_data(&s, 1, 1, 10, 0x12345678);
    assert_int_equal(lost_by(&s), MU_EPROTO);
    end(&s);
    begin(&s, 1); /* TLS, where none is expected */
    memset(s.bytes, 0, NOTE_BYTES);
    s.bytes[0] = 0x16;
    s.bytes[1] = 0x03;
    s.n = NOTE_BYTES;
    assert_int_equal(lost_by(&s), MU_EPROTO);
    assert_non_null(strstr(tcp_kit_why(), "TLS"));
    end(&s);
}

/* Any one bit of a stream: no note is seen that was not said. (Bytes of data have no checksum of
 * their own: TCP's, or TLS.) */
static void a_changed_bit_never_makes_another_note(void **state)
{
    struct flow s;

    for (size_t bit = 0;; bit++) {
        struct note note;
        const void *data;
        int rc;

        begin(&s, 1);
        add_move(&s, 1);
        add_data(&s, 1, 1, 4, TCP_COUNTS);
        if (bit == 8 * s.n) {
            end(&s);
            break;
        }
        s.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        say(&s, 0, s.n);
        shutdown(s.fd, SHUT_WR);
        struct link *l = s.side.link;

        while ((rc = l->ops->head(l, &note)) == MU_EAGAIN) {
            tcp_kit_wait(l, true, false);
        }
        if (rc == MU_OK) { /* then it is in the data, or its word */
            assert_true(bit / 8 >= s.n - 4 - TCP_WORD_BYTES && note.call == 1 && note.bytes == 4);
            while ((rc = l->ops->body(l, NULL, &data)) == MU_EAGAIN) {
                tcp_kit_wait(l, true, false);
            }
            assert_true((rc == MU_OK) == (bit / 8 < s.n - TCP_WORD_BYTES));
        }
        end(&s);
    }
}

static void older_notes_are_passed_over_and_newer_ones_wait(void **state)
{
    struct flow s;
    struct link *l;
    struct note note;
    uint32_t seen_n = 0;

    begin(&s, 1);
    l = s.side.link;
    add_move(&s, 1);
    add_data(&s, 1, 1, 100000, TCP_COUNTS); /* seen as a head only */
    add_data(&s, 1, 2, 10, TCP_COUNTS);
    add_move(&s, 2);
    add_data(&s, 2, 3, 70000, TCP_COUNTS); /* this one, too */
    add_move(&s, 3);
    add_data(&s, 3, 4, 10, TCP_COUNTS);
    add_move(&s, 3); /* again */
    add_data(&s, 3, 5, 0, TCP_COUNTS);
    add_move(&s, 4);
    say(&s, 0, NOTE_BYTES + HELLO_PROOF_BYTES + TCP_WORD_BYTES + NOTE_BYTES + 1000);
    while (l->ops->head(l, &note) == MU_EAGAIN) {
        tcp_kit_wait(l, true, false);
    }
    assert_true(note.call == 1);
    s.side.comm.group.number = 2; /* its proof comes after what is passed over */
    assert_int_equal(read_all(&s, &seen_n), MU_EAGAIN);
    say(&s, NOTE_BYTES + HELLO_PROOF_BYTES + TCP_WORD_BYTES + NOTE_BYTES + 1000, s.n);
    while (l->ops->head(l, &note) == MU_EAGAIN) {
        tcp_kit_wait(l, true, false);
    }
    assert_true(l->proved == 2 && note.call == 3);
    s.side.comm.group.number = 3;
    while (l->claim != 4) {
        const int rc = read_all(&s, &seen_n);

        assert_int_equal(rc, MU_EAGAIN);
    }
    assert_true(seen_n == 2);
    assert_int_equal(l->lost, MU_OK);
    end(&s);
}

/* The first thing that a peer says is of the past: refused. If it was in step before, it is only
 * slow to say what is known already. */
static void a_stale_proof_is_refused_unless_it_was_overtaken(void **state)
{
    struct flow s;
    uint32_t seen_n = 0;

    begin(&s, 2);
    add_move(&s, 1);
    assert_int_equal(lost_by(&s), MU_ESTALE);
    end(&s);
    begin(&s, 1);
    add_move(&s, 1);
    add_move(&s, 2);
    add_move(&s, 3);
    add_data(&s, 3, 1, 10, TCP_COUNTS);
    say(&s, 0, NOTE_BYTES + HELLO_PROOF_BYTES + TCP_WORD_BYTES);
    while (s.side.link->proved != 1) {
        assert_int_equal(read_all(&s, &seen_n), MU_EAGAIN);
    }
    s.side.comm.group.number = 3;
    say(&s, NOTE_BYTES + HELLO_PROOF_BYTES + TCP_WORD_BYTES, s.n);
    while (seen_n == 0) {
        assert_int_equal(read_all(&s, &seen_n), MU_EAGAIN);
    }
    end(&s);
}

/* The claim may be checked later than the notes behind it come. */
static void notes_wait_for_their_proof_to_be_checked(void **state)
{
    struct flow s;
    struct link *l;
    struct note note;
    uint32_t seen_n = 0;

    begin(&s, 0);
    l = s.side.link;
    add_move(&s, 1);
    add_data(&s, 1, 1, 10, TCP_COUNTS);
    say(&s, 0, s.n);
    while (l->claim != 1 || tcp_kit_awaits(l, true, false) != 0) {
        assert_int_equal(l->ops->head(l, &note), MU_EAGAIN);
    }
    s.side.comm.group.number = 1;
    assert_int_equal(l->ops->head(l, &note), MU_EAGAIN);
    l->proved = 1;
    assert_int_equal(read_all(&s, &seen_n), MU_EAGAIN);
    assert_true(seen_n == 1);
    end(&s);
}

static void a_place_that_was_taken_back_is_not_written_to(void **state)
{
    struct flow s;
    static uint8_t place[100000], untouched[100000];
    const void *data = NULL;
    struct note note;
    int rc;

    begin(&s, 1);
    struct link *l = s.side.link;

    add_move(&s, 1);
    add_data(&s, 1, 7, sizeof(place), TCP_COUNTS);
    say(&s, 0, 50000);
    while (l->ops->head(l, &note) == MU_EAGAIN) {
        tcp_kit_wait(l, true, false);
    }
    assert_int_equal(l->ops->body(l, place, &data), MU_EAGAIN);
    l->ops->drop(l);
    memset(place, 0x77, sizeof(place));
    memset(untouched, 0x77, sizeof(untouched));
    say(&s, 50000, s.n);
    while ((rc = l->ops->body(l, NULL, &data)) == MU_EAGAIN) {
        tcp_kit_wait(l, true, false);
    }
    assert_int_equal(rc, MU_OK);
    assert_true(data != place && tcp_kit_filled(7, data, sizeof(place)));
    assert_memory_equal(place, untouched, sizeof(place));
    end(&s);
}

static void random_streams_lose_the_link_and_no_more(void **state)
{
    struct prng p;

    prng_init(&p, 1);
    for (int i = 0; i < 400; i++) {
        struct flow s;

        tcp_raw_open(&s.side, i % 2 == 1, &s.fd); /* TLS, too */
        s.side.comm.group.number = 1;
        s.n = NOTE_BYTES + prng_below(&p, 5000);
        for (size_t k = 0; k < s.n; k++) {
            s.bytes[k] = (uint8_t)prng_u64(&p);
        }
        say(&s, 0, s.n);
        shutdown(s.fd, SHUT_WR);
        s.n = 0;
        const int lost = lost_by(&s);

        /* By chance it may look like the beginning of something in TLS. */
        assert_true(lost == MU_EPROTO || (i % 2 == 1 && lost == MU_EPEER));
        end(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_byte_at_a_time_is_enough),
        cmocka_unit_test(after_the_last_byte_whole_notes_are_seen_and_the_peer_is_lost),
        cmocka_unit_test(nothing_is_read_before_a_proof),
        cmocka_unit_test(what_is_no_note_loses_the_link),
        cmocka_unit_test(a_changed_bit_never_makes_another_note),
        cmocka_unit_test(older_notes_are_passed_over_and_newer_ones_wait),
        cmocka_unit_test(a_stale_proof_is_refused_unless_it_was_overtaken),
        cmocka_unit_test(notes_wait_for_their_proof_to_be_checked),
        cmocka_unit_test(a_place_that_was_taken_back_is_not_written_to),
        cmocka_unit_test(random_streams_lose_the_link_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
