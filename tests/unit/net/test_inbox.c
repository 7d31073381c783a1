/* Frames out of pieces: however the bytes are cut, the same frames come out. */
#include "unit/unit.h"

#include "net/frame.h"
#include "net/inbox.h"

#include <stdlib.h>
#include <string.h>

static struct frame *renew(uint64_t seq)
{
    return frame_make(WIRE_RENEW, &(struct msg_renew){.seq = seq}, 3, seq + 1);
}

/* Three frames in a row. */
static size_t fill(uint8_t *buf, size_t cap)
{
    size_t n = 0;

    for (uint64_t seq = 0; seq < 3; seq++) {
        struct frame *f = renew(seq);

        assert_true(n + f->n <= cap);
        memcpy(buf + n, f->bytes, f->n);
        n += f->n;
        frame_unref(f);
    }
    return n;
}

/* Takes all frames of a piece; how many there were. */
static uint32_t take(struct inbox *in, struct inbox_desk *desk, const uint8_t *bytes, size_t n,
                     uint64_t seq)
{
    struct wire_fault fault;
    struct wire_header h;
    const uint8_t *payload;
    uint32_t frames_n = 0;
    int rc;

    while ((rc = inbox_next(in, &bytes, &n, 0, &h, &payload, &fault)) == MU_OK) {
        assert_int_equal(desk_decode(desk, &h, payload, &fault), MU_OK);
        assert_int_equal(h.type, WIRE_RENEW);
        assert_int_equal(desk->msg.renew.seq, seq + frames_n);
        assert_int_equal(h.request, seq + frames_n + 1);
        frames_n++;
        desk_clear(desk);
    }
    assert_int_equal(rc, MU_EAGAIN);
    assert_int_equal(n, 0);
    return frames_n;
}

static void frames_that_are_whole_are_taken_where_they_lie(void **state)
{
    struct inbox in = {0};
    struct inbox_desk desk = {0};
    uint8_t buf[1024];
    const size_t n = fill(buf, sizeof(buf));

    assert_int_equal(take(&in, &desk, buf, n, 0), 3);
    assert_null(in.buf);
    inbox_close(&in);
    desk_close(&desk);
}

static void frames_are_found_byte_by_byte(void **state)
{
    struct inbox in = {0};
    struct inbox_desk desk = {0};
    uint8_t buf[1024];
    const size_t n = fill(buf, sizeof(buf));
    uint32_t frames_n = 0;

    for (size_t i = 0; i < n; i++) {
        uint8_t *one = malloc(1); /* exactly: so that reading beyond is seen */

        *one = buf[i];
        frames_n += take(&in, &desk, one, 1, frames_n);
        free(one);
    }
    assert_int_equal(frames_n, 3);
    assert_null(in.buf);
    inbox_close(&in);
    desk_close(&desk);
}

static void frames_are_found_however_they_are_cut_in_three(void **state)
{
    struct inbox_desk desk = {0};
    uint8_t buf[1024];
    const size_t n = fill(buf, sizeof(buf));

    for (size_t a = 0; a <= n; a++) {
        for (size_t b = a; b <= n; b++) {
            struct inbox in = {0};
            uint32_t frames_n = take(&in, &desk, buf, a, 0);

            frames_n += take(&in, &desk, buf + a, b - a, frames_n);
            frames_n += take(&in, &desk, buf + b, n - b, frames_n);
            assert_int_equal(frames_n, 3);
            assert_null(in.buf);
            inbox_close(&in);
        }
    }
    desk_close(&desk);
}

static struct frame *long_frame(void)
{
    struct generation g = {.members_n = 100000};

    g.members = calloc(g.members_n, sizeof(*g.members));
    struct frame *f = frame_make(WIRE_GENERATION, &g, 0, 0);

    free(g.members);
    return f;
}

