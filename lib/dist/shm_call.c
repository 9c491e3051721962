/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations as steps. Values in ordinary memory go through the stages, in chunks that stay in
 * the cache. While a chunk is put into a stage, the chunk before it is combined, and the one before
 * that is taken out. Each rank combines its part of a chunk, and puts into its stage only the
 * values that others need. Values in arenas are read in place, and results are written directly to
 * their place.
 */
#include <string.h>

#include "reduce.h"
#include "shm.h"

enum {
    /*
     * up to this size each rank combines all values itself: more arithmetic, one wait instead of
     * two.
     */
    SMALL_BYTES = 16384,
    DIRECT_BYTES_MIN = 32768, /* from this size on, values in arenas are not copied to stages */
    BLOCK_BYTES = 32768       /* combined, and then copied to the other ranks while in the cache */
};

/* A range of values. */
struct part {
    size_t begin, len;
};

/* One operation of one rank. */
struct work {
    struct muster_dist *dist;
    struct md_shm *shm;
    const struct muster_dist_call *what;
    bool has_values; /* true if this file has to move values */
    const char *in;
    char *out;
    size_t width;    /* bytes of a value */
    size_t chunk;    /* values of a chunk; of a reduce-scatter: of each rank's part */
    size_t n_chunks; /* at least 1 */
    uint64_t step;   /* the step in which chunk 0 is put into the stages */
    const void **of; /* sources: one for each rank */
};

/* Returns the rank's part of `count` values. The part begins at a cache line if the values do. */
static struct part part_of(const struct work *work, size_t count, uint32_t rank)
{
    size_t line = MD_LINE_BYTES / work->width, size = work->shm->size;
    size_t each = ((count + size - 1) / size + line - 1) / line * line;
    size_t begin = each * rank < count ? each * rank : count;
    return (struct part){begin, count - begin < each ? count - begin : each};
}

static struct part chunk_of(const struct work *work, size_t index)
{
    size_t begin = index * work->chunk, left = work->what->count - begin;
    return (struct part){begin, left < work->chunk ? left : work->chunk};
}

static char *stage_of(const struct md_shm *shm, uint32_t rank, uint64_t step)
{
    return shm->base + shm->world->stages_at + (2 * (uint64_t)rank + (step & 1)) * MD_STAGE_BYTES;
}

static char *result_of(const struct md_shm *shm, uint64_t step)
{
    return shm->base + shm->world->results_at + (step & 1) * MD_STAGE_BYTES;
}

static void copy(char *out, const char *in, size_t bytes)
{
    if (bytes > 0 && out != in)
        memcpy(out, in, bytes);
}

/* ---- all-reduce ---- */

static void reduce_stage(const struct work *work, size_t index)
{
    struct part chunk = chunk_of(work, index);
    const char *in = work->in + chunk.begin * work->width;
    char *stage = stage_of(work->shm, work->shm->rank, work->shm->step);
    struct part own = part_of(work, chunk.len, work->shm->rank);
    size_t end = own.begin + own.len;
    copy(stage, in, own.begin * work->width);
    copy(stage + end * work->width, in + end * work->width, (chunk.len - end) * work->width);
}

/* This rank's own values are read from the caller's memory. */
static void reduce_combine(struct work *work, size_t index)
{
    const struct md_shm *shm = work->shm;
    struct part chunk = chunk_of(work, index), own = part_of(work, chunk.len, shm->rank);
    size_t at = own.begin * work->width;
    char *out = work->out + chunk.begin * work->width + at;
    for (uint32_t r = 0; r < shm->size; r++)
        work->of[r] = stage_of(shm, r, work->step + index) + at;
    work->of[shm->rank] = work->in + chunk.begin * work->width + at;
    md_reduce(shm->call, out, work->of, shm->size, own.len);
    copy(result_of(shm, shm->step) + at, out, own.len * work->width);
}

static void reduce_take(const struct work *work, size_t index)
{
    const struct md_shm *shm = work->shm;
    struct part chunk = chunk_of(work, index), own = part_of(work, chunk.len, shm->rank);
    char *out = work->out + chunk.begin * work->width;
    const char *result = result_of(shm, work->step + index + 1);
    size_t end = own.begin + own.len;
    copy(out, result, own.begin * work->width);
    copy(out + end * work->width, result + end * work->width, (chunk.len - end) * work->width);
}

