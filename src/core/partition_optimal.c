/* SPDX-License-Identifier: Apache-2.0
 *
 * PARTITION_OPTIMAL: the best of all partitions into contiguous pieces, one a device, in the
 * order of the devices.
 *
 * The front of the model, as far as the GPUs can hold it, is on them; what follows is on the CPU as far as that can
 * hold it; the rest is on the disk. A unit that is on a slower device is loaded where it computes, so the first GPU
 * keeps room for the largest one that is not on a GPU, and the CPU for the largest one on the disk, as with
 * Accelerate. Then the cuts between the GPUs are moved to where the goal says.
 *
 * Clusters of units that share memory go with their first unit or with their last one, whichever
 * is better. Accelerate may take further units along, the modules around them, which is not
 * contiguous and may be better still; so if there are clusters, its own maps are candidates too.
 * Without clusters its maps are among the partitions.
 */
#include <string.h>

#include "core/partition_units.h"

#define ROOM_MAX     (2 * PARTITION_BYTES_MAX) /* more than any model has */
#define HANDOVER_MAX (PARTITION_BYTES_MAX)

/* How good a candidate is: less is better, and what comes first is more important. */
struct score {
    uint64_t nowhere_bytes, disk_bytes, cpu_bytes;
    struct use use; /* by the goal: of memory, of the slowest stage, or the sum of ticks */
};

struct optimum {
    const struct partition_wish *wish;
    struct units units;
    struct unit_line line;
    uint32_t n_gpus, cpu, disk; /* cpu, disk: n_devices if there is none */
    struct unit_stage *stages;  /* [n_gpus + 1] scratch */
    uint32_t *ends;             /* [n_gpus + 1] scratch */
    uint64_t *held;             /* [n_devices + 1] scratch: bytes */
    uint32_t *devices;          /* [units.n] a candidate */
    uint32_t *best;             /* [units.n] the best one by now */
    struct score best_score;
    bool has_best;
    struct use needed; /* the least use of the GPUs' memory if all were on them */
};

/* ---------------------------------------------------------------- devices */

static uint64_t speed_of(const struct partition_device *device)
{
    return MAX(device->speed, 1u);
}

static uint64_t less(uint64_t bytes, uint64_t taken)
{
    return bytes > taken ? bytes - taken : 0;
}

static uint64_t room_of(const struct partition_device *device, uint64_t kept_bytes)
{
    return less(less(MIN(device->mem_bytes, ROOM_MAX), device->reserve_bytes), kept_bytes);
}

static u128 handover_ticks(const struct optimum *o)
{
    return MIN(o->wish->handover_time, HANDOVER_MAX) * PARTITION_TICKS +
           1; /* 1: fewer stages are better */
}

/* The time of a handover, as the bytes that a device of this speed reads in it. */
static uint64_t stage_handover(const struct optimum *o, uint64_t speed)
{
    return (uint64_t)MIN((u128)o->wish->handover_time * speed, (u128)HANDOVER_MAX);
}

/* Does the first GPU keep room for units that are not on a GPU? Without a slower device there are none. */
static bool gpu_keeps(const struct optimum *o)
{
    return o->n_gpus > 0 && o->n_gpus < o->wish->n_devices;
}

static bool cpu_keeps(const struct optimum *o)
{
    return o->disk < o->wish->n_devices;
}

/* ---------------------------------------------------------------- a contiguous partition */

/* How far devices reach from a cut if the first of them keeps so many bytes. */
static uint32_t devices_reach(const struct optimum *o, uint32_t start, uint32_t first, uint32_t end,
                              uint64_t kept_bytes)
{
    for (uint32_t d = first; d < end; d++)
        start = unit_line_reach(&o->line, start,
                                room_of(&o->wish->devices[d], d == first ? kept_bytes : 0));
    return start;
}

/* The first cut behind which all units have at most so many bytes. */
static uint32_t cut_before_smaller(const struct unit_line *line, uint64_t bytes)
{
    uint32_t first = 0, end = line->n;
    while (first < end) {
        uint32_t middle = first + (end - first) / 2;
        if (line->largest_from[middle] <= bytes)
            end = middle;
        else
            first = middle + 1;
    }
    return first;
}

