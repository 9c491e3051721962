/* SPDX-License-Identifier: Apache-2.0
 *
 * Models for the tests of partitions: a tree that is written down module by module, and maps
 * compared with text.
 */
#pragma once

#include "core/partition.h"

enum {
    SCENE_MAX = 64
};

struct partition_scene {
    struct partition_module modules[SCENE_MAX];
    struct partition_tensor tensors[SCENE_MAX];
    char names[2 * SCENE_MAX][48];
    struct partition_model model;
    size_t n_names;
};

/* A scene with the root. */
void scene_begin(struct partition_scene *scene);
/*
 * Modules and tensors come depth-first; names are the full ones. Returns the number of the
 * module.
 */
uint32_t scene_module(struct partition_scene *scene, const char *name, uint32_t parent);
/* The same, never cut. */
uint32_t scene_block(struct partition_scene *scene, const char *name, uint32_t parent);
/* A parameter of the last module. */
struct partition_tensor *scene_tensor(struct partition_scene *scene, const char *name,
                                      uint64_t bytes);

/*
 * The text of a map: "a=0 b.c=1 d=-", where "-" stands for no device. In a buffer that the next
 * call overwrites.
 */
const char *scene_map_text(const struct partition_map *map, uint32_t n_devices);
/* The map of a wish, as that text. */
const char *scene_map(const struct partition_scene *scene, const struct partition_wish *wish);
