/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranks of one machine, which share a file in memory. The file has a header, two pieces for each rank's values (its
 * stage), two pieces for results, and an arena for each rank's buffers. It has no name, so it cannot be left behind;
 * the ranks get its descriptor through a socket (shm_meet.c). Operations go in steps; at the end of each step the
 * ranks wait for each other (shm_wait.c). Bytes that are written in one step are read in the next. Each piece exists
 * twice, for even and odd steps, so one wait in each step is enough.
 *
 * A rank lives as long as it holds a record lock on the byte of its number in the file: the kernel
 * releases it when the process ends, however that happens, and forked processes do not inherit it.
 */
#pragma once

#include "inside.h"

enum {
    MD_STAGE_BYTES = 1 << 19,
    MD_LINE_BYTES = 64 /* of the cache */
};

/* What a rank writes when it comes to an operation. */
struct shm_signature {
    uint64_t what; /* kind, type, op, memory and root */
    uint64_t count, seq;
    uint64_t values_at; /* where its values lie in the file; 0: not there */
};

enum shm_state {
    SHM_AWAITED,
    SHM_HERE,
    SHM_LEFT
};

struct shm_rank {
    _Alignas(MD_LINE_BYTES) struct shm_signature signatures[2];
    /* For messages: the step that the rank has come to, and its last operation. */
    _Alignas(MD_LINE_BYTES) _Atomic uint64_t step;
    _Atomic uint64_t what, count, seq, at_ns;
    _Atomic uint32_t is_in_call, state, pid;
};

enum shm_error_state {
    SHM_NO_ERROR,
    SHM_ERROR_CLAIMED,
    SHM_ERROR_WRITTEN
};

struct shm_error {
    _Atomic uint32_t state;
    int code;
    char text[MD_TEXT_BYTES];
};

/* The file's beginning. */
struct shm_world {
    uint32_t size;
    uint64_t stages_at, results_at, arenas_at; /* offsets in the file */
    uint64_t arena_bytes;                      /* of a rank; memory is allocated when it is used */
    _Atomic uint32_t is_open;                  /* all ranks have come */
    struct shm_error error;
    _Alignas(MD_LINE_BYTES) _Atomic uint32_t n_arrived; /* sum over all steps; wraps around */
    _Alignas(MD_LINE_BYTES) _Atomic uint32_t step;      /* a futex */
    _Atomic uint32_t n_sleepers;
    struct shm_rank ranks[];
};

/* An allocated block of this rank's arena; the list is in the order of addresses. */
struct shm_block {
    struct shm_block *next;
    uint64_t at, bytes;
};

struct md_shm {
    int fd;
    char *base; /* the file; NULL: not mapped */
    size_t bytes;
    struct shm_world *world;
    uint32_t rank, size;
    uint64_t step; /* this rank's, never wraps around */
    uint64_t deadline_ns;
    const struct md_call *call; /* under way */
    const void **sources;       /* room for one for each rank */
    pthread_mutex_t lock;       /* for blocks */
    struct shm_block *blocks;
};

/* ---- shm_meet.c ---- */

/* Rank 0 makes the file, the others get it; returns when all ranks have it. */
int md_shm_meet(struct muster_dist *dist);

/* ---- shm_file.c ---- */

int md_shm_create(struct muster_dist *dist);
int md_shm_attach(struct muster_dist *dist, int fd);
/* Allocate memory for a part of the file, or fail with a message: without memory a write would raise SIGBUS. */
int md_shm_reserve(struct muster_dist *dist, uint64_t at, uint64_t bytes, const char *what);
void *md_shm_buffer_new(struct muster_dist *dist, size_t bytes);
void md_shm_buffer_free(struct muster_dist *dist, void *at);
/* The offset of [at, at + bytes) in the file; 0 if it is not in this rank's arena. */
uint64_t md_shm_offset(const struct md_shm *shm, const void *at, size_t bytes);
/* Memory that could still be had, by the kernel's word and the control groups'. */
uint64_t md_room_bytes(const char *proc, const char *groups);
int md_room_check(struct muster_dist *dist, uint64_t bytes, uint64_t room, const char *what);

/* ---- shm_wait.c ---- */

/* End the step: returns when all ranks have, or with the error that ends the operation. */
int md_shm_step(struct muster_dist *dist);
/* An error that another rank has told, taken over; 0: there is none. */
int md_shm_told(struct muster_dist *dist);
/* Compare the ranks' operations, at the end of an operation's first step. */
int md_shm_compare(struct muster_dist *dist);
uint64_t md_shm_pack(const struct md_call *call);
int md_shm_look(struct muster_dist *dist, const struct md_call *call);
/* As md_call_format(), for a packed call. */
void md_signature_format(uint64_t what, uint64_t count, uint64_t seq, char *out, size_t cap);
void md_shm_fail(struct muster_dist *dist, int *code, char *text);
/* "rank 1", "ranks 1, 3 and 4": the ranks that have not come to the step. */
void md_shm_missing(const struct md_shm *shm, uint64_t step, char *out, size_t cap);

/* ---- shm_call.c ---- */

int md_shm_run(struct muster_dist *dist, const struct md_call *call);
