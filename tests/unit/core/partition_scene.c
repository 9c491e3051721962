/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/partition_scene.h"

#include "base/attr.h"

static struct str scene_name(struct partition_scene *scene, const char *name)
{
    ASSERT(scene->n_names < countof(scene->names));
    char *copy = scene->names[scene->n_names++];
    snprintf(copy, sizeof(scene->names[0]), "%s", name);
    return str_of(copy);
}

void scene_begin(struct partition_scene *scene)
{
    *scene = (struct partition_scene){.model = {scene->modules, 1, scene->tensors, 0}};
    scene->modules[0].name = STR("");
}

uint32_t scene_module(struct partition_scene *scene, const char *name, uint32_t parent)
{
    ASSERT(scene->model.n_modules < SCENE_MAX);
    scene->modules[scene->model.n_modules] =
        (struct partition_module){.name = scene_name(scene, name), .parent = parent};
    return (uint32_t)scene->model.n_modules++;
}

uint32_t scene_block(struct partition_scene *scene, const char *name, uint32_t parent)
{
    uint32_t module = scene_module(scene, name, parent);
    scene->modules[module].is_whole = true;
    return module;
}

struct partition_tensor *scene_tensor(struct partition_scene *scene, const char *name,
                                      uint64_t bytes)
{
    ASSERT(scene->model.n_tensors < SCENE_MAX);
    struct partition_tensor *tensor = &scene->tensors[scene->model.n_tensors++];
    *tensor = (struct partition_tensor){.name = scene_name(scene, name),
                                        .bytes = bytes,
                                        .module = (uint32_t)scene->model.n_modules - 1};
    return tensor;
}

const char *scene_map_text(const struct partition_map *map, uint32_t n_devices)
{
    static char text[4096];
    size_t len = 0;
    text[0] = '\0';
    for (size_t i = 0; i < map->n_entries; i++) {
        const struct partition_entry *entry = &map->entries[i];
        char device[16] = "-";
        if (entry->device < n_devices)
            snprintf(device, sizeof(device), "%u", entry->device);
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%.*s=%s", i > 0 ? " " : "",
                                (int)entry->name.len, entry->name.at, device);
        ASSERT(len < sizeof(text));
    }
    return text;
}

const char *scene_map(const struct partition_scene *scene, const struct partition_wish *wish)
{
    struct partition_map *map = partition_new(&scene->model, wish);
    ASSERT(map);
    const char *text = scene_map_text(map, wish->n_devices);
    partition_free(map);
    return text;
}
