/* SPDX-License-Identifier: Apache-2.0
 *
 * NCCL, libnccl.so.2, loaded when it is needed. The prototypes are those of the binary interface that
 * its second major version keeps (facts from nccl.h of 2.18 to 2.30), so no header of NCCL's is needed.
 */
#pragma once

#include "cuda_driver.h"

typedef void *nccl_comm;

enum {
    NCCL_OK = 0,
    NCCL_INVALID_USAGE = 5,
    NCCL_IN_PROGRESS = 7,
    NCCL_SUM = 0, /* reductions */
    NCCL_MAX = 2,
    NCCL_MIN = 3,
    NCCL_MEAN = 4,
    NCCL_INT8 = 0, /* types */
    NCCL_UINT8 = 1,
    NCCL_INT32 = 2,
    NCCL_INT64 = 4,
    NCCL_FLOAT16 = 6,
    NCCL_FLOAT32 = 7,
    NCCL_FLOAT64 = 8,
    NCCL_BFLOAT16 = 9,
    NCCL_SCALAR_OF_HOST = 1,
    NCCL_UNSET = INT32_MIN, /* NCCL chooses this number of the configuration */
    NCCL_VERSION_LEAST = 21800,
    NCCL_VERSION_END = 30000
};

struct nccl_id {
    char bytes[128];
};

/* The struct of 2.18. Later versions have more members; `bytes` tells them to use defaults for these. */
struct nccl_config {
    size_t bytes;
    unsigned magic, version;
    int is_blocking, cluster, blocks_min, blocks_max;
    const char *network;
    int shares_on_split;
};

/* Each that returns int: NCCL_OK, NCCL_IN_PROGRESS where the communicator does not block, or an error. */
struct nccl_functions {
    int (*GetVersion)(int *version);
    int (*GetUniqueId)(struct nccl_id *id);
    int (*CommInitRankConfig)(nccl_comm *comm, int size, struct nccl_id id, int rank,
                              struct nccl_config *config);
    int (*CommGetAsyncError)(nccl_comm comm, int *error);
    int (*CommAbort)(nccl_comm comm);
    const char *(*GetErrorString)(int error);
    const char *(*GetLastError)(nccl_comm comm);
    /* Makes a sum in which this rank's values are first multiplied by a scalar of their type. */
    int (*RedOpCreatePreMulSum)(int *op, void *scalar, int type, int residence, nccl_comm comm);
    int (*RedOpDestroy)(int op, nccl_comm comm);
    int (*AllReduce)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                     cuda_stream stream);
    int (*Broadcast)(const void *in, void *out, size_t count, int type, int root, nccl_comm comm,
                     cuda_stream stream);
    int (*ReduceScatter)(const void *in, void *out, size_t count, int type, int op, nccl_comm comm,
                         cuda_stream stream);
    int (*AllGather)(const void *in, void *out, size_t count, int type, nccl_comm comm,
                     cuda_stream stream);
};

/* The configuration of a communicator whose calls return before they are done. */
struct nccl_config md_nccl_config(void);
/* Loads NCCL, which stays loaded. 0, or MUSTER_DIST_EENV: there is none, or an unknown version. */
int md_nccl_load(struct muster_dist *dist, struct nccl_functions *out, int *version);
/* "2.27.3" */
void md_nccl_version_format(int version, char *out, size_t cap);
