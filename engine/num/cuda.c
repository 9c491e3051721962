/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA module is loaded when the backend is opened: the program itself does not need CUDA.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/executable.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "num/backend_impl.h"
#include "num/cuda_module.h"

/*
 * Returns the path in MUSTER_KGE_CUDA, or the path beside the program; a new string. NULL: no
 * module is there.
 */
static char *module_find(void)
{
    const char *named = getenv("MUSTER_KGE_CUDA");
    if (named && *named)
        return xstrdup(named);
    cleanup_free char *self = realpath("/proc/self/exe", NULL);
    return self ? program_find_beside(self, CUDA_MODULE_FILE) : NULL;
}

int num_open_cuda(struct num_backend *be, struct err *err)
{
    cleanup_free char *path = module_find();
    char reason[256] = "";
    if (!path)
        return fail(err, ERR_UNAVAILABLE,
                    "" CUDA_MODULE_FILE " is not beside the program: build muster "
                    "where nvcc is, or compute with --backend blas");
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module)
        return fail(err, ERR_UNAVAILABLE,
                    "%s; install cuBLAS of the CUDA that muster was built with, or "
                    "compute with --backend blas",
                    dlerror());
    void *symbol = dlsym(module, CUDA_MODULE_OPEN);
    if (!symbol)
        return fail(err, ERR_UNAVAILABLE, "%s is no module of muster", path);
    cuda_module_open_fn *open_module = (cuda_module_open_fn *)symbol;
    if (open_module(be, CUDA_MODULE_VERSION, sizeof(*be), reason, sizeof(reason)) != 0)
        return fail(err, ERR_UNAVAILABLE, "%s", reason);
    return 0;
}