/*
 * The last cut to which devices can hold all from `start`, if the first of them `keeps` room for
 * the largest unit behind the cut. A later cut may need less room. Cuts that need the same room
 * are judged together, from the end.
 */
static uint32_t furthest_cut(const struct optimum *o, uint32_t start, uint32_t first, uint32_t end,
                             bool keeps)
{
    for (uint32_t last = o->line.n; last > start;) {
        uint64_t kept_bytes = keeps ? o->line.largest_from[last] : 0;
        uint32_t reach = MIN(devices_reach(o, start, first, end, kept_bytes), last);
        uint32_t same = keeps ? cut_before_smaller(&o->line, kept_bytes) : 0;
        if (reach >= same)
            return MAX(reach, start);
        last = MIN(same - 1, reach);
    }
    return start;
}

/* The GPUs as stages for units up to a cut. */
static void stages_set(struct optimum *o, uint32_t cut)
{
    for (uint32_t d = 0; d < o->n_gpus; d++) {
        const struct partition_device *gpu = &o->wish->devices[d];
        uint64_t kept_bytes = d == 0 && gpu_keeps(o) ? o->line.largest_from[cut] : 0;
        struct unit_stage *stage = &o->stages[d];
        stage->room = room_of(gpu, kept_bytes);
        if (o->wish->goal == PARTITION_LEAST_MEMORY) {
            stage->fixed = MIN(gpu->reserve_bytes, ROOM_MAX) + kept_bytes;
            stage->scale = MAX(MIN(gpu->mem_bytes, ROOM_MAX), (uint64_t)1);
        } else {
            stage->scale = speed_of(gpu);
            stage->fixed = stage_handover(o, stage->scale);
        }
    }
}

/* Moves the cuts between GPUs to where the goal says. */
static bool gpus_cut(struct optimum *o, uint32_t end)
{
    stages_set(o, end);
    const struct cutting c = {&o->line, end, o->stages, o->n_gpus};
    if (o->wish->goal == PARTITION_LEAST_LATENCY)
        return stages_least_latency(&c, handover_ticks(o), o->ends);
    stages_least_use(&c, o->ends);
    return true;
}

/* Units that have another anchor go to its device. */
static void clusters_follow(struct optimum *o)
{
    for (uint32_t u = 0; u < o->units.n; u++)
        o->devices[u] = o->devices[o->units.anchors[u]];
}

static bool contiguous_find(struct optimum *o)
{
    uint32_t n_devices = o->wish->n_devices, n = o->line.n;
    uint32_t gpu_end = furthest_cut(o, 0, 0, o->n_gpus, gpu_keeps(o)), cpu_end = gpu_end;
    if (o->cpu < n_devices)
        cpu_end = furthest_cut(o, gpu_end, o->cpu, o->cpu + 1, cpu_keeps(o));
    if (o->n_gpus > 0 && !gpus_cut(o, gpu_end))
        return false;
    uint32_t unit = 0;
    for (uint32_t d = 0; d < o->n_gpus; d++)
        while (unit < o->ends[d])
            o->devices[unit++] = d;
    while (unit < cpu_end)
        o->devices[unit++] = o->cpu;
    while (unit < n)
        o->devices[unit++] = o->disk;
    clusters_follow(o);
    return true;
}

/* ---------------------------------------------------------------- candidates */

/* The largest weights of a unit on a device from `first` on. */
static uint64_t largest_on(const struct optimum *o, uint32_t first)
{
    uint64_t largest = 0;
    for (uint32_t u = 0; u < o->units.n; u++)
        if (o->devices[u] >= first)
            largest = MAX(largest, o->line.weight_bytes[u]);
    return largest;
}

static uint64_t kept_on(const struct optimum *o, uint32_t device)
{
    if (device == 0 && gpu_keeps(o))
        return largest_on(o, o->n_gpus);
    return device == o->cpu && cpu_keeps(o) ? largest_on(o, o->disk) : 0;
}

