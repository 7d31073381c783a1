/* Lines of text: a record is a line without its end, which is "\n" or "\r\n". The last one may have
 * none. Empty lines are records. */
#include "data/shard.h"

#include <inttypes.h>
#include <string.h>

static bool guess(const struct guess *g)
{
    return guess_text(g);
}

static int next(const struct shard *s, struct cursor *c, uint64_t at, bool whole,
                struct extent *out)
{
    const uint8_t *p, *end = NULL;
    uint64_t have = 0, looked = 0, want = 4096;
    int rc;

    if (at >= s->source.size) {
        return MU_EDONE;
    }
    for (;; looked = have, want = have * 2) {
        rc = window_need(&c->window, at, want, &p, &have);
        if (rc != MU_OK) {
            return rc;
        }
        end = memchr(p + looked, '\n', (size_t)(have - looked));
        if (end != NULL || have == s->source.size - at) {
            break;
        }
        if (have > s->o->max) {
            return shard_damaged(s, at, "a line is longer than %" PRIu64 " bytes (the option max)",
                                 s->o->max);
        }
    }
    out->at = at;
    out->n = end != NULL ? (uint64_t)(end - p) : have;
    out->next = at + out->n + (end != NULL);
    if (out->n > s->o->max) {
        return shard_damaged(s, at, "a line is longer than %" PRIu64 " bytes (the option max)",
                             s->o->max);
    }
    out->n -= end != NULL && out->n > 0 && p[out->n - 1] == '\r';
    return MU_OK;
}

const struct format format_lines = {
    .name = "lines", .guess = guess, .open = walk_open, .read = walk_read, .next = next};
