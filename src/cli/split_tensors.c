/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/split_tensors.h"

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/array/array_split.h"
#include "tensor/torch/torch_split.h"

enum {
    SHARD_DIGITS = 5 /* as transformers numbers them, from 1 */
};

static const char index_end[] = ".index.json", part_end[] = ".part_";

struct tensor_parts {
    struct tensor_parts_opts opts;
    const struct parts_kind *kind;
    bool by_rows; /* split by rows; else by whole tensors, with an index */
    struct array_split *arrays;
    struct torch_split *torch;
    struct split_part *list;
    size_t n_parts;
    char *const *paths;
};

/* One row for each way to split. */
struct parts_kind {
    int (*open)(struct tensor_parts *parts, struct err *err);
    void (*close)(struct tensor_parts *parts);
    int (*fill)(struct tensor_parts *parts, size_t part, struct outfile *file, struct err *err);
    bool (*is_input)(const struct tensor_parts *parts, const struct stat *st);
};

/* ---- arrays ---- */

static int arrays_open(struct tensor_parts *parts, struct err *err)
{
    const struct tensor_parts_opts *ask = &parts->opts;
    const struct array_split_opts opts = {.by_rows = parts->by_rows,
                                          .stop = ask->stop,
                                          .n_parts = ask->n_parts,
                                          .records_max = ask->records_max,
                                          .bytes_max = ask->bytes_max};
    if (ask->keys->len > 0 || ask->pass_through)
        return fail(err, ERR_USAGE,
                    "--key and --pass-through are about files of torch, and %s is %s", ask->path,
                    tensor_kind_name(ask->kind));
    int rc = array_split_open(&parts->arrays, ask->kind, ask->path, &opts, err);
    if (rc)
        return rc;
    const struct array_part *list = array_split_parts(parts->arrays, &parts->n_parts);
    parts->list = xcalloc(parts->n_parts, sizeof(*parts->list));
    for (size_t i = 0; i < parts->n_parts; i++)
        parts->list[i] = (struct split_part){list[i].first, list[i].n_records, 0};
    return 0;
}

static void arrays_close(struct tensor_parts *parts)
{
    array_split_close(parts->arrays);
}

static int arrays_fill(struct tensor_parts *parts, size_t part, struct outfile *file,
                       struct err *err)
{
    return array_split_fill(parts->arrays, part, file, &parts->list[part].n_bytes, err);
}

static bool arrays_are_input(const struct tensor_parts *parts, const struct stat *st)
{
    return array_split_is_input(parts->arrays, st);
}

static const struct parts_kind of_arrays = {arrays_open, arrays_close, arrays_fill,
                                            arrays_are_input};

/* ---- torch ---- */

static int torch_open(struct tensor_parts *parts, struct err *err)
{
    const struct tensor_parts_opts *ask = &parts->opts;
    const struct torch_split_opts opts = {.keys = ask->keys->at,
                                          .n_keys = ask->keys->len,
                                          .pass_through = ask->pass_through,
                                          .note = ask->note,
                                          .context = ask->context,
                                          .stop = ask->stop,
                                          .n_parts = ask->n_parts,
                                          .records_max = ask->records_max};
    if (ask->bytes_max)
        return fail(err, ERR_USAGE,
                    "a file of torch is cut by -n or --records; how large its records are is "
                    "known when they are written");
    if (ask->by_rows)
        return fail(err, ERR_USAGE, "--rows is about safetensors; --key says what is cut of %s",
                    ask->path);
    int rc = torch_split_open(&parts->torch, ask->path, &opts, err);
    if (rc)
        return rc;
    const struct torch_range *list = torch_split_parts(parts->torch, &parts->n_parts);
    parts->list = xcalloc(parts->n_parts, sizeof(*parts->list));
    for (size_t i = 0; i < parts->n_parts; i++)
        parts->list[i] = (struct split_part){list[i].first, list[i].n_records, 0};
    return 0;
}

static void torch_close(struct tensor_parts *parts)
{
    torch_split_close(parts->torch);
}

/* Measures a part by writing it to a file without a name, which is gone when it is closed. */
static int torch_fill(struct tensor_parts *parts, size_t part, struct outfile *file,
                      struct err *err)
{
    struct outfile nowhere = OUTFILE_INIT;
    int rc = file ? 0 : outfile_open_nameless(&nowhere, err);
    struct outfile *out = file ? file : &nowhere;
    if (rc == 0)
        rc = stop_check(parts->opts.stop, err);
    if (rc == 0)
        rc = torch_split_fill(parts->torch, part, parts->paths[part], out, err);
    parts->list[part].n_bytes = out->bytes + out->pending.len;
    outfile_close(&nowhere);
    return rc;
}

static bool torch_is_input(const struct tensor_parts *parts, const struct stat *st)
{
    return torch_split_is_input(parts->torch, st);
}

static const struct parts_kind of_torch = {torch_open, torch_close, torch_fill, torch_is_input};

static const struct parts_kind *const kinds[N_TENSOR_KINDS] = {
    [TENSOR_TORCH] = &of_torch,
    [TENSOR_SAFETENSORS] = &of_arrays,
    [TENSOR_NPY] = &of_arrays,
    [TENSOR_NPZ] = &of_arrays,
};

