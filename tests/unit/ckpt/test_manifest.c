/* The manifest's text, and the arithmetic of chunks and shards. */
#include "ckpt/ckpt.h"
#include "unit/unit.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEAL_BYTES 72 /* "sha256 ", 64 digits, a newline */

static const char GOLDEN[] =
    "muster-checkpoint 1\n"
    "version 0.1.0\n"
    "job mnist\n"
    "run 2\n"
    "generation 17\n"
    "step 1200\n"
    "epoch 3\n"
    "samples 38400\n"
    "offset 5\n"
    "seed 7\n"
    "data_n 60000\n"
    "batch 32\n"
    "saved_ms 1700000000000\n"
    "slices 8\n"
    "zstd 0\n"
    "bytes 12583012\n"
    "shards 2\n"
    "parts 3\n"
    "part 100 bias\n"
    "part 0 nothing\n"
    "part 12582912 model/weights\n"
    "chunks 4\n"
    "chunk 0 0 4194304 000102030405060708090a0b0c0d0e0f\n"
    "chunk 0 4194304 4194304 101112131415161718191a1b1c1d1e1f\n"
    "chunk 1 0 4194304 202122232425262728292a2b2c2d2e2f\n"
    "chunk 1 4194304 100 303132333435363738393a3b3c3d3e3f\n"
    "sha256 8da8b1ed2c1249224546e0dc2b56d53938acc2d2d28b5c645412d8ee136dacb6\n";

static struct ckpt_part parts[] = {
    {"bias", 100}, {"nothing", 0}, {"model/weights", 3 * CKPT_CHUNK}};
static struct ckpt_chunk chunks[4];

static struct ckpt_manifest sample(void)
{
    for (uint32_t i = 0; i < ARRAY_LEN(chunks); i++) {
        chunks[i].shard = i / 2;
        chunks[i].at = i % 2 * CKPT_CHUNK;
        chunks[i].stored = i == 3 ? 100 : (uint32_t)CKPT_CHUNK;
        for (uint32_t k = 0; k < CKPT_SUM_BYTES; k++) {
            chunks[i].sum[k] = (uint8_t)(16 * i + k);
        }
    }
    return (struct ckpt_manifest){.version = "0.1.0",
                                  .mark = {.job = "mnist",
                                           .run = 2,
                                           .generation = 17,
                                           .step = 1200,
                                           .epoch = 3,
                                           .samples = 38400,
                                           .offset = 5,
                                           .seed = 7,
                                           .data_n = 60000,
                                           .batch = 32,
                                           .slices = 8,
                                           .saved_ms = 1700000000000},
                                  .parts = parts,
                                  .parts_n = ARRAY_LEN(parts),
                                  .bytes = 3 * CKPT_CHUNK + 100,
                                  .shards_n = 2,
                                  .chunks = chunks,
                                  .chunks_n = ARRAY_LEN(chunks)};
}

static char *sample_text(size_t *n_out)
{
    const struct ckpt_manifest m = sample();
    char *text;

    assert_int_equal(ckpt_manifest_write(&m, &text, n_out), MU_OK);
    return text;
}

/* What parsing gives, for a text in a block of its own length. */
static int parse(const char *text, size_t n)
{
    static struct ckpt_why why;
    struct ckpt_manifest m;
    char *exact = malloc(n);
    int rc;

    assert_true(exact != NULL || n == 0);
    if (n > 0) {
        memcpy(exact, text, n);
    }
    why.text[0] = '\0';
    rc = ckpt_manifest_parse(exact, n, &m, &why);
    free(exact);
    if (rc == MU_OK) {
        ckpt_manifest_free(&m);
    } else {
        assert_true(why.text[0] != '\0');
    }
    return rc;
}

