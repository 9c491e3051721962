/* SPDX-License-Identifier: Apache-2.0
 *
 * Partitions of small models, as scenes. That maps are those of Accelerate: tests/device_maps.
 */
#include "unit/test.h"

#include "base/attr.h"
#include "base/rng.h"
#include "unit/core/partition_scene.h"

#define GPU(bytes)                                  \
    {                                               \
        .kind = PARTITION_GPU, .mem_bytes = (bytes) \
    }
#define CPU(bytes)                                  \
    {                                               \
        .kind = PARTITION_CPU, .mem_bytes = (bytes) \
    }
#define DISK                   \
    {                          \
        .kind = PARTITION_DISK \
    }
#define ON(list) .devices = (list), .n_devices = countof(list)

/* Six blocks of 10 bytes between an embedding of 6 and a head of 6, as language models are. */
static struct partition_scene scene;

static void blocks_begin(void)
{
    scene_begin(&scene);
    uint32_t model = scene_module(&scene, "model", 0);
    scene_module(&scene, "model.embed", model);
    scene_tensor(&scene, "model.embed.weight", 6);
    uint32_t layers = scene_module(&scene, "model.layers", model);
    for (uint32_t i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof(name), "model.layers.%u", i);
        scene_block(&scene, name, layers);
        snprintf(name, sizeof(name), "model.layers.%u.weight", i);
        scene_tensor(&scene, name, 10);
    }
    scene_module(&scene, "head", 0);
    scene_tensor(&scene, "head.weight", 6);
}

static void tie_head(void)
{
    scene.tensors[0].tied = scene.tensors[scene.model.n_tensors - 1].tied = 1;
}

static void what_fits_on_one_device_is_one_key(void **state)
{
    (void)state;
    blocks_begin();
    const struct partition_device devices[] = {GPU(1000)};
    struct partition_wish wish = {.method = PARTITION_SEQUENTIAL, ON(devices)};
    assert_string_equal(scene_map(&scene, &wish), "=0");
    wish.method = PARTITION_OPTIMAL;
    assert_string_equal(scene_map(&scene, &wish), "=0");
    wish.keeps_pieces = true;
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=0 "
                        "model.layers.3=0 model.layers.4=0 model.layers.5=0 head=0");
}

static void an_optimal_map_has_the_least_highest_use(void **state)
{
    (void)state;
    blocks_begin();
    const struct partition_device even[] = {GPU(40), GPU(40)};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(even)};
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=0 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
    /* Relative to their sizes: 26 of 60 bytes and 46 of 120, not 36 and 36. */
    const struct partition_device uneven[] = {GPU(60), GPU(120)};
    wish.devices = uneven;
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=1 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
}

/* None may have more than 20. Filled one after the other, four would hold all. */
static void devices_that_are_not_the_fullest_are_level(void **state)
{
    (void)state;
    blocks_begin();
    const struct partition_device devices[] = {GPU(100), GPU(100), GPU(100), GPU(100), GPU(100)};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=1 model.layers.2=2 "
                        "model.layers.3=2 model.layers.4=3 model.layers.5=4 head=4");
}

