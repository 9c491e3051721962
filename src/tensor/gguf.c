/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/gguf.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/bytes.h"
#include "tensor/grow.h"
#include "tensor/pread.h"

enum {
    WINDOW_BYTES = 64 * 1024,
    KEY_BYTES_MAX = 65535,
    ALIGNMENT_DEFAULT = 32,
    ALIGNMENT_MAX = 1 << 20,
    LIST_DEPTH_MAX = 4
};

/* The types of values, as numbered in the file. */
enum {
    VALUE_BOOL = 7,
    VALUE_STRING = 8,
    VALUE_LIST = 9
};

static const struct {
    unsigned char bytes;
    bool is_whole, is_signed;
} scalars[] = {
    {1, true, false},  {1, true, true},   {2, true, false}, {2, true, true},  /* u8 i8 u16 i16 */
    {4, true, false},  {4, true, true},   {4, false, true}, {1, true, false}, /* u32 i32 f32 bool */
    {0, false, false}, {0, false, false}, {8, true, false}, {8, true, true},  /* … u64 i64 */
    {8, false, true},                                                         /* f64 */
};

/* clang-format off */
/*
 * Indexed by the type's number in the file: the elements of a block, and the bytes of a block. ggml
 * has given up the types of the numbers without a row.
 */
static const struct {
    const char *name;
    uint32_t elements, bytes;
} types[] = {
    [0] = {"F32", 1, 4}, [1] = {"F16", 1, 2}, [2] = {"Q4_0", 32, 18}, [3] = {"Q4_1", 32, 20},
    [6] = {"Q5_0", 32, 22}, [7] = {"Q5_1", 32, 24}, [8] = {"Q8_0", 32, 34}, [9] = {"Q8_1", 32, 36},
    [10] = {"Q2_K", 256, 84}, [11] = {"Q3_K", 256, 110}, [12] = {"Q4_K", 256, 144},
    [13] = {"Q5_K", 256, 176}, [14] = {"Q6_K", 256, 210}, [15] = {"Q8_K", 256, 292},
    [16] = {"IQ2_XXS", 256, 66}, [17] = {"IQ2_XS", 256, 74}, [18] = {"IQ3_XXS", 256, 98},
    [19] = {"IQ1_S", 256, 50}, [20] = {"IQ4_NL", 32, 18}, [21] = {"IQ3_S", 256, 110},
    [22] = {"IQ2_S", 256, 82}, [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},
    [25] = {"I16", 1, 2}, [26] = {"I32", 1, 4}, [27] = {"I64", 1, 8}, [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56}, [30] = {"BF16", 1, 2}, [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66}, [39] = {"MXFP4", 32, 17}, [40] = {"NVFP4", 64, 36},
};
/* clang-format on */

/* ---- bytes of the header, in order ---- */

struct reader {
    const char *path;
    int fd;
    uint64_t file_bytes, header_end; /* the header ends before it */
    uint64_t at;                     /* of the next byte */
    char *window;
    uint64_t window_at;
    size_t window_len;
    struct err *err;
};

static int data_fail(struct reader *r, const char *what)
{
    return fail(r->err, ERR_DATA, "%s: byte %lu: %s", r->path, r->at, what);
}

static int skip(struct reader *r, uint64_t n)
{
    if (n > r->header_end - r->at)
        return data_fail(r, r->header_end == r->file_bytes
                                ? "the file ends within its header: it was cut off"
                                : "a header larger than any is");
    r->at += n;
    return 0;
}

/* Takes the next n bytes, n at most WINDOW_BYTES; they are valid until the next take(). */
static int take(struct reader *r, size_t n, const char **out)
{
    uint64_t at = r->at;
    int rc = skip(r, n);
    if (rc)
        return rc;
    if (at < r->window_at || at + n > r->window_at + r->window_len) {
        r->window_at = at;
        r->window_len = (size_t)MIN(r->file_bytes - at, (uint64_t)WINDOW_BYTES);
        rc = pread_exact(r->fd, r->window, r->window_len, at, r->path, r->err);
    }
    *out = r->window + (at - r->window_at);
    return rc;
}

static int u64_take(struct reader *r, size_t n_bytes, uint64_t *out)
{
    const char *at = NULL;
    int rc = take(r, n_bytes, &at);
    if (rc == 0)
        *out = le_get(at, n_bytes);
    return rc;
}

/*
 * Takes a length and that many bytes. *out has the first `kept` of them at most, and is valid until
 * the next take().
 */
static int text_take(struct reader *r, size_t kept, struct str *out)
{
    uint64_t len = 0;
    int rc = u64_take(r, 8, &len);
    if (rc)
        return rc;
    out->len = (size_t)MIN(len, (uint64_t)kept);
    rc = take(r, out->len, &out->at);
    return rc ? rc : skip(r, len - out->len);
}