static struct use use_of(const struct optimum *o, uint32_t gpu)
{
    const struct partition_device *device = &o->wish->devices[gpu];
    u128 bytes = o->held[gpu];
    uint64_t speed = speed_of(device);
    if (bytes == 0)
        return (struct use){0, 1};
    if (o->wish->goal == PARTITION_LEAST_MEMORY)
        return (struct use){bytes + device->reserve_bytes + kept_on(o, gpu),
                            MIN(device->mem_bytes, ROOM_MAX)};
    if (o->wish->goal == PARTITION_LEAST_STAGE)
        return (struct use){bytes + stage_handover(o, speed), speed};
    return (struct use){bytes * (PARTITION_TICKS / speed) + handover_ticks(o), 1};
}

/* False: a device would hold more than it can, or a cluster is on several devices. */
static bool candidate_score(struct optimum *o, struct score *score)
{
    uint32_t n_devices = o->wish->n_devices;
    memset(o->held, 0, (n_devices + 1ul) * sizeof(*o->held));
    for (uint32_t u = 0; u < o->units.n; u++) {
        if (o->devices[u] != o->devices[o->units.anchors[u]])
            return false;
        o->held[o->devices[u]] += o->line.before[u + 1] - o->line.before[u];
    }
    *score = (struct score){.nowhere_bytes = o->held[n_devices], .use = {0, 1}};
    score->disk_bytes = o->disk < n_devices ? o->held[o->disk] : 0;
    score->cpu_bytes = o->cpu < n_devices ? o->held[o->cpu] : 0;
    for (uint32_t d = 0; d < n_devices && d != o->disk; d++)
        if (o->held[d] > room_of(&o->wish->devices[d], kept_on(o, d)))
            return false;
    for (uint32_t d = 0; d < o->n_gpus; d++) {
        struct use use = use_of(o, d);
        if (o->wish->goal == PARTITION_LEAST_LATENCY)
            score->use.part += use.part;
        else if (use_is_less(score->use, use))
            score->use = use;
    }
    return true;
}

static bool score_is_less(const struct score *a, const struct score *b)
{
    if (a->nowhere_bytes != b->nowhere_bytes)
        return a->nowhere_bytes < b->nowhere_bytes;
    if (a->disk_bytes != b->disk_bytes)
        return a->disk_bytes < b->disk_bytes;
    if (a->cpu_bytes != b->cpu_bytes)
        return a->cpu_bytes < b->cpu_bytes;
    return use_is_less(a->use, b->use);
}

static void candidate_judge(struct optimum *o)
{
    struct score score;
    if (!candidate_score(o, &score) || (o->has_best && !score_is_less(&score, &o->best_score)))
        return;
    o->has_best = true;
    o->best_score = score;
    memcpy(o->best, o->devices, o->units.n * sizeof(*o->best));
}

/*
 * The devices of units in a placement of Accelerate; buffers that it left out go with the unit
 * behind.
 */
static void units_read(struct optimum *o, const struct placement *placement)
{
    uint32_t next = 0;
    for (uint32_t u = o->units.n; u-- > 0;) {
        uint32_t node = o->units.nodes[u];
        while (node > 0 && placement->devices[node] == NODE_NONE)
            node = node_parent(o->units.tree, node);
        next = o->devices[u] =
            placement->devices[node] == NODE_NONE ? next : placement->devices[node];
    }
}

static bool accelerate_try(struct optimum *o, enum partition_method method)
{
    const struct partition_tree *tree = o->units.tree;
    size_t n_nodes = (size_t)tree->n_modules + tree->n_tensors;
    struct partition_wish wish = {
        .method = method, .devices = o->wish->devices, .n_devices = o->wish->n_devices};
    struct placement placement = {tree, malloc(n_nodes * sizeof(uint32_t))};
    bool is_ok = placement.devices != NULL;
    if (is_ok) {
        memset(placement.devices, 0xff, n_nodes * sizeof(uint32_t));
        is_ok = partition_accelerate(&wish, &placement);
    }
    if (is_ok) {
        units_read(o, &placement);
        candidate_judge(o);
    }
    free(placement.devices);
    return is_ok;
}

