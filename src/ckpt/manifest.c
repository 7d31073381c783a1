#include "ckpt/manifest.h"

#include "ckpt/lines.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- arithmetic ---- */

uint32_t ckpt_chunks(uint64_t bytes)
{
    const uint64_t n = bytes / CKPT_CHUNK + (bytes % CKPT_CHUNK > 0);

    return (uint32_t)MIN(n, (uint64_t)CKPT_CHUNKS_MAX + 1); /* Too many stay too many. */
}

uint64_t ckpt_chunk_bytes(uint64_t bytes, uint32_t chunk)
{
    const uint64_t at = chunk * CKPT_CHUNK;

    return at < bytes ? MIN(bytes - at, CKPT_CHUNK) : 0;
}

void ckpt_shard_chunks(uint32_t chunks_n, uint32_t shards_n, uint32_t shard, uint32_t *first_out,
                       uint32_t *end_out)
{
    *first_out = (uint32_t)((uint64_t)chunks_n * shard / shards_n);
    *end_out = (uint32_t)((uint64_t)chunks_n * (shard + 1) / shards_n);
}

void ckpt_manifest_free(struct ckpt_manifest *m)
{
    free(m->parts);
    free(m->chunks);
    m->parts = NULL;
    m->chunks = NULL;
    m->parts_n = m->chunks_n = 0;
}

/* ---- does it add up? ---- */

/* Few enough that each can be compared with each, and nothing can run out of memory. */
static bool names_differ(const struct ckpt_manifest *m)
{
    for (uint32_t i = 1; i < m->parts_n; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(m->parts[i].name, m->parts[k].name) == 0) {
                return false;
            }
        }
    }
    return true;
}

static bool parts_add_up(const struct ckpt_manifest *m, struct ckpt_why *why)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < m->parts_n; i++) {
        if (!name_is_part(m->parts[i].name)) {
            ckpt_say(why, 0, "part %" PRIu32 " has a name that no part can have", i);
            return false;
        }
        if (m->parts[i].bytes > m->bytes - sum) {
            ckpt_say(why, 0, "its parts have more than its %" PRIu64 " bytes", m->bytes);
            return false;
        }
        sum += m->parts[i].bytes;
    }
    if (sum != m->bytes) {
        ckpt_say(why, 0, "its parts have %" PRIu64 " bytes and it has %" PRIu64, sum, m->bytes);
        return false;
    }
    if (!names_differ(m)) {
        ckpt_say(why, 0, "two of its parts have one name");
        return false;
    }
    return true;
}

/* Each shard has its share, without holes. */
static bool chunks_add_up(const struct ckpt_manifest *m, struct ckpt_why *why)
{
    for (uint32_t shard = 0; shard < m->shards_n; shard++) {
        uint32_t first, end;
        uint64_t at = 0;

        ckpt_shard_chunks(m->chunks_n, m->shards_n, shard, &first, &end);
        for (uint32_t i = first; i < end; i++) {
            const struct ckpt_chunk *c = &m->chunks[i];
            const uint64_t bytes = ckpt_chunk_bytes(m->bytes, i);

            if (c->shard != shard || c->at != at || c->stored == 0 || c->stored > bytes ||
                (c->stored != bytes && !m->zstd)) {
                ckpt_say(why, 0,
                         "chunk %" PRIu32 " can't be %" PRIu32 " bytes at %" PRIu64
                         " of shard %" PRIu32,
                         i, c->stored, c->at, c->shard);
                return false;
            }
            at += c->stored;
        }
    }
    return true;
}

bool manifest_adds_up(const struct ckpt_manifest *m, struct ckpt_why *why)
{
    if (m->version[0] == '\0' || strnlen(m->version, sizeof(m->version)) == sizeof(m->version) ||
        strchr(m->version, '\n') != NULL) {
        ckpt_say(why, 0, "the version of muster is missing");
        return false;
    }
    if (strnlen(m->mark.job, MU_NAME_MAX) == MU_NAME_MAX || !name_is_job(m->mark.job)) {
        ckpt_say(why, 0, "no job can have its name");
        return false;
    }
    if (m->mark.step == 0 || m->shards_n == 0 || m->shards_n > CKPT_SHARDS_MAX ||
        m->parts_n > CKPT_PARTS_MAX || m->chunks_n > CKPT_CHUNKS_MAX ||
        m->chunks_n != ckpt_chunks(m->bytes)) {
        ckpt_say(why, 0,
                 "step %" PRIu64 ", %" PRIu64 " bytes, %" PRIu32 " parts, %" PRIu32
                 " chunks and %" PRIu32 " shards don't go together",
                 m->mark.step, m->bytes, m->parts_n, m->chunks_n, m->shards_n);
        return false;
    }
    return parts_add_up(m, why) && chunks_add_up(m, why);
}

/* ---- written ---- */

static void add_mark(struct lines_out *o, const struct ckpt_mark *mark)
{
#define X(field) lines_add(o, #field " %" PRIu64 "\n", mark->field);
    MANIFEST_MARK(X)
#undef X
    lines_add(o, "slices %" PRIu32 "\n", mark->slices);
}

int ckpt_manifest_write(const struct ckpt_manifest *m, char **text_out, size_t *n_out)
{
    struct lines_out o = {.text = NULL};

    if (!manifest_adds_up(m, NULL)) {
        return MU_EINVAL;
    }
    lines_add(&o, MANIFEST_WORD " %d\nversion %s\njob %s\n", MANIFEST_FORMAT, m->version,
              m->mark.job);
    add_mark(&o, &m->mark);
    lines_add(&o, "zstd %d\nbytes %" PRIu64 "\nshards %" PRIu32 "\n", m->zstd, m->bytes,
              m->shards_n);
    lines_add(&o, "parts %" PRIu32 "\n", m->parts_n);
    for (uint32_t i = 0; i < m->parts_n; i++) {
        lines_add(&o, "part %" PRIu64 " %s\n", m->parts[i].bytes, m->parts[i].name);
    }
    lines_add(&o, "chunks %" PRIu32 "\n", m->chunks_n);
    for (uint32_t i = 0; i < m->chunks_n; i++) {
        const struct ckpt_chunk *c = &m->chunks[i];

        lines_add(&o, "chunk %" PRIu32 " %" PRIu64 " %" PRIu32 " ", c->shard, c->at, c->stored);
        lines_hex(&o, c->sum, sizeof(c->sum));
        lines_add(&o, "\n");
    }
    return lines_seal(&o, text_out, n_out);
}
