/* SPDX-License-Identifier: Apache-2.0
 *
 * Optimal partitions against all partitions that there are, of small models; and against
 * Accelerate's.
 */
#include "unit/test.h"

#include <string.h>

#include "base/attr.h"
#include "base/rng.h"
#include "unit/core/partition_scene.h"

__extension__ typedef unsigned __int128 u128;

enum {
    UNITS_MAX = 7,
    DEVICES_MAX = 6,
    WORLDS = 10000, /* with three goals each: 30,000 comparisons */
};

/* A model as a sequence of units, and devices for it. */
struct world {
    struct partition_scene scene;
    uint32_t n_units;
    uint64_t weight[UNITS_MAX], kv[UNITS_MAX];
    uint32_t first_tensor[UNITS_MAX];
    bool has_buffer;           /* the last unit is a buffer of the root */
    uint32_t group[UNITS_MAX]; /* units with the same number, above 0, share a tensor */
    struct partition_device devices[DEVICES_MAX];
    struct partition_wish wish;
    uint32_t n_gpus;
};

/* Where units are: n_devices is nowhere. */
typedef uint32_t places[UNITS_MAX];

/* The part that is compared: less is better, from the front. */
struct cost {
    uint64_t nowhere, disk, cpu;
    u128 use, of; /* a fraction */
};

static void unit_draw(struct world *w, struct rng *rng, uint32_t u, uint32_t parent)
{
    static const uint64_t sizes[] = {0, 1, 2, 3, 5, 8, 13, 40};
    char name[32], part[48];
    bool is_block = rng_below(rng, 3) == 0;
    snprintf(name, sizeof(name), "%su%u", parent > 0 ? "g." : "", u);
    uint32_t module =
        is_block ? scene_block(&w->scene, name, parent) : scene_module(&w->scene, name, parent);
    w->kv[u] = sizes[rng_below(rng, 4)];
    w->weight[u] = sizes[rng_below(rng, countof(sizes))];
    w->scene.modules[module].kv_bytes = w->kv[u];
    snprintf(part, sizeof(part), "%s.w", name);
    w->first_tensor[u] = (uint32_t)w->scene.model.n_tensors;
    scene_tensor(&w->scene, part, w->weight[u])->is_buffer = rng_below(rng, 4) == 0;
    if (!is_block)
        return;
    snprintf(part, sizeof(part), "%s.c", name);
    uint32_t below = scene_module(&w->scene, part, module);
    w->scene.modules[below].kv_bytes = 1;
    w->kv[u] += 1;
    snprintf(part, sizeof(part), "%s.c.w", name);
    scene_tensor(&w->scene, part, 2);
    w->weight[u] += 2;
}

/*
 * Tensors of the root: the first unit may be a parameter, the last one a buffer, though that comes
 * before all modules. Returns the number of units that are there.
 */
static uint32_t root_draw(struct world *w, struct rng *rng)
{
    bool has_parameter = rng_below(rng, 5) == 0;
    w->has_buffer = w->n_units > 1 && rng_below(rng, 5) == 0;
    if (has_parameter) {
        w->first_tensor[0] = (uint32_t)w->scene.model.n_tensors;
        scene_tensor(&w->scene, "w", w->weight[0] = rng_below(rng, 9));
    }
    if (w->has_buffer) {
        uint32_t last = w->n_units - 1;
        w->first_tensor[last] = (uint32_t)w->scene.model.n_tensors;
        scene_tensor(&w->scene, "b", w->weight[last] = rng_below(rng, 9))->is_buffer = true;
    }
    return has_parameter;
}

/* Ties the first tensors of some units, which then have the size of the first of them. */
static void ties_draw(struct world *w, struct rng *rng)
{
    for (uint32_t n = (uint32_t)rng_below(rng, 3); n > 0; n--) {
        uint32_t a = (uint32_t)rng_below(rng, w->n_units), b = (uint32_t)rng_below(rng, w->n_units);
        struct partition_tensor *one = &w->scene.tensors[w->first_tensor[MIN(a, b)]],
                                *other = &w->scene.tensors[w->first_tensor[MAX(a, b)]];
        if (a == b || w->group[a] > 0 || w->group[b] > 0 || one->is_buffer != other->is_buffer)
            continue;
        w->group[a] = w->group[b] = one->tied = other->tied = n;
        w->weight[one < other ? MAX(a, b) : MIN(a, b)] -= MAX(one, other)->bytes;
    }
}