/* The use of the GPUs' memory by the whole model, whether it fits or not. */
static void needed_find(struct optimum *o)
{
    uint32_t n_stages = 0;
    for (uint32_t d = 0; d < o->n_gpus; d++) {
        const struct partition_device *gpu = &o->wish->devices[d];
        if (gpu->mem_bytes > 0)
            o->stages[n_stages++] = (struct unit_stage){
                UINT64_MAX, MIN(gpu->reserve_bytes, ROOM_MAX), MIN(gpu->mem_bytes, ROOM_MAX)};
    }
    if (n_stages == 0)
        return;
    const struct cutting c = {&o->line, o->line.n, o->stages, n_stages};
    struct use needed = stages_least_use(&c, o->ends);
    if (o->needed.whole == 0 || use_is_less(needed, o->needed))
        o->needed = needed;
}

static bool contiguous_try(struct optimum *o)
{
    needed_find(o);
    if (!contiguous_find(o))
        return false;
    candidate_judge(o);
    return true;
}

static bool candidates_try(struct optimum *o)
{
    if (!contiguous_try(o))
        return false;
    if (!o->units.has_clusters)
        return true;
    units_turn_anchors(&o->units);
    unit_line_release(&o->line);
    if (!unit_line_init(&o->line, &o->units) || !contiguous_try(o))
        return false;
    return accelerate_try(o, PARTITION_BALANCED) && accelerate_try(o, PARTITION_BALANCED_LOW_0) &&
           accelerate_try(o, PARTITION_SEQUENTIAL);
}

/* ---------------------------------------------------------------- the result */

static void best_place(struct optimum *o, struct placement *placement, struct partition_map *map)
{
    memcpy(o->devices, o->best, o->units.n * sizeof(*o->best));
    struct score score;
    bool is_valid = candidate_score(o, &score);
    ASSERT(is_valid);
    for (uint32_t u = 0; u < o->units.n; u++)
        placement->devices[o->units.nodes[u]] = o->best[u];
    if (o->needed.whole > 0)
        map->needed_use = (double)o->needed.part / (double)o->needed.whole;
    for (uint32_t d = 0; d < o->wish->n_devices; d++)
        map->loads[d].reserve_bytes =
            (o->held[d] > 0 ? o->wish->devices[d].reserve_bytes : 0) + kept_on(o, d);
}

static void optimum_release(struct optimum *o)
{
    units_release(&o->units);
    unit_line_release(&o->line);
    free(o->stages);
    free(o->ends);
    free(o->held);
    free(o->devices);
    free(o->best);
}

static bool optimum_init(struct optimum *o, const struct partition_wish *wish,
                         const struct partition_tree *tree)
{
    *o = (struct optimum){.wish = wish, .n_gpus = partition_gpus(wish)};
    o->cpu = o->disk = wish->n_devices;
    for (uint32_t d = o->n_gpus; d < wish->n_devices; d++)
        *(wish->devices[d].kind == PARTITION_CPU ? &o->cpu : &o->disk) = d;
    if (!units_init(&o->units, tree) || !unit_line_init(&o->line, &o->units))
        return false;
    o->stages = calloc(o->n_gpus + 1ul, sizeof(*o->stages));
    o->ends = calloc(o->n_gpus + 1ul, sizeof(*o->ends));
    o->held = calloc(wish->n_devices + 1ul, sizeof(*o->held));
    o->devices = calloc(o->units.n + 1ul, sizeof(*o->devices));
    o->best = calloc(o->units.n + 1ul, sizeof(*o->best));
    return o->stages && o->ends && o->held && o->devices && o->best;
}

bool partition_optimal(const struct partition_wish *wish, struct placement *placement,
                       struct partition_map *map)
{
    struct optimum o;
    bool is_ok = optimum_init(&o, wish, placement->tree) && candidates_try(&o);
    if (is_ok)
        best_place(&o, placement, map);
    optimum_release(&o);
    return is_ok;
}
