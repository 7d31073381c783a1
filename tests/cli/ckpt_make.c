/* Writes one checkpoint, as a run would: for ckpt_test.py and e2e/depot_cli_test.py.
 *
 *   ckpt_make DIR|orchestrator: JOB STEP SHARDS plain|zstd NAME=BYTES …
 *
 * The orchestrator is that of MUSTER_ENDPOINT and MUSTER_TOKEN_FILE, and wants one shard.
 * The bytes of each part are floats 0, 0.5, 1, …; what is left over at its end is 7s. */
#include "ckpt/ckpt.h"
#include "cli/depot_line.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAVED_MS 1700000000000u /* 2023-11-14 22:13:20 UTC */

static struct ckpt_part parts[CKPT_PARTS_MAX];

static int failed(const char *what, int rc, const struct ckpt_why *why)
{
    fprintf(stderr, "%s: %d %s\n", what, rc, why->text);
    return 1;
}

static void fill(uint8_t *to, uint64_t n)
{
    uint64_t i = 0;

    for (; i + 4 <= n; i += 4) {
        float f = (float)(i / 4) / 2;

        memcpy(to + i, &f, 4);
    }
    memset(to + i, 7, n - i);
}

static uint8_t *make_state(char **words, uint32_t n, uint64_t *bytes_out)
{
    uint64_t bytes = 0;
    uint8_t *state, *at;

    for (uint32_t i = 0; i < n; i++) {
        size_t name_n = strcspn(words[i], "=");

        mu_assert(words[i][name_n] == '=' && name_n < MU_NAME_MAX);
        memcpy(parts[i].name, words[i], name_n);
        parts[i].bytes = strtoull(words[i] + name_n + 1, NULL, 10);
        bytes += parts[i].bytes;
    }
    at = state = malloc(bytes + 1);
    mu_assert(state != NULL);
    for (uint32_t i = 0; i < n; i++) {
        fill(at, parts[i].bytes);
        at += parts[i].bytes;
    }
    *bytes_out = bytes;
    return state;
}

static struct ckpt_mark mark_of(const struct ckpt_target *t)
{
    struct ckpt_mark mark = {.run = 3,
                             .generation = 4,
                             .step = t->step,
                             .epoch = t->step / 1000,
                             .samples = t->step * 64,
                             .seed = UINT64_MAX,
                             .data_n = 60000,
                             .batch = 64,
                             .slices = 8,
                             .saved_ms = SAVED_MS};

    snprintf(mark.job, sizeof(mark.job), "%s", t->job);
    return mark;
}

static int save(const struct ckpt_target *t, const uint8_t *state, uint32_t parts_n)
{
    const struct ckpt_mark mark = mark_of(t);
    struct ckpt_why why = {.text = ""};
    int rc;

    for (uint32_t i = 0; i < t->shards_n; i++) {
        uint32_t first, end;

        ckpt_shard_chunks(ckpt_chunks(t->bytes), t->shards_n, i, &first, &end);
        rc = ckpt_write_shard(t, i, state + first * CKPT_CHUNK, NULL, &why);
        if (rc != MU_OK) {
            return failed("a shard", rc, &why);
        }
    }
    rc = ckpt_commit(t, &mark, parts, parts_n, &why);
    return rc == MU_OK ? 0 : failed("the manifest", rc, &why);
}

static int put(const struct ckpt_target *t, const uint8_t *state, uint32_t parts_n)
{
    const struct ckpt_mark mark = mark_of(t);
    const struct depot_copy copy = {.mark = &mark,
                                    .parts = parts,
                                    .parts_n = parts_n,
                                    .data = state,
                                    .bytes = t->bytes,
                                    .zstd = t->zstd};
    const char *endpoint = getenv("MUSTER_ENDPOINT");
    struct ask_where where = {.token_file = getenv("MUSTER_TOKEN_FILE"), .wait_ms = 30000};
    char error[OPTS_ERROR_MAX] = "";
    struct ckpt_why why = {.text = ""};
    struct depot_call call;
    struct depot *d;
    int rc;

    if (endpoint == NULL || opts_endpoints(endpoint, &where.endpoints, error) != MU_OK) {
        fprintf(stderr, "MUSTER_ENDPOINT: %s\n", error);
        return 2;
    }
    rc = depot_call_open("ckpt_make", &where, &call, &d);
    if (rc != EXIT_SUCCESS) {
        return rc;
    }
    rc = depot_put(d, &copy, &why);
    depot_close(d);
    return rc == MU_OK ? 0 : failed("the orchestrator", rc, &why);
}

int main(int argc, char **argv)
{
    struct ckpt_target t = {.tag = "test"};
    uint8_t *state;
    int status;

    if (argc < 7) {
        fprintf(stderr,
                "usage: ckpt_make DIR|orchestrator: JOB STEP SHARDS plain|zstd NAME=BYTES …\n");
        return 2;
    }
    t.dir = argv[1];
    t.job = argv[2];
    t.step = strtoull(argv[3], NULL, 10);
    t.shards_n = (uint32_t)strtoul(argv[4], NULL, 10);
    t.zstd = strcmp(argv[5], "zstd") == 0;
    state = make_state(argv + 6, (uint32_t)argc - 6, &t.bytes);
    status = (strcmp(t.dir, "orchestrator:") == 0 ? put : save)(&t, state, (uint32_t)argc - 6);
    free(state);
    return status;
}
