/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on disk, by its headers alone: which tensors it has, how many parameters of which type,
 * and its shape. The bytes of tensors are never read, so a model of any size is read in
 * milliseconds.
 */
#pragma once

#include "base/name_index.h"
#include "model/config.h"

enum {
    MODEL_TYPES_MAX = 32,
    MODEL_SHARDS_MAX = 4096
};

/* Parameters of one type. */
struct model_part {
    char dtype[24]; /* as safetensors names it, or GGUF */
    unsigned bits;  /* of one; 0: not known, or not the same for all */
    uint64_t n_parameters, bytes;
};

struct model_tensor {
    uint64_t n_elements, bytes; /* as stored */
    uint32_t part;              /* its type, in parts */
    uint32_t shares; /* 0, or a number that tensors have in common whose bytes are the same */
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
    struct model_tensor *tensors; /* in the order of the files, and of the places in them */
    size_t cap_tensors;
    enum model_format format; /* of the last file */
    struct model_config config;
    struct buf config_text; /* of config.json; empty: there is none */
    bool has_config;        /* there is a config.json, or the header of a GGUF */
};

/*
 * `path`: a file .safetensors, .bin, .pt or .gguf, or the folder of a model, with one such file or
 * an index of shards. Nothing but headers and JSON is read, each up to a limit. ERR_USAGE: it is
 * not there; ERR_DATA: it is damaged, with the name of the file. Release also after a failure.
 */
MUST_CHECK int model_read(const char *path, struct model *out, struct err *err);
void model_release(struct model *model);
/* Parameters of this type are converted when a model is loaded in another type; quantised ones and
 * whole numbers are not. */
bool model_part_is_float(const struct model_part *part);