static void memory_follows_what_has_arrived_not_what_a_header_claims(void **state)
{
    struct inbox in = {0};
    struct wire_fault fault;
    struct wire_header h;
    struct frame *f = long_frame();
    const uint8_t *bytes, *payload;
    size_t n, at = 0;

    assert_true(f->n > 2000000);
    while (at < f->n) {
        bytes = f->bytes + at;
        n = MIN(f->n - at, 1000u);
        at += n;
        const int rc = inbox_next(&in, &bytes, &n, 0, &h, &payload, &fault);

        assert_int_equal(rc, at < f->n ? MU_EAGAIN : MU_OK);
        assert_true(in.cap <= MAX(2 * at, 512));
    }
    assert_int_equal(in.cap, f->n);
    assert_memory_equal(payload, f->bytes + WIRE_HEADER_BYTES, h.length);
    bytes = NULL;
    n = 0;
    assert_int_equal(inbox_next(&in, &bytes, &n, 0, &h, &payload, &fault), MU_EAGAIN);
    assert_null(in.buf);
    frame_unref(f);
}

static void a_payload_over_the_limit_is_refused_by_its_header(void **state)
{
    struct inbox in = {0};
    struct wire_fault fault;
    struct wire_header h;
    struct frame *f = long_frame();
    const uint8_t *bytes = f->bytes, *payload;
    size_t n = WIRE_HEADER_BYTES;

    assert_int_equal(inbox_next(&in, &bytes, &n, 1000000, &h, &payload, &fault), MU_EPROTO);
    assert_non_null(strstr(fault.text, "at most 1000000"));
    assert_null(in.buf);
    f->bytes[11] = 0x7f; /* two gigabytes, beyond the table's bound */
    bytes = f->bytes;
    n = WIRE_HEADER_BYTES;
    assert_int_equal(inbox_next(&in, &bytes, &n, 0, &h, &payload, &fault), MU_EPROTO);
    inbox_close(&in);
    frame_unref(f);
}

/* Each changed byte of a frame is noticed, wherever it is cut. */
static void a_changed_byte_is_an_error(void **state)
{
    struct inbox_desk desk = {0};
    struct frame *f = renew(5);

    for (uint32_t i = 0; i < f->n; i++) {
        struct inbox in = {0};
        struct wire_fault fault = {0};
        struct wire_header h;
        const uint8_t *bytes = f->bytes, *payload;
        size_t n = f->n;

        f->bytes[i] ^= 0x40;
        int rc = inbox_next(&in, &bytes, &n, 0, &h, &payload, &fault);

        if (rc == MU_OK) {
            rc = desk_decode(&desk, &h, payload, &fault);
        }
        assert_int_not_equal(rc, MU_OK); /* A length that grew waits for more: MU_EAGAIN. */
        assert_true(rc == MU_EAGAIN || fault.text[0] != '\0');
        f->bytes[i] ^= 0x40;
        inbox_close(&in);
    }
    frame_unref(f);
    desk_close(&desk);
}

static void a_desk_gives_back_what_was_much(void **state)
{
    struct inbox in = {0};
    struct inbox_desk desk = {0};
    struct wire_fault fault;
    struct wire_header h;
    struct frame *f = long_frame();
    const uint8_t *bytes = f->bytes, *payload;
    size_t n = f->n;

    assert_int_equal(inbox_next(&in, &bytes, &n, 0, &h, &payload, &fault), MU_OK);
    assert_int_equal(desk_decode(&desk, &h, payload, &fault), MU_OK);
    assert_int_equal(desk.msg.generation.members_n, 100000);
    assert_true(desk.scratch.cap >= 100000 * sizeof(struct member));
    desk_clear(&desk);
    assert_int_equal(desk.scratch.cap, 0);
    frame_unref(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_that_are_whole_are_taken_where_they_lie),
        cmocka_unit_test(frames_are_found_byte_by_byte),
        cmocka_unit_test(frames_are_found_however_they_are_cut_in_three),
        cmocka_unit_test(memory_follows_what_has_arrived_not_what_a_header_claims),
        cmocka_unit_test(a_payload_over_the_limit_is_refused_by_its_header),
        cmocka_unit_test(a_changed_byte_is_an_error),
        cmocka_unit_test(a_desk_gives_back_what_was_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
