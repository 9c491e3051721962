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
    /*
     * Some layers see the last `window` tokens alone, and keep no others; 0: all see all tokens. layer_types says which ones
     * these are. Without, they are all but each window_period-th (0: all), from window_first on.
     */
    uint64_t window, window_period, window_first;
    uint64_t n_window_layers, n_bare_layers; /* n_bare_layers: they keep no tokens at all */
    uint64_t n_shared_layers; /* the last ones, which take the keys and values of others */
    uint32_t type_bytes;      /* of the type that weights are loaded in: torch_dtype or dtype */
    uint32_t element_bytes;   /* of the KV cache: the same; else 2 */
};

/*
 * Reads a config.json. It knows the names of GPT-2 too. For a model with several kinds of input it takes the text
 * part (text_config). Missing numbers that follow from others are filled in: KV heads from heads, the size of a head
 * from the hidden size. ERR_DATA if the text is no JSON object, or has an impossible number.
 */
MUST_CHECK int model_config_parse(struct str text, struct model_config *out, struct err *err);
/* Fills in missing numbers that follow from others. */
void model_config_complete(struct model_config *config);
/*
 * Where there is a window, and no list of layers: finds which ones have it by the class of the model (`kind`). period: what
 * the file says of that; 0: nothing. all_may: there are classes of which all layers have it.
 */
void model_config_windows_set(struct model_config *config, const char *kind, uint64_t period,
                              bool all_may);
/* How many of `context` tokens a layer keeps: by its word in layer_types, in quotes; and without such a list. */
uint64_t layer_type_tokens(struct str type, uint64_t window, uint64_t context);
uint64_t model_config_layer_tokens(const struct model_config *config, uint64_t layer,
                                   uint64_t context);
/* Those of all layers together. */
double model_config_cached_tokens(const struct model_config *config, uint64_t context);
/* Elements of the KV cache of one layer, for each token. */
double model_config_cache_elements(const struct model_config *config);
/* True if the config has all numbers that the KV cache needs; and those that activations need. */
bool model_config_has_cache(const struct model_config *config);
bool model_config_has_layers(const struct model_config *config);
