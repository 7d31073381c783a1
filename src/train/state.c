/* What the caller has named as its state: kept, described, digested. How those who lack it get it
 * is in stream.c. */
#include "train/state.h"
#include "core/text.h"
#include "wire/bytes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- adding ---- */

static int check(const struct state *s, const struct state_part *p)
{
    const size_t name_n = strnlen(p->name, STATE_NAME_MAX);
    const struct text_quoted name = text_quote(p->name, name_n);
    const bool calls = p->save != NULL && p->load != NULL;

    if (name_n == 0 || name_n == STATE_NAME_MAX || !text_is_line(p->name, name_n, false)) {
        return run_fail(MU_EINVAL,
                        "%s can't be the name of a part of the state: it takes 1 to %d bytes, "
                        "no blanks",
                        name.text, STATE_NAME_MAX - 1);
    }
    if ((p->save != NULL) != (p->load != NULL)) {
        return run_fail(MU_EINVAL, "state %s: save and load go together, and %s is missing",
                        name.text, p->save == NULL ? "save" : "load");
    }
    if (calls == (p->data != NULL)) {
        return run_fail(MU_EINVAL, "state %s: either its memory or save and load must be given",
                        name.text);
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (strcmp(s->parts[i].name, p->name) == 0) {
            return run_fail(MU_EEXIST, "there is a part of the state called %s already", name.text);
        }
    }
    if (s->n == STATE_PARTS_MAX) {
        return run_fail(MU_ELIMIT, "state %s: there are %d parts already, and no more can be added",
                        name.text, STATE_PARTS_MAX);
    }
    if (p->bytes > STATE_PART_BYTES_MAX) {
        return run_fail(MU_ELIMIT, "state %s: %zu bytes are too many", name.text, p->bytes);
    }
    return MU_OK;
}

int state_add(struct state *s, const struct state_part *part)
{
    int rc = check(s, part);

    if (rc != MU_OK) {
        return rc;
    }
    if ((s->n & (s->n - 1)) == 0) { /* There is room for 1, 2, 4, 8 … */
        struct state_part *parts = realloc(s->parts, MAX(2 * s->n, 1) * sizeof(*parts));

        if (parts == NULL) {
            return run_fail(MU_ENOMEM, "no memory for another part of the state");
        }
        s->parts = parts;
    }
    s->parts[s->n++] = *part;
    return MU_OK;
}

void state_close(struct state *s)
{
    free(s->parts);
    *s = (struct state){.parts = NULL};
}

/* ---- what it is ---- */

void state_describe(const struct state *s, FILE *out)
{
    for (uint32_t i = 0; i < s->n; i++) {
        if (s->parts[i].save != NULL) { /* whose length is theirs to change */
            fprintf(out, "state %s by calls\n", s->parts[i].name);
        } else {
            fprintf(out, "state %s %zu bytes\n", s->parts[i].name, s->parts[i].bytes);
        }
    }
}

/* ---- its bytes ---- */

/* Where a part's bytes are, and how many: of one by calls, what save gives. */
static int save_part(const struct state_part *p, struct piece *out)
{
    const void *data = p->data;
    size_t n = p->bytes;
    int rc = p->save != NULL ? p->save(p->arg, &data, &n) : MU_OK;

    if (rc != MU_OK) {
        return run_fail(rc, "state %s: save gave %d: %s", p->name, rc, mu_strerror(rc));
    }
    if (n > STATE_PART_BYTES_MAX || (data == NULL && n > 0)) {
        return run_fail(MU_EINVAL, "state %s: save gave %zu bytes at %p", p->name, n, data);
    }
    *out = (struct piece){.data = (uint8_t *)(uintptr_t)data, .bytes = n};
    return MU_OK;
}

int state_collect(const struct state *s, struct piece *pieces)
{
    int rc = MU_OK;

    for (uint32_t i = 0; rc == MU_OK && i < s->n; i++) {
        rc = save_part(&s->parts[i], &pieces[i]);
    }
    return rc;
}

int state_load(const struct state_part *p, const void *data, size_t n)
{
    int rc = p->load(p->arg, data, n);

    return rc == MU_OK ? rc
                       : run_fail(rc, "state %s: load gave %d: %s", p->name, rc, mu_strerror(rc));
}

/* ---- its digest ---- */

static void digest_u64(XXH3_state_t *h, uint64_t v)
{
    uint8_t b[8];

    put_u64(b, v);
    (void)XXH3_128bits_update(h, b, sizeof(b));
}

/* Every length comes before what it is the length of: no two states give the same bytes. */
static int digest_part(const struct state_part *p, XXH3_state_t *h,
                       uint8_t digest_out[DIGEST_BYTES])
{
    struct piece piece;
    int rc = save_part(p, &piece);

    if (rc != MU_OK) {
        return rc;
    }
    (void)XXH3_128bits_reset(h);
    digest_u64(h, strlen(p->name));
    (void)XXH3_128bits_update(h, p->name, strlen(p->name));
    digest_u64(h, piece.bytes);
    if (piece.bytes > 0) {
        (void)XXH3_128bits_update(h, piece.data, piece.bytes);
    }
    state_sum(XXH3_128bits_digest(h), digest_out);
    return MU_OK;
}

int state_digests(struct state *s, uint8_t *digests_out)
{
    XXH3_state_t *h = XXH3_createState();
    int rc = h != NULL ? MU_OK : run_fail(MU_ENOMEM, "no memory for a digest of the state");

    for (uint32_t i = 0; rc == MU_OK && i < s->n; i++) {
        rc = digest_part(&s->parts[i], h, digests_out + (size_t)i * DIGEST_BYTES);
    }
    (void)XXH3_freeState(h);
    return rc;
}

int state_digest(struct state *s, uint8_t digest_out[DIGEST_BYTES])
{
    const size_t bytes = (size_t)s->n * DIGEST_BYTES;
    uint8_t *each = malloc(MAX(bytes, (size_t)1));
    int rc;

    if (each == NULL) {
        return run_fail(MU_ENOMEM, "no memory for a digest of the state");
    }
    rc = state_digests(s, each);
    if (rc == MU_OK) {
        state_sum(XXH3_128bits(each, bytes), digest_out);
    }
    free(each);
    return rc;
}

/* ---- its memory ---- */

void state_warm(const struct state *s)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

    for (uint32_t i = 0; i < s->n; i++) {
        const uintptr_t lo = ((uintptr_t)s->parts[i].data + page - 1) / page * page;
        const uintptr_t hi = ((uintptr_t)s->parts[i].data + s->parts[i].bytes) / page * page;

        if (s->parts[i].data != NULL && lo < hi) { /* An old kernel can't: then it costs later. */
            (void)madvise((void *)lo, hi - lo, MADV_POPULATE_WRITE);
        }
    }
}
