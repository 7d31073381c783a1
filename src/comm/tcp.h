/* A link over TCP, from inside.
 *
 * A note travels as a frame: its head (note.h), its bytes, and a word, COUNTS or VOID. Bytes are
 * used only after COUNTS was read. When drop() finds a frame that has begun, what is left of its
 * bytes is sent as zeros, and VOID: so the stream goes on, and the data is free at once. Frames
 * that have not begun are taken out of the queue; but mail, proofs and ABORT, which belong to no
 * call and were copied, are sent all the same.
 *
 * Of a void frame the reader sees nothing if it had not yet been given the head. Otherwise body()
 * says MU_EPEER, whatever may be at `place` by then, and done() says so again. A frame whose body
 * is not wanted may be done() with at any time: the rest of it is read and thrown away.
 *
 * What comes is judged by its generation (tcp_in.c): nothing counts before a MOVE for it. A note
 * that waits for this worker to move holds up all that follows it; one proves and moves before it
 * says anything else, so nothing that is needed waits behind it.
 *
 * An error in writing is not acted upon: the peer may have said its last words, and these are
 * still to be read; then the end of the stream says that it is gone. Until then what is sent is
 * lost, as it is when a peer dies before it has read it.
 *
 * Memory: TCP_BUFFER for what comes, and rooms for small notes and one large one that are touched
 * only when they are used. */
#ifndef COMM_TCP_H
#define COMM_TCP_H

#include "comm/comm_state.h"
#include "link/stream.h"

#define TCP_COUNTS UINT32_C(0x74636e75)
#define TCP_VOID UINT32_C(0x64696f76)
#define TCP_WORD_BYTES 4
#define TCP_BUFFER 16384
#define TCP_QUEUE 16      /* notes that send() takes */
#define TCP_QUEUE_MORE 4  /* how many proofs fit behind them */
#define TCP_PIECES_MAX 48 /* of frames in one sendmsg(): two from each, and the data */
#define TCP_CLOSE_MS 100  /* to get rid of what is queued */

/* One that is queued. */
struct tcp_frame {
    uint64_t number;     /* l->sent_n when it was sent */
    size_t bytes;        /* of its data */
    size_t written;      /* of head, data and word together */
    const uint8_t *data; /* borrowed from the sender until all are written, or room */
    uint8_t *room;       /* LINK_COPY_MAX, always the same one */
    uint8_t kind;
    bool voided; /* zeros are sent for data, which is no longer there */
    uint8_t head[NOTE_BYTES];
    uint8_t word[TCP_WORD_BYTES];
};

struct tcp_out {
    struct tcp_frame frames[TCP_QUEUE + TCP_QUEUE_MORE];
    struct tcp_frame *order[TCP_QUEUE + TCP_QUEUE_MORE]; /* the queue, then those that are free */
    uint32_t n;
    uint8_t *rooms;
    bool mute; /* writing failed */
};

struct tcp_in {
    uint8_t *buffer; /* TCP_BUFFER: [from, to) has come and was not looked at */
    size_t from, to;
    uint64_t skip; /* bytes of a frame that is done with */
    uint64_t said; /* the newest generation that a MOVE has come for */

    bool at_note; /* the rest is of this one */
    bool held;    /* the note waits for the group to move */
    bool shown;   /* head() has given the note to the caller */
    struct note note;
    uint8_t *place; /* where its bytes go; NULL: not asked for yet */
    bool lent;      /* `place` is the caller's */
    size_t got;
    bool whole;  /* the word, too */
    bool counts; /* the word was TCP_COUNTS */

    uint8_t *own; /* NOTE_DATA_MAX, when first needed; aligned for every type */
};

struct tcp_link {
    struct link link; /* first */
    struct stream stream;
    struct tcp_out out;
    struct tcp_in in;
};

static inline struct tcp_link *tcp_of(struct link *l)
{
    return (struct tcp_link *)l;
}

/* ---- tcp_buffer.c; all give MU_EAGAIN, or MU_EPEER when the link is lost ---- */

/* MU_EPEER, always. */
int tcp_lose(struct tcp_link *t, int status, const char *why);
/* Up to `room` bytes to `place` (0: none), and what comes after them into the buffer, which is
 * empty or begins at 0. */
int tcp_read_more(struct tcp_link *t, uint8_t *place, size_t room, size_t *placed_out);
/* Until n bytes are in the buffer, one after the other. */
int tcp_have(struct tcp_link *t, size_t n);
/* Skips what is left of a note that is done with. */
int tcp_skip_rest(struct tcp_link *t);
/* The note at hand is done with. */
void tcp_finish(struct tcp_in *in);
/* The word `ahead` bytes from here: in->counts. MU_EAGAIN: it is not in the buffer. */
int tcp_look_at_word(struct tcp_link *t, size_t ahead);

/* ---- tcp_out.c, tcp_in.c, tcp_body.c: the slots of link_ops ---- */

int tcp_out_open(struct tcp_out *out);
void tcp_out_close(struct tcp_out *out);
int tcp_send(struct link *l, const struct note *note, const void *data, bool copy);
int tcp_prove(struct link *l, uint64_t generation, const uint8_t proof[HELLO_PROOF_BYTES]);
int tcp_flush(struct link *l);
uint64_t tcp_taken(struct link *l);
void tcp_out_drop(struct tcp_link *t);

int tcp_in_open(struct tcp_in *in);
void tcp_in_close(struct tcp_in *in);
int tcp_head(struct link *l, struct note *note_out);
int tcp_body(struct link *l, void *place, const void **data_out);
int tcp_done(struct link *l);
/* What lies in memory of a caller is moved. */
void tcp_in_drop(struct tcp_link *t);
/* Whether head() or body() wait for bytes. */
bool tcp_in_waits(const struct tcp_in *in);

#endif
