/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/safetensors.h"

#include "base/cleanup.h"
#include "base/json.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/pread.h"

enum {
    LENGTH_BYTES = 8
};

/* clang-format off */
/*
 * In the order of the reference implementation. Its writer places tensors of the last type first.
 */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
    {"BOOL", 8}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8}, {"I8", 8}, {"F8_E5M2", 8},
    {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16}, {"U16", 16},
    {"F16", 16}, {"BF16", 16}, {"I32", 32}, {"U32", 32}, {"F32", 32}, {"C64", 64}, {"F64", 64},
    {"I64", 64}, {"U64", 64},
};
/* clang-format on */

unsigned safetensors_dtype_rank(struct str name)
{
    for (unsigned i = 0; i < countof(dtypes); i++)
        if (str_equal(name, str_of(dtypes[i].name)))
            return i + 1;
    return 0;
}

unsigned safetensors_dtype_bits(struct str name)
{
    unsigned rank = safetensors_dtype_rank(name);
    return rank > 0 ? dtypes[rank - 1].bits : 0;
}

bool safetensors_is_one(struct str head, uint64_t file_bytes)
{
    return head.len > LENGTH_BYTES && head.at[LENGTH_BYTES] == '{' &&
           le64_get(head.at) <= file_bytes - LENGTH_BYTES &&
           le64_get(head.at) <= SAFETENSORS_HEADER_BYTES_MAX;
}

static struct str unquoted(struct str text)
{
    return text.len >= 2 && text.at[0] == '"' ? (struct str){text.at + 1, text.len - 2}
                                              : (struct str){"", 0};
}

static bool dims_parse(struct safetensors *file, struct str array,
                       struct safetensors_tensor *tensor)
{
    struct str element;
    bool is_begun = false;
    if (json_kind_of(array) != JSON_ARRAY)
        return false;
    tensor->dims_at = (uint32_t)file->n_dims;
    while (json_element(&array, &is_begun, &element)) {
        if (file->n_dims == file->cap_dims) {
            file->cap_dims *= 2;
            file->dims = xrealloc(file->dims, file->cap_dims * sizeof(*file->dims));
        }
        if (tensor->n_dims == SAFETENSORS_DIMS_MAX ||
            !json_to_u64(element, &file->dims[file->n_dims]))
            return false;
        file->n_dims++;
        tensor->n_dims++;
    }
    return true;
}

static bool offsets_parse(struct str array, struct safetensors_tensor *tensor)
{
    struct str begin, end, more;
    bool is_begun = false;
    return json_kind_of(array) == JSON_ARRAY && json_element(&array, &is_begun, &begin) &&
           json_element(&array, &is_begun, &end) && !json_element(&array, &is_begun, &more) &&
           json_to_u64(begin, &tensor->begin) && json_to_u64(end, &tensor->end) &&
           tensor->begin <= tensor->end;
}

/* Parses a member of the header. Returns what is wrong with it, or NULL. */
static const char *tensor_parse(struct safetensors *file, struct str value,
                                struct safetensors_tensor *tensor)
{
    struct str field;
    if (!json_get(value, "dtype", &field) || json_kind_of(field) != JSON_STRING)
        return "has no dtype";
    tensor->dtype = unquoted(field);
    if (!json_get(value, "shape", &field) || !dims_parse(file, field, tensor))
        return "has no shape";
    if (!json_get(value, "data_offsets", &field) || !offsets_parse(field, tensor))
        return "has no data_offsets";
    uint64_t bits = safetensors_dtype_bits(tensor->dtype);
    if (bits == 0)
        return NULL;
    for (uint32_t i = 0; i < tensor->n_dims; i++)
        if (__builtin_mul_overflow(bits, file->dims[tensor->dims_at + i], &bits))
            return "has a shape beyond 64 bits";
    return bits % 8 == 0 && bits / 8 == tensor->end - tensor->begin
               ? NULL
               : "is not as long as its shape says";
}

static int tensor_fail(const char *path, struct str name, const char *what, struct err *err)
{
    cleanup_buf struct buf shown = BUF_INIT;
    buf_add_json(&shown, name);
    return fail(err, ERR_DATA, "%s: tensor %s %s", path, buf_text(&shown), what);
}

