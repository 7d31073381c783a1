#include "data/source.h"

#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK_BYTES ((uint64_t)4 << 20) /* of what is inside, from one mark to the next */
#define WINDOW_BYTES ((size_t)256 << 10)
#define DICTIONARY 32768
#define GZIP_BITS (15 + 16) /* zlib's word for: with gzip's head and sums */
#define ZLIB_BITS 15

/* Where inflating can begin: at a member, or between two blocks with what was before. */
struct source_mark {
    uint64_t in, out;
    uint8_t bits; /* of the byte before `in` that belong to it */
    uint16_t dictionary_n;
    uint8_t *dictionary; /* NULL: a member begins here */
};

/* ---- the file ---- */

static int map(struct source *s, int fd, const char *path)
{
    struct stat st;
    void *at;

    if (fstat(fd, &st) != 0) {
        return error_say(MU_EIO, "can't look at %s: %s", path, strerror(errno));
    }
    if (!S_ISREG(st.st_mode)) {
        return error_say(MU_EINVAL, "%s is no regular file", path);
    }
    if (st.st_size == 0) {
        return MU_OK;
    }
    at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return error_say(errno == ENOMEM ? MU_ENOMEM : MU_EIO, "can't map %s: %s", path,
                         strerror(errno));
    }
    s->map = at;
    s->map_n = s->size = (uint64_t)st.st_size;
    return MU_OK;
}

int source_open(struct source *s, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc;

    *s = (struct source){.packing = PACKING_NONE};
    if (fd < 0) {
        return error_say(errno == ENOENT ? MU_ENOENT : MU_EIO, "can't read %s: %s", path,
                         strerror(errno));
    }
    rc = map(s, fd, path);
    close(fd);
    return rc;
}

enum packing source_packing(const struct source *s)
{
    return s->map_n >= 3 && memcmp(s->map, "\x1f\x8b\x08", 3) == 0 ? PACKING_GZIP : PACKING_NONE;
}

void source_close(struct source *s)
{
    for (size_t i = 0; i < s->marks_n; i++) {
        free(s->marks[i].dictionary);
    }
    free(s->marks);
    if (s->map != NULL) {
        munmap((void *)(uintptr_t)s->map, (size_t)s->map_n);
    }
    *s = (struct source){.packing = PACKING_NONE};
}

/* ---- what is inside ---- */

static int begin(struct inflater *f, const struct source *s, const struct source_mark *m)
{
    const bool bare = m != NULL && m->dictionary != NULL;
    const int bits = bare ? -15 : s->packing == PACKING_ZLIB ? ZLIB_BITS : GZIP_BITS;

    if ((f->open ? inflateReset2(&f->z, bits) : inflateInit2(&f->z, bits)) != Z_OK) {
        return error_say(MU_ENOMEM, "no memory to inflate");
    }
    f->open = true;
    f->bare = bare;
    f->ended = false;
    f->in = m != NULL ? m->in : 0;
    f->out = m != NULL ? m->out : 0;
    if (bare && ((m->bits > 0 &&
                  inflatePrime(&f->z, m->bits, s->map[m->in - 1] >> (8 - m->bits)) != Z_OK) ||
                 inflateSetDictionary(&f->z, m->dictionary, m->dictionary_n) != Z_OK)) {
        return error_say(MU_ENOMEM, "no memory to inflate");
    }
    return MU_OK;
}

static int mark(struct source *s, struct inflater *f, bool member)
{
    struct source_mark m = {.in = f->in, .out = f->out};

    if (s->marks_n == s->marks_cap) {
        const size_t cap = s->marks_cap == 0 ? 16 : s->marks_cap * 2;
        struct source_mark *marks = reallocarray(s->marks, cap, sizeof(*marks));

        if (marks == NULL) {
            return error_say(MU_ENOMEM, "no memory for an index of a compressed file");
        }
        s->marks = marks;
        s->marks_cap = cap;
    }
    if (!member) {
        unsigned n = 0;

        m.dictionary = malloc(DICTIONARY);
        if (m.dictionary == NULL || inflateGetDictionary(&f->z, m.dictionary, &n) != Z_OK) {
            free(m.dictionary);
            return error_say(MU_ENOMEM, "no memory for an index of a compressed file");
        }
        m.dictionary_n = (uint16_t)n;
        m.bits = (uint8_t)(f->z.data_type & 7);
    }
    s->marks[s->marks_n++] = m;
    return MU_OK;
}

