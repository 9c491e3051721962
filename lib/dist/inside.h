/* SPDX-License-Identifier: Apache-2.0
 *
 * A rank's handle: the state that all backends share (dist.c), the queue of operations and its thread (calls.c), and
 * the table of a backend. Internal names start with md_, because the static library shares its users' name space.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "muster/dist.h"
#include "place.h"

enum {
    MD_TEXT_BYTES = 400,
    MD_CALLS_MAX = 1024 /* operations under way at the same time */
};

/*
 * What the thread does with the values before it begins an operation, and after it. `before` returns 0,
 * or the code of md_fail: then the operation is not begun. It may give the operation its weights.
 */
struct md_around {
    int (*before)(void *arg, const double **weights); /* NULL: nothing */
    void (*after)(void *arg);
    void *arg;
};

/*
 * Where the values of an operation are. A backend moves no values in device memory: its ranks meet, and compare their
 * operations; they meet once more when all have their values (MD_DEVICE_END).
 */
enum md_memory {
    MD_HOST,
    MD_DEVICE,
    MD_DEVICE_END
};

/* An operation with its number among those of its rank, from 1. */
struct md_call {
    struct muster_dist_call what;
    uint64_t seq;
    enum md_memory memory;
    void *ready; /* the event after which its values in device memory may be read; NULL: none */
    /* Of a mean of floats: by what the values of each rank are multiplied. NULL: by 1 / n. */
    const double *weights;
    const struct md_around *around; /* NULL: nothing */
};

/* When an operation was done. CLOCK_MONOTONIC. */
struct md_times {
    uint64_t begin_ns, end_ns;
};

/*
 * How the other ranks are reached. Calls come one at a time, in order, from any thread. A function
 * that fails calls md_fail, and returns its value.
 */
struct md_backend_ops {
    const char *name;
    int (*open)(struct muster_dist *dist);
    void (*close)(struct muster_dist *dist); /* also after a failed open, and in a forked process */
    int (*run)(struct muster_dist *dist, const struct md_call *call);
    /*
     * Look for errors during an operation in device memory: one that another rank has told, which is taken over, or a
     * rank that is gone. NULL: there are no other ranks.
     */
    int (*look)(struct muster_dist *dist, const struct md_call *call);
    /*
     * Make this the error of all ranks, unless they have one already. Write the error of all ranks into code and
     * text, which has MD_TEXT_BYTES. NULL: the backend's ranks notice by themselves.
     */
    void (*fail)(struct muster_dist *dist, int *code, char *text);
    /* NULL: ordinary memory. */
    void *(*buffer_new)(struct muster_dist *dist, size_t bytes);
    void (*buffer_free)(struct muster_dist *dist, void *at);
};

struct md_device; /* device.h */

struct muster_dist {
    struct md_place place;
    const struct md_backend_ops *backend; /* NULL: none could be opened */
    void *impl;                           /* the backend's */
    struct md_device *device;             /* NULL: all values are taken to be in host memory */
    char backend_name[16];                /* "shm", "shm+nccl" */
    uint64_t timeout_ms;
    /*
     * These tell the process that opened the handle from a forked one, which is refused. The page is not 0; the
     * kernel wipes it in forked processes. It spares getpid, a system call of up to 150 ns for each operation. NULL
     * if the kernel cannot do that.
     */
    pid_t pid;
    const volatile char *page;

    pthread_mutex_t fail_lock;
    atomic_int code; /* the sticky error; set when its text is complete */
    char error[MD_TEXT_BYTES];

    pthread_mutex_t lock; /* for all fields below */
    pthread_cond_t changed;
    uint64_t n_issued, n_done; /* operations; the pending ones are calls[seq % MD_CALLS_MAX] */
    bool is_busy;              /* a thread is in the backend */
    bool is_closing;
    bool has_thread;
    pthread_t thread;
    struct md_call *calls;
    struct md_times *times; /* of operations that the thread did, likewise */
};

extern const struct md_backend_ops md_self_ops, md_shm_ops, md_mpi_ops, md_tcp_ops;

uint64_t md_now_ns(void);

/*
 * Fail on all ranks. The first failure of any rank counts; returns its code. The text says which rank did what, in
 * the same words on every rank.
 */
__attribute__((format(printf, 3, 4))) int md_fail(struct muster_dist *dist, int code,
                                                  const char *fmt, ...);
/* Take over the error of another rank. */
int md_adopt(struct muster_dist *dist, int code, const char *text);
/* Is this the process that opened the handle? */
bool md_is_ours(const struct muster_dist *dist);
/* 0, or the code for why the handle cannot be used: the sticky error, or EUSE in a forked process. */
int md_check(const struct muster_dist *dist);

/* "all-reduce #17 (float32 sum, 4096 values)" */
void md_call_format(const struct md_call *call, char *out, size_t cap);
const char *md_collective_name(enum muster_collective kind);
/* How many bytes a rank's in and out have. */
size_t md_in_bytes(const struct muster_dist *dist, const struct muster_dist_call *call);
size_t md_out_bytes(const struct muster_dist *dist, const struct muster_dist_call *call);
/* Does a reduce-scatter's result go to the beginning of `in`, which is another rank's part? */
bool md_scatters_to_beginning(const struct muster_dist *dist, const struct muster_dist_call *what);

bool md_calls_init(struct muster_dist *dist);
/* Finish what was started, and end the thread. */
void md_calls_end(struct muster_dist *dist);
void md_calls_release(struct muster_dist *dist);
/* muster_dist_start. weights and around may be NULL, and stay until it is done. */
int md_start(struct muster_dist *dist, const struct muster_dist_call *what, const double *weights,
             const struct md_around *around, uint64_t *ticket);
/* The times of a started operation that is done; zeros if it is too long ago. */
struct md_times md_call_times(struct muster_dist *dist, uint64_t ticket);