/* The text with `old` in it made `new`, and a sha256 that holds. */
static int parse_changed(const char *old, const char *new)
{
    const char *found = strstr(GOLDEN, old), *rest;
    const size_t rest_max = sizeof(GOLDEN) - 1 - SEAL_BYTES;
    char *out = malloc(sizeof(GOLDEN) + strlen(new));
    uint8_t sha[32];
    size_t n;
    int rc;

    assert_true(found != NULL && out != NULL);
    rest = found + strlen(old);
    n = (size_t)sprintf(out, "%.*s%s%.*s", (int)(found - GOLDEN), GOLDEN, new,
                        (int)(GOLDEN + rest_max - rest), rest);
    assert_int_equal(EVP_Digest(out, n, sha, NULL, EVP_sha256(), NULL), 1);
    n += (size_t)sprintf(out + n, "sha256 ");
    for (size_t i = 0; i < sizeof(sha); i++) {
        n += (size_t)sprintf(out + n, "%02x", sha[i]);
    }
    n += (size_t)sprintf(out + n, "\n");
    rc = parse(out, n);
    free(out);
    return rc;
}

/* ---- written and read ---- */

static void its_text_is_this(void **state)
{
    size_t n;
    char *text = sample_text(&n);

    assert_int_equal(n, sizeof(GOLDEN) - 1);
    assert_memory_equal(text, GOLDEN, n);
    free(text);
}

static void what_was_written_is_read(void **state)
{
    const struct ckpt_manifest m = sample();
    struct ckpt_manifest got;
    size_t n;
    char *text = sample_text(&n);

    assert_int_equal(ckpt_manifest_parse(text, n, &got, NULL), MU_OK);
    assert_string_equal(got.version, m.version);
    assert_string_equal(got.mark.job, m.mark.job);
    assert_memory_equal(&got.mark.run, &m.mark.run,
                        offsetof(struct ckpt_mark, slices) - offsetof(struct ckpt_mark, run));
    assert_int_equal(got.mark.slices, m.mark.slices);
    assert_true(got.mark.saved_ms == m.mark.saved_ms);
    assert_true(got.bytes == m.bytes && got.zstd == m.zstd && got.shards_n == m.shards_n);
    assert_int_equal(got.parts_n, m.parts_n);
    for (uint32_t i = 0; i < m.parts_n; i++) {
        assert_string_equal(got.parts[i].name, m.parts[i].name);
        assert_true(got.parts[i].bytes == m.parts[i].bytes);
    }
    assert_int_equal(got.chunks_n, m.chunks_n);
    assert_memory_equal(got.chunks, m.chunks, sizeof(chunks));
    ckpt_manifest_free(&got);
    ckpt_manifest_free(&got);
    free(text);
}

static void the_largest_numbers_go_round(void **state)
{
    struct ckpt_manifest m = sample(), got;
    char *text;
    size_t n;

    m.mark.run = m.mark.generation = m.mark.step = m.mark.epoch = m.mark.samples = UINT64_MAX;
    m.mark.slices = UINT32_MAX;
    assert_int_equal(ckpt_manifest_write(&m, &text, &n), MU_OK);
    assert_int_equal(ckpt_manifest_parse(text, n, &got, NULL), MU_OK);
    assert_true(got.mark.run == UINT64_MAX && got.mark.slices == UINT32_MAX);
    ckpt_manifest_free(&got);
    free(text);
}

/* ---- refused ---- */

static void every_truncation_is_refused(void **state)
{
    for (size_t n = 0; n < sizeof(GOLDEN) - 1; n++) {
        assert_int_equal(parse(GOLDEN, n), MU_ECORRUPT);
    }
    assert_int_equal(parse(GOLDEN, sizeof(GOLDEN) - 1), MU_OK);
}

static void every_flipped_bit_is_refused(void **state)
{
    char text[sizeof(GOLDEN)];

    memcpy(text, GOLDEN, sizeof(text));
    for (size_t i = 0; i < sizeof(GOLDEN) - 1; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text[i] = (char)(GOLDEN[i] ^ 1 << bit);
            assert_int_equal(parse(text, sizeof(GOLDEN) - 1), MU_ECORRUPT);
        }
        text[i] = GOLDEN[i];
    }
}

static void what_follows_is_refused(void **state)
{
    char text[sizeof(GOLDEN) + 1];

    memcpy(text, GOLDEN, sizeof(GOLDEN));
    assert_int_equal(parse(text, sizeof(GOLDEN)), MU_ECORRUPT);
    text[sizeof(GOLDEN) - 1] = '\n';
    assert_int_equal(parse(text, sizeof(GOLDEN)), MU_ECORRUPT);
}

