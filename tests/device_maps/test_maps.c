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

/* Of a GPU's memory; negative if something is not on a GPU. Where limits are 0, nothing is. */
static double highest_use(const struct record_case *c, const struct partition_map *map)
{
    double highest = 0;
    for (uint32_t d = 0; d <= c->n_devices; d++) {
        uint64_t bytes = map->loads[d].weight_bytes;
        if (bytes > 0 && (d == c->n_devices || c->devices[d].kind != PARTITION_GPU))
            return -1;
        if (bytes > 0)
            highest = MAX(highest, (double)bytes / (double)c->devices[d].mem_bytes);
    }
    return highest;
}

/*
 * Is an optimal map never above this one? Accelerate may overfill a device, since it counts bits of
 * bools, and shared memory not always; and names such as "w" and "b.w" mislead it to separate
 * tensors that share memory.
 */
static bool is_comparable(const struct record_case *c, const struct partition_model *model,
                          const struct partition_map *map)
{
    uint32_t *devices = malloc((model->n_tensors + 1) * sizeof(*devices));
    ASSERT(devices);
    memset(devices, 0xff, (model->n_tensors + 1) * sizeof(*devices));
    bool are_together = true;
    for (size_t t = 0; t < model->n_tensors; t++) {
        uint32_t *device = &devices[model->tensors[t].tied];
        are_together &= model->tensors[t].tied == 0 || *device == UINT32_MAX ||
                        *device == map->tensor_devices[t];
        *device = map->tensor_devices[t];
    }
    free(devices);
    double use = highest_use(c, map);
    return are_together && use >= 0 && use <= 1 && !c->fallback;
}

/* How much less an optimal map uses, of maps of public models that Accelerate balances on GPUs. */
static struct {
    double at[4096];
    size_t n;
} gains;

static bool optimum_check(const struct record *r, const struct partition_model *model,
                          const struct record_case *c, double accelerate_use)
{
    struct partition_wish wish = {
        .method = PARTITION_OPTIMAL, .devices = c->devices, .n_devices = c->n_devices};
    struct partition_map *map = partition_new(model, &wish);
    ASSERT(map);
    double use = highest_use(c, map);
    partition_free(map);
    if (r->config.len > 0 && c->method == PARTITION_BALANCED && c->n_devices > 2 &&
        gains.n < countof(gains.at))
        gains.at[gains.n++] = 1 - use / accelerate_use;
    if (use >= 0 && use <= accelerate_use)
        return true;
    printf("# %.*s: %.*s: an optimal map uses %.4f of a GPU, Accelerate's %.4f\n", (int)r->name.len,
           r->name.at, (int)c->line.len, c->line.at, use, accelerate_use);
    return false;
}

static bool case_check(const struct record *r, const struct partition_model *model,
                       const struct record_case *c, bool *is_optimal)
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
    *is_optimal = !is_comparable(c, model, map) || optimum_check(r, model, c, highest_use(c, map));
    partition_free(map);
    return is_same;
}

static size_t n_models, n_maps, n_wrong, n_above;

static void record_check(const struct record *r)
{
    struct partition_model model = {r->modules, r->n_modules, r->tensors, r->n_tensors};
    for (size_t i = 0; i < r->n_cases; i++, n_maps++) {
        bool is_optimal;
        n_wrong += !case_check(r, &model, &r->cases[i], &is_optimal);
        n_above += !is_optimal;
    }
}

static int gains_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
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
    bool is_same = n_wrong == 0 && n_maps > 0;
    printf("1..2\n%s 1 - %zu maps of %zu models are those of Accelerate\n",
           is_same ? "ok" : "not ok", n_maps, n_models);
    printf("%s 2 - no optimal map uses more of a GPU\n", n_above == 0 ? "ok" : "not ok");
    if (gains.n > 0) {
        qsort(gains.at, gains.n, sizeof(gains.at[0]), gains_compare);
        printf(
            "# of %zu balanced maps of public models, the highest use is lower by %.1f %% in the "
            "median, %.1f %% at most\n",
            gains.n, gains.at[gains.n / 2] * 100, gains.at[gains.n - 1] * 100);
    }
    return !is_same || n_above > 0;
}
