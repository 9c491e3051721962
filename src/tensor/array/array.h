/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of named arrays: safetensors, npz, and npy, which has one array. Opening a file gives a
 * list of its arrays with the places of their bytes. The bytes are read on demand, and compared
 * with their checksum if the file has one. Packed arrays are unpacked into a nameless file in
 * TMPDIR first.
 */
#pragma once

#include <sys/stat.h>

#include "tensor/kind.h"
#include "tensor/safetensors.h"
#include "tensor/zip/zip.h"

struct array {
    struct str name;  /* without escapes and ".npy"; "." for an npy file */
    struct str dtype; /* safetensors: "F32"; npy: "<f8", or the whole list of a structured type */
    const uint64_t *shape;
    size_t n_dims;
    uint64_t element_bits; /* 0: not known */
    uint64_t bytes;
    bool is_fortran; /* the first dimension varies fastest; false where both orders are the same */
    bool is_either;  /* row-major and column-major order are the same */
    bool is_listed;  /* an index file names this array */
    uint8_t npy_version; /* 3: names in dtype are UTF-8 */

    uint64_t at;     /* offset of its data in the file; if packed, in the unpacked entry */
    uint64_t n_used; /* bytes, from the first on, that were read in order and are part of `sum` */
    uint32_t sum;    /* CRC-32 of these bytes, and of the entry's bytes before the data */
    bool is_unpacked;
    uint64_t spool_at;             /* offset of its unpacked entry in the file's spool */
    const struct zip_entry *entry; /* of npz */
    char *text;                    /* owned; name or dtype borrow from it */
    uint64_t *dims;                /* owned */
};

struct array_file {
    const char *path; /* for messages */
    char *own_path;
    int fd;
    uint64_t ino, dev;
    uint64_t file_bytes;
    int spool_fd; /* the unpacked entries, one behind the other; -1: nothing unpacked yet */
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
 * Opens all files, which must be of one kind. A model.safetensors.index.json is replaced by its
 * shards, which must match the index. ERR_USAGE for a file named twice, ERR_DATA naming the file,
 * the array and the reason. Call array_set_release() after a failure too.
 */
MUST_CHECK int array_set_open(struct array_set *set, enum tensor_kind kind,
                              const char *const *paths, size_t n_paths, struct err *err);
void array_set_release(struct array_set *set);
/* The path of the file of the set that `st` describes, or NULL. An output must not be one of the
 * inputs. */
const char *array_set_has(const struct array_set *set, const struct stat *st);

/* The array of this name; NULL if the file has none. */
struct array *array_find(const struct array_file *file, struct str name);

/* Rows along the first dimension; 1 for an array without dimensions. */
static inline uint64_t array_n_rows(const struct array *array)
{
    return array->n_dims > 0 ? array->shape[0] : 1;
}

/* The bytes of a row; 0 if there are no rows. */
static inline uint64_t array_row_bytes(const struct array *array)
{
    uint64_t n_rows = array_n_rows(array);
    return n_rows > 0 ? array->bytes / n_rows : 0;
}

/* Reads bytes of the array's data. Bytes that are read in order, from the first one on, count
 * towards the checksum that array_verify() compares. */
MUST_CHECK int array_read(struct array_file *file, struct array *array, uint64_t offset, void *at,
                          size_t len, struct err *err);
/* Compares the array with its checksum; reads the bytes that were not read in order so far.
 * ERR_DATA if they differ. */
MUST_CHECK int array_verify(struct array_file *file, struct array *array, struct err *err);
/* To be called when the array is no longer needed: frees the space of its unpacked bytes. */
void array_rest(struct array_file *file, struct array *array);

/* The element type of an npy. */
struct array_type {
    struct str plain; /* without its byte order: "i4", or the whole list of a structured type */
    char order;       /* '<', '>', or '|' where there is none */
};
struct array_type array_type_of(const struct array *array);
/* True if the elements have one type, however it is written. */
bool array_types_equal(const struct array *a, const struct array *b);
bool array_shapes_equal(const struct array *a, const struct array *b, size_t from_dim);
/* Row-major and column-major order are the same with at most one dimension above 1, or with one
 * that is 0. */
bool array_order_is_free(const uint64_t *shape, size_t n_dims);
/* Adds the shape as Python writes it: "(3, 4)". */
void array_shape_add(struct buf *out, const uint64_t *shape, size_t n_dims);
