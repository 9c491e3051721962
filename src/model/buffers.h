/* SPDX-License-Identifier: Apache-2.0
 *
 * Buffers that a model itself makes when it is loaded, such as the frequencies of rotary embeddings. Such buffers are
 * small and in no file, but count in Accelerate's sizes. Their shapes follow from config.json, by the rules of
 * transformers 5.24. Pure.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    MODEL_BUFFERS_MAX = 4
};

struct model_buffer {
    const char *name; /* in its module; "attn.bias": in a module below */
    uint64_t n_elements;
    uint32_t element_bytes; /* float: 4 */
    bool is_float;          /* the buffer is converted as weights are */
    bool is_bool;
};

/*
 * Makes the buffers of a name in a layout: rope[:SHARE] (SHARE: which part of a head rotates, if config.json lacks
 * it), rope_layers, scale, gptj, sinusoid, neo, bigcode, ids2, vision_rope, patches. Returns how many; 0 for an
 * unknown name. `config` is the text of config.json, or empty.
 */
size_t model_buffers_make(struct str spec, struct str config,
                          struct model_buffer out[MODEL_BUFFERS_MAX]);
