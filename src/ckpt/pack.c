/* A chunk as it is stored, and its sum: the same for shards that are written here and for chunks
 * that go elsewhere. */
#include "ckpt/ckpt.h"
#include "ckpt/sum.h"

#include <stdlib.h>
#include <zstd.h>

#define LEVEL 1 /* of zstd: the disk is waiting */

struct ckpt_packer {
    ZSTD_CCtx *zstd; /* these two: NULL until something is compressed */
    uint8_t *packed; /* room for a chunk */
};

static int packer_open(struct ckpt_packer **p, bool zstd)
{
    struct ckpt_packer *o = *p != NULL ? *p : calloc(1, sizeof(*o));

    if (o == NULL) {
        return MU_ENOMEM;
    }
    *p = o; /* What is not whole is made so by the next call. */
    if (zstd && o->packed == NULL) {
        o->packed = malloc(ZSTD_compressBound((size_t)CKPT_CHUNK));
    }
    if (zstd && o->zstd == NULL) {
        o->zstd = ZSTD_createCCtx();
    }
    return zstd && (o->packed == NULL || o->zstd == NULL) ? MU_ENOMEM : MU_OK;
}

int ckpt_pack(struct ckpt_packer **p, const uint8_t *data, size_t bytes, bool zstd,
              const uint8_t **stored_out, uint32_t *n_out, uint8_t sum_out[CKPT_SUM_BYTES])
{
    int rc = packer_open(p, zstd);

    if (rc != MU_OK) {
        return rc;
    }
    mu_assert(bytes <= CKPT_CHUNK);
    if (zstd) {
        const size_t cap = ZSTD_compressBound((size_t)CKPT_CHUNK);
        const size_t n = ZSTD_compressCCtx((*p)->zstd, (*p)->packed, cap, data, bytes, LEVEL);

        if (!ZSTD_isError(n) && n < bytes) { /* Otherwise it is stored as it is. */
            data = (*p)->packed;
            bytes = n;
        }
    }
    sum_of(data, bytes, sum_out);
    *stored_out = data;
    *n_out = (uint32_t)bytes;
    return MU_OK;
}

void ckpt_pack_free(struct ckpt_packer *p)
{
    if (p == NULL) {
        return;
    }
    ZSTD_freeCCtx(p->zstd);
    free(p->packed);
    free(p);
}
