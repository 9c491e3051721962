/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    TICK_NS = 100000000, /* between looks at the other ranks */
    YIELD_NS = 1000000,  /* how long to yield the CPU before sleeping */
    NAP_NS = 50000,
    ABORT_NS = 2000000000 /* for kernels to leave the caller's memory after an error */
};

int md_device_check(struct muster_dist *dist, int status, const char *what)
{
    return md_cuda_check(dist, &dist->device->cuda, status, what);
}

int md_device_enter(struct muster_dist *dist)
{
    struct md_device *device = dist->device;
    return md_device_check(dist, device->cuda.CtxPushCurrent(device->context), "use the device");
}

void md_device_leave(struct muster_dist *dist)
{
    cuda_context context;
    dist->device->cuda.CtxPopCurrent(&context);
}

/* ---- where values are ---- */

struct where {
    bool is_device;
    int ordinal;
    cuda_context context; /* NULL: that of the device */
};

/*
 * Host memory that the driver does not know is an invalid value for the driver, but no error here.
 */
static int where_find(struct muster_dist *dist, const void *at, struct where *out)
{
    unsigned type = 0;
    int attributes[] = {CUDA_OF_MEMORY_TYPE, CUDA_OF_ORDINAL, CUDA_OF_CONTEXT};
    void *values[] = {&type, &out->ordinal, &out->context};
    *out = (struct where){0};
    int status = dist->device->cuda.PointerGetAttributes(3, attributes, values, (uintptr_t)at);
    out->is_device = type == CUDA_DEVICE_MEMORY;
    return md_device_check(dist, status, "tell where an address is");
}

static int device_begin(struct muster_dist *dist, int ordinal)
{
    struct md_device *device = dist->device;
    const struct cuda_functions *cuda = &device->cuda;
    int rc = md_device_check(dist, cuda->DeviceGet(&device->device, ordinal), "find the device");
    if (rc == 0)
        rc = md_device_check(dist, cuda->DevicePrimaryCtxRetain(&device->context, device->device),
                             "use the device");
    if (rc != 0)
        return rc;
    device->ordinal = ordinal;
    device->is_chosen = true;
    rc = md_device_enter(dist);
    if (rc != 0)
        return rc;
    rc = md_device_check(dist, cuda->StreamCreate(&device->stream, CUDA_STREAM_DETACHED),
                         "make a stream");
    if (rc == 0)
        rc = md_device_check(dist, cuda->EventCreate(&device->done, CUDA_EVENT_UNTIMED),
                             "make an event");
    md_device_leave(dist);
    return rc;
}

/* The first values choose the rank's device, since NCCL has one device for each rank. */
static int device_choose(struct muster_dist *dist, const struct where *where)
{
    struct md_device *device = dist->device;
    int rc = 0;
    pthread_mutex_lock(&device->lock);
    if (!device->is_chosen)
        rc = device_begin(dist, where->ordinal);
    pthread_mutex_unlock(&device->lock);
    if (rc == 0 && device->ordinal != where->ordinal)
        rc = md_fail(dist, MUSTER_DIST_EUSE,
                     "rank %u: values on device %d, and those before were on device %d: a rank has "
                     "one device",
                     dist->place.rank, where->ordinal, device->ordinal);
    if (rc == 0 && where->context && where->context != device->context)
        rc = md_fail(dist, MUSTER_DIST_EUSE,
                     "rank %u: values in a context of their own: those of the primary context of "
                     "device %d can be used (cudaMalloc, cuDevicePrimaryCtxRetain)",
                     dist->place.rank, device->ordinal);
    return rc;
}

/* Records the event after all work that the caller has put on its stream so far. */
static int ready_mark(struct muster_dist *dist, struct md_call *call)
{
    struct md_device *device = dist->device;
    const struct cuda_functions *cuda = &device->cuda;
    int rc = md_device_enter(dist);
    if (rc != 0)
        return rc;
    rc =
        md_device_check(dist, cuda->EventCreate(&call->ready, CUDA_EVENT_UNTIMED), "make an event");
    if (rc == 0)
        rc = md_device_check(dist, cuda->EventRecord(call->ready, device->stream_of_caller),
                             "mark the stream");
    md_device_leave(dist);
    if (rc != 0 && call->ready)
        md_device_forget(dist, call->ready);
    return rc;
}

