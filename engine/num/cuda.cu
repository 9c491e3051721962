/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module: cuBLAS for matrix products, the kernels of grid/ for the rest. Each thread of
 * the program has its own stream and, with it, its own handle of cuBLAS: the calls of a thread take
 * effect in order, and a product has the same bits each time (cuBLAS warrants that for a handle
 * with one stream). TF32 is never used.
 */
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "num/cuda_module.h"
#include "num/format.h"
#include "num/grid/grid.h"

enum {
    GRID_BLOCKS_MAX = 1 << 16,
    STAGE_BYTES = 1 << 20 /* memory of a thread for small uploads on their way */
};

/* The message of the first failure is kept. download and wait return it. */
struct cuda {
    pthread_mutex_t lock;
    char broken[200];
};

static void note(const struct num_backend *be, const char *what, const char *why)
{
    struct cuda *cuda = (struct cuda *)be->library;
    pthread_mutex_lock(&cuda->lock);
    if (!cuda->broken[0])
        snprintf(cuda->broken, sizeof(cuda->broken), "%s: %s", what, why);
    pthread_mutex_unlock(&cuda->lock);
}

static void check(const struct num_backend *be, cudaError_t rc, const char *what)
{
    if (rc != cudaSuccess)
        note(be, what, cudaGetErrorString(rc));
}

#define GRID_RUN(be, kernel, blocks, op)                                          \
    do {                                                                          \
        kernel<<<(unsigned)(blocks), GRID_THREADS, 0, cudaStreamPerThread>>>(op); \
        check(be, cudaGetLastError(), #kernel);                                   \
    } while (0)

#include "num/grid/launch.h"

/* ---- products ---- */

/* What each thread owns until it ends. */
struct thread_room {
    cublasHandle_t handle;
    void *workspace;
    size_t workspace_bytes;
    char *stage; /* pinned memory of the host */
    size_t staged_bytes;

    ~thread_room()
    {
        if (handle)
            cublasDestroy(handle);
        cudaFree(workspace);
        cudaFreeHost(stage);
    }
};

static thread_local struct thread_room room;

static cublasHandle_t handle_of(const struct num_backend *be)
{
    cublasStatus_t rc = CUBLAS_STATUS_SUCCESS;
    if (!room.handle) {
        rc = cublasCreate(&room.handle);
        if (rc == CUBLAS_STATUS_SUCCESS)
            rc = cublasSetStream(room.handle, cudaStreamPerThread);
        if (rc == CUBLAS_STATUS_SUCCESS)
            rc = cublasSetMathMode(room.handle, CUBLAS_DEFAULT_MATH);
    }
    if (rc != CUBLAS_STATUS_SUCCESS)
        note(be, "cublasCreate", cublasGetStatusString(rc));
    return room.handle;
}

static cublasOperation_t transposed(bool trans)
{
    return trans ? CUBLAS_OP_T : CUBLAS_OP_N;
}

static bool sizes_fit(const struct num_backend *be, const struct num_gemm *op)
{
    const size_t sizes[] = {op->m, op->n, op->k, op->lda, op->ldb, op->ldc};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i] > INT_MAX) {
            note(be, "product", "a size is above 2^31: give it less --memory");
            return false;
        }
    return true;
}

static void platform_gemm(const struct num_backend *be, const struct num_gemm *op)
{
    cublasHandle_t handle = handle_of(be);
    cublasOperation_t trans_a = transposed(op->trans_a), trans_b = transposed(op->trans_b);
    int m = (int)op->m, n = (int)op->n, k = (int)op->k;
    int lda = (int)op->lda, ldb = (int)op->ldb, ldc = (int)op->ldc;
    float alpha = (float)op->alpha, beta = (float)op->beta;
    if (!handle || !sizes_fit(be, op))
        return;
    cublasStatus_t rc =
        op->dtype == NUM_F64
            ? cublasDgemm(handle, trans_a, trans_b, m, n, k, &op->alpha, (const double *)op->a, lda,
                          (const double *)op->b, ldb, &op->beta, (double *)op->c, ldc)
            : cublasSgemm(handle, trans_a, trans_b, m, n, k, &alpha, (const float *)op->a, lda,
                          (const float *)op->b, ldb, &beta, (float *)op->c, ldc);
    if (rc != CUBLAS_STATUS_SUCCESS)
        note(be, "product", cublasGetStatusString(rc));
}

