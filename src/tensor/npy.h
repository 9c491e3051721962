/* SPDX-License-Identifier: Apache-2.0
 *
 * npy: a Python dictionary as text, and then the elements. Sources: numpy/lib/format.py, versions
 * 1.0 to 3.0. Arrays of Python objects are pickles, and refused.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    NPY_DIMS_MAX = 64,
    NPY_VERSION_BYTES = 12, /* magic, version and length */
    NPY_HEADER_BYTES_MAX = 1 << 20
};

struct npy {
    struct str descr; /* "<f8", or the whole list of a structured type; borrowed from the head */
    uint64_t shape[NPY_DIMS_MAX];
    size_t n_dims;
    uint64_t element_bytes;
    uint64_t data_at, data_bytes;
    bool is_fortran;
    uint8_t version; /* 1 to 3 */
};

bool npy_is_one(struct str head);
/* How many bytes at the file's beginning npy_parse() needs; 0 if this is not the head of an npy
 * file. `head` should have at least NPY_VERSION_BYTES. */
uint64_t npy_head_bytes(struct str head);
/*
 * Fails with ERR_DATA. To be called if npy_head_bytes() is 0, or if the file is shorter than that.
 */
int npy_head_fail(const char *name, struct err *err);
/* Parses `head`, the first npy_head_bytes() of the file. ERR_DATA naming `name` and the reason. */
MUST_CHECK int npy_parse(struct npy *npy, const char *name, struct str head, uint64_t file_bytes,
                         struct err *err);
