/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU, CUDA's driver and NCCL, played on the host, to be named by MUSTER_DIST_CUDA and
 * MUSTER_DIST_NCCL: one library for both. Its device memory cannot be touched through the addresses
 * that the driver gives; a stream is a thread, which does what is put on it in order. NCCL moves values
 * through a file that the ranks share, on the stream's thread.
 *
 * The environment of each rank says what is out of order:
 *   PLAYED_UUID          the device's number; default: the rank
 *   PLAYED_NCCL_VERSION  default 22703
 *   PLAYED_NCCL_STUCK    n: from the n-th collective on, none goes on until it is given up
 *   PLAYED_NCCL_FAILS    n: at the n-th the communicator has an error
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct played_stream;

/* Something for a stream to do; the argument is freed afterwards. */
typedef void played_task(void *arg);
void played_put(struct played_stream *stream, played_task *run, void *arg);

/* Where the host may touch it: of device memory the other address, else the same. */
void *played_reach(const void *at);
bool played_has_context(void);
long played_number(const char *variable, long otherwise);

/* ---- for tests ---- */

/* Make this library the driver and the NCCL of this process and its ranks. */
void played_use(void);

/* A kernel that takes its time. NULL: on the default stream. */
int played_kernel(struct played_stream *stream, int ms);

/* CUDA's own, of those that tests call. */
struct context;
int cuDevicePrimaryCtxRetain(struct context **context, int device);
int cuCtxPushCurrent_v2(struct context *context);
int cuMemAlloc_v2(uint64_t *at, size_t bytes);
int cuMemFree_v2(uint64_t at);
int cuStreamSynchronize(struct played_stream *stream);
int cuMemcpyAsync(uint64_t to, uint64_t from, size_t bytes, struct played_stream *stream);
int cuStreamCreate(struct played_stream **stream, unsigned flags);
int cuDeviceGetUuid_v2(unsigned char uuid[16], int device);