static void platform_gemm_half(const struct num_backend *be, const struct num_gemm *op)
{
    cublasHandle_t handle = handle_of(be);
    cudaDataType type = op->format == NUM_BF16 ? CUDA_R_16BF : CUDA_R_16F;
    float alpha = (float)op->alpha, beta = (float)op->beta;
    if (!handle || !sizes_fit(be, op))
        return;
    cublasStatus_t rc = cublasGemmEx(
        handle, transposed(op->trans_a), transposed(op->trans_b), (int)op->m, (int)op->n,
        (int)op->k, &alpha, op->a, type, (int)op->lda, op->b, type, (int)op->ldb, &beta, op->c,
        CUDA_R_32F, (int)op->ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (rc != CUBLAS_STATUS_SUCCESS)
        note(be, "product in 16 bits", cublasGetStatusString(rc));
}

static void *platform_workspace(const struct num_backend *be, size_t bytes)
{
    (void)be;
    if (bytes <= room.workspace_bytes)
        return room.workspace;
    cudaFree(room.workspace); /* this waits for the kernels that use the workspace */
    room.workspace = NULL;
    room.workspace_bytes = 0;
    if (cudaMalloc(&room.workspace, bytes) != cudaSuccess) {
        cudaGetLastError();
        return room.workspace = NULL;
    }
    room.workspace_bytes = bytes;
    return room.workspace;
}

static void platform_failed(const struct num_backend *be, const char *what, const char *why)
{
    note(be, what, why);
}

/* ---- memory ---- */

static int err_set(struct err *err, int code, const char *what, const char *why)
{
    if (err) {
        err->code = code;
        err->sys = 0;
        snprintf(err->text, sizeof(err->text), "%s: %s", what, why);
    }
    return code;
}

static void stream_wait(const struct num_backend *be)
{
    check(be, cudaStreamSynchronize(cudaStreamPerThread), "waiting for the GPU");
    room.staged_bytes = 0;
}

static int cuda_wait(const struct num_backend *be, struct err *err)
{
    struct cuda *cuda = (struct cuda *)be->library;
    stream_wait(be);
    pthread_mutex_lock(&cuda->lock);
    int rc = cuda->broken[0] ? err_set(err, ERR_FAILED, "backend cuda", cuda->broken) : 0;
    pthread_mutex_unlock(&cuda->lock);
    return rc;
}

static int cuda_allocate(const struct num_backend *be, size_t bytes, void **out, struct err *err)
{
    cudaError_t rc = cudaMalloc(out, bytes ? bytes : 1);
    if (rc == cudaSuccess)
        return 0;
    *out = NULL;
    cudaGetLastError(); /* the error is cleared, because the caller is told and may go on with
                         * less */
    if (rc != cudaErrorMemoryAllocation)
        check(be, rc, "memory of the GPU");
    char what[64];
    snprintf(what, sizeof(what), "the GPU has no %zu MiB left", (bytes >> 20) + 1);
    return err_set(err, ERR_UNAVAILABLE, what, cudaGetErrorString(rc));
}

static void cuda_release(const struct num_backend *be, void *at)
{
    check(be, cudaFree(at), "memory of the GPU");
}

static uint64_t cuda_memory_free(const struct num_backend *be)
{
    size_t n_free = 0, n_all = 0;
    check(be, cudaMemGetInfo(&n_free, &n_all), "memory of the GPU");
    return n_free;
}

static void transfer(const struct num_backend *be, void *to, const void *from, size_t bytes,
                     cudaMemcpyKind kind)
{
    if (bytes > 0)
        check(be, cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread), "copying");
}

/*
 * Returns room for some bytes on their way. It is not used again before the stream was waited for.
 */