static int header_parse(struct safetensors *file, const char *path, struct err *err)
{
    struct json_members walk = json_members(buf_str(&file->header));
    file->cap_dims = 64; /* never NULL, even if no tensor has dimensions: arrays point into it */
    file->dims = xcalloc(file->cap_dims, sizeof(*file->dims));
    struct str key, value;
    while (json_next(&walk, &key, &value)) {
        if (str_equal(key, STR("__metadata__"))) {
            file->metadata = value;
            continue;
        }
        struct safetensors_tensor tensor = {.name = key};
        const char *wrong = tensor_parse(file, value, &tensor);
        if (wrong)
            return tensor_fail(path, key, wrong, err);
        if (file->n_tensors == file->cap_tensors) {
            file->cap_tensors = MAX(file->cap_tensors * 2, (size_t)16);
            file->tensors = xrealloc(file->tensors, file->cap_tensors * sizeof(*file->tensors));
        }
        file->tensors[file->n_tensors++] = tensor;
    }
    return walk.malformed ? fail(err, ERR_DATA, "%s: its header is no JSON object", path) : 0;
}

static int place_order(const void *a, const void *b)
{
    const struct safetensors_tensor *left = a, *right = b;
    if (left->begin != right->begin)
        return left->begin < right->begin ? -1 : 1;
    return (left->end > right->end) - (left->end < right->end);
}

static int name_order(const void *a, const void *b)
{
    return str_compare(*(const struct str *)a, *(const struct str *)b);
}

static int names_check(const struct safetensors *file, const char *path, struct err *err)
{
    struct str *names = xcalloc(file->n_tensors, sizeof(*names));
    int rc = 0;
    for (size_t i = 0; i < file->n_tensors; i++)
        names[i] = file->tensors[i].name;
    if (file->n_tensors > 0)
        qsort(names, file->n_tensors, sizeof(*names), name_order);
    for (size_t i = 1; i < file->n_tensors && rc == 0; i++)
        if (str_equal(names[i - 1], names[i]))
            rc = tensor_fail(path, names[i], "is there twice", err);
    free(names);
    return rc;
}

static int places_check(struct safetensors *file, const char *path, uint64_t data_bytes,
                        struct err *err)
{
    uint64_t at = 0;
    if (file->n_tensors > 0)
        qsort(file->tensors, file->n_tensors, sizeof(*file->tensors), place_order);
    for (size_t i = 0; i < file->n_tensors; i++) {
        if (file->tensors[i].begin != at)
            return tensor_fail(
                path, file->tensors[i].name,
                file->tensors[i].begin < at ? "overlaps another" : "leaves a hole before it", err);
        at = file->tensors[i].end;
    }
    if (at != data_bytes)
        return fail(err, ERR_DATA, "%s: %lu bytes of tensors are named, %lu are there%s", path, at,
                    data_bytes, at > data_bytes ? ": the file was cut off" : "");
    return 0;
}

int safetensors_read(struct safetensors *file, const char *path, int fd, uint64_t file_bytes,
                     struct err *err)
{
    char length[LENGTH_BYTES];
    *file = (struct safetensors){0};
    if (file_bytes < LENGTH_BYTES)
        return fail(err, ERR_DATA, "%s: too short for safetensors", path);
    int rc = pread_exact(fd, length, sizeof(length), 0, path, err);
    if (rc)
        return rc;
    uint64_t header_bytes = le64_get(length);
    if (header_bytes > SAFETENSORS_HEADER_BYTES_MAX || header_bytes > file_bytes - LENGTH_BYTES)
        return fail(err, ERR_DATA, "%s: a header of %lu bytes, in a file of %lu", path,
                    header_bytes, file_bytes);
    buf_reserve(&file->header, header_bytes);
    rc = pread_exact(fd, file->header.at, header_bytes, LENGTH_BYTES, path, err);
    if (rc)
        return rc;
    buf_extend(&file->header, header_bytes);
    file->data_at = LENGTH_BYTES + header_bytes;
    rc = header_parse(file, path, err);
    if (rc == 0)
        rc = names_check(file, path, err);
    return rc ? rc : places_check(file, path, file_bytes - file->data_at, err);
}

void safetensors_release(struct safetensors *file)
{
    buf_release(&file->header);
    free(steal_ptr(&file->tensors));
    free(steal_ptr(&file->dims));
}