static void caches_and_reserves_count(void **state)
{
    (void)state;
    blocks_begin();
    for (size_t m = 0; m < scene.model.n_modules; m++)
        scene.modules[m].kv_bytes = scene.modules[m].is_whole ? 10 : 0;
    struct partition_device devices[] = {GPU(100), GPU(100)};
    devices[0].reserve_bytes = 30;
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    struct partition_map *map = partition_new(&scene.model, &wish);
    assert_non_null(map);
    assert_string_equal(scene_map_text(map, 2),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=1 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
    assert_int_equal(map->loads[0].weight_bytes, 26);
    assert_int_equal(map->loads[0].kv_bytes, 20);
    assert_int_equal(map->loads[0].reserve_bytes, 30);
    assert_int_equal(map->loads[1].kv_bytes, 40);
    assert_true(map->needed_use > 0.859 && map->needed_use < 0.861);
    partition_free(map);
}

static void shared_memory_is_on_one_device_and_counted_once(void **state)
{
    (void)state;
    blocks_begin();
    tie_head();
    const struct partition_device devices[] = {GPU(36), GPU(36)};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    struct partition_map *map = partition_new(&scene.model, &wish);
    assert_non_null(map);
    assert_string_equal(scene_map_text(map, 2),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=0 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=0");
    assert_int_equal(map->loads[0].weight_bytes, 36);
    assert_int_equal(map->loads[1].weight_bytes, 30);
    partition_free(map);
    const struct partition_device larger_last[] = {GPU(30), GPU(36)};
    wish.devices = larger_last; /* then both are with the head */
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=1 model.layers.0=0 model.layers.1=0 model.layers.2=0 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
}

/* To Accelerate, "w" holds "h.w", so it takes "g" along and leaves "h" behind. */
static void names_do_not_part_what_shares_memory(void **state)
{
    (void)state;
    scene_begin(&scene);
    scene_tensor(&scene, "w", 4);
    scene_block(&scene, "g", 0);
    scene_tensor(&scene, "g.v", 5)->tied = 1;
    scene_tensor(&scene, "g.x", 20);
    scene_block(&scene, "h", 0);
    scene_tensor(&scene, "h.w", 5)->tied = 1;
    scene_tensor(&scene, "h.x", 17);
    const struct partition_device devices[] = {GPU(0), GPU(40), GPU(40)};
    struct partition_wish wish = {.method = PARTITION_SEQUENTIAL, ON(devices)};
    assert_string_equal(scene_map(&scene, &wish), "w=1 g=1 h=2");
    wish.method = PARTITION_OPTIMAL;
    assert_string_equal(scene_map(&scene, &wish), "w=1 g=- h=-");
}

static void what_fits_nowhere_is_told(void **state)
{
    (void)state;
    blocks_begin();
    const struct partition_device devices[] = {GPU(26), GPU(20)};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    struct partition_map *map = partition_new(&scene.model, &wish);
    assert_non_null(map);
    assert_string_equal(scene_map_text(map, 2),
                        "model.embed=0 model.layers.0=0 model.layers.1=0 model.layers.2=1 "
                        "model.layers.3=1 model.layers.4=- model.layers.5=- head=-");
    assert_int_equal(map->missing_bytes, 26);
    assert_int_equal(map->missing_unit_bytes, 10);
    assert_true(str_equal(map->missing_name, STR("model.layers.4")));
    assert_true(map->needed_use > 1.7 && map->needed_use < 1.9); /* 36 of 20, or 46 of 26 */
    partition_free(map);
    wish.method = PARTITION_SEQUENTIAL; /* its first device keeps 10 free */
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=1 model.layers.2=1 "
                        "model.layers.3=- model.layers.4=- model.layers.5=- head=-");
}

static void the_rest_goes_to_the_cpu_and_to_the_disk(void **state)
{
    (void)state;
    blocks_begin();
    /* The GPU keeps room for a block that is elsewhere, the CPU for one on the disk. */
    const struct partition_device devices[] = {GPU(26), CPU(30), DISK};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    struct partition_map *map = partition_new(&scene.model, &wish);
    assert_non_null(map);
    assert_string_equal(scene_map_text(map, 3),
                        "model.embed=0 model.layers.0=0 model.layers.1=1 model.layers.2=1 "
                        "model.layers.3=2 model.layers.4=2 model.layers.5=2 head=2");
    assert_int_equal(map->loads[0].reserve_bytes, 10);
    assert_int_equal(map->loads[1].reserve_bytes, 10);
    assert_int_equal(map->missing_bytes, 0);
    partition_free(map);
}

static void stages_are_cut_by_speed(void **state)
{
    (void)state;
    blocks_begin();
    struct partition_device devices[] = {GPU(100), GPU(100)};
    devices[1].speed = 3;
    struct partition_wish wish = {
        .method = PARTITION_OPTIMAL, .goal = PARTITION_LEAST_STAGE, ON(devices)};
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=1 model.layers.2=1 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
    wish.goal = PARTITION_LEAST_LATENCY;
    assert_string_equal(scene_map(&scene, &wish), "=1");
    devices[1].mem_bytes = 60;
    assert_string_equal(scene_map(&scene, &wish),
                        "model.embed=0 model.layers.0=0 model.layers.1=1 model.layers.2=1 "
                        "model.layers.3=1 model.layers.4=1 model.layers.5=1 head=1");
}

/* A buffer of a module that is cut has no key in Accelerate's maps, and one in optimal ones. */
static void tensors_between_modules_have_keys(void **state)
{
    (void)state;
    scene_begin(&scene);
    scene_tensor(&scene, "scale", 3);
    scene_tensor(&scene, "steps", 1)->is_buffer = true;
    uint32_t a = scene_module(&scene, "a", 0);
    scene_tensor(&scene, "a.w", 4);
    scene_tensor(&scene, "a.mask", 2)->is_buffer = true;
    scene_module(&scene, "a.b", a);
    scene_tensor(&scene, "a.b.w", 4);
    scene_module(&scene, "a.c", a);
    scene_tensor(&scene, "a.c.w", 4);
    const struct partition_device devices[] = {GPU(12), GPU(12)};
    struct partition_wish wish = {.method = PARTITION_OPTIMAL, ON(devices)};
    assert_string_equal(scene_map(&scene, &wish), "scale=0 steps=1 a.w=0 a.mask=0 a.b=1 a.c=1");
    wish.method = PARTITION_SEQUENTIAL;
    assert_string_equal(scene_map(&scene, &wish), "scale=0 steps=1 a.w=0 a.b=1 a.c=1");
}

static void a_model_may_be_nothing_or_the_root_alone(void **state)
{
    (void)state;
    const struct partition_device devices[] = {GPU(10), GPU(0), CPU(5)};
    for (enum partition_method method = PARTITION_BALANCED; method <= PARTITION_OPTIMAL; method++) {
        scene_begin(&scene);
        struct partition_wish wish = {.method = method, ON(devices)};
        assert_string_equal(scene_map(&scene, &wish), "");
        scene.modules[0].kv_bytes = 1;
        assert_string_equal(scene_map(&scene, &wish), "");
        scene_tensor(&scene, "w", 2);
        assert_string_equal(scene_map(&scene, &wish), "w=0");
        wish.n_devices = 0;
        assert_string_equal(scene_map(&scene, &wish), "w=-");
    }
}

static void sizes_without_end_are_refused(void **state)
{
    (void)state;
    for (enum partition_method method = PARTITION_BALANCED; method <= PARTITION_OPTIMAL; method++) {
        blocks_begin();
        const struct partition_device devices[] = {GPU(UINT64_MAX), GPU(UINT64_MAX),
                                                   CPU(UINT64_MAX)};
        struct partition_wish wish = {.method = method, ON(devices)};
        scene.tensors[0].bytes = PARTITION_BYTES_MAX - 66;
        struct partition_map *map = partition_new(&scene.model, &wish);
        assert_non_null(map);
        assert_false(map->is_too_large);
        assert_int_equal(map->loads[0].weight_bytes + map->loads[1].weight_bytes +
                             map->loads[2].weight_bytes,
                         PARTITION_BYTES_MAX);
        partition_free(map);
        for (int i = 0; i < 3; i++) {
            blocks_begin();
            scene.tensors[3].bytes = i == 0 ? PARTITION_BYTES_MAX - 61 : i == 1 ? UINT64_MAX : 10;
            scene.modules[3].kv_bytes = i == 2 ? UINT64_MAX : 0;
            map = partition_new(&scene.model, &wish);
            assert_non_null(map);
            assert_true(map->is_too_large);
            assert_int_equal(map->n_entries, 0);
            partition_free(map);
        }
    }
    partition_free(NULL);
}

/* A million tensors, each in a module, in blocks that may be cut; all in a few devices. */
static void a_million_tensors_are_not_too_many(void **state)
{
    SKIP_UNDER_VALGRIND();
    (void)state;
    enum {
        N = 1000000,
        BLOCK = 100
    };
    struct partition_module *modules = calloc(N + N / BLOCK + 1, sizeof(*modules));
    struct partition_tensor *tensors = calloc(N, sizeof(*tensors));
    assert_non_null(modules);
    assert_non_null(tensors);
    struct partition_model model = {modules, 1, tensors, N};
    modules[0].name = STR("");
    for (uint32_t t = 0; t < N; t++) {
        if (t % BLOCK == 0)
            modules[model.n_modules++] = (struct partition_module){.name = STR("b")};
        uint32_t block = (uint32_t)model.n_modules - 1 - t % BLOCK;
        modules[model.n_modules] = (struct partition_module){.name = STR("b.m"), .parent = block};
        tensors[t] = (struct partition_tensor){
            .name = STR("b.m.w"), .bytes = 1000 + t % 7, .module = (uint32_t)model.n_modules++};
    }
    const struct partition_device devices[] = {GPU(400000000), GPU(300000000), GPU(400000000)};
    for (enum partition_method method = PARTITION_BALANCED; method <= PARTITION_OPTIMAL; method++) {
        struct partition_wish wish = {.method = method, ON(devices)};
        struct partition_map *map = partition_new(&model, &wish);
        assert_non_null(map);
        assert_true(map->missing_bytes < 10000); /* of low_0, what rounding leaves over */
        if (method == PARTITION_OPTIMAL)
            for (int d = 0; d < 3; d++)
                assert_true(map->loads[d].weight_bytes < devices[d].mem_bytes / 1000 * 913);
        partition_free(map);
    }
    free(modules);
    free(tensors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_fits_on_one_device_is_one_key),
        cmocka_unit_test(an_optimal_map_has_the_least_highest_use),
        cmocka_unit_test(devices_that_are_not_the_fullest_are_level),
        cmocka_unit_test(caches_and_reserves_count),
        cmocka_unit_test(shared_memory_is_on_one_device_and_counted_once),
        cmocka_unit_test(names_do_not_part_what_shares_memory),
        cmocka_unit_test(what_fits_nowhere_is_told),
        cmocka_unit_test(the_rest_goes_to_the_cpu_and_to_the_disk),
        cmocka_unit_test(stages_are_cut_by_speed),
        cmocka_unit_test(tensors_between_modules_have_keys),
        cmocka_unit_test(a_model_may_be_nothing_or_the_root_alone),
        cmocka_unit_test(sizes_without_end_are_refused),
        cmocka_unit_test(a_million_tensors_are_not_too_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