/* The sums that a bare member's end has were looked at when the index was made. */
static int end_member(struct inflater *f, const struct source *s)
{
    const uint64_t tail = !f->bare ? 0 : s->packing == PACKING_ZLIB ? 4 : 8;
    uint64_t zeros = f->in + tail;

    if (zeros > s->map_n) {
        return error_say(MU_ECORRUPT, "it ends too early");
    }
    f->in = zeros;
    while (zeros < s->map_n && s->map[zeros] == 0) { /* Tapes have such ends. */
        zeros++;
    }
    if (zeros == s->map_n) {
        f->ended = true;
        return MU_OK;
    }
    if (s->packing == PACKING_ZLIB) {
        return error_say(MU_ECORRUPT, "more follows where it should end");
    }
    f->bare = false;
    return inflateReset2(&f->z, GZIP_BITS) == Z_OK ? MU_OK : error_say(MU_ENOMEM, "no memory");
}

/* Up to n bytes more; fewer only where it ends. `blocks`: it may return after each block. */
static int inflate_more(struct inflater *f, const struct source *s, uint8_t *to, size_t n,
                        bool blocks, size_t *did_out)
{
    size_t did = 0;

    while (did < n && !f->ended) {
        const size_t in = (size_t)MIN(s->map_n - f->in, (uint64_t)1 << 30);
        const size_t room = MIN(n - did, (size_t)1 << 30);
        int rc;

        f->z.next_in = (uint8_t *)(uintptr_t)(s->map + f->in);
        f->z.avail_in = (unsigned)in;
        f->z.next_out = to + did;
        f->z.avail_out = (unsigned)room;
        rc = inflate(&f->z, blocks ? Z_BLOCK : Z_NO_FLUSH);
        f->in += in - f->z.avail_in;
        did += room - f->z.avail_out;
        f->out += room - f->z.avail_out;
        *did_out = did;
        if (rc == Z_DATA_ERROR && did == n && !blocks) {
            break; /* It lies behind what is wanted. */
        }
        if (rc == Z_STREAM_END) {
            rc = end_member(f, s);
            if (rc != MU_OK) {
                return rc;
            }
            if (blocks) {
                break;
            }
        } else if (rc == Z_MEM_ERROR) {
            return error_say(MU_ENOMEM, "no memory to inflate");
        } else if (rc == Z_BUF_ERROR) {
            return error_say(MU_ECORRUPT, "it ends too early");
        } else if (rc != Z_OK) {
            return error_say(MU_ECORRUPT, "%s",
                             f->z.msg != NULL ? f->z.msg : "no such compression");
        } else if (blocks && (f->z.data_type & 128) != 0) {
            break;
        }
    }
    *did_out = did;
    return MU_OK;
}

static int go_through(struct source *s, struct inflater *f, uint8_t *to)
{
    uint64_t last = 0;
    int rc = begin(f, s, NULL);

    rc = rc == MU_OK ? mark(s, f, true) : rc;
    while (rc == MU_OK && !f->ended) {
        size_t did = 0;

        rc = inflate_more(f, s, to, WINDOW_BYTES, true, &did);
        s->size = f->out;
        /* Behind the last block comes no other: a mark in front of the sums is none. */
        if (rc == MU_OK && !f->ended && f->out - last >= MARK_BYTES &&
            (f->z.data_type & 128) != 0 && (f->z.data_type & 64) == 0) {
            last = f->out;
            rc = mark(s, f, false);
        }
    }
    return rc;
}

int source_unpack(struct source *s, enum packing packing)
{
    struct inflater f = {.open = false};
    uint8_t *to = malloc(WINDOW_BYTES);
    int rc;

    if (to == NULL) {
        return error_say(MU_ENOMEM, "no memory to inflate");
    }
    s->packing = packing;
    s->size = 0;
    rc = go_through(s, &f, to);
    if (rc == MU_ECORRUPT) {
        s->damaged = true;
        s->damaged_at = f.in;
        snprintf(s->damage, sizeof(s->damage), "%s", mu_error());
        rc = MU_OK;
    }
    if (f.open) {
        inflateEnd(&f.z);
    }
    free(to);
    return rc;
}