static int reduce_staged(struct work *work)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < work->n_chunks + 2; i++) {
        /* Chunk 0 is in the stages already. */
        if (i > 0 && i < work->n_chunks)
            reduce_stage(work, i);
        if (i > 0 && i <= work->n_chunks)
            reduce_combine(work, i - 1);
        if (i > 1)
            reduce_take(work, i - 2);
        if (i > 0 && i <= work->n_chunks)
            rc = md_shm_step(work->dist);
    }
    return rc;
}

static int reduce_small(struct work *work)
{
    for (uint32_t r = 0; r < work->shm->size; r++)
        work->of[r] = stage_of(work->shm, r, work->step);
    md_reduce(work->shm->call, work->out, work->of, work->shm->size, work->what->count);
    return 0;
}

/*
 * Each rank combines its part of all buffers, and writes the result into all. No other rank reads
 * or writes that part meanwhile.
 */
static int reduce_direct(struct work *work)
{
    const struct md_shm *shm = work->shm;
    struct part own = part_of(work, work->what->count, shm->rank);
    const struct shm_rank *ranks = shm->world->ranks;
    size_t block = BLOCK_BYTES / work->width;
    for (size_t i = 0; i < own.len; i += block) {
        size_t len = own.len - i < block ? own.len - i : block;
        size_t at = (own.begin + i) * work->width;
        for (uint32_t r = 0; r < shm->size; r++)
            work->of[r] = shm->base + ranks[r].signatures[work->step & 1].values_at + at;
        md_reduce(shm->call, work->out + at, work->of, shm->size, len);
        for (uint32_t r = 0; r < shm->size; r++)
            copy(shm->base + ranks[r].signatures[work->step & 1].values_at + at, work->out + at,
                 len * work->width);
    }
    return md_shm_step(work->dist);
}

/* ---- broadcast; like all-gather it puts a whole chunk into the stage ---- */

static void whole_stage(const struct work *work, size_t index)
{
    struct part chunk = chunk_of(work, index);
    copy(stage_of(work->shm, work->shm->rank, work->shm->step),
         work->in + chunk.begin * work->width, chunk.len * work->width);
}

static int broadcast_staged(struct work *work)
{
    const struct md_shm *shm = work->shm;
    bool is_root = shm->rank == work->what->root;
    int rc = 0;
    for (size_t i = 1; rc == 0 && i <= work->n_chunks; i++) {
        struct part last = chunk_of(work, i - 1);
        if (is_root && i < work->n_chunks)
            whole_stage(work, i);
        if (!is_root)
            copy(work->out + last.begin * work->width,
                 stage_of(shm, work->what->root, work->step + i - 1), last.len * work->width);
        if (i < work->n_chunks)
            rc = md_shm_step(work->dist);
    }
    if (is_root)
        copy(work->out, work->in, work->what->count * work->width);
    return rc;
}

static int broadcast_direct(struct work *work)
{
    const struct md_shm *shm = work->shm;
    const struct shm_rank *root = &shm->world->ranks[work->what->root];
    const char *from = shm->base + root->signatures[work->step & 1].values_at;
    if (shm->rank == work->what->root)
        from = work->in;
    copy(work->out, from, work->what->count * work->width);
    return md_shm_step(work->dist);
}

/* ---- all-gather ---- */

static int gather_staged(struct work *work)
{
    const struct md_shm *shm = work->shm;
    size_t each = work->what->count * work->width;
    int rc = 0;
    for (size_t i = 1; rc == 0 && i <= work->n_chunks; i++) {
        struct part last = chunk_of(work, i - 1);
        if (i < work->n_chunks)
            whole_stage(work, i);
        for (uint32_t r = 0; r < shm->size; r++)
            if (r != shm->rank)
                copy(work->out + r * each + last.begin * work->width,
                     stage_of(shm, r, work->step + i - 1), last.len * work->width);
        if (i < work->n_chunks)
            rc = md_shm_step(work->dist);
    }
    copy(work->out + shm->rank * each, work->in, each);
    return rc;
}

