/* SPDX-License-Identifier: Apache-2.0 */
#include "fit/model.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/safetensors.h"
#include "tensor/safetensors_index.h"

enum {
    SHARD_NAME_MAX = 255
};

/* ---- one file ---- */

static struct model_part *part_of(struct model *model, struct str dtype)
{
    for (size_t i = 0; i < model->n_parts; i++)
        if (str_equal(str_of(model->parts[i].dtype), dtype))
            return &model->parts[i];
    if (model->n_parts == MODEL_TYPES_MAX || dtype.len >= sizeof(model->parts[0].dtype))
        return NULL;
    struct model_part *part = &model->parts[model->n_parts++];
    *part = (struct model_part){.bits = safetensors_dtype_bits(dtype)};
    memcpy(part->dtype, dtype.at, dtype.len);
    return part;
}

static bool tensor_count(struct model *model, const struct safetensors *file,
                         const struct safetensors_tensor *tensor)
{
    struct model_part *part = part_of(model, tensor->dtype);
    uint64_t n = 1;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (__builtin_mul_overflow(n, file->dims[tensor->dims_at + i], &n))
            return false;
    return part && !__builtin_add_overflow(part->n_parameters, n, &part->n_parameters) &&
           !__builtin_add_overflow(part->bytes, tensor->end - tensor->begin, &part->bytes);
}

static int tensors_count(struct model *model, const char *path, const struct safetensors *file,
                         struct err *err)
{
    for (size_t i = 0; i < file->n_tensors; i++)
        if (!tensor_count(model, file, &file->tensors[i]))
            return fail(err, ERR_DATA,
                        "%s: it has more types, or more parameters, than a model can", path);
    model->n_tensors += file->n_tensors;
    model->n_files++;
    return 0;
}

static int file_count(struct model *model, const char *path, struct err *err)
{
    cleanup_fd int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    struct safetensors file = {0};
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s: it is no regular file", path);
    int rc = safetensors_read(&file, path, fd, (uint64_t)st.st_size, err);
    if (rc == 0)
        rc = tensors_count(model, path, &file, err);
    safetensors_release(&file);
    return rc;
}

/* ---- a folder ---- */

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The name of a file in the index's own folder, and nothing else. */
static bool is_plain_name(const char *name)
{
    return name[0] != '\0' && name[0] != '.' && !strchr(name, '/');
}

/* The files that an index names, each once, in order. */
static int shards_list(const char *path, struct str weight_map, struct env_list *out,
                       struct err *err)
{
    struct json_members walk = json_members(weight_map);
    struct str key, value;
    struct env_list all = {0};
    int rc = 0;
    while (rc == 0 && json_next(&walk, &key, &value)) {
        cleanup_buf struct buf name = BUF_INIT;
        if (value.len > SHARD_NAME_MAX || !json_to_text(value, &name) ||
            strlen(buf_text(&name)) != name.len || !is_plain_name(buf_text(&name)))
            rc = fail(err, ERR_DATA, "%s: it names a file outside of its folder: %.*s", path,
                      (int)MIN(value.len, (size_t)80), value.at);
        else if (all.len == 0 || strcmp(all.at[all.len - 1], buf_text(&name)) != 0)
            env_list_add(&all, buf_steal(&name));
    }
    if (rc == 0 && walk.malformed)
        rc = fail(err, ERR_DATA, "%s: its weight_map is malformed", path);
    if (all.len > 0)
        qsort(all.at, all.len, sizeof(*all.at), name_order);
    for (size_t i = 0; rc == 0 && i < all.len; i++)
        if (i == 0 || strcmp(all.at[i - 1], all.at[i]) != 0)
            env_list_add(out, xstrdup(all.at[i]));
    env_list_release(&all);
    if (rc == 0 && out->len > MODEL_SHARDS_MAX)
        rc = fail(err, ERR_DATA, "%s: it names %zu files, at most %d", path, out->len,
                  MODEL_SHARDS_MAX);
    return rc;
}

static int shards_count(struct model *model, const char *folder, const char *index, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    struct str weight_map;
    uint64_t total_size;
    struct env_list names = {0};
    int rc = safetensors_index_read(index, &text, &weight_map, &total_size, err);
    if (rc == 0)
        rc = shards_list(index, weight_map, &names, err);
    for (size_t i = 0; rc == 0 && i < names.len; i++) {
        cleanup_free char *path = path_join(folder, names.at[i]);
        rc = file_count(model, path, err);
    }
    env_list_release(&names);
    return rc;
}

static int config_read(struct model *model, const char *folder, struct err *err)
{
    cleanup_free char *path = path_join(folder, "config.json");
    cleanup_buf struct buf text = BUF_INIT;
    if (!path_exists(path))
        return 0;
    int rc = file_read(path, CONFIG_BYTES_MAX, &text, err);
    if (rc == 0)
        rc = model_config_parse(buf_str(&text), &model->config, err);
    if (rc == ERR_DATA)
        wrap(err, rc, "%s", path);
    model->has_config = rc == 0;
    return rc;
}

static int folder_count(struct model *model, const char *folder, struct err *err)
{
    cleanup_free char *index = path_join(folder, "model.safetensors.index.json");
    cleanup_free char *single = path_join(folder, "model.safetensors");
    if (path_exists(index))
        return shards_count(model, folder, index, err);
    if (path_exists(single))
        return file_count(model, single, err);
    return fail(err, ERR_USAGE,
                "%s: it has neither model.safetensors.index.json nor model.safetensors; name a "
                "folder that has, or a file .safetensors",
                folder);
}

static int part_order(const void *a, const void *b)
{
    const struct model_part *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

int model_read(const char *path, struct model *out, struct err *err)
{
    cleanup_free char *beside = path_dirname(path);
    bool is_folder = folder_exists(path);
    *out = (struct model){0};
    if (!path_exists(path))
        return fail(err, ERR_USAGE, "%s: there is no such file or folder", path);
    int rc = is_folder ? folder_count(out, path, err) : file_count(out, path, err);
    if (rc == 0)
        rc = config_read(out, is_folder ? path : beside, err);
    if (out->n_parts > 0)
        qsort(out->parts, out->n_parts, sizeof(out->parts[0]), part_order);
    return rc;
}
