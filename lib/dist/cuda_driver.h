/* SPDX-License-Identifier: Apache-2.0
 *
 * CUDA's driver, libcuda.so.1, loaded when it is needed. The prototypes are those of its stable binary
 * interface (CUDA driver API, versions 11 to 13), so no header of CUDA's is needed.
 */
#pragma once

#include "inside.h"

typedef uint64_t cuda_address; /* of device memory; the same number as the pointer */
typedef void *cuda_context, *cuda_stream, *cuda_event;

enum {
    CUDA_OK = 0,
    CUDA_NOT_READY = 600,
    CUDA_OF_CONTEXT = 1, /* attributes of a pointer */
    CUDA_OF_MEMORY_TYPE = 2,
    CUDA_OF_ORDINAL = 9,
    CUDA_DEVICE_MEMORY = 2,   /* a memory type; those of the host are 0 and 1 */
    CUDA_STREAM_DETACHED = 1, /* does not wait for the default stream */
    CUDA_EVENT_UNTIMED = 2
};

struct cuda_uuid {
    unsigned char bytes[16];
};

/* Each returns CUDA_OK or another status. */
struct cuda_functions {
    int (*Init)(unsigned flags);
    int (*GetErrorString)(int status, const char **text);
    int (*DeviceGet)(int *device, int ordinal);
    int (*DeviceGetUuid)(struct cuda_uuid *uuid, int device);
    int (*DevicePrimaryCtxRetain)(cuda_context *context, int device);
    int (*DevicePrimaryCtxRelease)(int device);
    int (*CtxPushCurrent)(cuda_context context);
    int (*CtxPopCurrent)(cuda_context *context);
    int (*PointerGetAttributes)(unsigned n, int *attributes, void **values, cuda_address at);
    int (*StreamCreate)(cuda_stream *stream, unsigned flags);
    int (*StreamDestroy)(cuda_stream stream);
    int (*StreamWaitEvent)(cuda_stream stream, cuda_event event, unsigned flags);
    int (*EventCreate)(cuda_event *event, unsigned flags);
    int (*EventDestroy)(cuda_event event);
    int (*EventRecord)(cuda_event event, cuda_stream stream);
    int (*EventQuery)(cuda_event event);
    int (*MemcpyAsync)(cuda_address to, cuda_address from, size_t bytes, cuda_stream stream);
    int (*MemsetAsync)(cuda_address at, unsigned char byte, size_t bytes, cuda_stream stream);
    int (*StreamSynchronize)(cuda_stream stream);
    int (*MemAlloc)(cuda_address *at, size_t bytes);
    int (*MemFree)(cuda_address at);
};

/* Loads the driver, which stays loaded. 0, or MUSTER_DIST_EENV: there is no driver, or no device. */
int md_cuda_load(struct muster_dist *dist, struct cuda_functions *out);
/* 0 if status is CUDA_OK, else MUSTER_DIST_EIO with the driver's words: "rank 0: CUDA cannot `what`: …". */
int md_cuda_check(struct muster_dist *dist, const struct cuda_functions *cuda, int status,
                  const char *what);
