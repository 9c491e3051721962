/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix products by OpenBLAS, which is looked for when the program runs; without OpenBLAS there is
 * ref. It is loaded by dlopen() and not by the linker, because it chooses its kernels while it is
 * loaded, by a list of the processors that were known when it was built. For newer processors it
 * takes the kernels of 2004: version 0.3.21 calls a Xeon of 2023 a "Prescott" and reaches 20
 * GFLOP/s of 110. So this file tells OpenBLAS the kind of processor (OPENBLAS_CORETYPE), unless the
 * user did. OpenBLAS also gets only one thread, because callers cut the work themselves.
 */
#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "num/backend_impl.h"
#include "num/fast.h"

#define BUFFER_BYTES ((size_t)128 << 20)

/* Values of cblas.h, which is not needed to build. */
enum {
    CBLAS_ROW_MAJOR = 101,
    CBLAS_NO_TRANS = 111,
    CBLAS_TRANS = 112
};

typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                      const float *a, int lda, const float *b, int ldb, float beta, float *c,
                      int ldc);
typedef void dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha,
                      const double *a, int lda, const double *b, int ldb, double beta, double *c,
                      int ldc);

struct blas {
    void *handle;
    sgemm_fn *sgemm;
    dgemm_fn *dgemm;
    const struct num_fast *fast;
    struct num_backend ref; /* the backend for all other operations and sizes */
};

static int transposed(bool trans)
{
    return trans ? CBLAS_TRANS : CBLAS_NO_TRANS;
}

static void blas_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    const struct blas *blas = be->library;
    size_t sizes[] = {op->m, op->n, op->k, op->lda, op->ldb, op->ldc};
    if (op->rounds) {
        num_gemm_rounded(be, op);
        return;
    }
    for (size_t i = 0; i < countof(sizes); i++)
        if (sizes[i] > INT_MAX || (i < 3 && sizes[i] == 0)) {
            blas->ref.gemm(&blas->ref, op);
            return;
        }
    int trans_a = transposed(op->trans_a), trans_b = transposed(op->trans_b);
    int m = (int)op->m, n = (int)op->n, k = (int)op->k;
    int lda = (int)op->lda, ldb = (int)op->ldb, ldc = (int)op->ldc;
    if (op->dtype == NUM_F64)
        blas->dgemm(CBLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, op->alpha, op->a, lda, op->b, ldb,
                    op->beta, op->c, ldc);
    else
        blas->sgemm(CBLAS_ROW_MAJOR, trans_a, trans_b, m, n, k, (float)op->alpha, op->a, lda, op->b,
                    ldb, (float)op->beta, op->c, ldc);
}

static bool conv_fits(enum num_dtype dtype, size_t image, size_t kernel, size_t n_filters)
{
    return dtype == NUM_F32 && image <= CONV_FAST_IMAGE_MAX && kernel <= CONV_FAST_KERNEL_MAX &&
           n_filters <= CONV_FAST_FILTERS_MAX;
}

static void blas_conv(const struct num_backend *be, const struct num_conv *op)
{
    const struct blas *blas = be->library;
    if (conv_fits(op->dtype, op->height * op->width, op->kernel_height * op->kernel_width,
                  op->n_filters))
        blas->fast->conv(op);
    else
        blas->ref.conv(&blas->ref, op);
}

static void blas_conv_back(const struct num_backend *be, const struct num_conv_back *op)
{
    const struct blas *blas = be->library;
    if (conv_fits(op->dtype, op->height * op->width, op->kernel_height * op->kernel_width,
                  op->n_filters))
        blas->fast->conv_back(op);
    else
        blas->ref.conv_back(&blas->ref, op);
}

/* Computes float32 by vectors, and float64 by ref. */
#define FAST_IN_F32(name)                                                              \
    static void blas_##name(const struct num_backend *be, const struct num_##name *op) \
    {                                                                                  \
        const struct blas *blas = be->library;                                         \
        if (op->dtype == NUM_F32)                                                      \
            blas->fast->name(op);                                                      \
        else                                                                           \
            blas->ref.name(&blas->ref, op);                                            \
    }

FAST_IN_F32(bce)
FAST_IN_F32(adam)
FAST_IN_F32(norm)
FAST_IN_F32(norm_stats)
FAST_IN_F32(norm_back)

/* A variable that is set while the library is being loaded, unless the user has set it already. */
struct lent_env {
    const char *name, *value;
    bool is_ours;
};

static const char *core_type(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "Haswell";
#endif
    return NULL;
}

/*
 * The system's OpenBLAS, or the one that pip installs with muster-kge, whose names have a prefix.
 */
