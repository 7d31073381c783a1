/* In place of libFuzzer, for any compiler: runs a fuzzer on files and folders of inputs, each as it
 * is, cut at every length, and with random changes from a fixed seed.
 *
 * usage: <fuzzer> FILE|FOLDER... */
#include "base/prng.h"
#include "fuzz/fuzz.h"
#include "lib/chance.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX (1u << 20)
#define CUTS_MAX 600
#define CHANGES 100

static uint64_t runs_n;

/* In a block of its own, so that a sanitizer sees a read beyond the input. */
static void run(const uint8_t *data, size_t n)
{
    uint8_t *exact = malloc(n);

    mu_assert(exact != NULL || n == 0);
    if (n > 0) {
        memcpy(exact, data, n);
    }
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    runs_n++;
}

static void run_variants(uint8_t *data, size_t n)
{
    struct prng p;

    prng_init(&p, n);
    run(data, n);
    for (size_t len = 0; len < MIN(n, CUTS_MAX); len++) {
        run(data, len);
    }
    for (int i = 0; i < CHANGES && n > 0; i++) {
        size_t at = (size_t)prng_below(&p, n);
        uint8_t was = data[at];

        data[at] = (uint8_t)prng_u64(&p);
        run(data, n);
        if (prng_chance(&p, 700000)) {
            data[at] = was; /* Otherwise changes gather. */
        }
    }
}

static bool run_file(const char *path)
{
    static uint8_t data[INPUT_MAX];
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return false;
    }
    size_t n = fread(data, 1, sizeof(data), file);

    fclose(file);
    run_variants(data, n);
    return true;
}

static bool run_folder(const char *path)
{
    struct dirent **names;
    int names_n = scandir(path, &names, NULL, alphasort);
    bool ok = true;

    if (names_n < 0) {
        return run_file(path);
    }
    for (int i = 0; i < names_n; i++) {
        char file[4096];

        if (names[i]->d_name[0] != '.') {
            snprintf(file, sizeof(file), "%s/%s", path, names[i]->d_name);
            ok = run_file(file) && ok;
        }
        free(names[i]);
    }
    free(names);
    return ok;
}

int main(int argc, char **argv)
{
    bool ok = argc > 1;

    for (int i = 1; i < argc; i++) {
        ok = run_folder(argv[i]) && ok;
    }
    printf("%llu inputs\n", (unsigned long long)runs_n);
    return ok ? 0 : 1;
}
