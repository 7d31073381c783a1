/* What the libraries in this process choose their kernels by. They are looked for, not linked with:
 * those that the trainer has brought along count. */
#include "train/kind.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#define VERSION_MAX 256

/* A function of this name, if one is loaded. */
static void *find(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

typedef const char *text_fn(void);
typedef int get_fn(void);
typedef void set_fn(int);
typedef void version_fn(char *, int);

/* ISO C has no cast from an object's address to a function's. */
#define AS(type, name)                  \
    ({                                  \
        union {                         \
            void *object;               \
            type *function;             \
        } as_ = {.object = find(name)}; \
        as_.function;                   \
    })

/* ---- threads ---- */

static bool is_set(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0';
}

void kind_threads(void)
{
    static const struct {
        const char *variable, *function;
    } all[] = {{"OPENBLAS_NUM_THREADS", "openblas_set_num_threads"},
               {"MKL_NUM_THREADS", "MKL_Set_Num_Threads"},
               {"OMP_NUM_THREADS", "omp_set_num_threads"}};

    if (is_set("OMP_NUM_THREADS")) {
        return; /* All of them heed it. */
    }
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        set_fn *set = AS(set_fn, all[i].function);

        if (set != NULL && !is_set(all[i].variable)) {
            set(1);
        }
    }
}

static void write_threads(FILE *out)
{
    static const struct {
        const char *name, *function;
    } all[] = {{"openblas", "openblas_get_num_threads"},
               {"mkl", "MKL_Get_Max_Threads"},
               {"omp", "omp_get_max_threads"}};

    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        get_fn *get = AS(get_fn, all[i].function);

        if (get != NULL) {
            fprintf(out, KIND_NUMERIC "threads-%s %d\n", all[i].name, get());
        }
    }
}

/* ---- the rest ---- */

static void write_cpu(FILE *out)
{
    fprintf(out, KIND_NUMERIC "cpu");
#if defined(__x86_64__) || defined(__i386__)
#define CPU_HAS(name) fprintf(out, "%s", __builtin_cpu_supports(name) ? " " name : "")
    __builtin_cpu_init();
    CPU_HAS("sse4.2");
    CPU_HAS("avx");
    CPU_HAS("avx2");
    CPU_HAS("fma");
    CPU_HAS("fma4");
    CPU_HAS("avx512f");
    CPU_HAS("avx512dq");
    CPU_HAS("avx512bw");
    CPU_HAS("avx512vl");
    CPU_HAS("avx512vnni");
#undef CPU_HAS
#else
    fprintf(out, " hwcap %lx %lx", getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
#endif
    fputc('\n', out);
}

static void write_blas(FILE *out)
{
    text_fn *config = AS(text_fn, "openblas_get_config");
    text_fn *core = AS(text_fn, "openblas_get_corename");
    text_fn *blis = AS(text_fn, "bli_info_get_version_str");
    version_fn *mkl = AS(version_fn, "MKL_Get_Version_String");

    if (config != NULL) {
        fprintf(out, KIND_NUMERIC "openblas %s\n", config());
    }
    if (core != NULL) {
        fprintf(out, KIND_NUMERIC "openblas-core %s\n", core());
    }
    if (blis != NULL) {
        fprintf(out, KIND_NUMERIC "blis %s\n", blis());
    }
    if (mkl != NULL) {
        char version[VERSION_MAX] = "";

        mkl(version, (int)sizeof(version) - 1);
        fprintf(out, KIND_NUMERIC "mkl %s\n", version);
    }
    if (config == NULL && core == NULL && blis == NULL && mkl == NULL) {
        fprintf(out, KIND_NUMERIC "blas %s\n",
                find("cblas_dgemm") != NULL || find("dgemm_") != NULL ? "of an unknown kind"
                                                                      : "none");
    }
}

/* What tells libraries to choose otherwise than by the CPU. */
static void write_environment(FILE *out)
{
    static const char *const names[] = {"GLIBC_TUNABLES", "MKL_CBWR", "MKL_ENABLE_INSTRUCTIONS",
                                        "ATEN_CPU_CAPABILITY", "DNNL_MAX_CPU_ISA"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (is_set(names[i])) {
            fprintf(out, KIND_NUMERIC "%s %.*s\n", names[i], (int)strcspn(getenv(names[i]), "\n"),
                    getenv(names[i]));
        }
    }
    if (is_set("MUSTER_NUMERICS_EXTRA")) {
        const char *extra = getenv("MUSTER_NUMERICS_EXTRA");

        fprintf(out, KIND_NUMERIC "extra %.*s\n", (int)strcspn(extra, "\n"), extra);
    }
}

void kind_numerics(FILE *out)
{
    write_cpu(out);
    fprintf(out, KIND_NUMERIC "libc %s\n", gnu_get_libc_version());
    write_blas(out);
    write_threads(out);
    write_environment(out);
}
