/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/array/array.h"

#include <fcntl.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"
#include "tensor/crc.h"
#include "tensor/pread.h"

enum {
    WINDOW_BYTES = 256 * 1024
};

struct array *array_find(const struct array_file *file, struct str name)
{
    size_t low = 0, high = file->n_arrays;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        struct array *array = &file->arrays[file->by_name[middle]];
        int order = str_compare(array->name, name);
        if (order == 0)
            return array;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- bytes ---- */

static int spool_put(void *context, struct str bytes, struct err *err)
{
    struct array_file *file = context;
    int rc = pwrite_all(file->spool_fd, bytes.at, bytes.len, (off_t)file->spool_bytes, err);
    file->spool_bytes += bytes.len;
    return rc ? wrap(err, rc, "unpack an array into TMPDIR") : 0;
}

/* Unpacks the whole entry: the head of the array and its data. */
static int array_unpack(struct array_file *file, struct array *array, struct err *err)
{
    const struct zip_sink sink = {spool_put, file};
    int rc = file->spool_fd < 0 ? spool_open(&file->spool_fd, err) : 0;
    array->spool_at = file->spool_bytes;
    if (rc == 0)
        rc = zip_entry_pass(&file->zip, array->entry, &sink, err);
    array->is_unpacked = rc == 0;
    return rc;
}

void array_rest(struct array_file *file, struct array *array)
{
    if (!array->is_unpacked)
        return;
    array->is_unpacked = false;
    /* Where the file system cannot punch holes, the space is freed when the spool is closed. */
    (void)fallocate(file->spool_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                    (off_t)array->spool_at, (off_t)(array->at + array->bytes));
}

int array_read(struct array_file *file, struct array *array, uint64_t offset, void *at, size_t len,
               struct err *err)
{
    ASSERT(offset <= array->bytes && len <= array->bytes - offset);
    bool is_packed = array->entry && array->entry->is_deflated;
    if (is_packed) {
        int rc = array->is_unpacked ? 0 : array_unpack(file, array, err);
        uint64_t from = array->spool_at + array->at + offset;
        return rc ? rc : pread_exact(file->spool_fd, at, len, from, file->path, err);
    }
    int rc = pread_exact(file->fd, at, len, array->at + offset, file->path, err);
    if (rc == 0 && array->entry && offset == array->n_used) {
        array->sum = crc_of(array->sum, (struct str){at, len});
        array->n_used += len;
    }
    return rc;
}

static int nothing_put(void *context, struct str bytes, struct err *err)
{
    (void)context, (void)bytes, (void)err;
    return 0;
}

int array_verify(struct array_file *file, struct array *array, struct err *err)
{
    cleanup_free char *window = NULL;
    const struct zip_sink nowhere = {nothing_put, NULL};
    if (!array->entry)
        return 0;
    if (array->entry->is_deflated) /* unpacking compares the checksum */
        return array->is_unpacked ? 0 : zip_entry_pass(&file->zip, array->entry, &nowhere, err);
    if (!file->zip.has_crcs)
        return 0;
    if (array->n_used < array->bytes)
        window = xmalloc(WINDOW_BYTES);
    while (array->n_used < array->bytes) {
        size_t len = (size_t)MIN(array->bytes - array->n_used, (uint64_t)WINDOW_BYTES);
        int rc = array_read(file, array, array->n_used, window, len, err);
        if (rc)
            return rc;
    }
    return zip_entry_check(&file->zip, array->entry, array->sum, err);
}

/* ---- comparing ---- */

/* A single byte has no order, and "=" counts as little-endian. */
struct array_type array_type_of(const struct array *array)
{
    struct array_type type = {array->dtype, '<'};
    struct str *plain = &type.plain;
    if (plain->len > 0 && plain->at[0] && strchr("<>|=", plain->at[0])) {
        type.order = plain->at[0] == '>' ? '>' : '<';
        *plain = (struct str){plain->at + 1, plain->len - 1};
    }
    if (plain->len > 0 &&
        (array->element_bits == 8 || (plain->at[0] && strchr("bSV", plain->at[0]))))
        type.order = '|';
    return type;
}

static bool is_ascii(struct str text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.at[i] >= 0x80)
            return false;
    return true;
}

bool array_types_equal(const struct array *a, const struct array *b)
{
    if (str_equal(a->dtype, b->dtype))
        return (a->npy_version == 3) == (b->npy_version == 3) || is_ascii(a->dtype);
    if (a->npy_version == 0)
        return false;
    struct array_type left = array_type_of(a), right = array_type_of(b);
    return left.order == right.order && str_equal(left.plain, right.plain);
}

bool array_shapes_equal(const struct array *a, const struct array *b, size_t from_dim)
{
    if (a->n_dims != b->n_dims)
        return false;
    for (size_t i = from_dim; i < a->n_dims; i++)
        if (a->shape[i] != b->shape[i])
            return false;
    return true;
}

bool array_order_is_free(const uint64_t *shape, size_t n_dims)
{
    size_t n_long = 0;
    for (size_t i = 0; i < n_dims; i++) {
        if (shape[i] == 0)
            return true;
        n_long += shape[i] > 1;
    }
    return n_long <= 1;
}

void array_shape_add(struct buf *out, const uint64_t *shape, size_t n_dims)
{
    buf_add_char(out, '(');
    for (size_t i = 0; i < n_dims; i++)
        buf_addf(out, i > 0 ? ", %lu" : "%lu", shape[i]);
    buf_add_text(out, n_dims == 1 ? ",)" : ")");
}
