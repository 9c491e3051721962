/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda_driver.h"

#include <dlfcn.h>
#include <stdlib.h>

#include "library.h"

/* The versions at the ends of names (_v2) are those of the headers of CUDA 11 to 13. */
static const char *const function_names[] = {
    "cuInit",
    "cuGetErrorString",
    "cuDeviceGet",
    "cuDeviceGetUuid_v2",
    "cuDevicePrimaryCtxRetain",
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent_v2",
    "cuPointerGetAttributes",
    "cuStreamCreate",
    "cuStreamDestroy_v2",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventDestroy_v2",
    "cuEventRecord",
    "cuEventQuery",
    "cuMemcpyAsync",
    "cuMemsetD8Async",
    "cuStreamSynchronize",
    "cuMemAlloc_v2",
    "cuMemFree_v2",
};

_Static_assert(sizeof(function_names) / sizeof(*function_names) ==
                   sizeof(struct cuda_functions) / sizeof(void *),
               "a name for each function");

int md_cuda_check(struct muster_dist *dist, const struct cuda_functions *cuda, int status,
                  const char *what)
{
    const char *words = NULL;
    if (status == CUDA_OK)
        return 0;
    if (cuda->GetErrorString(status, &words) != CUDA_OK || !words)
        words = "an error that it does not know";
    return md_fail(dist, MUSTER_DIST_EIO, "rank %u: CUDA cannot %s: %s (%d)", dist->place.rank,
                   what, words, status);
}

int md_cuda_load(struct muster_dist *dist, struct cuda_functions *out)
{
    const char *named = getenv("MUSTER_DIST_CUDA");
    const char *name = named && *named != '\0' ? named : "libcuda.so.1";
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return md_fail(dist, MUSTER_DIST_EENV,
                       "rank %u: CUDA's driver, which values in device memory need, cannot be "
                       "loaded (%s): it comes with the driver of the GPU",
                       dist->place.rank, dlerror());
    int rc = md_library_find(dist, library, name, function_names,
                             sizeof(function_names) / sizeof(*function_names), out);
    return rc ? rc : md_cuda_check(dist, out, out->Init(0), "begin");
}
