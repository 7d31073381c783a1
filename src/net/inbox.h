/* Frames out of a stream of bytes that arrive in pieces. Whole frames are taken where they lie;
 * only one that is split is copied, into a buffer that grows with what has arrived (never by what
 * a header claims) and is freed when the frame is done. */
#ifndef NET_INBOX_H
#define NET_INBOX_H

#include "wire/wire.h"

struct inbox {
    uint8_t *buf; /* the beginning of a frame; NULL most of the time */
    uint32_t have;
    uint32_t cap;
    bool whole; /* buf is the frame that was given last */
};

/* All zero is an empty one. */
void inbox_close(struct inbox *in);

/* Takes the next frame from bytes[0..*n), advancing both. MU_OK: *h_out and *payload_out are a
 * frame, in the bytes or in the inbox, valid until the next call; its checksum has not been looked
 * at. MU_EAGAIN: all was taken and more is needed; call it until then. MU_EPROTO, MU_EVERSION, as
 * wire_header_decode(), with a payload over its limit (or frame_max, unless 0) as MU_EPROTO;
 * MU_ENOMEM. After an error the inbox is only to be closed. fault is set on error. */
int inbox_next(struct inbox *in, const uint8_t **bytes, size_t *n, uint32_t frame_max,
               struct wire_header *h_out, const uint8_t **payload_out, struct wire_fault *fault);

/* Where frames are decoded: one for all connections of a loop. */
struct inbox_desk {
    union wire_any msg;
    struct wire_scratch scratch;
};

/* All zero is a new one. */
void desk_close(struct inbox_desk *desk);

/* Decodes into desk->msg, taking the memory that a payload of this length can need. Then
 * desk_clear(), which gives back what was much. */
int desk_decode(struct inbox_desk *desk, const struct wire_header *h, const uint8_t *payload,
                struct wire_fault *fault);
void desk_clear(struct inbox_desk *desk);

/* An inbox and a desk of its own, for a connection that shares them with no other. */
struct intake {
    struct inbox inbox;
    struct inbox_desk desk;
    const uint8_t *at; /* the bytes that are not yet taken */
    size_t at_n;
    uint8_t bytes[16u << 10];
};

/* All zero is a new one. After this it is one again. */
void intake_close(struct intake *in);

/* The next frame; its message is desk.msg, valid until the next call. MU_EAGAIN: more is needed. It
 * goes to `bytes`, and then intake_filled() is called. Anything else as inbox_next() and
 * desk_decode(). */
int intake_next(struct intake *in, struct wire_header *h_out, struct wire_fault *fault);
void intake_filled(struct intake *in, size_t n);

#endif
