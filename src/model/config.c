/* SPDX-License-Identifier: Apache-2.0 */
#include "model/config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/json.h"

/*
 * The names of one number: the name in most models, then those in GPT-2, T5, MPT, BART and similar models. For a
 * model with an encoder, the names of its decoder, which keeps the cache.
 */
static const struct {
    const char *names[6];
    size_t offset;
} numbers[] = {
    {{"hidden_size", "n_embd", "d_model", "n_embed"}, offsetof(struct model_config, hidden)},
    {{"num_hidden_layers", "n_layer", "num_layers", "n_layers", "decoder_layers"},
     offsetof(struct model_config, n_layers)},
    {{"num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads",
      "attention_heads"},
     offsetof(struct model_config, n_heads)},
    {{"num_key_value_heads"}, offsetof(struct model_config, n_kv_heads)},
    {{"head_dim", "d_kv"}, offsetof(struct model_config, head_dim)},
    {{"vocab_size"}, offsetof(struct model_config, vocab)},
    {{"intermediate_size", "n_inner", "d_ff", "decoder_ffn_dim", "ffn_dim"},
     offsetof(struct model_config, intermediate)},
    {{"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "max_target_positions"},
     offsetof(struct model_config, context_max)},
    {{"qk_nope_head_dim"}, offsetof(struct model_config, key_plain_dim)},
    {{"qk_rope_head_dim"}, offsetof(struct model_config, key_rotary_dim)},
    {{"v_head_dim"}, offsetof(struct model_config, value_dim)},
};

static const struct {
    const char *name;
    uint32_t bytes;
} types[] = {
    {"float32", 4}, {"float16", 2}, {"bfloat16", 2}, {"float64", 8}, {"float", 4}, {"half", 2},
};

static int number_take(struct str object, const char *name, uint64_t *out, struct err *err)
{
    struct str value;
    uint64_t number;
    if (*out > 0 || !name || !json_get(object, name, &value) || json_kind_of(value) == JSON_NULL)
        return 0;
    if (!json_to_u64(value, &number) || number == 0 || number > MODEL_NUMBER_MAX)
        return fail(err, ERR_DATA, "%s is %.*s, which is no number from 1 to %u", name,
                    (int)MIN(value.len, (size_t)40), value.at, MODEL_NUMBER_MAX);
    *out = number;
    return 0;
}

static int numbers_take(struct str object, struct model_config *out, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < countof(numbers); i++) {
        uint64_t *field = (uint64_t *)(void *)((char *)out + numbers[i].offset);
        for (size_t k = 0; rc == 0 && k < countof(numbers[i].names); k++)
            rc = number_take(object, numbers[i].names[k], field, err);
    }
    return rc;
}

static void type_take(struct str object, const char *key, struct model_config *out)
{
    char *name = json_text_new(object, key, 32);
    const char *plain = name && strncmp(name, "torch.", 6) == 0 ? name + 6 : name;
    for (size_t i = 0; plain && i < countof(types); i++)
        if (strcmp(plain, types[i].name) == 0)
            out->type_bytes = out->element_bytes = types[i].bytes;
    free(name);
}

static bool is_true(struct str object, const char *key)
{
    struct str value;
    bool is;
    return json_get(object, key, &value) && json_to_bool(value, &is) && is;
}

/* ---- which layers see a window ---- */

/*
 * Classes of transformers whose config.json may lack layer_types, with the period of the layers that see all tokens; 0: none
 * does. From the __init__ of Gemma2Config, Gemma3TextConfig, GptOssConfig, Cohere2Config and Olmo3Config, and for 0 from
 * DynamicCache, in cache_utils.py; the names with a dash are llama.cpp's (set_swa_pattern in llama-model.cpp). Of other
 * classes nothing is known, so all their layers count in full.
 */
static const struct {
    const char *kind;
    uint64_t period;
} periods[] = {
    {"gemma2", 2},  {"gemma3", 6},  {"gemma3_text", 6}, {"gpt_oss", 2},
    {"gpt-oss", 2}, {"cohere2", 4}, {"olmo3", 4},       {"mistral", 0},
    {"mixtral", 0}, {"phi3", 0},    {"starcoder2", 0},
};

static bool has_attention(struct str type)
{
    return memmem(type.at, type.len, "attention", 9) != NULL &&
           memmem(type.at, type.len, "linear", 6) == NULL;
}

uint64_t layer_type_tokens(struct str type, uint64_t window, uint64_t context)
{
    bool is_windowed = str_equal(type, STR("\"sliding_attention\"")) ||
                       str_equal(type, STR("\"chunked_attention\""));
    if (is_windowed && window > 0)
        return MIN(window, context);
    return has_attention(type) ? context : 0;
}

static bool sees_window(const struct model_config *c, uint64_t layer)
{
    return c->window > 0 && layer >= c->window_first &&
           (c->window_period == 0 || (layer + 1) % c->window_period != 0);
}

uint64_t model_config_layer_tokens(const struct model_config *c, uint64_t layer, uint64_t context)
{
    return sees_window(c, layer) ? MIN(c->window, context) : context;
}

double model_config_cached_tokens(const struct model_config *c, uint64_t context)
{
    double n_full = (double)(c->n_layers - c->n_window_layers - c->n_bare_layers);
    return n_full * (double)context + (double)c->n_window_layers * (double)MIN(c->window, context);
}

static uint64_t layers_that_keep(const struct model_config *c)
{
    return c->n_layers - MIN(c->n_shared_layers, c->n_layers);
}

