/* The bytes of one file, from any place: as they lie there, mapped, or those inside of a gzip or
 * zlib file. That is gone through once when it is opened, which checks its sums; a mark every few
 * MiB is kept to go on from. Shared by threads; each has a window of its own. A mapped file must
 * not be made shorter by anybody as long as it is open. */
#ifndef DATA_SOURCE_H
#define DATA_SOURCE_H

#include "base/base.h"

#include <zlib.h>

enum packing { PACKING_NONE, PACKING_GZIP, PACKING_ZLIB };

struct source_mark;

struct source {
    const uint8_t *map; /* the file; NULL: it is empty */
    uint64_t map_n;
    uint64_t size; /* of what is inside */
    enum packing packing;
    struct source_mark *marks;
    size_t marks_n, marks_cap;
    bool damaged; /* what is behind `size` can't be had: the file at `damaged_at` says why */
    uint64_t damaged_at;
    char damage[64];
};

/* Maps it. MU_ENOENT, MU_EIO, MU_EINVAL: no regular file; MU_ENOMEM. */
int source_open(struct source *s, const char *path);
/* What it may be packed with, by its first bytes: GZIP or NONE. */
enum packing source_packing(const struct source *s);
/* Goes through it. A damage is no error: it ends there, and `damaged` is set. MU_ENOMEM. */
int source_unpack(struct source *s, enum packing packing);
/* The first bytes of what is inside, as far as there are any; nothing else is done to it. */
size_t source_peek(const struct source *s, enum packing packing, uint8_t *to, size_t n);
void source_close(struct source *s);

struct window {
    const struct source *source;
    uint8_t *bytes; /* of a packed one: [at, at + n) */
    size_t cap;
    uint64_t at;
    size_t n;
    struct inflater {
        z_stream z;
        bool open, bare, ended; /* bare: in the middle of a member, without its sums */
        uint64_t in, out;
    } inflater;
};

void window_init(struct window *w, const struct source *s);
void window_close(struct window *w);

/* *p is what begins at `at`, and *have how much of it there is: `want` at least, or up to the end.
 * Valid until the next call. MU_ENOMEM, MU_ECORRUPT: it was changed since. */
int window_need(struct window *w, uint64_t at, uint64_t want, const uint8_t **p, uint64_t *have);

#endif