static int gather_direct(struct work *work)
{
    const struct md_shm *shm = work->shm;
    size_t each = work->what->count * work->width;
    for (uint32_t r = 0; r < shm->size; r++) {
        const char *from = shm->base + shm->world->ranks[r].signatures[work->step & 1].values_at;
        copy(work->out + r * each, r == shm->rank ? work->in : from, each);
    }
    return md_shm_step(work->dist);
}

/* ---- reduce-scatter ---- */

static void scatter_stage(const struct work *work, size_t index)
{
    const struct md_shm *shm = work->shm;
    struct part chunk = chunk_of(work, index);
    char *stage = stage_of(shm, shm->rank, shm->step);
    for (uint32_t r = 0; r < shm->size; r++)
        if (r != shm->rank)
            copy(stage + r * work->chunk * work->width,
                 work->in + (r * work->what->count + chunk.begin) * work->width,
                 chunk.len * work->width);
}

static int scatter_staged(struct work *work)
{
    const struct md_shm *shm = work->shm;
    int rc = 0;
    for (size_t i = 1; rc == 0 && i <= work->n_chunks; i++) {
        struct part last = chunk_of(work, i - 1);
        size_t own = shm->rank * work->what->count + last.begin;
        if (i < work->n_chunks)
            scatter_stage(work, i);
        for (uint32_t r = 0; r < shm->size; r++)
            work->of[r] =
                stage_of(shm, r, work->step + i - 1) + shm->rank * work->chunk * work->width;
        work->of[shm->rank] = work->in + own * work->width;
        md_reduce(shm->call, work->out + last.begin * work->width, work->of, shm->size, last.len);
        if (i < work->n_chunks)
            rc = md_shm_step(work->dist);
    }
    return rc;
}

static int scatter_direct(struct work *work)
{
    const struct md_shm *shm = work->shm;
    size_t at = shm->rank * work->what->count * work->width;
    for (uint32_t r = 0; r < shm->size; r++)
        work->of[r] = shm->base + shm->world->ranks[r].signatures[work->step & 1].values_at + at;
    md_reduce(shm->call, work->out, work->of, shm->size, work->what->count);
    return md_shm_step(work->dist);
}

/* ---- the first step, and the choice ---- */

static void first_stage(struct work *work)
{
    const struct md_shm *shm = work->shm;
    char *stage = stage_of(shm, shm->rank, shm->step);
    size_t bytes = work->what->count * work->width;
    switch (work->what->kind) {
    case MUSTER_BARRIER:
        break;
    case MUSTER_ALL_REDUCE:
        if (bytes <= SMALL_BYTES)
            copy(stage, work->in, bytes);
        else
            reduce_stage(work, 0);
        break;
    case MUSTER_BROADCAST:
        if (shm->rank == work->what->root)
            whole_stage(work, 0);
        break;
    case MUSTER_REDUCE_SCATTER:
        scatter_stage(work, 0);
        break;
    case MUSTER_ALL_GATHER:
        whole_stage(work, 0);
        break;
    }
}

/*
 * Makes the signature. It has the place of this rank's values in the file, if the others may use
 * them there: they may not if this rank's result would overwrite values that they read.
 */
static struct shm_signature sign(const struct work *work, const struct md_call *call)
{
    const struct muster_dist_call *what = work->what;
    struct shm_signature own = {md_shm_pack(call), what->count, call->seq, 0};
    size_t in_bytes = md_in_bytes(work->dist, what);
    bool is_elsewhere = what->kind == MUSTER_ALL_REDUCE && work->in != work->out;
    bool is_over = md_scatters_to_beginning(work->dist, what);
    if (work->has_values && in_bytes >= DIRECT_BYTES_MIN && !is_elsewhere && !is_over)
        own.values_at = md_shm_offset(work->shm, work->in, in_bytes);
    return own;
}

