/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/array/array_impl.h"
#include "tensor/crc.h"
#include "tensor/npy.h"
#include "tensor/pread.h"

/* ---- safetensors ---- */

static void name_take(struct array *array, struct str raw)
{
    struct buf text = BUF_INIT;
    array->name = raw;
    if (!memchr(raw.at, '\\', raw.len))
        return;
    json_key_to_text(raw, &text);
    array->name.len = text.len;
    array->name.at = array->text = buf_steal(&text);
}

static int metadata_check(const struct array_file *file, struct err *err)
{
    struct str metadata = file->tensors.metadata, key, value;
    struct json_members walk = json_members(metadata);
    bool is_good = metadata.len == 0 || json_kind_of(metadata) == JSON_OBJECT;
    while (is_good && metadata.len > 0 && json_next(&walk, &key, &value))
        is_good = json_kind_of(value) == JSON_STRING;
    return is_good ? 0
                   : fail(err, ERR_DATA, "%s: its __metadata__ is not names and texts", file->path);
}

static int safetensors_open(struct array_file *file, struct err *err)
{
    int rc = safetensors_read(&file->tensors, file->path, file->fd, file->file_bytes, err);
    if (rc)
        return rc;
    const struct safetensors *tensors = &file->tensors;
    file->arrays = xcalloc(tensors->n_tensors, sizeof(*file->arrays));
    file->n_arrays = tensors->n_tensors;
    for (size_t i = 0; i < tensors->n_tensors; i++) {
        const struct safetensors_tensor *tensor = &tensors->tensors[i];
        struct array *array = &file->arrays[i];
        *array = (struct array){.dtype = tensor->dtype,
                                .shape = tensors->dims + tensor->dims_at,
                                .n_dims = tensor->n_dims,
                                .element_bits = safetensors_dtype_bits(tensor->dtype),
                                .bytes = tensor->end - tensor->begin,
                                .at = tensors->data_at + tensor->begin};
        name_take(array, tensor->name);
    }
    return metadata_check(file, err);
}

/* ---- npy, npz ---- */

/* Takes one array. `head` is the text before the data; head and data have `n_bytes` together. */
static int npy_take(struct array *array, const char *name, struct str head, uint64_t n_bytes,
                    struct err *err)
{
    struct npy npy;
    *array = (struct array){0};
    array->text = xmalloc(head.len);
    memcpy(array->text, head.at, head.len);
    int rc = npy_parse(&npy, name, (struct str){array->text, head.len}, n_bytes, err);
    if (rc)
        return rc;
    array->dims = xcalloc(npy.n_dims, sizeof(*array->dims));
    memcpy(array->dims, npy.shape, npy.n_dims * sizeof(*array->dims));
    array->name = STR(".");
    array->dtype = npy.descr;
    array->shape = array->dims;
    array->n_dims = npy.n_dims;
    array->element_bits = npy.element_bytes * 8;
    array->bytes = npy.data_bytes;
    array->is_either = array_order_is_free(npy.shape, npy.n_dims);
    array->is_fortran = npy.is_fortran && !array->is_either;
    array->npy_version = npy.version;
    array->at = npy.data_at;
    array->sum = crc_of(0, head);
    return 0;
}

static int npy_open(struct array_file *file, struct err *err)
{
    cleanup_buf struct buf head = BUF_INIT;
    char version[NPY_VERSION_BYTES];
    size_t len = (size_t)MIN(file->file_bytes, (uint64_t)sizeof(version));
    int rc = pread_exact(file->fd, version, len, 0, file->path, err);
    uint64_t head_bytes = rc == 0 ? npy_head_bytes((struct str){version, len}) : 0;
    if (rc)
        return rc;
    if (head_bytes == 0 || head_bytes > file->file_bytes || head_bytes > NPY_HEADER_BYTES_MAX)
        return npy_head_fail(file->path, err);
    buf_reserve(&head, head_bytes);
    rc = pread_exact(file->fd, head.at, head_bytes, 0, file->path, err);
    if (rc)
        return rc;
    buf_extend(&head, head_bytes);
    file->arrays = xcalloc(1, sizeof(*file->arrays));
    file->n_arrays = 1;
    return npy_take(&file->arrays[0], file->path, buf_str(&head), file->file_bytes, err);
}

