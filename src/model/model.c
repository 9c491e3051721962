/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/env_list.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "model/model_impl.h"
#include "tensor/gguf.h"
#include "tensor/grow.h"
#include "tensor/pread.h"
#include "tensor/torch/torch.h"

/* ---- tensors ---- */

bool model_part_is_float(const struct model_part *part)
{
    static const char *const names[] = {"F64", "F32", "F16", "BF16"};
    for (size_t i = 0; i < countof(names); i++)
        if (strcmp(part->dtype, names[i]) == 0)
            return true;
    return false;
}

/* The index of a type, which is added if it is new; MODEL_TYPES_MAX if there is no room. */
static uint32_t part_number(struct model *model, const struct model_found *found)
{
    for (uint32_t i = 0; i < model->n_parts; i++)
        if (str_equal(str_of(model->parts[i].dtype), found->dtype))
            return i;
    if (model->n_parts == MODEL_TYPES_MAX || found->dtype.len >= sizeof(model->parts[0].dtype))
        return MODEL_TYPES_MAX;
    struct model_part *part = &model->parts[model->n_parts++];
    *part = (struct model_part){.bits = found->bits};
    memcpy(part->dtype, found->dtype.at, found->dtype.len);
    return (uint32_t)model->n_parts - 1;
}

int model_tensor_add(struct model *model, const struct model_file *file,
                     const struct model_found *found, struct err *err)
{
    struct model_tensor tensor = {.n_elements = found->n_elements,
                                  .bytes = found->bytes,
                                  .part = part_number(model, found),
                                  .shares = found->shares};
    struct model_part *part = &model->parts[MIN(tensor.part, MODEL_TYPES_MAX - 1u)];
    if (name_index_find(&model->names, found->name) != NAME_NONE)
        return fail(err, ERR_DATA, "%s: tensor '%.*s' is in the model twice", file->path,
                    (int)MIN(found->name.len, (size_t)80), found->name.at);
    if (tensor.part == MODEL_TYPES_MAX ||
        __builtin_add_overflow(part->n_parameters, found->n_elements, &part->n_parameters) ||
        __builtin_add_overflow(part->bytes, found->bytes, &part->bytes))
        return fail(err, ERR_DATA, "%s: it has more types, or more parameters, than a model can",
                    file->path);
    name_index_add(&model->names, found->name);
    PUSH(model->tensors, model->n_tensors, model->cap_tensors, tensor);
    return 0;
}

static int part_order(const void *a, const void *b)
{
    const struct model_part *left = a, *right = b;
    return (left->bytes < right->bytes) - (left->bytes > right->bytes);
}

static void parts_sort(struct model *model)
{
    struct model_part old[MODEL_TYPES_MAX];
    uint32_t numbers[MODEL_TYPES_MAX] = {0};
    memcpy(old, model->parts, sizeof(old));
    if (model->n_parts > 0)
        qsort(model->parts, model->n_parts, sizeof(model->parts[0]), part_order);
    for (uint32_t i = 0; i < model->n_parts; i++)
        for (uint32_t k = 0; k < model->n_parts; k++)
            if (strcmp(old[i].dtype, model->parts[k].dtype) == 0)
                numbers[i] = k;
    for (size_t i = 0; i < model->n_tensors; i++)
        model->tensors[i].part = numbers[model->tensors[i].part];
}

/* ---- one file ---- */

static int content_read(struct model *model, const struct model_file *file, struct err *err)
{
    char bytes[64];
    struct str head = {bytes, (size_t)MIN(file->bytes, (uint64_t)sizeof(bytes))};
    int rc = pread_exact(file->fd, bytes, head.len, 0, file->path, err);
    if (rc)
        return rc;
    if (gguf_is_one(head))
        return model_gguf_read(model, file, err);
    if (torch_is_legacy(head) || zip_is_one(head))
        return model_torch_read(model, file, err);
    return model_safetensors_read(model, file, err);
}

static int file_take(struct model *model, const char *path, struct err *err)
{
    cleanup_fd int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* does not wait if it is a pipe */
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_DATA, "%s: it is no regular file", path);
    const struct model_file file = {path, fd, (uint64_t)st.st_size};
    model->n_files++;
    return content_read(model, &file, err);
}

/* ---- several ---- */