int md_device_find(struct muster_dist *dist, const void *at, bool *is_device)
{
    struct where where = {0};
    int rc = dist->device && at ? where_find(dist, at, &where) : 0;
    *is_device = where.is_device;
    return rc == 0 && where.is_device ? device_choose(dist, &where) : rc;
}

int md_device_place(struct muster_dist *dist, struct md_call *call)
{
    struct where in, out;
    if (call->what.kind == MUSTER_BARRIER || call->what.count == 0)
        return 0;
    int rc = where_find(dist, call->what.in, &in);
    rc = rc ? rc : where_find(dist, call->what.out, &out);
    if (rc != 0 || (!in.is_device && !out.is_device))
        return rc;
    if (in.is_device != out.is_device || in.ordinal != out.ordinal)
        return md_fail(dist, MUSTER_DIST_EUSE,
                       "rank %u: %s: in and out are not in the same memory: both in that of the "
                       "host, or of one device",
                       dist->place.rank, md_collective_name(call->what.kind));
    rc = device_choose(dist, &in);
    rc = rc ? rc : device_choose(dist, &out);
    rc = rc ? rc : ready_mark(dist, call);
    call->memory = MD_DEVICE;
    return rc;
}

void md_device_forget(struct muster_dist *dist, void *ready)
{
    dist->device->cuda.EventDestroy(ready);
}

/* ---- waiting ---- */

int md_device_done_look(struct muster_dist *dist)
{
    struct md_device *device = dist->device;
    int status = device->cuda.EventQuery(device->done);
    return status == CUDA_NOT_READY ? 0
           : status == CUDA_OK      ? 1
                                    : md_device_check(dist, status, "go on");
}

static void look_pause(uint64_t waited_ns)
{
    if (waited_ns < YIELD_NS)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/*
 * Called when the time is over. A rank whose own kernels do not end says so a little before the
 * others call it late.
 */
static int late_look(struct muster_dist *dist, const struct md_call *call, const char *what)
{
    const struct md_device *device = dist->device;
    uint64_t now_ns = md_now_ns(), early_ns = dist->timeout_ms * 1000000 / 10;
    double limit_s = (double)dist->timeout_ms / 1e3;
    char name[160];
    if (now_ns + early_ns < device->deadline_ns)
        return 0;
    md_call_format(call, name, sizeof(name));
    if (device->cuda.EventQuery(call->ready) == CUDA_NOT_READY)
        return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                       "rank %u: what its stream has before %s did not end within %.1f s",
                       dist->place.rank, name, limit_s);
    if (now_ns < device->deadline_ns)
        return 0;
    return md_fail(dist, MUSTER_DIST_ETIMEOUT,
                   "rank %u: %s for %s did not end within %.1f s, though all ranks have come to it",
                   dist->place.rank, what, name, limit_s);
}

int md_device_wait(struct muster_dist *dist, const struct md_call *call, md_device_look *look,
                   const char *what)
{
    uint64_t begin_ns = md_now_ns(), looked_ns = begin_ns;
    int rc;
    while ((rc = look(dist)) == 0) {
        uint64_t now_ns = md_now_ns();
        if (now_ns - looked_ns > TICK_NS) {
            rc = dist->backend->look ? dist->backend->look(dist, call) : 0;
            rc = rc ? rc : atomic_load(&dist->code); /* another thread: muster_dist_fail */
            if (rc != 0)
                return rc;
            looked_ns = now_ns;
        }
        rc = late_look(dist, call, what);
        if (rc != 0)
            return rc;
        look_pause(now_ns - begin_ns);
    }
    return rc < 0 ? rc : 0;
}

