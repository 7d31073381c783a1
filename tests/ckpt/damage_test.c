/* Torn and rotten: a checkpoint is cut, or a byte of it flipped, at every boundary and at random
 * places. It is never loaded in silence, and the one before it is found. MUSTER_TEST_FULL=1: 1,000
 * random places of each kind, otherwise a sample; MUSTER_CKPT_SEED=n draws others. */
#include "base/prng.h"
#include "unit/ckpt/ckpt_kit.h"
#include "unit/unit.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OLD 10
#define NEW 20
#define FILES_MAX 8

static struct ckpt_kit kit;
static struct prng draws;
static uint64_t cases_n;

/* One file of the newer checkpoint. */
struct victim {
    char path[PATH_MAX];
    uint64_t bytes;
};
static struct victim victims[FILES_MAX];
static uint32_t victims_n;

static uint64_t random_n(void)
{
    return unit_full() ? 1000 : 9;
}

/* ---- the stage ---- */

static void save(uint64_t step, uint64_t seed, bool zstd)
{
    struct ckpt_target t = ckpt_kit_target(&kit, step, "g1", 2);
    struct ckpt_why why;

    ckpt_kit_fill(&kit, seed);
    if (zstd) {
        memset(kit.state + 500, 3, (size_t)CKPT_CHUNK * 2);
    }
    t.zstd = zstd;
    if (ckpt_kit_save(&kit, &t, &why) != MU_OK) {
        fail_msg("%s", why.text);
    }
}

static void find_victims(void)
{
    const char *folder = ckpt_kit_path(&kit, "step-000000000020");
    struct dirent **found = NULL;
    int n = scandir(folder, &found, NULL, alphasort);

    victims_n = 0;
    for (int i = 0; i < n; i++) {
        struct victim *v = &victims[victims_n];
        struct stat st;

        snprintf(v->path, sizeof(v->path), "%s/%s", folder, found[i]->d_name);
        assert_int_equal(stat(v->path, &st), 0);
        if (S_ISREG(st.st_mode)) {
            v->bytes = (uint64_t)st.st_size;
            victims_n++;
        }
        free(found[i]);
    }
    free(found);
    assert_int_equal(victims_n, 3);
}

static void set_stage(bool zstd)
{
    const char *seed = getenv("MUSTER_CKPT_SEED");

    prng_init(&draws, seed != NULL ? strtoull(seed, NULL, 10) : 1);
    ckpt_kit_open(&kit, true);
    save(OLD, 1, zstd);
    save(NEW, 2, zstd);
    assert_int_equal(ckpt_kit_newest(&kit), NEW);
    find_victims();
    cases_n = 0;
}

static int clear_stage(void **state)
{
    if (kit.state != NULL) {
        ckpt_kit_close(&kit);
    }
    return 0;
}

/* ---- damage ---- */

/* What is asked, and what the newest intact one is. */
static void expect_found_out(const struct victim *v, const char *how, uint64_t at)
{
    static struct ckpt_why why;
    struct ckpt *c;
    int rc;

    why.text[0] = '\0';
    rc = ckpt_kit_load(&kit, NEW, &why);
    if (rc != MU_ECORRUPT || strstr(why.text, "step-000000000020") == NULL) {
        fail_msg("%s %s at %" PRIu64 ": %s (%s)", v->path, how, at, mu_strerror(rc), why.text);
    }
    rc = ckpt_open(kit.dir, KIT_JOB, NEW, &c, &why);
    if (rc == MU_OK) {
        rc = ckpt_verify(c, &why);
        ckpt_close(c);
    }
    assert_int_equal(rc, MU_ECORRUPT);
    cases_n++;
    if (cases_n % 50 == 1) { /* That the other was not touched need not be read every time. */
        assert_int_equal(ckpt_kit_newest(&kit), OLD);
    }
}

static void flip_at(const struct victim *v, uint64_t at)
{
    const int fd = open(v->path, O_RDWR);
    uint8_t was, is;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &was, 1, (off_t)at), 1);
    is = (uint8_t)(was ^ (1u << prng_below(&draws, 8)));
    assert_int_equal(pwrite(fd, &is, 1, (off_t)at), 1);
    expect_found_out(v, "flipped", at);
    assert_int_equal(pwrite(fd, &was, 1, (off_t)at), 1);
    close(fd);
}

