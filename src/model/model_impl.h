/* SPDX-License-Identifier: Apache-2.0
 *
 * What the readers of file formats share. Each reader adds the tensors of one file to a model.
 */
#pragma once

#include "model/model.h"

struct model_file {
    const char *path;
    int fd;
    uint64_t bytes;
};

struct model_found {
    struct str name, dtype;
    unsigned bits; /* of an element; 0: the type has blocks */
    uint64_t n_elements, bytes;
    uint32_t shares;
};

/* ERR_DATA if another tensor has that name, or if there are more types than any model has. */
MUST_CHECK int model_tensor_add(struct model *model, const struct model_file *file,
                                const struct model_found *found, struct err *err);

MUST_CHECK int model_safetensors_read(struct model *model, const struct model_file *file,
                                      struct err *err);
/* Takes the state dict, which is the value of the file or stands under a key in it. */
MUST_CHECK int model_torch_read(struct model *model, const struct model_file *file,
                                struct err *err);
/* Sets the config as well. */
MUST_CHECK int model_gguf_read(struct model *model, const struct model_file *file, struct err *err);
struct env_list;
/* Adds every file that an index (model.safetensors.index.json) names, each once, in order. */
MUST_CHECK int model_shards_list(const char *index, struct env_list *out, struct err *err);
/*
 * Adds the other files of a split GGUF. `path` is one of its files ("m-00001-of-00003.gguf"). Adds none if the name
 * has another form. ERR_DATA if a file is missing.
 */
MUST_CHECK int model_gguf_shards_list(const char *path, struct env_list *out, struct err *err);
