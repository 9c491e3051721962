/* SPDX-License-Identifier: Apache-2.0
 *
 * What a file holds, whichever kind it is: named tensors with their places, and the few numbers
 * beside them that say how a model is built.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "conve/params.h"

enum tensor_type {
    TENSOR_F32,
    TENSOR_F64,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_OTHER
};

struct named_tensor {
    char *name; /* with the keys before it: "model_state_dict.fc.weight" */
    enum tensor_type type;
    size_t dims[CONVE_DIMS_MAX], strides[CONVE_DIMS_MAX], n_dims; /* strides in elements */
    uint64_t at; /* of its first element, in the file */
};

struct tensor_file {
    const char *path;
    int fd;
    uint64_t file_bytes;
    struct named_tensor *tensors;
    size_t n_tensors, cap_tensors;
    size_t height, width, input_channels; /* of an embedding; 0: not said */
    enum conve_layout layout;             /* LAYOUT_AUTO: not said */
    double bn_eps;                        /* 0: not said */
    double learning_rate;                 /* 0: not said */
    bool is_reciprocal;
};

void tensor_file_release(struct tensor_file *file);
/* Takes tensor->name. */
void tensor_file_add(struct tensor_file *file, const struct named_tensor *tensor);
/* NULL if there is none of that name. */
const struct named_tensor *tensor_file_find(const struct tensor_file *file, const char *prefix,
                                            const char *name);
/*
 * What a file says of itself beside its tensors, by the keys of model.h; other keys are passed over. ERR_DATA naming
 * the key.
 */
MUST_CHECK int tensor_file_fact(struct tensor_file *file, struct str key, struct str value,
                                struct err *err);
/* Those keys, one after the other; NULL behind the last. */
const char *tensor_file_fact_key(size_t index);
/* By the names that safetensors ("F32") and torch ("float32") use. */
enum tensor_type tensor_type_of(struct str name);
/* Its elements; 0 if they would be more than the file has room for: a view that repeats a few. */
size_t tensor_n_elements(const struct tensor_file *file, const struct named_tensor *tensor);
/* All elements, row by row, as float32. ERR_DATA for types that are no floats. */
MUST_CHECK int tensor_read(const struct tensor_file *file, const struct named_tensor *tensor,
                           float *out, struct err *err);

/* What the formats' readers do: ERR_DATA naming path and byte. */
MUST_CHECK int tensors_of_torch(struct tensor_file *file, struct err *err);
MUST_CHECK int tensors_of_safetensors(struct tensor_file *file, struct err *err);