/* Takes the name of a value or a tensor, which must not occur twice. */
static int name_take(struct reader *r, struct name_index *names)
{
    struct str name;
    int rc = text_take(r, KEY_BYTES_MAX, &name);
    if (rc == 0 && (name.len == 0 || name_index_find(names, name) != NAME_NONE))
        rc = data_fail(r, "a name that is empty, or is there twice");
    if (rc == 0)
        name_index_add(names, name);
    return rc;
}

/* ---- values ---- */

static int scalar_take(struct reader *r, uint64_t type, struct gguf_value *value)
{
    uint64_t number = 0;
    uint32_t bytes = scalars[type].bytes;
    int rc = u64_take(r, bytes, &number);
    if (rc || !scalars[type].is_whole)
        return rc;
    bool is_negative = scalars[type].is_signed && number >> (8 * bytes - 1) & 1;
    value->is_number = true;
    value->number = MAX(value->number, is_negative ? 0 : number);
    return 0;
}

/* NOLINTBEGIN(misc-no-recursion): at most LIST_DEPTH_MAX deep */

static int list_take(struct reader *r, unsigned depth, struct gguf_value *value);

static int value_take(struct reader *r, uint64_t type, unsigned depth, struct gguf_value *value)
{
    struct str text = {"", 0};
    int rc = 0;
    if (type == VALUE_LIST)
        return list_take(r, depth + 1, value);
    if (type == VALUE_STRING) {
        rc = text_take(r, depth == 0 ? sizeof(value->text) - 1 : 0, &text);
        memcpy(value->text, text.at, rc ? 0 : text.len);
        return rc;
    }
    if (type >= countof(scalars))
        return data_fail(r, "a value of an unknown type");
    return scalar_take(r, type, value);
}

static int list_take(struct reader *r, unsigned depth, struct gguf_value *value)
{
    uint64_t type = 0, n = 0;
    if (depth > LIST_DEPTH_MAX)
        return data_fail(r, "lists in lists, too many of them");
    int rc = u64_take(r, 4, &type);
    if (rc == 0)
        rc = u64_take(r, 8, &n);
    /* An element has at least one byte, so a wrong length is found before it costs time. */
    if (rc == 0 && n > r->header_end - r->at)
        rc = data_fail(r, "a list that is longer than the file");
    for (uint64_t i = 0; rc == 0 && i < n; i++)
        rc = value_take(r, type, depth, value);
    value->n_values = n; /* a list within this one has set its own number */
    return rc;
}

/* NOLINTEND(misc-no-recursion) */

static int values_take(struct reader *r, struct gguf *file, uint64_t n)
{
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        struct gguf_value value = {.n_values = 1};
        uint64_t type = 0;
        rc = name_take(r, &file->keys);
        if (rc == 0)
            rc = u64_take(r, 4, &type);
        if (rc == 0)
            rc = value_take(r, type, 0, &value);
        if (rc == 0)
            PUSH(file->values, file->n_values, file->cap_values, value);
    }
    return rc;
}

/* ---- tensors ---- */

static int shape_take(struct reader *r, struct gguf_tensor *tensor)
{
    uint64_t n_dims = 0;
    int rc = u64_take(r, 4, &n_dims);
    if (rc == 0 && n_dims > GGUF_DIMS_MAX)
        rc = data_fail(r, "a tensor has more than four dimensions");
    tensor->n_dims = (uint32_t)n_dims;
    tensor->n_elements = 1;
    for (uint32_t i = 0; rc == 0 && i < tensor->n_dims; i++) {
        rc = u64_take(r, 8, &tensor->dims[i]);
        if (rc == 0 &&
            (__builtin_mul_overflow(tensor->n_elements, tensor->dims[i], &tensor->n_elements) ||
             tensor->n_elements > INT64_MAX))
            rc = data_fail(r, "a tensor has a shape beyond 63 bits");
    }
    return rc;
}

/* Sets the tensor's bytes. A row, which is the first dimension, consists of whole blocks. */
static int type_take(struct reader *r, struct gguf_tensor *tensor)
{
    uint64_t type = 0;
    int rc = u64_take(r, 4, &type);
    if (rc)
        return rc;
    if (type >= countof(types) || !types[type].name)
        return data_fail(r, "a tensor is of a type that this version of muster does not know");
    uint64_t row = tensor->n_dims > 0 ? tensor->dims[0] : 1;
    if (row % types[type].elements != 0)
        return data_fail(r, "a tensor's rows are not made of whole blocks");
    tensor->type = types[type].name;
    if (__builtin_mul_overflow(tensor->n_elements / types[type].elements,
                               (uint64_t)types[type].bytes, &tensor->bytes))
        return data_fail(r, "a tensor has a size beyond 64 bits");
    return 0;
}

