/* What has come and was not looked at yet; how frames end. */
#include "comm/tcp.h"

#include "wire/bytes.h"

#include <string.h>

int tcp_lose(struct tcp_link *t, int status, const char *why)
{
    link_lose(&t->link, status, why);
    return MU_EPEER;
}

int tcp_read_more(struct tcp_link *t, uint8_t *place, size_t room, size_t *placed_out)
{
    struct tcp_in *in = &t->in;
    struct iovec pieces[] = {{place, room}, {in->buffer + in->to, TCP_BUFFER - in->to}};
    const uint32_t first = room == 0 ? 1 : 0;
    const ssize_t got = link_stream_read(&t->stream, pieces + first, 2 - first);

    if (got < 0) {
        return tcp_lose(t, (int)got, t->stream.why);
    }
    if (got == 0) {
        return MU_EAGAIN;
    }
    *placed_out = MIN((size_t)got, room);
    in->to += (size_t)got - *placed_out;
    return MU_OK;
}

int tcp_have(struct tcp_link *t, size_t n)
{
    struct tcp_in *in = &t->in;
    size_t none;

    while (in->to - in->from < n) {
        if (in->from > 0) {
            memmove(in->buffer, in->buffer + in->from, in->to - in->from);
            in->to -= in->from;
            in->from = 0;
        }
        int rc = tcp_read_more(t, NULL, 0, &none);

        if (rc != MU_OK) {
            return rc;
        }
    }
    return MU_OK;
}

int tcp_skip_rest(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;

    for (;;) {
        const size_t part = (size_t)MIN(in->skip, in->to - in->from);
        int rc;

        in->from += part;
        in->skip -= part;
        if (in->skip == 0) {
            return MU_OK;
        }
        rc = tcp_have(t, 1);
        if (rc != MU_OK) {
            return rc;
        }
    }
}

void tcp_finish(struct tcp_in *in)
{
    in->held = false;
    in->skip = in->note.bytes - in->got + (in->whole ? 0 : TCP_WORD_BYTES);
    in->at_note = false;
    in->place = NULL;
}

int tcp_look_at_word(struct tcp_link *t, size_t ahead)
{
    struct tcp_in *in = &t->in;

    if (in->to - in->from < ahead + TCP_WORD_BYTES) {
        return MU_EAGAIN;
    }
    const uint32_t word = get_u32(in->buffer + in->from + ahead);

    if (word != TCP_COUNTS && word != TCP_VOID) {
        return tcp_lose(t, MU_EPROTO, "a note does not end as it should");
    }
    in->counts = word == TCP_COUNTS;
    return MU_OK;
}