/* zeros: as long as it was, and nothing in it; otherwise cut short. */
static void cut_at(const struct victim *v, uint64_t at, bool zeros)
{
    const size_t n = (size_t)(v->bytes - at);
    uint8_t *tail = malloc(n + 1);
    const int fd = open(v->path, O_RDWR);
    bool same = true;

    assert_true(fd >= 0 && tail != NULL);
    assert_int_equal(pread(fd, tail, n, (off_t)at), n);
    for (size_t i = 0; zeros && same && i < n; i++) {
        same = tail[i] == 0;
    }
    if (!zeros || !same) {
        assert_int_equal(ftruncate(fd, (off_t)at), 0);
        if (zeros) {
            assert_int_equal(ftruncate(fd, (off_t)v->bytes), 0);
        }
        expect_found_out(v, zeros ? "lost its end" : "cut", at);
        assert_int_equal(pwrite(fd, tail, n, (off_t)at), n);
    }
    close(fd);
    free(tail);
}

static void grow(const struct victim *v)
{
    assert_int_equal(truncate(v->path, (off_t)v->bytes + 1), 0);
    expect_found_out(v, "grown", v->bytes);
    assert_int_equal(truncate(v->path, (off_t)v->bytes), 0);
}

static void lose(const struct victim *v)
{
    char aside[PATH_MAX + 8];

    snprintf(aside, sizeof(aside), "%s.aside", v->path);
    assert_int_equal(rename(v->path, aside), 0);
    expect_found_out(v, "lost", 0);
    assert_int_equal(mkdir(v->path, 0777), 0);
    expect_found_out(v, "a folder", 0);
    assert_int_equal(rmdir(v->path), 0);
    assert_int_equal(rename(aside, v->path), 0);
}

/* ---- where ---- */

/* Calls at() with the boundaries of chunks (of lines, in the manifest), and one byte off. */
static void at_boundaries(void (*at)(const struct victim *v, uint64_t offset))
{
    struct ckpt *c;

    assert_int_equal(ckpt_open(kit.dir, KIT_JOB, NEW, &c, NULL), MU_OK);
    const struct ckpt_manifest *m = ckpt_manifest(c);

    for (uint32_t i = 0; i < m->chunks_n; i++) {
        const struct victim *v = &victims[1 + m->chunks[i].shard];
        const uint64_t first = m->chunks[i].at, last = first + m->chunks[i].stored - 1;

        at(v, first);
        at(v, last);
        if (m->chunks[i].stored > 2) {
            at(v, first + 1);
            at(v, last - 1);
        }
    }
    ckpt_close(c);
}

static void at_random(void (*at)(const struct victim *v, uint64_t offset))
{
    for (uint64_t i = 0; i < random_n(); i++) {
        const struct victim *v = &victims[i % victims_n];

        at(v, prng_below(&draws, v->bytes));
    }
}

static void cut_short(const struct victim *v, uint64_t at)
{
    cut_at(v, at, false);
}

static void lose_end(const struct victim *v, uint64_t at)
{
    cut_at(v, at, true);
}

static void damage_everywhere(bool zstd)
{
    set_stage(zstd);
    for (uint32_t i = 0; i < victims_n; i++) {
        cut_short(&victims[i], 0);
        grow(&victims[i]);
        lose(&victims[i]);
    }
    at_boundaries(flip_at);
    at_boundaries(cut_short);
    at_random(flip_at);
    at_random(cut_short);
    at_random(lose_end);
    assert_int_equal(ckpt_kit_load(&kit, NEW, NULL), MU_OK); /* All was as it should be but that. */
}

static void damage_is_never_loaded_in_silence(void **state)
{
    damage_everywhere(false);
}

static void nor_is_damage_in_compressed_chunks(void **state)
{
    damage_everywhere(true);
}

/* Two that are well by themselves, mixed. */
static void a_shard_of_another_checkpoint_is_found_out(void **state)
{
    set_stage(false);
    assert_int_equal(unlink(victims[2].path), 0);
    assert_int_equal(link(ckpt_kit_path(&kit, "step-000000000010/shard-0001"), victims[2].path), 0);
    expect_found_out(&victims[2], "another's", 0);
}

static void every_byte_of_a_manifest_counts(void **state)
{
    set_stage(false);
    for (uint64_t at = 0; at < victims[0].bytes; at++) {
        flip_at(&victims[0], at);
        cut_short(&victims[0], at);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(damage_is_never_loaded_in_silence, clear_stage),
        cmocka_unit_test_teardown(nor_is_damage_in_compressed_chunks, clear_stage),
        cmocka_unit_test_teardown(a_shard_of_another_checkpoint_is_found_out, clear_stage),
        cmocka_unit_test_teardown(every_byte_of_a_manifest_counts, clear_stage),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