/* ---- any of them ---- */

int tensor_parts_open(struct tensor_parts **out, const struct tensor_parts_opts *opts,
                      struct err *err)
{
    struct tensor_parts *parts = xcalloc(1, sizeof(*parts));
    parts->opts = *opts;
    parts->by_rows = opts->by_rows || opts->kind != TENSOR_SAFETENSORS;
    parts->kind = kinds[opts->kind];
    int rc = parts->kind->open(parts, err);
    if (rc) {
        tensor_parts_close(parts);
        return rc;
    }
    *out = parts;
    return 0;
}

void tensor_parts_close(struct tensor_parts *parts)
{
    if (!parts)
        return;
    parts->kind->close(parts);
    free(parts->list);
    free(parts);
}

const struct split_part *tensor_parts_list(const struct tensor_parts *parts, size_t *n_parts)
{
    *n_parts = parts->n_parts;
    return parts->list;
}

static bool has_index(const struct tensor_parts *parts)
{
    return !parts->by_rows;
}

const char *tensor_parts_unit(const struct tensor_parts *parts)
{
    return parts->opts.kind == TENSOR_TORCH ? "record" : parts->by_rows ? "row" : "tensor";
}

/* ---- names ---- */

/* Returns "model.safetensors" for model.safetensors.index.json. */
static char *whole_name_new(const char *path)
{
    size_t len = strlen(path);
    return str_ends_with(str_of(path), str_of(index_end)) ? xstrndup(path, len - strlen(index_end))
                                                          : xstrdup(path);
}

/* "model.part_" and ".safetensors" become "model-" and "-of-{parts}.safetensors". */
static void names_of_shards(struct split_names *names, uint64_t digits_min)
{
    size_t stem = strlen(names->before) - strlen(part_end);
    char *before = xasprintf("%.*s-", (int)stem, names->before);
    char *after = xasprintf("-of-{parts}%s", names->after);
    split_names_release(names);
    *names = (struct split_names){.before = before,
                                  .after = after,
                                  .has_parts = true,
                                  .digits = MAX(digits_min, (uint64_t)SHARD_DIGITS)};
}

/* Returns the path of the index file: in the parts' folder, named like the input. */
static char *index_path_new(const struct split_names *names, const char *whole)
{
    const char *base = path_basename(whole);
    size_t stem = strlen(base) - strlen(path_extension(base));
    size_t folder = strlen(names->before) - strlen(path_basename(names->before));
    return xasprintf("%.*s%.*s.safetensors%s", (int)folder, names->before, (int)stem, base,
                     index_end);
}

int tensor_parts_names(struct tensor_parts *parts, const char *output, uint64_t digits_min,
                       struct split_names *names, char ***paths, size_t *n_paths, struct err *err)
{
    cleanup_free char *whole = whole_name_new(parts->opts.path);
    const char *const named[] = {whole};
    const struct split_opts opts = {.paths = named, .n_paths = 1};
    int rc = split_names_init(names, output, &opts, digits_min, err);
    if (rc)
        return rc;
    bool are_shards = has_index(parts) && !names->has_parts;
    if (are_shards)
        names_of_shards(names, digits_min);
    *n_paths = parts->n_parts + has_index(parts);
    *paths = xcalloc(*n_paths, sizeof(**paths));
    for (size_t i = 0; i < parts->n_parts; i++)
        (*paths)[i] = split_name_new(names, i + are_shards, parts->n_parts);
    if (has_index(parts))
        (*paths)[parts->n_parts] = index_path_new(names, whole);
    return 0;
}

/* ---- as files ---- */

static bool is_input(const void *context, const struct stat *st)
{
    const struct tensor_parts *parts = context;
    struct stat own;
    bool is_named =
        stat(parts->opts.path, &own) == 0 && own.st_ino == st->st_ino && own.st_dev == st->st_dev;
    return is_named || parts->kind->is_input(parts, st);
}

static int index_put(const struct tensor_parts *parts, struct outfile *file, struct err *err)
{
    cleanup_buf struct buf text = BUF_INIT;
    const char **names = xcalloc(parts->n_parts, sizeof(*names));
    for (size_t i = 0; i < parts->n_parts; i++)
        names[i] = path_basename(parts->paths[i]);
    array_split_index(parts->arrays, names, &text);
    free(names);
    return file ? outfile_write(file, buf_str(&text), err) : 0;
}

static int fill(void *context, size_t part, struct outfile *file, struct err *err)
{
    struct tensor_parts *parts = context;
    return part < parts->n_parts ? parts->kind->fill(parts, part, file, err)
                                 : index_put(parts, file, err);
}

struct split_source tensor_parts_source(struct tensor_parts *parts, char *const *paths,
                                        size_t n_paths)
{
    parts->paths = paths;
    return (struct split_source){.n_parts = n_paths,
                                 .n_open = parts->arrays ? array_split_n_files(parts->arrays) : 1,
                                 .is_input = is_input,
                                 .fill = fill,
                                 .context = parts};
}