static void devices_draw(struct world *w, struct rng *rng)
{
    static const uint64_t sizes[] = {0, 4, 9, 12, 20, 30, 45, 70, 100, UINT64_MAX};
    w->n_gpus = (uint32_t)rng_below(rng, 5);
    uint32_t n = w->n_gpus + (uint32_t)rng_below(rng, 2), n_sizes = rng_below(rng, 4) == 0 ? 10 : 9;
    bool is_even = rng_below(rng, 3) == 0, is_close = rng_below(rng, 3) == 0;
    for (uint32_t d = 0; d < n; d++) {
        uint64_t bytes = is_close ? 9 + rng_below(rng, 40) : sizes[rng_below(rng, n_sizes)];
        w->devices[d] = (struct partition_device){
            .kind = d < w->n_gpus ? PARTITION_GPU : PARTITION_CPU,
            .mem_bytes = is_even && d > 0 ? w->devices[0].mem_bytes : bytes,
            .reserve_bytes = rng_below(rng, 3) == 0 ? rng_below(rng, 6) : 0,
            .speed = (uint32_t)rng_below(rng, 8),
        };
    }
    if (rng_below(rng, 2) == 0)
        w->devices[n++] = (struct partition_device){.kind = PARTITION_DISK};
    w->wish = (struct partition_wish){.method = PARTITION_OPTIMAL,
                                      .devices = w->devices,
                                      .n_devices = n,
                                      .handover_time = rng_below(rng, 12)};
}

