/* SPDX-License-Identifier: Apache-2.0
 *
 * The shape of a transformer, from the config.json that Hugging Face writes beside a model's
 * weights. Pure.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    CONFIG_BYTES_MAX = 4 << 20,
    /* Products of three of them, and of a context and a batch, fit into 64 bits as a double does. */
    MODEL_NUMBER_MAX = 1000000000
};

/* 0: the file does not say. */
struct model_config {
    char kind[64];       /* model_type */
    char class_name[96]; /* the first of architectures: "LlamaForCausalLM" */
    uint64_t hidden, n_layers, n_heads, n_kv_heads, head_dim, vocab, intermediate, context_max;
    uint32_t type_bytes;    /* of the type that weights are loaded in: torch_dtype or dtype */
    uint32_t element_bytes; /* of the KV cache: the same; else 2 */
};

/*
 * Takes the names of GPT-2 too, and for models of several kinds of input the part of the text
 * (text_config). What follows from other numbers is filled in: KV heads from heads, the size of a
 * head from the hidden size. ERR_DATA if the text is no JSON object, or has a number that cannot
 * be one.
 */
MUST_CHECK int model_config_parse(struct str text, struct model_config *out, struct err *err);
/* Fills in what follows from other numbers. */
void model_config_complete(struct model_config *config);
/* All that the KV cache needs to be known; and activations. */
bool model_config_has_cache(const struct model_config *config);
bool model_config_has_layers(const struct model_config *config);
