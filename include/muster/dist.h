/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks that compute together: collective operations between the processes of one job.
 *
 *     struct muster_dist *dist = muster_dist_open(NULL);
 *     float sum = muster_dist_rank(dist);
 *     muster_dist_all_reduce(dist, &sum, 1, MUSTER_FLOAT32, MUSTER_SUM);
 *     if (muster_dist_close(dist) != 0)
 *         return 1;
 *
 * Which rank this process is comes from its environment, as `muster launch`, torchrun, srun and mpirun
 * set it. A program that is started alone is a world of one, and every operation is then a copy.
 *
 * All ranks issue the same operations in the same order. Every operation carries its description, so if ranks
 * disagree, the error names both operations. Each operation has a time limit (MUSTER_DIST_TIMEOUT), and its error
 * names the missing rank and that rank's last operation. Over TCP and MPI the error comes up to 1.5 seconds after the
 * limit, because missing ranks are asked first whether they wait as well. A rank whose process ended is named within
 * a second; over MPI after the time limit, unless mpirun ends all ranks before. A machine that is cut off is given up
 * after half a minute of silence over TCP, or by the time limit.
 *
 * Results are the same bits on every rank and in every run with as many ranks: values are combined in
 * the order of the ranks. 16-bit floats are summed in float32 and rounded once, to nearest even.
 *
 * Values may lie in the memory of an NVIDIA GPU (has_device_memory): NCCL, 2.18 or later, which is loaded when it is
 * needed, moves them. Such an operation waits for the work that is on the caller's stream when it is issued, and has
 * its result when it returns. The order of its sums is NCCL's, and sums of 16-bit floats are rounded on the way, so
 * bits depend on devices and versions.
 *
 * Errors are sticky, and are those of all ranks: the first one ends every operation on every rank with the same code
 * and message (ranks on several machines that notice one failure at the same moment may describe it in different
 * words). So a program needs to check only what it acts upon, and close.
 *
 * Threads: any thread may call, but the caller has to keep the order of the operations; open and close are called
 * once. A process forked from a rank must not use the handle: it is refused there, and close only releases the
 * child's copy. A child that goes on without exec should close it: over TCP its copies of the connections keep the
 * other ranks from noticing that the rank has ended, before the time limit.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#if !defined(MUSTER_API)
#define MUSTER_API __attribute__((visibility("default")))
#endif

enum muster_dist_code {
    MUSTER_DIST_EIO = -1,  /* a system call failed */
    MUSTER_DIST_EENV = -2, /* the environment contradicts itself, or no backend reaches all ranks */
    MUSTER_DIST_EUSE = -3, /* wrong use: no such operation, type or rank */
    MUSTER_DIST_ENOMEM = -4,    /* no memory, or no room for shared memory */
    MUSTER_DIST_EMISMATCH = -5, /* ranks issued different operations */
    MUSTER_DIST_ETIMEOUT = -6,  /* a rank did not come within the time limit */
    MUSTER_DIST_ELOST = -7,     /* the process of a rank ended, or closed its handle too early */
    MUSTER_DIST_EDATA = -8, /* values that must not be: NaN in gradients, replicas that differ */
    MUSTER_DIST_EFAIL = -9  /* for muster_dist_fail, where no other code fits */
};

enum muster_type {
    MUSTER_FLOAT32,
    MUSTER_FLOAT64,
    MUSTER_BFLOAT16,
    MUSTER_FLOAT16,
    MUSTER_INT32,
    MUSTER_INT64,
    MUSTER_UINT8,
    MUSTER_INT8
};

/*
 * Sums of integers wrap around; their mean is the 64-bit sum divided, cut towards zero. The minimum and the maximum
 * of values with a NaN among them are NaN.
 */
enum muster_op {
    MUSTER_SUM,
    MUSTER_MEAN,
    MUSTER_MIN,
    MUSTER_MAX
};

enum muster_collective {
    MUSTER_BARRIER,
    MUSTER_ALL_REDUCE,
    MUSTER_BROADCAST,
    MUSTER_REDUCE_SCATTER,
    MUSTER_ALL_GATHER
};

struct muster_dist;

/* Zero means default. */
struct muster_dist_opts {
    uint64_t
        timeout_ms; /* for each operation, and for all ranks to join; default: MUSTER_DIST_TIMEOUT (90, 90s, 5m, 2h), else ten minutes */
    /*
     * "shm", "tcp" or "mpi", which take values in device memory through the host; "nccl", or "shm+nccl" and so on,
     * for device memory by NCCL; default: MUSTER_DIST_BACKEND, else "auto", a backend that reaches all ranks
     */
    const char *backend;
    bool has_device_memory; /* asks the driver at each operation; implied by nccl */
    void *stream;           /* cudaStream_t or CUstream; default: the legacy default stream */
};

