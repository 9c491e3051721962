/* SPDX-License-Identifier: Apache-2.0
 *
 * muster's maps against those that Accelerate made: all maps of the *.txt in the folders that are
 * named, key by key.
 */
#include <dirent.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/xalloc.h"
#include "device_maps/records.h"

static bool keys_match(const struct record_case *c, const struct partition_map *map)
{
    struct key_reader reader = {.rest = c->keys};
    struct buf key = BUF_INIT;
    struct str device;
    size_t i = 0;
    bool is_same = true;
    for (; is_same && key_next(&reader, &key, &device); i++)
        is_same = i < map->n_entries && str_equal(map->entries[i].name, buf_str(&key)) &&
                  map->entries[i].device == record_device(c, device);
    buf_release(&key);
    return is_same && i == map->n_entries;
}

static void map_print(const struct partition_map *map)
{
    for (size_t i = 0; i < map->n_entries; i++)
        printf(" %.*s=%u", (int)map->entries[i].name.len, map->entries[i].name.at,
               map->entries[i].device);
    printf("\n");
}

/* Tensors that share memory have it once, wherever they are. */
static uint64_t model_bytes(const struct partition_model *model)
{
    bool *seen = calloc(model->n_tensors + 1, sizeof(*seen));
    uint64_t sum = 0;
    ASSERT(seen);
    for (size_t t = 0; t < model->n_tensors; t++) {
        uint32_t tied = model->tensors[t].tied;
        sum += tied > 0 && seen[tied] ? 0 : model->tensors[t].bytes;
        seen[tied] = true;
    }
    free(seen);
    return sum;
}

static bool case_check(const struct record *r, const struct partition_model *model,
                       const struct record_case *c)
{
    struct partition_wish wish = {
        .method = c->method,
        .devices = c->devices,
        .n_devices = c->n_devices,
        .sets_no_limits = c->free,
        .fallback_allocation = c->fallback,
        .keeps_pieces = c->pieces,
    };
    struct partition_map *map = partition_new(model, &wish);
    ASSERT(map);
    bool is_same = keys_match(c, map);
    if (!is_same) {
        printf("# %.*s: %.*s\n#   recorded: %.*s\n#   made:    ", (int)r->name.len, r->name.at,
               (int)c->line.len, c->line.at, (int)c->keys.len, c->keys.at);
        map_print(map);
    }
    uint64_t sum = 0;
    for (uint32_t d = 0; d <= c->n_devices; d++)
        sum += map->loads[d].weight_bytes;
    if (sum != model_bytes(model)) {
        printf("# %.*s: %.*s: the loads do not add up\n", (int)r->name.len, r->name.at,
               (int)c->line.len, c->line.at);
        is_same = false;
    }
    partition_free(map);
    return is_same;
}

static size_t n_models, n_maps, n_wrong;

static void record_check(const struct record *r)
{
    struct partition_model model = {r->modules, r->n_modules, r->tensors, r->n_tensors};
    for (size_t i = 0; i < r->n_cases; i++, n_maps++)
        n_wrong += !case_check(r, &model, &r->cases[i]);
}

static void file_check(const char *path)
{
    struct buf text = BUF_INIT;
    struct err err = {0};
    if (file_read(path, (size_t)1 << 30, &text, &err) != 0) {
        printf("Bail out! %s\n", err.text);
        exit(1);
    }
    size_t n;
    struct record *records = records_read(buf_str(&text), &n);
    for (size_t r = 0; r < n; r++)
        record_check(&records[r]);
    n_models += n;
    records_free(records, n);
    buf_release(&text);
}

static void folder_check(const char *folder)
{
    DIR *dir = opendir(folder);
    if (!dir) {
        printf("Bail out! no folder %s\n", folder);
        exit(1);
    }
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (!str_ends_with(str_of(entry->d_name), STR(".txt")))
            continue;
        char *path = xasprintf("%s/%s", folder, entry->d_name);
        file_check(path);
        free(path);
    }
    closedir(dir);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        folder_check(argv[i]);
    bool is_ok = n_wrong == 0 && n_maps > 0;
    printf("1..1\n%s 1 - %zu maps of %zu models are those of Accelerate\n", is_ok ? "ok" : "not ok",
           n_maps, n_models);
    return !is_ok;
}
