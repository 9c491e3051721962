/* SPDX-License-Identifier: Apache-2.0
 *
 * What a value of a file of torch is, of which its pickle has only calls: a dictionary, a tensor.
 */
#pragma once

#include "tensor/pickle/pickle_callable.h"

/* The callable of a CALL, NULL for other nodes and unknown names. */
const struct pickle_callable *call_known(const struct pickle *pickle,
                                         const struct pickle_node *node);
/* The pairs of a dictionary, also of OrderedDict and Counter; NULL if it is none. */
const struct pickle_node *dict_pairs(const struct pickle *pickle, pickle_id id);
bool is_counter(const struct pickle *pickle, pickle_id id);
bool is_tensor(const struct pickle *pickle, pickle_id id);
/* Along its first dimension; false of what is no plain tensor, or has no dimension. */
bool tensor_n_rows(const struct pickle *pickle, pickle_id id, uint64_t *n_rows);

/*
 * What an array of numpy is made of: _reconstruct(…) with its state (version, shape, dtype, is_fortran, bytes), or,
 * from protocol 5 on, _frombuffer(bytes, dtype, shape, order). False if the call makes none.
 */
struct numpy_array {
    pickle_id dtype, shape, bytes;
    bool is_fortran;
};
bool numpy_array_take(const struct pickle *pickle, const struct pickle_node *call,
                      struct numpy_array *out);
