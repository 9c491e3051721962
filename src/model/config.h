/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a transformer, read from the config.json that Hugging Face puts beside a model's weights. Pure.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    CONFIG_BYTES_MAX = 4 << 20,
    /* The product of three such numbers, a context and a batch fits into a double. */
    MODEL_NUMBER_MAX = 1000000000
};

/* A number is 0 if the file does not have it. */
struct model_config {
    char kind[64];       /* model_type */
    char class_name[96]; /* the first entry of architectures: "LlamaForCausalLM" */
    uint64_t hidden, n_layers, n_heads, n_kv_heads, head_dim, vocab, intermediate, context_max;
    /* For heads whose keys and values are made from a latent vector (DeepSeek). */
    uint64_t key_plain_dim, key_rotary_dim, value_dim;
    uint32_t type_bytes;    /* of the type in which weights are loaded: torch_dtype or dtype */
    uint32_t element_bytes; /* of the KV cache: equal to type_bytes if known, else 2 */
};

/*
 * Reads a config.json. It knows the names of GPT-2 too. For a model with several kinds of input it takes the text
 * part (text_config). Missing numbers that follow from others are filled in: KV heads from heads, the size of a head
 * from the hidden size. ERR_DATA if the text is no JSON object, or has an impossible number.
 */
MUST_CHECK int model_config_parse(struct str text, struct model_config *out, struct err *err);
/* Fills in missing numbers that follow from others. */
void model_config_complete(struct model_config *config);
/* Elements of the KV cache of one layer, for each token. */
double model_config_cache_elements(const struct model_config *config);
/* True if the config has all numbers that the KV cache needs; and those that activations need. */
bool model_config_has_cache(const struct model_config *config);
bool model_config_has_layers(const struct model_config *config);