/* True if the values of all ranks (of a broadcast: of the root) can be used in place. */
static bool can_be_direct(const struct work *work, bool *is_any)
{
    const struct shm_rank *ranks = work->shm->world->ranks;
    bool is_all = true;
    *is_any = false;
    for (uint32_t r = 0; r < work->shm->size; r++) {
        bool is_there = ranks[r].signatures[work->step & 1].values_at != 0;
        bool counts = work->what->kind != MUSTER_BROADCAST || r == work->what->root;
        *is_any = *is_any || (counts && is_there);
        is_all = is_all && (!counts || is_there);
    }
    return is_all;
}

static int work_go_on(struct work *work)
{
    static int (*const staged[])(struct work *) = {[MUSTER_ALL_REDUCE] = reduce_staged,
                                                   [MUSTER_BROADCAST] = broadcast_staged,
                                                   [MUSTER_REDUCE_SCATTER] = scatter_staged,
                                                   [MUSTER_ALL_GATHER] = gather_staged};
    static int (*const direct[])(struct work *) = {[MUSTER_ALL_REDUCE] = reduce_direct,
                                                   [MUSTER_BROADCAST] = broadcast_direct,
                                                   [MUSTER_REDUCE_SCATTER] = scatter_direct,
                                                   [MUSTER_ALL_GATHER] = gather_direct};
    enum muster_collective kind = work->what->kind;
    bool is_any;
    int rc = md_shm_compare(work->dist);
    if (rc != 0 || kind == MUSTER_BARRIER || !work->has_values)
        return rc;
    if (can_be_direct(work, &is_any))
        return direct[kind](work);
    if (kind == MUSTER_ALL_REDUCE && work->what->count * work->width <= SMALL_BYTES)
        return reduce_small(work);
    if (is_any) {
        /* Ranks whose values lie in an arena have staged nothing yet. */
        work->step = work->shm->step;
        first_stage(work);
        rc = md_shm_step(work->dist);
    }
    return rc ? rc : staged[kind](work);
}

static void work_init(struct work *work, struct muster_dist *dist, const struct md_call *call)
{
    struct md_shm *shm = dist->impl;
    size_t width = muster_type_bytes(call->what.type), room = MD_STAGE_BYTES;
    if (call->what.kind == MUSTER_REDUCE_SCATTER)
        room = room / shm->size / MD_LINE_BYTES * MD_LINE_BYTES;
    *work = (struct work){.dist = dist,
                          .shm = shm,
                          .what = &call->what,
                          .has_values = call->memory == MD_HOST && call->what.count > 0,
                          .in = call->what.in,
                          .out = call->what.out,
                          .width = width,
                          .chunk = room / width,
                          .step = shm->step,
                          .of = shm->sources};
    work->n_chunks = call->what.count / work->chunk + (call->what.count % work->chunk != 0);
    work->n_chunks = work->n_chunks > 0 ? work->n_chunks : 1;
}

int md_shm_run(struct muster_dist *dist, const struct md_call *call)
{
    struct md_shm *shm = dist->impl;
    struct shm_rank *own = &shm->world->ranks[shm->rank];
    struct work work;
    int rc = md_shm_told(dist);
    if (rc != 0)
        return rc;
    uint64_t now_ns = md_now_ns();
    shm->call = call;
    shm->deadline_ns = now_ns + dist->timeout_ms * 1000000;
    work_init(&work, dist, call);
    struct shm_signature signature = sign(&work, call);
    own->signatures[shm->step & 1] = signature;
    atomic_store_explicit(&own->what, signature.what, memory_order_relaxed);
    atomic_store_explicit(&own->count, signature.count, memory_order_relaxed);
    atomic_store_explicit(&own->at_ns, now_ns, memory_order_relaxed);
    atomic_store_explicit(&own->seq, call->seq, memory_order_relaxed);
    atomic_store_explicit(&own->is_in_call, 1, memory_order_relaxed);
    if (signature.values_at == 0 && work.has_values)
        first_stage(&work);
    rc = md_shm_step(dist);
    rc = rc ? rc : work_go_on(&work);
    atomic_store_explicit(&own->is_in_call, call->memory == MD_DEVICE, memory_order_relaxed);
    return rc;
}