/*
 * Called after an error: waits until the device does not use the caller's memory any more, but not
 * for ever.
 */
static void stream_calm(struct muster_dist *dist)
{
    const struct md_device *device = dist->device;
    uint64_t end_ns = md_now_ns() + ABORT_NS;
    if (device->cuda.EventRecord(device->done, device->stream) != CUDA_OK)
        return;
    while (device->cuda.EventQuery(device->done) == CUDA_NOT_READY && md_now_ns() < end_ns)
        nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
}

/* ---- through the host ---- */

static int host_have(struct muster_dist *dist, int which, size_t bytes)
{
    struct md_device *device = dist->device;
    if (device->host_bytes[which] >= bytes)
        return 0;
    free(device->host[which]);
    device->host_bytes[which] = 0;
    device->host[which] = malloc(bytes);
    if (!device->host[which])
        return md_fail(dist, MUSTER_DIST_ENOMEM,
                       "rank %u: no memory for %zu bytes of a device on their way through the host",
                       dist->place.rank, bytes);
    device->host_bytes[which] = bytes;
    return 0;
}

/* Copies on muster's own stream, and waits. */
static int copy(struct muster_dist *dist, const struct md_call *call, uintptr_t to, uintptr_t from,
                size_t bytes)
{
    struct md_device *device = dist->device;
    int rc =
        md_device_check(dist, device->cuda.MemcpyAsync(to, from, bytes, device->stream), "copy");
    if (rc == 0)
        rc = md_device_check(dist, device->cuda.EventRecord(device->done, device->stream), "copy");
    return rc ? rc : md_device_wait(dist, call, md_device_done_look, "a copy");
}

static int staged_run(struct muster_dist *dist, const struct md_call *call)
{
    struct md_device *device = dist->device;
    size_t in_bytes = md_in_bytes(dist, &call->what), out_bytes = md_out_bytes(dist, &call->what);
    struct md_call host = *call;
    int rc = host_have(dist, 0, in_bytes);
    rc = rc ? rc : host_have(dist, 1, out_bytes);
    rc = rc ? rc : copy(dist, call, (uintptr_t)device->host[0], (uintptr_t)call->what.in, in_bytes);
    if (rc != 0)
        return rc;
    host.memory = MD_HOST;
    host.what.in = device->host[0];
    host.what.out = device->host[1];
    rc = dist->backend->run(dist, &host);
    return rc ? rc
              : copy(dist, call, (uintptr_t)call->what.out, (uintptr_t)device->host[1], out_bytes);
}

/* ---- by NCCL ---- */

static int staging_have(struct muster_dist *dist, size_t bytes)
{
    struct md_device *device = dist->device;
    if (device->staging_bytes >= bytes)
        return 0;
    if (device->staging)
        device->cuda.MemFree(device->staging);
    device->staging = 0;
    device->staging_bytes = 0;
    int rc = md_device_check(dist, device->cuda.MemAlloc(&device->staging, bytes), "give memory");
    device->staging_bytes = rc == 0 ? bytes : 0;
    return rc;
}

/* NCCL can scatter in place only to a rank's own part. */
static int nccl_run(struct muster_dist *dist, const struct md_call *call)
{
    size_t bytes = md_out_bytes(dist, &call->what);
    struct md_call staged = *call;
    if (!md_scatters_to_beginning(dist, &call->what))
        return md_nccl_run(dist, call);
    int rc = staging_have(dist, bytes);
    if (rc != 0)
        return rc;
    staged.what.out = (void *)(uintptr_t)dist->device->staging;
    rc = md_nccl_run(dist, &staged);
    return rc ? rc : copy(dist, call, (uintptr_t)call->what.out, (uintptr_t)staged.what.out, bytes);
}

/* ---- the choice ---- */

/*
 * True if all weights are below the smallest normal float16, 2^-14, as 1 / samples is for sums over more than 16384
 * samples. NCCL takes a weight in the type of the values, in which these would have few bits, or be 0. The result is
 * the same on all ranks, because each rank has the weights of all.
 */
