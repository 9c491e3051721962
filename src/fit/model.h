/* SPDX-License-Identifier: Apache-2.0
 *
 * A model on disk, by its headers alone: how many parameters of which type it has, and its shape.
 */
#pragma once

#include "fit/config.h"

enum {
    MODEL_TYPES_MAX = 32,
    MODEL_SHARDS_MAX = 4096
};

/* Parameters of one type. */
struct model_part {
    char dtype[24]; /* as safetensors names it */
    unsigned bits;  /* of one; 0: not known */
    uint64_t n_parameters, bytes;
};

struct model {
    struct model_part parts[MODEL_TYPES_MAX]; /* the largest first */
    size_t n_parts, n_files, n_tensors;
    struct model_config config;
    bool has_config; /* there is a config.json */
};

/*
 * `path`: a file .safetensors, or the folder of a model, with one such file or an index of
 * shards. Nothing but headers and JSON is read, each up to a limit. ERR_USAGE: it is not there;
 * ERR_DATA: it is damaged, with the name of the file.
 */
MUST_CHECK int model_read(const char *path, struct model *out, struct err *err);
