/* Frames out of a stream of bytes, in whatever pieces they come. Memory follows what has come, not
 * what a header promises. */
#ifndef RUN_READER_H
#define RUN_READER_H

#include "wire/wire.h"

struct reader {
    uint8_t *buf;
    size_t cap;
    size_t n;    /* bytes in it … */
    size_t at;   /* … of which those before this have been read */
    size_t need; /* of the frame at `at`, as far as is known */
    uint64_t *scratch;
    size_t scratch_cap; /* bytes */
};

void reader_init(struct reader *r);
void reader_close(struct reader *r);

/* Where the next bytes go: at least one. Invalidates what reader_next() gave. MU_ENOMEM. */
int reader_room(struct reader *r, uint8_t **at_out, size_t *n_out);
void reader_filled(struct reader *r, size_t n);

/* The next frame. MU_EAGAIN: it is not all there yet. Anything else is the peer's fault, said in
 * *fault, or MU_ENOMEM: nothing more can be read then. What *msg points to is valid until the next
 * call of reader_room() or reader_next(). */
int reader_next(struct reader *r, struct wire_header *h_out, union wire_any *msg,
                struct wire_fault *fault);

#endif
