/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on disk, read from its headers alone: its tensors, its parameters by type, and its shape. The bytes of
 * tensors are never read, so a model of any size is read in milliseconds.
 */
#pragma once

#include "base/name_index.h"
#include "model/config.h"

enum {
    MODEL_TYPES_MAX = 32,
    MODEL_SHARDS_MAX = 4096
};

/* All parameters of one type. */
struct model_part {
    char dtype[24]; /* as safetensors names it, or GGUF */
    unsigned bits;  /* of one parameter; 0: not known, or not equal for all */
    uint64_t n_parameters, bytes;
};

struct model_tensor {
    uint64_t n_elements, bytes; /* as stored */
    uint32_t part;              /* the index of its type in `parts` */
    uint32_t shares;            /* tensors with the same number share their bytes; 0: not shared */
};

enum model_format {
    MODEL_SAFETENSORS,
    MODEL_TORCH,
    MODEL_GGUF
};

struct model {
    struct model_part parts[MODEL_TYPES_MAX]; /* the largest first */
    size_t n_parts, n_files, n_tensors;
    struct name_index names;      /* of the tensors */
    struct model_tensor *tensors; /* in the order of the files, and of their places in a file */
    size_t cap_tensors;
    enum model_format format; /* of the last file */
    struct model_config config;
    struct buf config_text; /* text of config.json; empty: there is none */
    bool has_config;        /* there is a config.json, or a GGUF header */
};

/*
 * Reads a model. `path`: a file .safetensors, .bin, .pt or .gguf, or the folder of a model, which has one such file
 * or an index of shards. Only headers and JSON are read, each up to a limit. ERR_USAGE if there is no such model;
 * ERR_DATA if a file is damaged, with its name. Release also after a failure.
 */
MUST_CHECK int model_read(const char *path, struct model *out, struct err *err);
void model_release(struct model *model);
/*
 * True if parameters of this type are converted when a model is loaded in another type. Quantised parameters and
 * whole numbers are not converted.
 */
bool model_part_is_float(const struct model_part *part);