static bool has_weights_below_float16(const struct muster_dist *dist, const struct md_call *call)
{
    double most = 0;
    if (!call->weights || call->what.type != MUSTER_FLOAT16)
        return false;
    for (uint32_t r = 0; r < dist->place.size; r++)
        most = call->weights[r] > most ? call->weights[r] : most;
    return most < 0x1p-14;
}

/* NCCL's sums of integers wrap around before the division, so their means are computed on the host. */
static bool is_of_nccl(const struct muster_dist *dist, const struct md_call *call)
{
    const struct muster_dist_call *what = &call->what;
    bool is_reduced = what->kind == MUSTER_ALL_REDUCE || what->kind == MUSTER_REDUCE_SCATTER;
    bool is_integer = what->type >= MUSTER_INT32;
    return dist->device->transport == MD_BY_NCCL &&
           !(is_reduced && is_integer && what->op == MUSTER_MEAN) &&
           !has_weights_below_float16(dist, call);
}

/* In a world of one, every operation without weights is a copy. */
static int values_move(struct muster_dist *dist, const struct md_call *call)
{
    const struct muster_dist_call *what = &call->what;
    if (is_of_nccl(dist, call))
        return nccl_run(dist, call);
    if (dist->place.size > 1 || call->weights)
        return staged_run(dist, call);
    return what->in == what->out ? 0
                                 : copy(dist, call, (uintptr_t)what->out, (uintptr_t)what->in,
                                        md_out_bytes(dist, what));
}

int md_device_run(struct muster_dist *dist, const struct md_call *call)
{
    struct md_device *device = dist->device;
    struct md_call end = *call;
    int rc = md_device_enter(dist);
    if (rc != 0)
        return rc;
    end.memory = MD_DEVICE_END;
    device->deadline_ns = md_now_ns() + dist->timeout_ms * 1000000;
    rc = dist->backend->run(dist, call);
    if (rc == 0)
        rc = md_device_check(dist, device->cuda.StreamWaitEvent(device->stream, call->ready, 0),
                             "wait for the stream");
    rc = rc ? rc : values_move(dist, call);
    rc = rc ? rc : dist->backend->run(dist, &end);
    if (rc != 0) {
        md_nccl_end(dist);
        stream_calm(dist);
    }
    md_device_leave(dist);
    return rc;
}

/* ---- begin and end ---- */

int md_device_open(struct muster_dist *dist, enum md_device_transport transport, void *stream)
{
    struct md_device *device = calloc(1, sizeof(*device));
    if (!device)
        return md_fail(dist, MUSTER_DIST_ENOMEM, "rank %u: no memory", dist->place.rank);
    pthread_mutex_init(&device->lock, NULL);
    device->transport = transport;
    device->stream_of_caller = stream;
    int rc = md_cuda_load(dist, &device->cuda);
    if (rc == 0) {
        dist->device = device;
        return 0;
    }
    pthread_mutex_destroy(&device->lock);
    free(device);
    return rc;
}

/* A forked process must not touch the device, which belongs to the rank. */
void md_device_close(struct muster_dist *dist)
{
    struct md_device *device = dist->device;
    if (!device)
        return;
    if (md_is_ours(dist) && device->is_chosen &&
        device->cuda.CtxPushCurrent(device->context) == CUDA_OK) {
        md_nccl_end(dist);
        /*
         * MemFree waits for the device, where a kernel of the caller's may never end after an
         * error.
         */
        if (device->staging && atomic_load(&dist->code) == 0)
            device->cuda.MemFree(device->staging);
        if (device->done)
            device->cuda.EventDestroy(device->done);
        if (device->stream)
            device->cuda.StreamDestroy(device->stream);
        md_device_leave(dist);
        device->cuda.DevicePrimaryCtxRelease(device->device);
    }
    if (md_is_ours(dist))
        pthread_mutex_destroy(&device->lock);
    free(device->host[0]);
    free(device->host[1]);
    free(device);
    dist->device = NULL;
}
