/* SPDX-License-Identifier: Apache-2.0
 *
 * Values in the memory of an NVIDIA GPU. The driver tells by the addresses whether an operation has such values. The
 * ranks meet for it over their backend, as for any other; then NCCL moves the values (nccl.c), or they are copied to
 * the host and back; then the ranks meet again, so that an operation has ended on all ranks or on none.
 *
 * The calling thread's part is md_device_place: an event on the caller's stream, for which the
 * operation waits on a stream of its own, whichever thread does it later.
 */
#pragma once

#include "cuda_driver.h"

/* How values in device memory get to the other ranks. */
enum md_device_transport {
    MD_BY_SIZE, /* by NCCL, if the world has other ranks */
    MD_BY_HOST,
    MD_BY_NCCL
};

struct md_nccl; /* nccl.c */

struct md_device {
    struct cuda_functions cuda;
    enum md_device_transport transport;
    cuda_stream stream_of_caller;
    pthread_mutex_t lock; /* for the choice of the device, at its first operation */
    bool is_chosen;
    int ordinal, device;
    cuda_context context; /* the device's primary context, which NCCL uses as well */
    /* For the thread that does the operations: */
    cuda_stream stream;
    cuda_event done;
    uint64_t deadline_ns;
    struct md_nccl *nccl; /* NULL: no communicator yet */
    char *host[2];        /* in and out, on their way through the host */
    size_t host_bytes[2];
    cuda_address staging; /* device memory for a result that NCCL cannot write to its place */
    size_t staging_bytes;
};

int md_device_open(struct muster_dist *dist, enum md_device_transport transport, void *stream);
void md_device_close(struct muster_dist *dist);
/*
 * Find where the values are. If they are in device memory, record an event on the caller's stream, for when they are
 * ready.
 */
int md_device_place(struct muster_dist *dist, struct md_call *call);
void md_device_forget(struct muster_dist *dist, void *ready);
/* The whole operation: meet, move, meet. */
int md_device_run(struct muster_dist *dist, const struct md_call *call);

/* A condition to wait for: 1: it holds, 0: not yet, negative: an error. */
typedef int md_device_look(struct muster_dist *dist);
/*
 * Wait, and look at the other ranks meanwhile. 0, or the error: one that a rank has told, a rank that is gone, or a
 * timeout, in which case `what` did not end.
 */
int md_device_wait(struct muster_dist *dist, const struct md_call *call, md_device_look *look,
                   const char *what);
/* Is all work that was put on the stream before the event `done` complete? */
int md_device_done_look(struct muster_dist *dist);

/* Make the device's context this thread's, until it is left again. */
int md_device_enter(struct muster_dist *dist);
void md_device_leave(struct muster_dist *dist);
int md_device_check(struct muster_dist *dist, int status, const char *what);
/* Is the address in device memory? Memory of another device, or context, is an error. */
int md_device_find(struct muster_dist *dist, const void *at, bool *is_device);

/* ---- device_memory.c ---- */

void *md_device_memory_new(struct muster_dist *dist, size_t bytes);
void md_device_memory_free(struct muster_dist *dist, void *at);
/* Copy on the caller's stream, between any memory; returns at once. from NULL: zeros, into device memory. */
int md_device_put(struct muster_dist *dist, void *to, const void *from, size_t bytes);
/* The same, and wait for it. */
int md_device_copy(struct muster_dist *dist, void *to, const void *from, size_t bytes);

/* ---- nccl.c; with the device's context ---- */

int md_nccl_run(struct muster_dist *dist, const struct md_call *call);
/* End what is under way, and release the communicator. Needs no other rank. */
void md_nccl_end(struct muster_dist *dist);
