/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of named arrays: safetensors, npz, and npy, which has one. Each is read to a list of arrays
 * that know where their bytes are; those are read when they are wanted, and what a checksum says of
 * them is compared. What is packed is unpacked into a nameless file in TMPDIR first.
 */
#pragma once

#include <sys/stat.h>

#include "tensor/kind.h"
#include "tensor/safetensors.h"
#include "tensor/zip/zip.h"

struct array {
    struct str name;  /* without escapes, and without ".npy"; "." of npy */
    struct str dtype; /* "F32"; "<f8", or the whole list of a structured type */
    const uint64_t *shape;
    size_t n_dims;
    uint64_t element_bits; /* 0: not known */
    uint64_t bytes;
    bool is_fortran; /* the first dimension varies fastest; false where that makes no difference */
    bool is_either;  /* it makes none */
    bool is_listed;  /* an index names it */
    uint8_t npy_version; /* 3: names in dtype are UTF-8 */

    uint64_t at;     /* of its data in the file; of a packed one in what it is unpacked to */
    uint64_t n_used; /* of its bytes, from the first on, were added up in order */
    uint32_t sum;    /* CRC-32 of those, and of what stands before the data in the entry */
    bool is_unpacked;
    uint64_t spool_at;             /* where in the file's spool its entry is unpacked to */
    const struct zip_entry *entry; /* of npz */
    char *text;                    /* its own: what name or dtype borrow */
    uint64_t *dims;                /* its own */
};

struct array_file {
    const char *path; /* for messages */
    char *own_path;
    int fd;
    uint64_t ino, dev;
    uint64_t file_bytes;
    int spool_fd; /* of all that was unpacked, one behind the other; -1 while there is nothing */
    uint64_t spool_bytes;
    struct array *arrays; /* in the file's order */
    size_t n_arrays;
    uint32_t *by_name;
    struct safetensors tensors;
    struct zip zip;
};

struct array_set {
    enum tensor_kind kind;
    struct array_file *files;
    size_t n_files;
};

/*
 * All the files, of one kind; a model.safetensors.index.json stands for its shards, which must be as it
 * says. ERR_USAGE for a file named twice, ERR_DATA naming the file, the array and the reason. Release
 * also after a failure.
 */
MUST_CHECK int array_set_open(struct array_set *set, enum tensor_kind kind,
                              const char *const *paths, size_t n_paths, struct err *err);
void array_set_release(struct array_set *set);
/* The one of them that this is, or NULL: what is written must not be what is read. */
const char *array_set_has(const struct array_set *set, const struct stat *st);

/* NULL if it has none of that name. */
struct array *array_find(const struct array_file *file, struct str name);

/* Rows along the first dimension; one of what has no dimension. */
static inline uint64_t array_n_rows(const struct array *array)
{
    return array->n_dims > 0 ? array->shape[0] : 1;
}

/* 0 if there are no rows. */
static inline uint64_t array_row_bytes(const struct array *array)
{
    uint64_t n_rows = array_n_rows(array);
    return n_rows > 0 ? array->bytes / n_rows : 0;
}

/* Bytes of its data. What is read in order from the first byte on is compared with its checksum. */
MUST_CHECK int array_read(struct array_file *file, struct array *array, uint64_t offset, void *at,
                          size_t len, struct err *err);
/* What was used of it is what was written: goes through it where it was not read in order. */
MUST_CHECK int array_verify(struct array_file *file, struct array *array, struct err *err);
/* It is not needed any more: what it was unpacked to goes. */
void array_rest(struct array_file *file, struct array *array);

/* Of the same type, however it is written. */
bool array_types_equal(const struct array *a, const struct array *b);
bool array_shapes_equal(const struct array *a, const struct array *b, size_t from_dim);
/* With at most one dimension above 1, or one that is 0, both orders are the same. */
bool array_order_is_free(const uint64_t *shape, size_t n_dims);
/* "(3, 4)", as Python has it. */
void array_shape_add(struct buf *out, const uint64_t *shape, size_t n_dims);
