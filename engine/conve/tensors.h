/* SPDX-License-Identifier: Apache-2.0
 *
 * What a model file of any format holds: named tensors with their places in the file, and the few
 * numbers beside them that say how the model is built.
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
    char *name; /* with the keys that lead to it: "model_state_dict.fc.weight" */
    enum tensor_type type;
    size_t dims[CONVE_DIMS_MAX], strides[CONVE_DIMS_MAX], n_dims; /* strides in elements */
    uint64_t at; /* the place of its first element, in bytes from the start of the file */
};

struct tensor_file {
    const char *path;
    int fd;
    uint64_t file_bytes;
    struct named_tensor *tensors;
    size_t n_tensors, cap_tensors;
    size_t height, width, input_channels; /* height and width of an embedding; 0: not stated */
    enum conve_layout layout;             /* LAYOUT_AUTO: not stated */
    double bn_eps;                        /* 0: not stated */
    double learning_rate;                 /* 0: not stated */
    bool is_reciprocal;
};

void tensor_file_release(struct tensor_file *file);
/* Takes ownership of tensor->name. */
void tensor_file_add(struct tensor_file *file, const struct named_tensor *tensor);
/* Returns NULL if there is no tensor called prefix + name. */
const struct named_tensor *tensor_file_find(const struct tensor_file *file, const char *prefix,
                                            const char *name);
/*
 * Takes a fact that a file states beside its tensors, by the keys of model.h; other keys are
 * ignored. The text of ERR_DATA names the key.
 */
MUST_CHECK int tensor_file_fact(struct tensor_file *file, struct str key, struct str value,
                                struct err *err);
/* Returns the keys of those facts, by index from 0; NULL after the last. */
const char *tensor_file_fact_key(size_t index);
/* Takes the names that safetensors ("F32") and torch ("float32") use. */
enum tensor_type tensor_type_of(struct str name);
/*
 * Returns the number of the tensor's elements; 0 if it is above file_bytes, as in a view that
 * repeats elements.
 */
size_t tensor_n_elements(const struct tensor_file *file, const struct named_tensor *tensor);
/* Reads all elements, row by row, as float32. ERR_DATA for types that are no floats. */
MUST_CHECK int tensor_read(const struct tensor_file *file, const struct named_tensor *tensor,
                           float *out, struct err *err);

/* The readers of the formats. The text of ERR_DATA names path and byte. */
MUST_CHECK int tensors_of_torch(struct tensor_file *file, struct err *err);
MUST_CHECK int tensors_of_safetensors(struct tensor_file *file, struct err *err);
