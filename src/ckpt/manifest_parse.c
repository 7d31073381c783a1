/* A manifest's text is read: whatever it is, nothing is believed before its sha256 holds, no memory
 * is taken for what the text has no room for, and in the end it adds up. */
#include "ckpt/lines.h"
#include "ckpt/manifest.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PART_LINE_MIN (sizeof("part 0 x\n") - 1)
#define CHUNK_LINE_MIN (sizeof("chunk 0 0 1 \n") - 1 + 2 * CKPT_SUM_BYTES)

static bool read_mark(struct lines_in *in, struct ckpt_mark *mark)
{
    if (!lines_word(in, "job") || !lines_text(in, mark->job, sizeof(mark->job))) {
        return false;
    }
#define X(field)                                             \
    if (!lines_pair(in, #field, UINT64_MAX, &mark->field)) { \
        return false;                                        \
    }
    MANIFEST_MARK(X)
#undef X
    return lines_word(in, "slices") && lines_u32(in, UINT32_MAX, '\n', &mark->slices);
}

static bool read_head(struct lines_in *in, struct ckpt_manifest *m)
{
    uint64_t zstd;

    if (!lines_word(in, "version") || !lines_text(in, m->version, sizeof(m->version)) ||
        !read_mark(in, &m->mark) || !lines_pair(in, "zstd", 1, &zstd) ||
        !lines_pair(in, "bytes", UINT64_MAX, &m->bytes) || !lines_word(in, "shards") ||
        !lines_u32(in, CKPT_SHARDS_MAX, '\n', &m->shards_n)) {
        return false;
    }
    m->zstd = zstd == 1;
    return m->shards_n > 0;
}

/* "WORD n": with room for n lines in what is left. */
static bool read_count(struct lines_in *in, const char *word, uint32_t max, size_t line_min,
                       uint32_t *n_out)
{
    return lines_word(in, word) && lines_u32(in, max, '\n', n_out) &&
           (size_t)(in->end - in->at) / line_min >= *n_out;
}

static int read_parts(struct lines_in *in, struct ckpt_manifest *m)
{
    uint32_t n;

    if (!read_count(in, "parts", CKPT_PARTS_MAX, PART_LINE_MIN, &n)) {
        return MU_ECORRUPT;
    }
    m->parts = calloc(MAX(n, 1), sizeof(*m->parts));
    if (m->parts == NULL) {
        return MU_ENOMEM;
    }
    m->parts_n = n;
    for (uint32_t i = 0; i < n; i++) {
        struct ckpt_part *p = &m->parts[i];

        if (!lines_word(in, "part") || !lines_u64(in, UINT64_MAX, ' ', &p->bytes) ||
            !lines_text(in, p->name, sizeof(p->name))) {
            return MU_ECORRUPT;
        }
    }
    return MU_OK;
}

static bool read_chunk(struct lines_in *in, struct ckpt_chunk *c)
{
    return lines_word(in, "chunk") && lines_u32(in, CKPT_SHARDS_MAX, ' ', &c->shard) &&
           lines_u64(in, UINT64_MAX, ' ', &c->at) && lines_u32(in, UINT32_MAX, ' ', &c->stored) &&
           lines_bytes(in, c->sum, sizeof(c->sum));
}

static int read_chunks(struct lines_in *in, struct ckpt_manifest *m)
{
    uint32_t n;

    if (!read_count(in, "chunks", CKPT_CHUNKS_MAX, CHUNK_LINE_MIN, &n)) {
        return MU_ECORRUPT;
    }
    m->chunks = calloc(MAX(n, 1), sizeof(*m->chunks));
    if (m->chunks == NULL) {
        return MU_ENOMEM;
    }
    m->chunks_n = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_chunk(in, &m->chunks[i])) {
            return MU_ECORRUPT;
        }
    }
    return in->at == in->end ? MU_OK : MU_ECORRUPT;
}

static int read_lines(struct lines_in *in, struct ckpt_manifest *m)
{
    int rc = read_head(in, m) ? MU_OK : MU_ECORRUPT;

    rc = rc == MU_OK ? read_parts(in, m) : rc;
    return rc == MU_OK ? read_chunks(in, m) : rc;
}

/* Its first line, and that the sha256 in its last holds. */
static int begin(struct lines_in *in, const char *text, size_t n, struct ckpt_why *why)
{
    uint64_t format;

    if (n > CKPT_MANIFEST_MAX) {
        return ckpt_say(why, MU_ECORRUPT, "it is damaged: no manifest is that long");
    }
    if (!lines_open(in, text, n)) {
        return ckpt_say(why, MU_ECORRUPT, "it is damaged: its sha256 does not hold");
    }
    if (!lines_pair(in, MANIFEST_WORD, UINT32_MAX, &format) || format == 0) {
        return ckpt_say(why, MU_ECORRUPT, "it is no manifest of a checkpoint");
    }
    if (format > MANIFEST_FORMAT) {
        return ckpt_say(why, MU_EVERSION,
                        "it was written by a newer muster: format %" PRIu64
                        ", and this one reads up to %d; use one at least as new",
                        format, MANIFEST_FORMAT);
    }
    return MU_OK;
}

int ckpt_manifest_parse(const char *text, size_t n, struct ckpt_manifest *m_out,
                        struct ckpt_why *why)
{
    struct ckpt_manifest m = {.parts = NULL};
    struct ckpt_why sums = {{0}};
    struct lines_in in;
    int rc = begin(&in, text, n, why);

    if (rc != MU_OK) {
        return rc;
    }
    rc = read_lines(&in, &m);
    if (rc == MU_ENOMEM) {
        ckpt_say(why, rc, "no memory to read it");
    } else if (rc != MU_OK) {
        ckpt_say(why, rc, "it is damaged: line %" PRIu32 " is not what should be there", in.line);
    } else if (!manifest_adds_up(&m, &sums)) {
        rc = ckpt_say(why, MU_ECORRUPT, "it is damaged: %.200s", sums.text);
    }
    if (rc != MU_OK) {
        ckpt_manifest_free(&m);
        return rc;
    }
    *m_out = m;
    return MU_OK;
}