static int entry_take(const struct array_file *file, const struct zip_entry *entry,
                      struct array *array, struct err *err)
{
    cleanup_buf struct buf head = BUF_INIT;
    struct str key = entry->name;
    cleanup_free char *name = xasprintf("%s: %.*s", file->path, (int)key.len, key.at);
    bool has_end = str_ends_with(key, STR(".npy"));
    int rc = zip_entry_head(&file->zip, entry, NPY_VERSION_BYTES, &head, err);
    uint64_t len = rc == 0 ? npy_head_bytes(buf_str(&head)) : 0;
    if (rc)
        return rc;
    if (!has_end && !npy_is_one(buf_str(&head))) /* numpy looks at the first bytes, too */
        return fail(err, ERR_DATA, "%s: it is no array, as all entries of an npz are", name);
    if (len == 0 || len > entry->bytes || len > NPY_HEADER_BYTES_MAX)
        return npy_head_fail(name, err);
    buf_reset(&head);
    rc = zip_entry_head(&file->zip, entry, len, &head, err);
    if (rc == 0)
        rc = npy_take(array, name, buf_str(&head), entry->bytes, err);
    if (rc)
        return rc;
    array->name = (struct str){key.at, key.len - (has_end ? strlen(".npy") : 0)};
    array->entry = entry;
    uint64_t data_at = 0; /* packed entry: offset in the unpacked bytes */
    if (!entry->is_deflated)
        rc = zip_entry_locate(&file->zip, entry, &data_at, err);
    array->at += data_at;
    return rc;
}

static int npz_open(struct array_file *file, struct err *err)
{
    int rc = zip_read(&file->zip, file->path, file->fd, file->file_bytes, err);
    if (rc)
        return rc;
    file->arrays = xcalloc(file->zip.n_entries, sizeof(*file->arrays));
    for (size_t i = 0; i < file->zip.n_entries && rc == 0; i++)
        rc = entry_take(file, &file->zip.entries[i], &file->arrays[file->n_arrays++], err);
    return rc;
}

/* ---- the whole ---- */

static int index_order(const void *a, const void *b, void *context)
{
    const struct array *arrays = context;
    return str_compare(arrays[*(const uint32_t *)a].name, arrays[*(const uint32_t *)b].name);
}

/* Sorts the names, and refuses equal ones; names that differ only in their escapes are equal. */
static int names_sort(struct array_file *file, struct err *err)
{
    file->by_name = xcalloc(file->n_arrays, sizeof(*file->by_name));
    for (size_t i = 0; i < file->n_arrays; i++)
        file->by_name[i] = (uint32_t)i;
    if (file->n_arrays > 0)
        qsort_r(file->by_name, file->n_arrays, sizeof(*file->by_name), index_order, file->arrays);
    for (size_t i = 1; i < file->n_arrays; i++) {
        struct str name = file->arrays[file->by_name[i]].name;
        if (str_equal(name, file->arrays[file->by_name[i - 1]].name))
            return fail(err, ERR_DATA, "%s: tensor %.*s is there twice", file->path,
                        (int)MIN(name.len, (size_t)200), name.at);
    }
    return 0;
}

static int (*const openers[N_TENSOR_KINDS])(struct array_file *file, struct err *err) = {
    [TENSOR_SAFETENSORS] = safetensors_open,
    [TENSOR_NPY] = npy_open,
    [TENSOR_NPZ] = npz_open,
};

int array_file_open(struct array_file *file, enum tensor_kind kind, const char *path,
                    struct err *err)
{
    struct stat st;
    *file =
        (struct array_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC), .spool_fd = -1};
    if (file->fd < 0 || fstat(file->fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    file->ino = st.st_ino;
    file->dev = st.st_dev;
    file->file_bytes = (uint64_t)st.st_size;
    int rc = openers[kind](file, err);
    return rc ? rc : names_sort(file, err);
}

void array_file_release(struct array_file *file)
{
    for (size_t i = 0; i < file->n_arrays; i++) {
        free(file->arrays[i].text);
        free(file->arrays[i].dims);
    }
    free(steal_ptr(&file->arrays));
    free(steal_ptr(&file->by_name));
    free(steal_ptr(&file->own_path));
    safetensors_release(&file->tensors);
    zip_release(&file->zip);
    fd_close(&file->spool_fd);
    fd_close(&file->fd);
}
