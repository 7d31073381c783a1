/* Encoded frames, shared by reference: what goes to ten thousand nodes is encoded once. One
 * thread. */
#ifndef NET_FRAME_H
#define NET_FRAME_H

#include "wire/wire.h"

struct frame {
    uint32_t refs;
    uint32_t n;
    uint8_t bytes[];
};

/* One reference is the caller's. NULL: out of memory. msg is borrowed; what can't be encoded is
 * our own fault and asserted. */
struct frame *frame_make(enum wire_type type, const void *msg, uint64_t generation,
                         uint64_t request);
struct frame *frame_ref(struct frame *f);
void frame_unref(struct frame *f); /* NULL is fine */

#endif
