/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

static cuda_address address_of(const void *at)
{
    return (uintptr_t)at;
}

/* The memory is zeroed on the caller's stream, and so before all later work there. */
void *md_device_memory_new(struct muster_dist *dist, size_t bytes)
{
    cuda_address at = 0;
    int rc = md_device_enter(dist);
    if (rc != 0)
        return NULL;
    rc = md_device_check(dist, dist->device->cuda.MemAlloc(&at, bytes), "give memory");
    md_device_leave(dist);
    void *memory = (void *)(uintptr_t)at;
    if (rc != 0 || md_device_put(dist, memory, NULL, bytes) == 0)
        return memory;
    md_device_memory_free(dist, memory);
    return NULL;
}

void md_device_memory_free(struct muster_dist *dist, void *at)
{
    if (!at || !md_is_ours(dist) || dist->device->cuda.CtxPushCurrent(dist->device->context))
        return;
    dist->device->cuda.MemFree(address_of(at));
    md_device_leave(dist);
}

int md_device_put(struct muster_dist *dist, void *to, const void *from, size_t bytes)
{
    const struct md_device *device = dist->device;
    cuda_stream stream = device->stream_of_caller;
    int rc = md_device_enter(dist);
    if (rc != 0)
        return rc;
    int status = from ? device->cuda.MemcpyAsync(address_of(to), address_of(from), bytes, stream)
                      : device->cuda.MemsetAsync(address_of(to), 0, bytes, stream);
    md_device_leave(dist);
    return md_device_check(dist, status, "copy");
}

int md_device_copy(struct muster_dist *dist, void *to, const void *from, size_t bytes)
{
    const struct md_device *device = dist->device;
    int rc = md_device_put(dist, to, from, bytes);
    rc = rc ? rc : md_device_enter(dist);
    if (rc != 0)
        return rc;
    rc = md_device_check(dist, device->cuda.StreamSynchronize(device->stream_of_caller), "copy");
    md_device_leave(dist);
    return rc;
}