static char *stage_of(const struct num_backend *be, size_t bytes)
{
    if (!room.stage && cudaMallocHost((void **)&room.stage, STAGE_BYTES) != cudaSuccess) {
        cudaGetLastError();
        return room.stage = NULL;
    }
    if (room.staged_bytes + bytes > STAGE_BYTES)
        stream_wait(be);
    char *at = room.stage + room.staged_bytes;
    room.staged_bytes += aligned(bytes);
    return at;
}

/* A small upload is copied first, so that nothing waits for the stream. */
static void cuda_upload(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    char *staged = bytes <= STAGE_BYTES ? stage_of(be, bytes) : NULL;
    if (staged)
        memcpy(staged, from, bytes);
    transfer(be, to, staged ? staged : from, bytes, cudaMemcpyHostToDevice);
    if (!staged)
        stream_wait(be);
}

static void cuda_copy(const struct num_backend *be, void *to, const void *from, size_t bytes)
{
    transfer(be, to, from, bytes, cudaMemcpyDeviceToDevice);
}

static void cuda_fill_zero(const struct num_backend *be, void *at, size_t bytes)
{
    if (bytes > 0)
        check(be, cudaMemsetAsync(at, 0, bytes, cudaStreamPerThread), "filling");
}

static int cuda_download(const struct num_backend *be, void *to, const void *from, size_t bytes,
                         struct err *err)
{
    transfer(be, to, from, bytes, cudaMemcpyDeviceToHost);
    return cuda_wait(be, err);
}

/* ---- opening ---- */

static int refuse(char *reason, size_t reason_bytes, const char *text, const char *detail)
{
    snprintf(reason, reason_bytes, text, detail);
    return -1;
}

static int device_describe(struct num_backend *be, char *reason, size_t reason_bytes)
{
    struct cudaDeviceProp about;
    int n_devices = 0, runtime = 0, driver = 0;
    cudaError_t rc = cudaGetDeviceCount(&n_devices);
    if (rc != cudaSuccess || n_devices == 0)
        return refuse(reason, reason_bytes,
                      "there is no NVIDIA GPU that can be used (%s): `muster gpus` lists what "
                      "is here, and --backend blas computes without one",
                      rc == cudaSuccess ? "none is visible" : cudaGetErrorString(rc));
    if ((rc = cudaFree(0)) != cudaSuccess ||
        (rc = cudaGetDeviceProperties(&about, 0)) != cudaSuccess)
        return refuse(reason, reason_bytes, "the GPU cannot be opened: %s", cudaGetErrorString(rc));
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    snprintf(be->description, sizeof(be->description), "%.40s, CUDA %d.%d, driver's %d.%d",
             about.name, runtime / 1000, runtime % 1000 / 10, driver / 1000, driver % 1000 / 10);
    return 0;
}

extern "C" __attribute__((visibility("default"))) int
muster_kge_cuda_open(struct num_backend *be, unsigned version, size_t table_bytes, char *reason,
                     size_t reason_bytes)
{
    if (version != CUDA_MODULE_VERSION || table_bytes != sizeof(*be))
        return refuse(reason, reason_bytes,
                      CUDA_MODULE_FILE " is of another muster%s: build both "
                                       "together",
                      "");
    memset(be, 0, sizeof(*be));
    if (device_describe(be, reason, reason_bytes) != 0)
        return -1;
    struct cuda *cuda = (struct cuda *)calloc(1, sizeof(*cuda));
    if (!cuda)
        return refuse(reason, reason_bytes, "there is no memory left%s", "");
    pthread_mutex_init(&cuda->lock, NULL);
    be->name = "cuda";
    be->library = cuda;
    be->is_device = true;
    be->allocate = cuda_allocate;
    be->release = cuda_release;
    be->memory_free = cuda_memory_free;
    be->upload = cuda_upload;
    be->copy = cuda_copy;
    be->fill_zero = cuda_fill_zero;
    be->download = cuda_download;
    be->wait = cuda_wait;
    grid_operations(be);
    if (handle_of(be))
        return 0;
    refuse(reason, reason_bytes, "%s", cuda->broken);
    free(cuda);
    be->library = NULL;
    return -1;
}
