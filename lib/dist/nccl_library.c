/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "library.h"

static const char *const function_names[] = {
    "ncclGetVersion",   "ncclGetUniqueId",    "ncclCommInitRankConfig", "ncclCommGetAsyncError",
    "ncclCommAbort",    "ncclGetErrorString", "ncclGetLastError",       "ncclRedOpCreatePreMulSum",
    "ncclRedOpDestroy", "ncclAllReduce",      "ncclBroadcast",          "ncclReduceScatter",
    "ncclAllGather",
};

_Static_assert(sizeof(function_names) / sizeof(*function_names) ==
                   sizeof(struct nccl_functions) / sizeof(void *),
               "a name for each function");

struct nccl_config md_nccl_config(void)
{
    return (struct nccl_config){.bytes = sizeof(struct nccl_config),
                                .magic = 0xcafebeef,
                                .version = NCCL_VERSION_LEAST,
                                .is_blocking = 0,
                                .cluster = NCCL_UNSET,
                                .blocks_min = NCCL_UNSET,
                                .blocks_max = NCCL_UNSET,
                                .shares_on_split = NCCL_UNSET};
}

/* The format of NCCL_VERSION in nccl.h, which had one digit for the second number up to 2.8. */
void md_nccl_version_format(int version, char *out, size_t cap)
{
    int major = version < 10000 ? 1000 : 10000;
    snprintf(out, cap, "%d.%d.%d", version / major, version % major / 100, version % 100);
}

static int version_check(struct muster_dist *dist, const struct nccl_functions *nccl, int *version)
{
    char text[40];
    *version = 0;
    if (nccl->GetVersion(version) == NCCL_OK && *version >= NCCL_VERSION_LEAST &&
        *version < NCCL_VERSION_END)
        return 0;
    md_nccl_version_format(*version, text, sizeof(text));
    return md_fail(dist, MUSTER_DIST_EENV,
                   "rank %u: NCCL is of version %s, and 2.18 and later ones before 3 are known: "
                   "name another library by MUSTER_DIST_NCCL, or take device values through the "
                   "host by MUSTER_DIST_BACKEND=shm (or mpi)",
                   dist->place.rank, text);
}

/*
 * The plain name finds a library that is loaded already, as by PyTorch; else ld.so's paths count.
 */
int md_nccl_load(struct muster_dist *dist, struct nccl_functions *out, int *version)
{
    static const char *const usual[] = {"libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2",
                                        "/usr/local/nccl/lib/libnccl.so.2"};
    const char *named = getenv("MUSTER_DIST_NCCL");
    bool is_named = named && *named != '\0';
    char why[200] = "";
    void *library = is_named ? dlopen(named, RTLD_NOW | RTLD_LOCAL) : NULL;
    for (size_t i = 0; !library && !is_named && i < sizeof(usual) / sizeof(*usual); i++) {
        library = dlopen(usual[i], RTLD_NOW | RTLD_LOCAL);
        if (!library && i == 0)
            snprintf(why, sizeof(why), "%s", dlerror());
    }
    if (!library)
        return md_fail(dist, MUSTER_DIST_EENV,
                       "rank %u: NCCL, which carries values in device memory, cannot be loaded "
                       "(%.160s): name its library by MUSTER_DIST_NCCL, or take device values "
                       "through the host by MUSTER_DIST_BACKEND=shm (or mpi)",
                       dist->place.rank, is_named ? dlerror() : why);
    int rc = md_library_find(dist, library, "NCCL", function_names,
                             sizeof(function_names) / sizeof(*function_names), out);
    return rc ? rc : version_check(dist, out, version);
}
