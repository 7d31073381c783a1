/* What the libraries in this process choose their kernels by. They are looked for, not linked with:
 * those that the trainer has brought along count. */
#include "base/env.h"
#include "train/kind.h"
#include "train/train.h"

#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <string.h>
#include <sys/auxv.h>

#define VERSION_MAX 256

typedef void any_fn(void);
typedef const char *text_fn(void);
typedef int get_fn(void);
typedef void set_fn(int);
typedef void version_fn(char *, int);

/* A function of this name; NULL: none is loaded. ISO C has no cast from an object's address to a
 * function's. */
static any_fn *find(const char *name)
{
    const union {
        void *object;
        any_fn *function;
    } as = {.object = dlsym(RTLD_DEFAULT, name)};

    return as.function;
}

/* ---- threads ---- */

static const struct {
    const char *name, *variable, *set, *get;
} LIBRARIES[] = {
    {"openblas", "OPENBLAS_NUM_THREADS", "openblas_set_num_threads", "openblas_get_num_threads"},
    {"mkl", "MKL_NUM_THREADS", "MKL_Set_Num_Threads", "MKL_Get_Max_Threads"},
    {"omp", "OMP_NUM_THREADS", "omp_set_num_threads", "omp_get_max_threads"}};

void kind_threads(void)
{
    if (env_text("OMP_NUM_THREADS") != NULL) {
        return; /* All of them heed it. */
    }
    for (size_t i = 0; i < ARRAY_LEN(LIBRARIES); i++) {
        set_fn *set = (set_fn *)find(LIBRARIES[i].set);

        if (set != NULL && env_text(LIBRARIES[i].variable) == NULL) {
            set(1);
        }
    }
}

static void write_threads(FILE *out)
{
    for (size_t i = 0; i < ARRAY_LEN(LIBRARIES); i++) {
        get_fn *get = (get_fn *)find(LIBRARIES[i].get);

        if (get != NULL) {
            fprintf(out, KIND_NUMERIC "threads-%s %d\n", LIBRARIES[i].name, get());
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
    static const struct {
        const char *name, *function;
    } TEXTS[] = {{"openblas", "openblas_get_config"},
                 {"openblas-core", "openblas_get_corename"},
                 {"blis", "bli_info_get_version_str"}};
    version_fn *mkl = (version_fn *)find("MKL_Get_Version_String");
    bool any = mkl != NULL;

    for (size_t i = 0; i < ARRAY_LEN(TEXTS); i++) {
        text_fn *text = (text_fn *)find(TEXTS[i].function);

        if (text != NULL) {
            fprintf(out, KIND_NUMERIC "%s %s\n", TEXTS[i].name, text());
            any = true;
        }
    }
    if (mkl != NULL) {
        char version[VERSION_MAX] = "";

        mkl(version, (int)sizeof(version) - 1);
        fprintf(out, KIND_NUMERIC "mkl %s\n", version);
    }
    if (!any) {
        fprintf(out, KIND_NUMERIC "blas %s\n",
                find("cblas_dgemm") != NULL || find("dgemm_") != NULL ? "of an unknown kind"
                                                                      : "none");
    }
}

/* What tells libraries to choose otherwise than by the CPU. */
static void write_environment(FILE *out)
{
    static const char *const ALL[] = {"GLIBC_TUNABLES",          "MKL_CBWR",
                                      "MKL_ENABLE_INSTRUCTIONS", "ATEN_CPU_CAPABILITY",
                                      "DNNL_MAX_CPU_ISA",        "MUSTER_NUMERICS_EXTRA"};

    for (size_t i = 0; i < ARRAY_LEN(ALL); i++) {
        const char *text = env_text(ALL[i]);
        const char *name = strcmp(ALL[i], "MUSTER_NUMERICS_EXTRA") == 0 ? "extra" : ALL[i];

        if (text != NULL) {
            fprintf(out, KIND_NUMERIC "%s %.*s\n", name, (int)strcspn(text, "\n"), text);
        }
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
