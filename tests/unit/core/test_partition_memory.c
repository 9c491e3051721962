/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions for which memory runs out, at each of their allocations. Leaks are for ASan to find.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "unit/core/partition_scene.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static unsigned fails_after = UINT32_MAX; /* so many allocations */

void *__wrap_malloc(size_t size)
{
    return fails_after > 0 && fails_after-- > 0 ? __real_malloc(size) : NULL;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails_after > 0 && fails_after-- > 0 ? __real_calloc(count, size) : NULL;
}

static struct partition_map *map_or_null(const struct partition_scene *scene,
                                         const struct partition_wish *wish, unsigned n_allocations)
{
    fails_after = n_allocations;
    struct partition_map *map = partition_new(&scene->model, wish);
    fails_after = UINT32_MAX;
    return map;
}

static void memory_may_run_out_at_each_allocation(void **state)
{
    (void)state;
    static struct partition_scene scene;
    scene_begin(&scene);
    scene_module(&scene, "a", 0);
    scene_tensor(&scene, "a.w", 10)->tied = 1;
    scene_module(&scene, "b", 0);
    scene_tensor(&scene, "b.w", 10)->tied = 1;
    scene_tensor(&scene, "b.v", 10);
    scene_module(&scene, "c", 0);
    scene_tensor(&scene, "c.w", 30);
    const struct partition_device devices[] = {{.mem_bytes = 20}, {.mem_bytes = 20}};
    for (enum partition_method method = PARTITION_BALANCED; method <= PARTITION_OPTIMAL; method++) {
        for (enum partition_goal goal = PARTITION_LEAST_MEMORY; goal <= PARTITION_LEAST_LATENCY;
             goal++) {
            const struct partition_wish wish = {
                .method = method, .goal = goal, .devices = devices, .n_devices = countof(devices)};
            struct partition_map *map = NULL;
            unsigned n = 0;
            while (!(map = map_or_null(&scene, &wish, n)))
                n++;
            assert_in_range(n, 20, 200);
            assert_int_equal(map->missing_bytes > 0, true);
            partition_free(map);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_may_run_out_at_each_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