static uint64_t aligned(uint64_t at, uint64_t alignment)
{
    return (at + alignment - 1) / alignment * alignment;
}

static int tensors_take(struct reader *r, struct gguf *file, uint64_t n, uint64_t alignment)
{
    uint64_t expected = 0;
    int rc = 0;
    for (uint64_t i = 0; rc == 0 && i < n; i++) {
        struct gguf_tensor tensor = {0};
        uint64_t offset = 0;
        rc = name_take(r, &file->names);
        if (rc == 0)
            rc = shape_take(r, &tensor);
        if (rc == 0)
            rc = type_take(r, &tensor);
        if (rc == 0)
            rc = u64_take(r, 8, &offset);
        if (rc == 0 && offset != expected)
            rc = data_fail(r, "a tensor does not begin where the one before it ends");
        if (rc == 0 && tensor.bytes > r->file_bytes - MIN(expected, r->file_bytes))
            rc = data_fail(r, "a tensor is longer than the file: it was cut off");
        expected = aligned(expected + tensor.bytes, alignment);
        if (rc == 0)
            PUSH(file->tensors, file->n_tensors, file->cap_tensors, tensor);
    }
    return rc;
}

/* The last tensor need not be padded. */
static int end_check(struct reader *r, struct gguf *file, uint64_t alignment)
{
    uint64_t at = 0;
    file->data_at = aligned(r->at, alignment);
    for (size_t i = 0; i < file->n_tensors; i++)
        at = aligned(at, alignment) + file->tensors[i].bytes;
    if (file->data_at > r->file_bytes || at > r->file_bytes - file->data_at)
        return fail(r->err, ERR_DATA,
                    "%s: %lu bytes of tensors are named, from byte %lu on, in a file of %lu: it "
                    "was cut off",
                    r->path, at, file->data_at, r->file_bytes);
    return 0;
}

/* ---- the file ---- */

static int alignment_find(struct reader *r, const struct gguf *file, uint64_t *out)
{
    const struct gguf_value *value = gguf_get(file, STR("general.alignment"));
    *out = value && value->is_number ? value->number : ALIGNMENT_DEFAULT;
    bool is_power = *out > 0 && *out <= ALIGNMENT_MAX && (*out & (*out - 1)) == 0;
    return is_power ? 0 : data_fail(r, "general.alignment is no power of two");
}

static int header_take(struct reader *r, struct gguf *file)
{
    uint64_t magic, version = 0, n_tensors = 0, n_values = 0, alignment = 0;
    int rc = u64_take(r, 4, &magic);
    if (rc == 0)
        rc = u64_take(r, 4, &version);
    if (rc == 0 && version != 2 && version != 3)
        rc = fail(r->err, ERR_DATA, "%s: it is GGUF of version %lu%s; versions 2 and 3 are read",
                  r->path, version,
                  (version & 0xffff) == 0 ? ", or with the bytes in the other order" : "");
    file->version = (uint32_t)version;
    if (rc == 0)
        rc = u64_take(r, 8, &n_tensors);
    if (rc == 0)
        rc = u64_take(r, 8, &n_values);
    if (rc == 0 && (n_tensors > GGUF_TENSORS_MAX || n_values > GGUF_VALUES_MAX))
        rc = data_fail(r, "the header says that there are more tensors, or values, than any has");
    if (rc == 0)
        rc = values_take(r, file, n_values);
    if (rc == 0)
        rc = alignment_find(r, file, &alignment);
    if (rc == 0)
        rc = tensors_take(r, file, n_tensors, alignment);
    return rc ? rc : end_check(r, file, alignment);
}

bool gguf_is_one(struct str head)
{
    return str_starts_with(head, STR("GGUF"));
}

int gguf_read(struct gguf *file, const char *path, int fd, uint64_t file_bytes, struct err *err)
{
    cleanup_free char *window = xmalloc(WINDOW_BYTES);
    *file = (struct gguf){0};
    struct reader reader = {.path = path,
                            .fd = fd,
                            .file_bytes = file_bytes,
                            .header_end = MIN(file_bytes, (uint64_t)GGUF_HEADER_BYTES_MAX),
                            .window = window,
                            .err = err};
    return header_take(&reader, file);
}

void gguf_release(struct gguf *file)
{
    name_index_release(&file->keys);
    name_index_release(&file->names);
    free(steal_ptr(&file->values));
    free(steal_ptr(&file->tensors));
}

const struct gguf_value *gguf_get(const struct gguf *file, struct str key)
{
    size_t i = name_index_find(&file->keys, key);
    return i < file->n_values ? &file->values[i] : NULL;
}
