/* A shard's sums: what its writer tells the one who commits.
 *
 *   muster-shard 1
 *   step 1200
 *   bytes 4195328          of the whole state
 *   zstd 0
 *   shard 1 2              which of how many
 *   chunk 0 1024 9e10…     as in the manifest, the shard left out
 *   sha256 e3b0… */
#include "ckpt/sums.h"

#include "ckpt/lines.h"
#include "ckpt/shard.h"

#include <inttypes.h>
#include <stdlib.h>

#define SUMS_MAX CKPT_MANIFEST_MAX

int sums_write(const struct ckpt_target *t, const char *folder, uint32_t shard,
               const struct ckpt_chunk *chunks, uint32_t chunks_n, struct ckpt_why *why)
{
    struct lines_out o = {.text = NULL};
    struct path p;
    char *text = NULL;
    size_t n = 0;
    int rc;

    lines_add(&o, "muster-shard 1\nstep %" PRIu64 "\nbytes %" PRIu64 "\nzstd %d\n", t->step,
              t->bytes, t->zstd);
    lines_add(&o, "shard %" PRIu32 " %" PRIu32 "\n", shard, t->shards_n);
    for (uint32_t i = 0; i < chunks_n; i++) {
        lines_add(&o, "chunk %" PRIu64 " %" PRIu32 " ", chunks[i].at, chunks[i].stored);
        lines_hex(&o, chunks[i].sum, CKPT_SUM_BYTES);
        lines_add(&o, "\n");
    }
    rc = lines_seal(&o, &text, &n);
    if (rc != MU_OK) {
        return ckpt_say(why, rc, "no memory for the sums of shard %" PRIu32, shard);
    }
    rc = shard_path(&p, folder, shard, SHARD_SUMS, why);
    if (rc == MU_OK) {
        rc = file_put(p.text, text, n, false, why); /* A crash of the machine ends the attempt. */
    }
    free(text);
    return rc;
}

/* That they are this shard's, of this attempt. */
static bool read_head(struct lines_in *in, const struct ckpt_target *t, uint32_t shard)
{
    uint64_t format, step, bytes, zstd;
    uint32_t which, of;

    return lines_pair(in, "muster-shard", 1, &format) && format == 1 &&
           lines_pair(in, "step", UINT64_MAX, &step) && step == t->step &&
           lines_pair(in, "bytes", UINT64_MAX, &bytes) && bytes == t->bytes &&
           lines_pair(in, "zstd", 1, &zstd) && (zstd == 1) == t->zstd && lines_word(in, "shard") &&
           lines_u32(in, CKPT_SHARDS_MAX, ' ', &which) && which == shard &&
           lines_u32(in, CKPT_SHARDS_MAX, '\n', &of) && of == t->shards_n;
}

static bool read_chunks(struct lines_in *in, uint32_t shard, struct ckpt_chunk *chunks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        struct ckpt_chunk *c = &chunks[i];

        c->shard = shard;
        if (!lines_word(in, "chunk") || !lines_u64(in, UINT64_MAX, ' ', &c->at) ||
            !lines_u32(in, UINT32_MAX, ' ', &c->stored) ||
            !lines_bytes(in, c->sum, sizeof(c->sum))) {
            return false;
        }
    }
    return in->at == in->end;
}

int sums_read(const struct ckpt_target *t, const char *folder, uint32_t shard,
              struct ckpt_chunk *chunks, struct ckpt_why *why)
{
    uint32_t first, end;
    struct lines_in in;
    struct path p;
    char *text;
    size_t n;
    int rc = shard_path(&p, folder, shard, SHARD_SUMS, why);

    if (rc == MU_OK) {
        rc = file_get(p.text, SUMS_MAX, &text, &n, why);
    }
    if (rc != MU_OK) {
        return rc == MU_ENOMEM ? rc : MU_EIO;
    }
    ckpt_shard_chunks(ckpt_chunks(t->bytes), t->shards_n, shard, &first, &end);
    if (!lines_open(&in, text, n) || !read_head(&in, t, shard) ||
        !read_chunks(&in, shard, chunks + first, end - first)) {
        rc = ckpt_say(why, MU_EIO, "%s is damaged, or of another attempt", p.text);
    }
    free(text);
    return rc;
}
