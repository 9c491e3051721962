/* SPDX-License-Identifier: Apache-2.0
 *
 * The callables that data consist of: the result of each one, and whether torch.load of 2.6 and
 * newer calls it under its default, weights_only=True. Source: torch/_weights_only_unpickler.py.
 */
#pragma once

#include "base/buf.h"
#include "tensor/pickle/pickle.h"

enum callable_result {
    RESULT_OBJECT, /* another object; no items can be set in it */
    RESULT_DICT,   /* a dictionary: items can be set in it */
    RESULT_TENSOR,
    RESULT_TEXT_AS_BYTES, /* _codecs.encode(text, "latin1") */
    RESULT_NUMPY_SCALAR,
    RESULT_NUMPY_ARRAY,
    RESULT_PARAMETER,
    RESULT_SIZE
};

struct pickle_callable {
    const char *module, *name;
    enum callable_result result;
    bool is_loaded_by_default; /* torch.load calls it under weights_only=True */
};

/* The callable of this name; NULL if it is unknown. */
const struct pickle_callable *pickle_callable_find(struct str module, struct str name);
/* Bytes of an element of this storage class; 0 for an unknown class. */
unsigned storage_element_bytes(struct str type);
/*
 * The type of the elements of this storage class, "float32" for "FloatStorage"; "?" for an unknown
 * class.
 */
const char *storage_dtype(struct str type);
/* Bytes of an element of torch.<dtype>, 0 for an unknown dtype. */
unsigned dtype_bytes(struct str dtype);
