/* Writes a checkpoint and exports it, for export_test.py.
 *
 * usage: ckpt_export FOLDER     makes FOLDER/bytes.npz, FOLDER/floats.npz and FOLDER/raw/ */
#include "unit/ckpt/ckpt_kit.h"

#include <stdio.h>
#include <string.h>

/* A name each for what could go wrong with names; sizes that cross chunks, or are nothing. */
static const struct ckpt_part parts[] = {{"weights", 4 * 5000},
                                         {"model/layer.1/bias", 12},
                                         {"../../up", 7},
                                         {"/root", 4},
                                         {"a//b", 4},
                                         {"odd", 4 * CKPT_CHUNK / 2 + 3},
                                         {"nothing", 0},
                                         {"gr\xc3\xb6\xc3\x9f"
                                          "e",
                                          8},
                                         {".hidden", 4},
                                         {"100%", 4},
                                         {"..", 4},
                                         {"end/", 4}};

static void check(int rc, const struct ckpt_why *why)
{
    if (rc != MU_OK) {
        fprintf(stderr, "%s\n", why->text);
        mu_assert(rc == MU_OK);
    }
}

int main(int argc, char **argv)
{
    struct ckpt_mark mark = ckpt_kit_mark(3);
    struct ckpt_target t;
    struct ckpt_kit k;
    struct ckpt_why why;
    struct ckpt *c;
    char to[PATH_MAX];

    mu_assert(argc == 2);
    ckpt_kit_open_in(&k, argv[1], true);
    t = ckpt_kit_target(&k, 3, "g1", 2);
    t.bytes = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        t.bytes += parts[i].bytes;
    }
    mu_assert(t.bytes <= k.bytes);
    memset(k.state, 0, 4); /* … of which floats can be compared */
    for (uint32_t i = 0; i < 2; i++) {
        check(ckpt_write_shard(&t, i, ckpt_kit_data(&k, &t, i), NULL, &why), &why);
    }
    check(ckpt_commit(&t, &mark, parts, ARRAY_LEN(parts), &why), &why);
    check(ckpt_open(k.dir, KIT_JOB, 3, &c, &why), &why);
    snprintf(to, sizeof(to), "%s/bytes.npz", argv[1]);
    check(ckpt_export(c, to, false, false, &why), &why);
    snprintf(to, sizeof(to), "%s/floats.npz", argv[1]);
    check(ckpt_export(c, to, false, true, &why), &why);
    snprintf(to, sizeof(to), "%s/raw/", argv[1]);
    check(ckpt_export(c, to, true, false, &why), &why);
    mu_assert(ckpt_export(c, to, true, false, &why) == MU_EEXIST); /* It stays as it is. */
    snprintf(to, sizeof(to), "%s/state", argv[1]);
    FILE *file = fopen(to, "wb");

    mu_assert(file != NULL && fwrite(k.state, 1, (size_t)t.bytes, file) == t.bytes &&
              fclose(file) == 0);
    ckpt_close(c);
    ckpt_kit_close(&k);
    return 0;
}