static void a_newer_format_is_told_apart(void **state)
{
    assert_int_equal(parse_changed("checkpoint 1", "checkpoint 2"), MU_EVERSION);
    assert_int_equal(parse_changed("checkpoint 1\n", "checkpoint 9\nwhatever it has\n"),
                     MU_EVERSION);
    assert_int_equal(parse_changed("checkpoint 1", "checkpoint 0"), MU_ECORRUPT);
    assert_int_equal(parse_changed("checkpoint 1", "checkpoint 1"), MU_OK);
}

static void what_does_not_add_up_is_refused(void **state)
{
    static const char *const changes[][2] = {
        {"bytes 12583012", "bytes 12583013"},
        {"bytes 12583012", "bytes 18446744073709551615"},
        {"part 100 ", "part 99 "},
        {"part 100 ", "part 18446744073709551615 "},
        {"part 0 ", "part 18446744073709551615 "},
        {"part 100 bias\npart 0 nothing", "part 18446744073709551615 bias\npart 101 nothing"},
        {"parts 3\n", "parts 2\n"},
        {"parts 3\n", "parts 4\n"},
        {"chunks 4\n", "chunks 3\n"},
        {"chunks 4\n", "chunks 5\n"},
        {"shards 2\n", "shards 1\n"},
        {"shards 2\n", "shards 3\n"},
        {"shards 2\n", "shards 0\n"},
        {"step 1200", "step 0"},
        {"zstd 0", "zstd 2"},
        {"chunk 1 0 ", "chunk 0 0 "},
        {"chunk 1 0 ", "chunk 1 1 "},
        {"chunk 1 4194304 100 ", "chunk 1 4194304 99 "},
        {"chunk 1 4194304 100 ", "chunk 1 4194304 101 "},
        {"chunk 1 4194304 100 ", "chunk 1 4194304 0 "},
        {"chunk 0 0 4194304", "chunk 0 0 4194303"},
        {"part 0 nothing", "part 0 bias"},
    };

    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        if (parse_changed(changes[i][0], changes[i][1]) != MU_ECORRUPT) {
            fail_msg("%s as %s is believed", changes[i][0], changes[i][1]);
        }
    }
}