/* Each file of torch numbers its storages anew, and no two files share a storage. */
static int files_take(struct model *model, const char *folder, const struct env_list *names,
                      struct err *err)
{
    uint32_t n_shared = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < names->len; i++) {
        cleanup_free char *path = path_join(folder, names->at[i]);
        size_t first = model->n_tensors;
        uint32_t highest = n_shared;
        rc = file_take(model, path, err);
        for (size_t k = first; k < model->n_tensors; k++)
            if (model->tensors[k].shares > 0) {
                model->tensors[k].shares += n_shared;
                highest = MAX(highest, model->tensors[k].shares);
            }
        n_shared = highest;
    }
    return rc;
}

static int index_take(struct model *model, const char *index, struct err *err)
{
    cleanup_free char *folder = path_dirname(index);
    struct env_list names = {0};
    int rc = model_shards_list(index, &names, err);
    if (rc == 0)
        rc = files_take(model, folder, &names, err);
    env_list_release(&names);
    return rc;
}

static int gguf_take(struct model *model, const char *path, struct err *err)
{
    struct env_list paths = {0};
    int rc = model_gguf_shards_list(path, &paths, err);
    if (rc == 0 && paths.len == 0)
        env_list_add(&paths, xstrdup(path));
    if (rc == 0)
        rc = files_take(model, "", &paths, err);
    env_list_release(&paths);
    return rc;
}

static int path_take(struct model *model, const char *path, struct err *err)
{
    if (str_ends_with(str_of(path), STR(".index.json")))
        return index_take(model, path, err);
    if (str_ends_with(str_of(path), STR(".gguf")))
        return gguf_take(model, path, err);
    return file_take(model, path, err);
}

/* ---- a folder ---- */

/*
 * The only GGUF model of a folder, or the first file of a split one, as a new string. NULL if there is none, or more
 * than one.
 */
static char *gguf_find(const char *folder)
{
    DIR *dir = opendir(folder);
    char *found = NULL;
    size_t n = 0;
    for (const struct dirent *entry; dir && (entry = readdir(dir)) != NULL;) {
        struct str name = str_of(entry->d_name);
        bool is_later = memmem(name.at, name.len, "-of-", 4) && !strstr(name.at, "-00001-of-");
        if (!str_ends_with(name, STR(".gguf")) || is_later)
            continue;
        free(found);
        found = path_join(folder, entry->d_name);
        n++;
    }
    if (dir)
        closedir(dir);
    if (n != 1) {
        free(found);
        return NULL;
    }
    return found;
}

static int folder_take(struct model *model, const char *folder, struct err *err)
{
    static const char *const names[] = {"model.safetensors.index.json", "model.safetensors",
                                        "pytorch_model.bin.index.json", "pytorch_model.bin"};
    for (size_t i = 0; i < countof(names); i++) {
        cleanup_free char *path = path_join(folder, names[i]);
        if (path_exists(path))
            return path_take(model, path, err);
    }
    cleanup_free char *gguf = gguf_find(folder);
    return gguf ? path_take(model, gguf, err)
                : fail(err, ERR_USAGE,
                       "%s: it has no model.safetensors, no pytorch_model.bin, no index "
                       "(.index.json) of either, and not exactly one .gguf; name a folder that "
                       "has, or a file",
                       folder);
}

static int config_read(struct model *model, const char *folder, struct err *err)
{
    cleanup_free char *path = path_join(folder, "config.json");
    if (model->format == MODEL_GGUF || !path_exists(path))
        return 0;
    int rc = file_read(path, CONFIG_BYTES_MAX, &model->config_text, err);
    if (rc == 0)
        rc = model_config_parse(buf_str(&model->config_text), &model->config, err);
    if (rc == ERR_DATA)
        wrap(err, rc, "%s", path);
    model->has_config = rc == 0;
    return rc;
}

int model_read(const char *path, struct model *out, struct err *err)
{
    cleanup_free char *beside = path_dirname(path);
    bool is_folder = folder_exists(path);
    *out = (struct model){0};
    if (!path_exists(path))
        return fail(err, ERR_USAGE, "%s: there is no such file or folder", path);
    int rc = is_folder ? folder_take(out, path, err) : path_take(out, path, err);
    if (rc == 0)
        rc = config_read(out, is_folder ? path : beside, err);
    if (rc == 0)
        parts_sort(out);
    return rc;
}

void model_release(struct model *model)
{
    name_index_release(&model->names);
    buf_release(&model->config_text);
    free(steal_ptr(&model->tensors));
}