struct library {
    char *path;
    const char *prefix;
};

static struct library library_find(void)
{
    cleanup_free char *self = realpath("/proc/self/exe", NULL);
    cleanup_free char *folder = path_dirname(self ? self : "/");
    cleanup_free char *pattern = xasprintf(
        "%s/../lib/python3*/site-packages/scipy_openblas32/lib/libscipy_openblas.so", folder);
    struct library out = {.prefix = "scipy_"};
    glob_t found;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) == 0) {
        out.path = xstrdup(found.gl_pathv[0]);
        globfree(&found);
    }
    return out.path ? out : (struct library){xstrdup("libopenblas.so.0"), ""};
}

static void *symbol_find(const struct library *library, void *handle, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof(whole), "%s%s", library->prefix, name);
    return dlsym(handle, whole);
}

static void *library_load(const char *path)
{
    struct lent_env lent[] = {{.name = "OPENBLAS_CORETYPE", .value = core_type()},
                              {.name = "OPENBLAS_NUM_THREADS", .value = "1"}};
    for (size_t i = 0; i < countof(lent); i++)
        if (lent[i].value && !getenv(lent[i].name))
            lent[i].is_ours = setenv(lent[i].name, lent[i].value, 0) == 0;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < countof(lent); i++)
        if (lent[i].is_ours)
            unsetenv(lent[i].name);
    return handle;
}

/*
 * Makes OpenBLAS map the buffer of the first thread, while there is known to be room for it: where
 * the mapping fails, OpenBLAS tries again for ever. For the other threads, see thread_pool.c. A
 * product of smaller matrices would not use the buffer.
 */
static int buffer_make(const struct blas *blas, struct err *err)
{
    enum {
        SIDE = 128
    };
    void *room =
        mmap(NULL, BUFFER_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return fail(err, ERR_UNAVAILABLE,
                    "OpenBLAS wants %zu MiB of addresses, and the limit (ulimit -v) leaves less: "
                    "raise it, or compute with --backend ref",
                    BUFFER_BYTES >> 20);
    const size_t n = (size_t)SIDE * SIDE;
    float *numbers = xcalloc(3 * n, sizeof(*numbers));
    munmap(room, BUFFER_BYTES);
    blas->sgemm(CBLAS_ROW_MAJOR, CBLAS_NO_TRANS, CBLAS_NO_TRANS, SIDE, SIDE, SIDE, 1, numbers, SIDE,
                numbers + n, SIDE, 0, numbers + 2 * n, SIDE);
    free(numbers);
    return 0;
}

int num_open_blas(struct num_backend *be, struct err *err)
{
    struct library library = library_find();
    cleanup_free char *path = library.path;
    void *loaded = dlopen(path, RTLD_NOW | RTLD_NOLOAD); /* the library, if it was loaded when a
                                                          * backend was opened before */
    struct blas blas = {.handle = library_load(path), .fast = num_fast_choose()};
    if (!blas.handle)
        return fail(err, ERR_UNAVAILABLE,
                    "OpenBLAS is not here (%s); apt-get install libopenblas0-pthread", dlerror());
    void (*set_threads)(int) =
        (void (*)(int))symbol_find(&library, blas.handle, "openblas_set_num_threads");
    char *(*config)(void) =
        (char *(*)(void))symbol_find(&library, blas.handle, "openblas_get_config");
    blas.sgemm = (sgemm_fn *)symbol_find(&library, blas.handle, "cblas_sgemm");
    blas.dgemm = (dgemm_fn *)symbol_find(&library, blas.handle, "cblas_dgemm");
    if (!set_threads || !config || !blas.sgemm || !blas.dgemm) {
        dlclose(blas.handle);
        return fail(err, ERR_UNAVAILABLE,
                    "%s lacks cblas_sgemm, cblas_dgemm or openblas_set_num_threads", path);
    }
    set_threads(1);
    int rc = loaded ? 0 : buffer_make(&blas, err);
    if (rc != 0) {
        dlclose(blas.handle);
        return rc;
    }
    rc = num_open_ref(&blas.ref, err);
    *be = blas.ref;
    be->name = "blas";
    snprintf(be->description, sizeof(be->description), "%s", config());
    be->gemm = blas_gemm;
    be->conv = blas_conv;
    be->conv_back = blas_conv_back;
    be->bce = blas_bce;
    be->adam = blas_adam;
    be->norm = blas_norm;
    be->norm_stats = blas_norm_stats;
    be->norm_back = blas_norm_back;
    be->library = xmalloc(sizeof(blas));
    memcpy(be->library, &blas, sizeof(blas));
    return rc;
}