static void world_draw(struct world *w, struct rng *rng)
{
    *w = (struct world){.n_units = 1 + (uint32_t)rng_below(rng, UNITS_MAX)};
    scene_begin(&w->scene);
    uint32_t first = root_draw(w, rng), n_last = w->n_units - (uint32_t)w->has_buffer;
    uint32_t group = 0, group_at = (uint32_t)rng_below(rng, UNITS_MAX);
    for (uint32_t u = first; u < n_last; u++) {
        if (u == group_at)
            group = scene_module(&w->scene, "g", 0);
        unit_draw(w, rng, u, group);
    }
    if (rng_below(rng, 2) == 0)
        ties_draw(w, rng);
    devices_draw(w, rng);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static bool has_kind(const struct world *w, enum partition_kind kind)
{
    for (uint32_t d = 0; d < w->wish.n_devices; d++)
        if (w->devices[d].kind == kind)
            return true;
    return false;
}

/* The largest cluster on devices of a kind above this one, or nowhere. */
static uint64_t largest_behind(const struct world *w, const places at, enum partition_kind kind)
{
    uint64_t largest = 0;
    for (uint32_t u = 0; u < w->n_units; u++) {
        uint64_t cluster = w->weight[u];
        for (uint32_t v = 0; v < w->n_units; v++)
            cluster += v != u && w->group[u] > 0 && w->group[v] == w->group[u] ? w->weight[v] : 0;
        if (at[u] == w->wish.n_devices || w->devices[at[u]].kind > kind)
            largest = MAX(largest, cluster);
    }
    return largest;
}

static uint64_t kept(const struct world *w, const places at, uint32_t d)
{
    bool has_disk = has_kind(w, PARTITION_DISK);
    if (d == 0 && w->n_gpus > 0)
        return has_disk || has_kind(w, PARTITION_CPU) ? largest_behind(w, at, PARTITION_GPU) : 0;
    return w->devices[d].kind == PARTITION_CPU && has_disk ? largest_behind(w, at, PARTITION_CPU)
                                                           : 0;
}

static void use_raise(struct cost *cost, u128 use, u128 of)
{
    if (use * cost->of > cost->use * of) {
        cost->use = use;
        cost->of = of;
    }
}

/* What a GPU adds to the cost. */
static void gpu_cost(const struct world *w, uint32_t d, uint64_t held, uint64_t kept_bytes,
                     struct cost *cost)
{
    const struct partition_device *gpu = &w->devices[d];
    uint64_t speed = MAX(gpu->speed, 1u);
    if (held == 0)
        return;
    if (w->wish.goal == PARTITION_LEAST_MEMORY)
        use_raise(cost, held + gpu->reserve_bytes + kept_bytes,
                  MIN(gpu->mem_bytes, 2 * PARTITION_BYTES_MAX));
    if (w->wish.goal == PARTITION_LEAST_STAGE)
        use_raise(cost, held + w->wish.handover_time * speed, speed);
    /* A stage costs a tick more, so that few are better. */
    if (w->wish.goal == PARTITION_LEAST_LATENCY)
        cost->use += (held * (((u128)1 << 48) / speed)) + (((u128)w->wish.handover_time) << 48) + 1;
}

/* False: it is not possible. */
static bool cost_of(const struct world *w, const places at, struct cost *cost)
{
    uint64_t held[DEVICES_MAX + 1] = {0};
    for (uint32_t u = 0; u < w->n_units; u++) {
        held[at[u]] += w->weight[u] + w->kv[u];
        for (uint32_t v = 0; v < u; v++)
            if (w->group[u] > 0 && w->group[v] == w->group[u] && at[v] != at[u])
                return false;
    }
    *cost = (struct cost){.nowhere = held[w->wish.n_devices], .of = 1};
    for (uint32_t d = 0; d < w->wish.n_devices; d++) {
        uint64_t kept_bytes = kept(w, at, d);
        const struct partition_device *device = &w->devices[d];
        if (device->kind == PARTITION_DISK) {
            cost->disk = held[d];
            continue;
        }
        if (held[d] > less(less(device->mem_bytes, device->reserve_bytes), kept_bytes))
            return false;
        if (device->kind == PARTITION_CPU)
            cost->cpu = held[d];
        else
            gpu_cost(w, d, held[d], kept_bytes, cost);
    }
    return true;
}

static int cost_compare(const struct cost *a, const struct cost *b)
{
    if (a->nowhere != b->nowhere)
        return a->nowhere < b->nowhere ? -1 : 1;
    if (a->disk != b->disk)
        return a->disk < b->disk ? -1 : 1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? -1 : 1;
    u128 left = a->use * b->of, right = b->use * a->of;
    return left < right ? -1 : left > right;
}

struct brute {
    const struct world *w;
    bool by_last; /* clusters go with their last unit */
    bool has_best;
    struct cost best;
};

static void brute_judge(struct brute *b, const places at)
{
    struct cost cost;
    if (cost_of(b->w, at, &cost) && (!b->has_best || cost_compare(&cost, &b->best) < 0)) {
        b->best = cost;
        b->has_best = true;
    }
}

/* Puts units of clusters to the first, or the last, of them. */
static void brute_gather(struct brute *b, const places in_order)
{
    places at;
    const struct world *w = b->w;
    for (uint32_t u = 0; u < w->n_units; u++) {
        uint32_t anchor = u;
        for (uint32_t v = 0; v < w->n_units; v++)
            if (w->group[u] > 0 && w->group[v] == w->group[u] &&
                (b->by_last ? v > anchor : v < anchor))
                anchor = v;
        at[u] = in_order[anchor];
    }
    brute_judge(b, at);
}

static void brute_search(struct brute *b, places at, uint32_t u)
{
    if (u == b->w->n_units) {
        brute_gather(b, at);
        return;
    }
    for (at[u] = u > 0 ? at[u - 1] : 0; at[u] <= b->w->wish.n_devices; at[u]++)
        brute_search(b, at, u + 1);
}

static void places_read(const struct world *w, const struct partition_map *map, places at)
{
    for (uint32_t u = 0; u < w->n_units; u++)
        at[u] = map->tensor_devices[w->first_tensor[u]];
}

/* Accelerate's maps are allowed where units share memory. */
static void brute_accelerate(struct brute *b)
{
    for (enum partition_method method = PARTITION_BALANCED; method <= PARTITION_SEQUENTIAL;
         method++) {
        struct partition_wish wish = b->w->wish;
        wish.method = method;
        struct partition_map *map = partition_new(&b->w->scene.model, &wish);
        assert_non_null(map);
        places at;
        places_read(b->w, map, at);
        brute_judge(b, at);
        partition_free(map);
    }
}

static struct cost brute_best(const struct world *w)
{
    struct brute b = {.w = w};
    places at;
    bool has_ties = false;
    for (uint32_t u = 0; u < w->n_units; u++)
        has_ties |= w->group[u] > 0;
    brute_search(&b, at, 0);
    if (has_ties) {
        b.by_last = true;
        brute_search(&b, at, 0);
        brute_accelerate(&b);
    }
    assert_true(b.has_best);
    return b.best;
}

static void loads_check(const struct world *w, const struct partition_map *map, const places at)
{
    for (uint32_t d = 0; d <= w->wish.n_devices; d++) {
        uint64_t weights = 0, kv = 0;
        for (uint32_t u = 0; u < w->n_units; u++) {
            weights += at[u] == d ? w->weight[u] : 0;
            kv += at[u] == d ? w->kv[u] : 0;
        }
        assert_int_equal(map->loads[d].weight_bytes, weights);
        assert_int_equal(map->loads[d].kv_bytes, kv);
        if (d < w->wish.n_devices && w->devices[d].kind != PARTITION_DISK)
            assert_int_equal(map->loads[d].reserve_bytes,
                             (weights + kv > 0 ? w->devices[d].reserve_bytes : 0) + kept(w, at, d));
    }
}

static void an_optimal_map_is_as_good_as_the_best_of_all(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < WORLDS; seed++) {
        struct rng rng = {seed};
        static struct world w;
        world_draw(&w, &rng);
        for (w.wish.goal = PARTITION_LEAST_MEMORY; w.wish.goal <= PARTITION_LEAST_LATENCY;
             w.wish.goal++) {
            struct partition_map *map = partition_new(&w.scene.model, &w.wish);
            assert_non_null(map);
            places at;
            places_read(&w, map, at);
            struct cost cost, best = brute_best(&w);
            if (!cost_of(&w, at, &cost) || cost_compare(&cost, &best) != 0)
                fail_msg("seed %llu, goal %d: %s", (unsigned long long)seed, (int)w.wish.goal,
                         scene_map_text(map, w.wish.n_devices));
            loads_check(&w, map, at);
            partition_free(map);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optimal_map_is_as_good_as_the_best_of_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
