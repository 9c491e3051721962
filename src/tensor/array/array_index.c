/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/array/array_impl.h"
#include "tensor/safetensors_index.h"

/* The shards of one index: files of the set, from `first` on. */
struct shards {
    struct array_set *set;
    const char *path;
    const char *folder;
    size_t first, last; /* last: the file in which a tensor was found last */
};

static bool is_shard(const struct shards *shards, size_t file, struct str name)
{
    return str_equal(str_of(path_basename(shards->set->files[file].path)), name);
}

static int shard_open(struct shards *shards, struct str name, struct err *err)
{
    enum tensor_kind kind;
    cleanup_free char *text = xstrndup(name.at, name.len);
    if (name.len == 0 || strchr(text, '/') || strcmp(text, "..") == 0 || strlen(text) != name.len)
        return fail(err, ERR_DATA, "%s: '%s' is no file beside it", shards->path, text);
    cleanup_free char *path = path_join(shards->folder, text);
    if (!path_exists(path))
        return fail(err, ERR_DATA, "%s: its shard %s is not there", shards->path, path);
    int rc = tensor_kind_of(path, &kind, err);
    if (rc == 0 && kind != TENSOR_SAFETENSORS)
        return fail(err, ERR_DATA, "%s: its shard %s is no file of safetensors", shards->path,
                    path);
    if (rc == 0)
        rc = array_set_add(shards->set, path, err);
    shards->last = shards->set->n_files - 1;
    return rc;
}

static int shard_find(struct shards *shards, struct str name, struct err *err)
{
    if (shards->last < shards->set->n_files && is_shard(shards, shards->last, name))
        return 0;
    for (size_t i = shards->first; i < shards->set->n_files; i++)
        if (is_shard(shards, i, name)) {
            shards->last = i;
            return 0;
        }
    return shard_open(shards, name, err);
}

static int tensor_place(struct shards *shards, struct str key, struct str value, struct err *err)
{
    cleanup_buf struct buf name = BUF_INIT, shard = BUF_INIT;
    json_key_to_text(key, &name);
    if (!json_to_text(value, &shard))
        return fail(err, ERR_DATA, "%s: tensor '%s' is in no shard", shards->path, buf_text(&name));
    int rc = shard_find(shards, buf_str(&shard), err);
    if (rc)
        return rc;
    struct array *array = array_find(&shards->set->files[shards->last], buf_str(&name));
    if (!array || array->is_listed)
        return fail(err, ERR_DATA, "%s: tensor '%s' %s %s", shards->path, buf_text(&name),
                    array ? "is named twice, of" : "is not in its shard",
                    shards->set->files[shards->last].path);
    array->is_listed = true;
    return 0;
}

/*
 * Refuses tensors of the shards that the index does not list, and a sum of bytes that differs from
 * the index.
 */
static int rest_check(const struct shards *shards, uint64_t total_size, struct err *err)
{
    uint64_t sum = 0;
    for (size_t i = shards->first; i < shards->set->n_files; i++) {
        const struct array_file *file = &shards->set->files[i];
        for (size_t k = 0; k < file->n_arrays; k++) {
            struct str name = file->arrays[k].name;
            sum += file->arrays[k].bytes;
            if (!file->arrays[k].is_listed)
                return fail(err, ERR_DATA, "%s: tensor '%.*s' of %s is not in the index",
                            shards->path, (int)MIN(name.len, (size_t)200), name.at, file->path);
        }
    }
    return total_size == UINT64_MAX || total_size == sum
               ? 0
               : fail(err, ERR_DATA, "%s: total_size is %lu, and its tensors have %lu bytes",
                      shards->path, total_size, sum);
}

int array_index_add(struct array_set *set, const char *path, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str weight_map, key, value;
    uint64_t total_size;
    cleanup_free char *folder = path_dirname(path);
    struct shards shards = {set, path, folder, set->n_files, set->n_files};
    int rc = safetensors_index_read(path, &text, &weight_map, &total_size, err);
    if (rc)
        return rc;
    struct json_members walk = json_members(weight_map);
    while (rc == 0 && json_next(&walk, &key, &value))
        rc = tensor_place(&shards, key, value, err);
    return rc ? rc : rest_check(&shards, total_size, err);
}
