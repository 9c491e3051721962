/* SPDX-License-Identifier: Apache-2.0
 *
 * What Python would make of a value in a file of torch (a dictionary, a tensor), although its
 * pickle has only calls.
 */
#pragma once

#include "tensor/pickle/pickle_callable.h"

/* The callable of a CALL; NULL for other nodes and for unknown names. */
const struct pickle_callable *call_known(const struct pickle *pickle,
                                         const struct pickle_node *node);
/* The pairs of a dictionary, also of OrderedDict and Counter; NULL if the node is not a
 * dictionary. */
const struct pickle_node *dict_pairs(const struct pickle *pickle, pickle_id id);
bool is_counter(const struct pickle *pickle, pickle_id id);
bool is_tensor(const struct pickle *pickle, pickle_id id);
/* The rows of a tensor along its first dimension; false if the node is not a plain tensor, or has
 * no dimension. */
bool tensor_n_rows(const struct pickle *pickle, pickle_id id, uint64_t *n_rows);

/*
 * The parts of a numpy array. They are the arguments and the state of _reconstruct(…), (version,
 * shape, dtype, is_fortran, bytes), or, from protocol 5 on, those of _frombuffer(bytes, dtype,
 * shape, order). False if the call does not make an array.
 */
struct numpy_array {
    pickle_id dtype, shape, bytes;
    bool is_fortran;
};
bool numpy_array_take(const struct pickle *pickle, const struct pickle_node *call,
                      struct numpy_array *out);
