/* A manifest's text: whatever it is, it is refused with a word, or adds up and is written to the
 * same text again. The first byte's lowest bit makes the sha256 in its last line right, so that
 * what comes after is seen. */
#include "ckpt/ckpt.h"
#include "fuzz/fuzz.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_BYTES 72

static void mend(char *text, size_t n)
{
    uint8_t sha[32];
    char seal[SEAL_BYTES + 1] = "sha256 ";

    if (n < SEAL_BYTES) {
        return;
    }
    mu_assert(EVP_Digest(text, n - SEAL_BYTES, sha, NULL, EVP_sha256(), NULL) == 1);
    for (size_t i = 0; i < sizeof(sha); i++) {
        sprintf(seal + 7 + 2 * i, "%02x", sha[i]);
    }
    seal[SEAL_BYTES - 1] = '\n';
    memcpy(text + n - SEAL_BYTES, seal, SEAL_BYTES);
}

static void check(const struct ckpt_manifest *m, const char *text, size_t n)
{
    uint64_t parts = 0, stored = 0;
    char *again;
    size_t again_n;

    mu_assert(m->shards_n >= 1 && m->shards_n <= CKPT_SHARDS_MAX);
    mu_assert(m->parts_n <= CKPT_PARTS_MAX && m->chunks_n == ckpt_chunks(m->bytes));
    for (uint32_t i = 0; i < m->parts_n; i++) {
        mu_assert(strlen(m->parts[i].name) > 0);
        parts += m->parts[i].bytes;
    }
    for (uint32_t i = 0; i < m->chunks_n; i++) {
        mu_assert(m->chunks[i].shard < m->shards_n && m->chunks[i].stored > 0);
        mu_assert(m->chunks[i].stored <= ckpt_chunk_bytes(m->bytes, i));
        stored += m->chunks[i].stored;
    }
    mu_assert(parts == m->bytes && (m->zstd ? stored <= m->bytes : stored == m->bytes));
    mu_assert(strchr(m->mark.job, '/') == NULL && m->mark.job[0] != '.' && m->mark.step > 0);
    mu_assert(ckpt_manifest_write(m, &again, &again_n) == MU_OK);
    mu_assert(again_n == n && memcmp(again, text, n) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct ckpt_why why = {{0}};
    struct ckpt_manifest m;
    char *text;
    int rc;

    if (n < 2) {
        return 0;
    }
    text = malloc(n - 1);
    mu_assert(text != NULL);
    memcpy(text, data + 1, n - 1);
    if ((data[0] & 1) != 0) {
        mend(text, n - 1);
    }
    memset(&m, 0x5a, sizeof(m));
    rc = ckpt_manifest_parse(text, n - 1, &m, &why);
    if (rc == MU_OK) {
        check(&m, text, n - 1);
        ckpt_manifest_free(&m);
    } else {
        mu_assert((rc == MU_ECORRUPT || rc == MU_EVERSION) && why.text[0] != '\0');
        mu_assert(m.parts_n == 0x5a5a5a5a);
    }
    free(text);
    return 0;
}