size_t source_peek(const struct source *s, enum packing packing, uint8_t *to, size_t n)
{
    struct source bare = {.map = s->map, .map_n = s->map_n, .packing = packing};
    struct inflater f = {.open = false};
    size_t did = 0;

    if (packing == PACKING_NONE) {
        did = (size_t)MIN(n, s->map_n);
        if (did > 0) {
            memcpy(to, s->map, did);
        }
    } else if (begin(&f, &bare, NULL) == MU_OK) {
        (void)inflate_more(&f, &bare, to, n, false, &did);
        inflateEnd(&f.z);
    }
    return did;
}

/* ---- windows ---- */

void window_init(struct window *w, const struct source *s)
{
    *w = (struct window){.source = s};
}

void window_close(struct window *w)
{
    if (w->inflater.open) {
        inflateEnd(&w->inflater.z);
    }
    free(w->bytes);
    *w = (struct window){.source = w->source};
}

/* The inflater stands at `at` or before it, with no mark in between. */
static int seek(struct window *w, uint64_t at)
{
    const struct source *s = w->source;
    size_t low = 0, high = s->marks_n;

    while (high - low > 1) {
        const size_t middle = (low + high) / 2;

        if (s->marks[middle].out <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    if (w->inflater.open && w->inflater.out <= at &&
        (s->marks_n == 0 || s->marks[low].out <= w->inflater.out)) {
        return MU_OK;
    }
    return begin(&w->inflater, s, s->marks_n > 0 ? &s->marks[low] : NULL);
}

static int room(struct window *w, uint64_t n)
{
    uint8_t *bytes;
    size_t cap = MAX(w->cap, WINDOW_BYTES);

    while (cap < n) {
        cap *= 2;
    }
    if (cap == w->cap) {
        return MU_OK;
    }
    bytes = realloc(w->bytes, cap);
    if (bytes == NULL) {
        return error_say(MU_ENOMEM, "no memory for %" PRIu64 " bytes of a compressed file", n);
    }
    w->bytes = bytes;
    w->cap = cap;
    return MU_OK;
}

static int fill(struct window *w, uint64_t at, uint64_t want)
{
    size_t keep = 0, did;
    int rc;

    if (at >= w->at && at < w->at + w->n && w->inflater.out == w->at + w->n) {
        keep = (size_t)(w->at + w->n - at);
        memmove(w->bytes, w->bytes + (at - w->at), keep);
        w->at = at;
        w->n = keep;
        rc = room(w, want);
    } else {
        w->n = 0;
        rc = room(w, want);
        rc = rc == MU_OK ? seek(w, at) : rc;
    }
    while (rc == MU_OK && w->inflater.out < at) { /* What is before it is of no use. */
        rc = inflate_more(&w->inflater, w->source, w->bytes,
                          (size_t)MIN(w->cap, at - w->inflater.out), false, &did);
        if (rc == MU_OK && did == 0) {
            return error_say(MU_ECORRUPT, "a compressed file was changed while it was read");
        }
    }
    if (rc == MU_OK) {
        w->at = at;
        rc = inflate_more(&w->inflater, w->source, w->bytes + keep,
                          (size_t)MIN(w->cap - keep, w->source->size - at - keep), false, &did);
        w->n = keep + did;
    }
    return rc;
}

int window_need(struct window *w, uint64_t at, uint64_t want, const uint8_t **p, uint64_t *have)
{
    const struct source *s = w->source;
    int rc;

    if (at >= s->size) {
        *p = (const uint8_t *)"";
        *have = 0;
        return MU_OK;
    }
    if (s->packing == PACKING_NONE) {
        *p = s->map + at;
        *have = s->size - at;
        return MU_OK;
    }
    want = MIN(want, s->size - at);
    if (at < w->at || at - w->at > w->n || w->at + w->n - at < want || w->n == 0) {
        rc = fill(w, at, want);
        if (rc != MU_OK) {
            return rc;
        }
    }
    *p = w->bytes + (at - w->at);
    *have = w->at + w->n - at;
    return MU_OK;
}
