/* SPDX-License-Identifier: Apache-2.0
 *
 * How long device maps take: a model of blocks that may be cut, with 8 modules of one tensor each,
 * an embedding and a head that shares its memory, over devices that differ a little.
 *
 *     bench_partition [TENSORS] [DEVICES] [ROUNDS]      default 100000, 16 and 1
 *
 * One line a round: milliseconds of one core's time for auto, sequential, and optimal for memory,
 * stage and latency, with tabs between; what is timed is partition_new() and partition_free().
 */
#include <stdio.h>
#include <time.h>

#include "base/env_list.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "core/partition.h"

enum {
    BLOCK_TENSORS = 8
};

/* Never freed: the program ends soon. */
static struct env_list names;
static struct partition_module *modules;
static struct partition_tensor *tensors;

static struct str name_of(size_t block, size_t part)
{
    char *name = xasprintf("layers.%zu.%zu", block, part);
    env_list_add(&names, name);
    return str_of(name);
}

static void tensor_add(struct partition_model *model, uint64_t bytes)
{
    tensors[model->n_tensors++] = (struct partition_tensor){
        .name = name_of(model->n_modules, model->n_tensors),
        .bytes = bytes,
        .module = (uint32_t)model->n_modules - 1,
    };
}

static void module_add(struct partition_model *model, struct str name, uint32_t parent)
{
    modules[model->n_modules++] = (struct partition_module){.name = name, .parent = parent};
}

static struct partition_model model_make(size_t n_tensors)
{
    modules = xcalloc(2 * n_tensors + 8, sizeof(*modules));
    tensors = xcalloc(n_tensors + BLOCK_TENSORS + 2, sizeof(*tensors));
    struct partition_model model = {modules, 0, tensors, 0};
    module_add(&model, STR(""), 0);
    module_add(&model, STR("embed"), 0);
    tensor_add(&model, 4000000);
    module_add(&model, STR("layers"), 0);
    for (size_t block = 0; model.n_tensors + 1 < n_tensors; block++) {
        uint32_t around = (uint32_t)model.n_modules;
        module_add(&model, name_of(block, 0), 2);
        for (size_t part = 0; part < BLOCK_TENSORS && model.n_tensors + 1 < n_tensors; part++) {
            module_add(&model, name_of(block, part), around);
            tensor_add(&model, 100000 + 7919 * (block * part % 31));
        }
    }
    module_add(&model, STR("head"), 0);
    tensor_add(&model, 4000000);
    tensors[0].tied = tensors[model.n_tensors - 1].tied = 1;
    return model;
}

static double cpu_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static double map_ms(const struct partition_model *model, const struct partition_wish *wish)
{
    double began_ms = cpu_ms();
    struct partition_map *map = partition_new(model, wish);
    ASSERT(map && map->missing_bytes == 0);
    partition_free(map);
    return cpu_ms() - began_ms;
}

static uint64_t number_of(int argc, char **argv, int i, uint64_t otherwise)
{
    uint64_t number = otherwise;
    if (i < argc && u64_parse(str_of(argv[i]), 1, 100000000, &number, NULL) != 0) {
        fprintf(stderr, "usage: bench_partition [TENSORS] [DEVICES] [ROUNDS]\n");
        exit(2);
    }
    return number;
}

int main(int argc, char **argv)
{
    struct partition_model model = model_make(number_of(argc, argv, 1, 100000));
    uint32_t n_devices = (uint32_t)number_of(argc, argv, 2, 16);
    uint64_t model_bytes = 0;
    for (size_t t = 0; t < model.n_tensors; t++)
        model_bytes += model.tensors[t].bytes;
    struct partition_device *devices = xcalloc(n_devices, sizeof(*devices));
    for (uint32_t d = 0; d < n_devices; d++)
        devices[d] = (struct partition_device){.mem_bytes = 2 * model_bytes / n_devices + 10000000 +
                                                            1000 * d,
                                               .reserve_bytes = 1000000,
                                               .speed = 1 + d % 2};
    static const struct {
        enum partition_method method;
        enum partition_goal goal;
    } kinds[] = {
        {PARTITION_BALANCED, 0},
        {PARTITION_SEQUENTIAL, 0},
        {PARTITION_OPTIMAL, PARTITION_LEAST_MEMORY},
        {PARTITION_OPTIMAL, PARTITION_LEAST_STAGE},
        {PARTITION_OPTIMAL, PARTITION_LEAST_LATENCY},
    };
    for (uint64_t round = number_of(argc, argv, 3, 1); round > 0; round--) {
        for (size_t i = 0; i < countof(kinds); i++) {
            struct partition_wish wish = {.method = kinds[i].method,
                                          .goal = kinds[i].goal,
                                          .devices = devices,
                                          .n_devices = n_devices,
                                          .handover_time = 1000};
            printf("%s%.3f", i > 0 ? "\t" : "", map_ms(&model, &wish));
        }
        printf("\n");
    }
    free(devices);
    return 0;
}