static void too_many_are_refused(void **state)
{
    assert_int_equal(parse_changed("parts 3\n", "parts 4097\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("shards 2\n", "shards 1025\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("chunks 4\n", "chunks 4194305\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("chunks 4\n", "chunks 4194304\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("chunks 4\n", "chunks 4294967296\n"), MU_ECORRUPT);
}

static void names_that_lead_elsewhere_are_refused(void **state)
{
    static const char *const jobs[] = {"..",  ".", ".x",   "a/b",     "/etc",
                                       "a b", "",  "a\tb", "\xc3\xa4"};
    char line[MU_NAME_MAX + 16], name[MU_NAME_MAX + 1];

    for (size_t i = 0; i < ARRAY_LEN(jobs); i++) {
        snprintf(line, sizeof(line), "job %s\n", jobs[i]);
        assert_int_equal(parse_changed("job mnist\n", line), MU_ECORRUPT);
    }
    memset(name, 'a', sizeof(name));
    name[MU_NAME_MAX] = '\0';
    snprintf(line, sizeof(line), "job %s\n", name);
    assert_int_equal(parse_changed("job mnist\n", line), MU_ECORRUPT);
    name[MU_NAME_MAX - 1] = '\0';
    snprintf(line, sizeof(line), "job %s\n", name);
    assert_int_equal(parse_changed("job mnist\n", line), MU_OK);
    assert_int_equal(parse_changed("100 bias\n", "100 a bias\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("100 bias\n", "100 \n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("100 bias\n", "100 a\x7f\n"), MU_ECORRUPT);
    assert_int_equal(parse_changed("100 bias\n", "100 ../a\n"), MU_OK); /* See ckpt_export(). */
}

static void there_is_one_way_to_write_it(void **state)
{
    static const char *const changes[][2] = {
        {"step 1200", "step 01200"},   {"step 1200", "step +1200"},
        {"step 1200", "step  1200"},   {"step 1200", "step 1200 "},
        {"step 1200", "Step 1200"},    {"step 1200\n", "step 1200\r\n"},
        {"step 1200\n", ""},           {"epoch 3\n", "epoch 3\n\n"},
        {"303132", "303132ff"},        {"0d0e0f", "0D0E0F"},
        {"step 1200", "step -1"},      {"seed 7", "seed 0x7"},
        {"run 2\n", "run 2\nrun 2\n"}, {"seed 7", "seed 18446744073709551616"},
    };

    for (size_t i = 0; i < ARRAY_LEN(changes); i++) {
        if (parse_changed(changes[i][0], changes[i][1]) != MU_ECORRUPT) {
            fail_msg("%s as %s is believed", changes[i][0], changes[i][1]);
        }
    }
}

static void compressed_chunks_may_be_shorter_never_longer(void **state)
{
    struct ckpt_manifest m = sample();
    char *text;
    size_t n;

    chunks[0].stored = 17;
    chunks[1].at = 17;
    assert_int_equal(ckpt_manifest_write(&m, &text, &n), MU_EINVAL);
    m.zstd = true;
    assert_int_equal(ckpt_manifest_write(&m, &text, &n), MU_OK);
    assert_int_equal(parse(text, n), MU_OK);
    free(text);
    chunks[1].stored++;
    assert_int_equal(ckpt_manifest_write(&m, &text, &n), MU_EINVAL);
}

/* ---- arithmetic ---- */

static void chunks_cover_the_bytes(void **state)
{
    assert_int_equal(ckpt_chunks(0), 0);
    assert_int_equal(ckpt_chunks(1), 1);
    assert_int_equal(ckpt_chunks(CKPT_CHUNK), 1);
    assert_int_equal(ckpt_chunks(CKPT_CHUNK + 1), 2);
    assert_int_equal(ckpt_chunks(CKPT_CHUNKS_MAX * CKPT_CHUNK), CKPT_CHUNKS_MAX);
    assert_true(ckpt_chunks(CKPT_CHUNKS_MAX * CKPT_CHUNK + 1) > CKPT_CHUNKS_MAX);
    assert_true(ckpt_chunks(UINT64_MAX) > CKPT_CHUNKS_MAX);
    for (uint64_t bytes = CKPT_CHUNK - 2; bytes < 3 * CKPT_CHUNK + 2; bytes += CKPT_CHUNK / 4 + 1) {
        uint64_t sum = 0;

        for (uint32_t i = 0; i < ckpt_chunks(bytes); i++) {
            assert_true(ckpt_chunk_bytes(bytes, i) > 0);
            sum += ckpt_chunk_bytes(bytes, i);
        }
        assert_true(sum == bytes);
        assert_true(ckpt_chunk_bytes(bytes, ckpt_chunks(bytes)) == 0);
    }
}

static void shards_share_all_chunks_evenly(void **state)
{
    static const uint32_t counts[] = {0, 1, 2, 7, 256, CKPT_CHUNKS_MAX};
    static const uint32_t shards[] = {1, 2, 3, 8, 1000, CKPT_SHARDS_MAX};

    for (size_t c = 0; c < ARRAY_LEN(counts); c++) {
        for (size_t s = 0; s < ARRAY_LEN(shards); s++) {
            uint32_t at = 0;

            for (uint32_t i = 0; i < shards[s]; i++) {
                uint32_t first, end;

                ckpt_shard_chunks(counts[c], shards[s], i, &first, &end);
                assert_int_equal(first, at);
                assert_true(end - first - counts[c] / shards[s] <= 1);
                at = end;
            }
            assert_int_equal(at, counts[c]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_text_is_this),
        cmocka_unit_test(what_was_written_is_read),
        cmocka_unit_test(the_largest_numbers_go_round),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(what_follows_is_refused),
        cmocka_unit_test(a_newer_format_is_told_apart),
        cmocka_unit_test(what_does_not_add_up_is_refused),
        cmocka_unit_test(too_many_are_refused),
        cmocka_unit_test(names_that_lead_elsewhere_are_refused),
        cmocka_unit_test(there_is_one_way_to_write_it),
        cmocka_unit_test(compressed_chunks_may_be_shorter_never_longer),
        cmocka_unit_test(chunks_cover_the_bytes),
        cmocka_unit_test(shards_share_all_chunks_evenly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
