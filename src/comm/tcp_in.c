/* Frames as they come. What is done with a note depends on its generation and on what the peer has
 * proved:
 *
 *   a MOVE                   a claim (link.h), as soon as its bytes are here
 *   no MOVE for it before    the link is lost
 *   older than the group's   thrown away, with its bytes
 *   newer, or the claim was  waits
 *   not checked yet
 *   any other                the next note
 *
 * A MOVE for a generation older than the group's is a claim if it is the first of the connection:
 * that peer is refused. Later ones were only overtaken by this worker. */
#include "comm/tcp.h"

#include <stdlib.h>

int tcp_in_open(struct tcp_in *in)
{
    in->buffer = malloc(TCP_BUFFER);
    return in->buffer == NULL ? MU_ENOMEM : MU_OK;
}

void tcp_in_close(struct tcp_in *in)
{
    free(in->buffer);
    free(in->own);
}

static int read_head(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = tcp_skip_rest(t);

    if (rc == MU_OK) {
        rc = tcp_have(t, NOTE_BYTES);
    }
    if (rc != MU_OK) {
        return rc;
    }
    const uint8_t *head = in->buffer + in->from;

    if (note_decode(head, &in->note) != MU_OK) {
        return tcp_lose(t, MU_EPROTO,
                        head[0] == 0x16 && head[1] == 0x03
                            ? "it speaks TLS and this worker does not: set all to the same"
                            : "what it sent is not a note");
    }
    if (in->note.bytes > NOTE_DATA_MAX) {
        return tcp_lose(t, MU_EPROTO, "a note is too large");
    }
    in->from += NOTE_BYTES;
    in->at_note = true;
    in->shown = in->held = false;
    in->place = NULL;
    in->got = 0;
    in->whole = false;
    return MU_OK;
}

static int take_claim(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = tcp_have(t, HELLO_PROOF_BYTES + TCP_WORD_BYTES);

    if (rc == MU_OK) {
        rc = tcp_look_at_word(t, HELLO_PROOF_BYTES);
    }
    if (rc != MU_OK) {
        return rc;
    }
    if (in->counts) {
        in->said = MAX(in->said, in->note.generation);
        link_claim(&t->link, in->note.generation, in->buffer + in->from);
    }
    tcp_finish(in);
    return atomic_load(&t->link.lost) != MU_OK ? MU_EPEER : MU_OK;
}

/* One that is for the caller. If it can be seen already that it is void, it is not. */
static int show(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    int rc = MU_OK;

    if (in->shown) {
        return MU_OK;
    }
    if (in->note.bytes == 0) {
        rc = tcp_have(t, TCP_WORD_BYTES);
    }
    if (rc == MU_OK) {
        rc = tcp_look_at_word(t, in->note.bytes);
    }
    if (rc == MU_OK && !in->counts) {
        tcp_finish(in);
    } else if (rc == MU_OK || (rc == MU_EAGAIN && in->note.bytes > 0)) {
        in->shown = true;
        rc = MU_OK;
    }
    return rc;
}

/* MU_OK: it is the next note, or it is done with (!at_note). */
static int judge(struct tcp_link *t)
{
    struct tcp_in *in = &t->in;
    const uint64_t now = t->link.comm->group.number;
    const uint64_t its = in->note.generation;

    in->held = false;
    if (in->note.kind == NOTE_MOVE && (its >= now || in->said == 0) && t->link.proved != its) {
        return take_claim(t);
    }
    if (in->note.kind != NOTE_MOVE && its != in->said) {
        return tcp_lose(t, MU_EPROTO, "it acts in a generation that it has not proved to be in");
    }
    if (in->note.kind == NOTE_MOVE || its < now) {
        tcp_finish(in);
        return MU_OK;
    }
    if (its > now || t->link.proved != its) {
        in->held = true;
        return MU_EAGAIN;
    }
    return show(t);
}

int tcp_head(struct link *l, struct note *note_out)
{
    struct tcp_link *t = tcp_of(l);

    if (atomic_load(&l->lost) != MU_OK) {
        return MU_EPEER;
    }
    do {
        int rc = t->in.at_note ? MU_OK : read_head(t);

        if (rc == MU_OK) {
            rc = judge(t);
        }
        if (rc != MU_OK) {
            return rc;
        }
    } while (!t->in.at_note);
    *note_out = t->in.note;
    return MU_OK;
}