/*
 * An operation as a value, for muster_dist_start. `count` is that of the smaller side: all values of an
 * all-reduce or a broadcast, one rank's part of a reduce-scatter or an all-gather. in and out do not
 * overlap, except in place, which has a form for each kind:
 *
 * all-reduce, broadcast  in is out, or NULL.
 * all-gather             in is this rank's part of out, at out + rank × count values, or NULL.
 * reduce-scatter         out is this rank's part of in, or the beginning of in. in NULL: in is out, with
 *                        the result at its beginning.
 *
 * Any other overlap is MUSTER_DIST_EUSE. Both are in memory of the host, or of one device, which is the
 * same for all operations of a rank.
 */
struct muster_dist_call {
    enum muster_collective kind;
    enum muster_type type;
    enum muster_op op;
    uint32_t root; /* of a broadcast */
    const void *in;
    void *out;
    size_t count;
};

/*
 * Join the ranks of this job, and wait until all are there. Returns NULL only for lack of memory; the
 * other functions accept NULL. Any other error is kept: muster_dist_code and every operation return it.
 */
MUSTER_API struct muster_dist *muster_dist_open(const struct muster_dist_opts *opts);

/*
 * Finish what was started, leave and release. Returns 0, or the sticky error. Ranks that still wait for
 * this one are told that it has left.
 */
MUSTER_API int muster_dist_close(struct muster_dist *dist);

/* 0 and 1 on a handle that could not be opened. */
MUSTER_API uint32_t muster_dist_rank(const struct muster_dist *dist);
MUSTER_API uint32_t muster_dist_size(const struct muster_dist *dist);
MUSTER_API uint32_t muster_dist_local_rank(const struct muster_dist *dist);
/* "self" for a world of one, "shm", "tcp", "mpi", with "+nccl" for device memory; "" if there is none. */
MUSTER_API const char *muster_dist_backend(const struct muster_dist *dist);

/*
 * The sticky error, 0 while there is none, and its message, "" while there is none. In a process that was forked from
 * a rank: MUSTER_DIST_EUSE.
 */
MUSTER_API int muster_dist_code(const struct muster_dist *dist);
MUSTER_API const char *muster_dist_error(const struct muster_dist *dist);

/*
 * End the operations of all ranks with this negative code, and with this text after the number of this rank. Returns
 * the sticky code, which differs if another error came first.
 */
MUSTER_API int muster_dist_fail(struct muster_dist *dist, int code, const char *text);

/*
 * The operations, each of which returns when its result is there.
 *
 * all_reduce      data: count values, combined over the ranks, on all of them.
 * broadcast       data: count values, those of root on all ranks.
 * reduce_scatter  in: size × count values; out: the count values of this rank's part, combined.
 * all_gather      in: count values; out: size × count values, in the order of the ranks.
 *
 * struct muster_dist_call describes how in and out may overlap, and what NULL means.
 */
MUSTER_API int muster_dist_barrier(struct muster_dist *dist);
MUSTER_API int muster_dist_all_reduce(struct muster_dist *dist, void *data, size_t count,
                                      enum muster_type type, enum muster_op op);
MUSTER_API int muster_dist_broadcast(struct muster_dist *dist, void *data, size_t count,
                                     enum muster_type type, uint32_t root);
MUSTER_API int muster_dist_reduce_scatter(struct muster_dist *dist, const void *in, void *out,
                                          size_t count, enum muster_type type, enum muster_op op);
MUSTER_API int muster_dist_all_gather(struct muster_dist *dist, const void *in, void *out,
                                      size_t count, enum muster_type type);

/*
 * Start an operation, and go on: a thread of the library does it. All operations, started ones and those above, are
 * done in the order in which they were issued, so a ticket that is done means that all earlier ones are done. in and
 * out must not be touched until then. Waits if a thousand others are under way. ticket may be NULL if the program
 * waits for a later one.
 */
MUSTER_API int muster_dist_start(struct muster_dist *dist, const struct muster_dist_call *call,
                                 uint64_t *ticket);
/* Wait until it is done. 0, or the sticky error, as for a ticket that was not given. */
MUSTER_API int muster_dist_wait(struct muster_dist *dist, uint64_t ticket);
/* 1 if it is done, 0 if not yet, or the sticky error. */
MUSTER_API int muster_dist_test(struct muster_dist *dist, uint64_t ticket);

/*
 * Memory that other ranks can reach, zeroed and aligned to pages: large operations in place on it are done without a
 * copy, if every rank's data lies in such memory. NULL, with the sticky error, if there is no room. Closing the
 * handle frees it as well. In a world of one, and over TCP and MPI, it is ordinary memory. It is always host memory.
 */
MUSTER_API void *muster_dist_buffer_new(struct muster_dist *dist, size_t bytes);
MUSTER_API void muster_dist_buffer_free(struct muster_dist *dist, void *at);

/* Pure: the bytes of one value, its name, "float32". */
MUSTER_API size_t muster_type_bytes(enum muster_type type);
MUSTER_API const char *muster_type_name(enum muster_type type);

#if defined(__cplusplus)
}
#endif