void model_config_windows_set(struct model_config *c, const char *kind, uint64_t period,
                              bool all_may)
{
    bool is_known = period > 0 || c->window_first > 0;
    c->window_period = period;
    for (size_t i = 0; i < countof(periods) && !is_known; i++)
        if (strcmp(kind, periods[i].kind) == 0 && (periods[i].period > 0 || all_may)) {
            c->window_period = periods[i].period;
            is_known = true;
        }
    c->window = is_known ? c->window : 0;
    uint64_t n = layers_that_keep(c), first = MIN(c->window_first, n);
    if (c->window > 0)
        c->n_window_layers =
            n - first -
            (c->window_period > 0 ? n / c->window_period - first / c->window_period : 0);
    c->n_bare_layers = c->n_layers - n;
}

static void types_count(struct str list, struct model_config *out)
{
    uint64_t n = layers_that_keep(out);
    struct str type;
    bool is_begun = false;
    out->n_bare_layers = out->n_layers - n;
    for (uint64_t i = 0; i < n && json_element(&list, &is_begun, &type); i++) {
        uint64_t tokens = layer_type_tokens(type, out->window > 0, 2);
        out->n_window_layers += tokens == 1;
        out->n_bare_layers += tokens == 0;
    }
}

/* 0: there is no such number, or it cannot be one. Then layers count in full, which is no less than they keep. */
static uint64_t number_of(struct str object, const char *key)
{
    struct str value;
    uint64_t number;
    bool is_one = json_get(object, key, &value) && json_to_u64(value, &number);
    return is_one && number <= MODEL_NUMBER_MAX ? number : 0;
}

static bool is_false(struct str object, const char *key)
{
    struct str value;
    bool is;
    return json_get(object, key, &value) && json_to_bool(value, &is) && !is;
}

/* Qwen2Config and its kin: the window is used only if that is said, by the layers from max_window_layers on. */
static void qwen_take(struct str object, struct model_config *out)
{
    uint64_t first = number_of(object, "max_window_layers");
    if (!is_true(object, "use_sliding_window"))
        out->window = 0;
    out->window_first = first > 0 ? first : 28;
}

static void windows_take(struct str object, struct model_config *out)
{
    struct str list;
    char *kind = json_text_new(object, "model_type", sizeof(out->kind) - 1);
    const char *name = kind ? kind : out->kind;
    uint64_t period = number_of(object, "sliding_window_pattern");
    period = period > 0 ? period : number_of(object, "_sliding_window_pattern");
    out->window_first = out->n_window_layers = 0;
    out->window = is_false(object, "use_sliding_window") ? 0 : number_of(object, "sliding_window");
    out->n_shared_layers = number_of(object, "num_kv_shared_layers");
    if (strncmp(name, "qwen", 4) == 0)
        qwen_take(object, out);
    if (json_get(object, "layer_types", &list) && json_kind_of(list) == JSON_ARRAY) {
        out->window = out->window > 0 ? out->window : number_of(object, "attention_chunk_size");
        types_count(list, out);
    } else {
        model_config_windows_set(out, name, period, true);
    }
    free(kind);
}

static int object_take(struct str object, struct model_config *out, struct err *err)
{
    type_take(object, "torch_dtype", out);
    type_take(object, "dtype", out);
    int rc = numbers_take(object, out, err);
    if (rc == 0)
        windows_take(object, out);
    /* StarCoder and Falcon; the larger Falcons have it too, and cache a key for each head. */
    if (rc == 0 && is_true(object, "multi_query") && !is_true(object, "new_decoder_architecture"))
        out->n_kv_heads = 1;
    return rc;
}

/* Takes the first entry of "architectures". */
static void class_take(struct str text, struct model_config *out)
{
    struct str list, first;
    bool is_begun = false;
    cleanup_buf struct buf name = BUF_INIT;
    if (json_get(text, "architectures", &list) && json_element(&list, &is_begun, &first) &&
        json_to_text(first, &name))
        snprintf(out->class_name, sizeof(out->class_name), "%s", buf_text(&name));
}

void model_config_complete(struct model_config *config)
{
    if (config->n_kv_heads == 0)
        config->n_kv_heads = config->n_heads;
    if (config->head_dim == 0 && config->n_heads > 0)
        config->head_dim = config->hidden / config->n_heads;
}

int model_config_parse(struct str text, struct model_config *out, struct err *err)
{
    struct str inner;
    *out = (struct model_config){.element_bytes = 2};
    if (!json_is_object(text))
        return fail(err, ERR_DATA, "it is no JSON object");
    char *kind = json_text_new(text, "model_type", sizeof(out->kind) - 1);
    snprintf(out->kind, sizeof(out->kind), "%s", kind ? kind : "");
    free(kind);
    int rc = object_take(text, out, err);
    if (rc == 0 && out->hidden == 0 && json_get(text, "text_config", &inner) &&
        json_kind_of(inner) == JSON_OBJECT)
        rc = object_take(inner, out, err);
    class_take(text, out);
    model_config_complete(out);
    return rc;
}

/* transformers caches the keys and values that are made from a latent vector, not the vector itself. */
double model_config_cache_elements(const struct model_config *c)
{
    bool is_latent = c->key_plain_dim > 0 && c->key_rotary_dim > 0 && c->value_dim > 0;
    if (is_latent)
        return (double)c->n_heads * (double)(c->key_plain_dim + c->key_rotary_dim + c->value_dim);
    return 2.0 * (double)c->n_kv_heads * (double)c->head_dim;
}

bool model_config_has_cache(const struct model_config *c)
{
    return c->n_layers > 0 && c->n_kv_heads > 0 && c->head_dim > 0;
}

bool model_config_has_layers(const struct model_config *c)
{
    return c->n_layers > 0 && c->n_heads > 0 && c->hidden > 0;
}
