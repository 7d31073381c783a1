#include "net/frame.h"

#include <stdlib.h>

struct frame *frame_make(enum wire_type type, const void *msg, uint64_t generation,
                         uint64_t request)
{
    const size_t cap = wire_size(type, msg);
    struct frame *f = malloc(sizeof(*f) + cap);
    size_t n = 0;

    if (f == NULL) {
        return NULL;
    }
    int rc = wire_encode(type, msg, generation, request, f->bytes, cap, &n);

    mu_assert(rc == MU_OK);
    f->refs = 1;
    f->n = (uint32_t)n;
    return f;
}

struct frame *frame_ref(struct frame *f)
{
    mu_assert(f->refs > 0 && f->refs < UINT32_MAX);
    f->refs++;
    return f;
}

void frame_unref(struct frame *f)
{
    if (f == NULL) {
        return;
    }
    mu_assert(f->refs > 0);
    if (--f->refs == 0) {
        free(f);
    }
}
