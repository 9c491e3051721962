/* SPDX-License-Identifier: Apache-2.0 */
#include "model/buffers.h"

#include "base/json.h"
#include "base/parse.h"
#include "model/config.h"

/* ---- numbers of config.json ---- */

/*
 * The value of the first name that has a positive number, at the top or in an object that describes the text part or
 * the rotary embeddings.
 */
static double number_find(struct str config, const char *const *names)
{
    static const char *const objects[] = {"rope_parameters", "rope_scaling", "text_config"};
    struct str value, inner;
    double number;
    for (; *names; names++) {
        if (json_get(config, *names, &value) && json_to_double(value, &number) && number > 0)
            return MIN(number, (double)MODEL_NUMBER_MAX);
        for (size_t i = 0; i < countof(objects); i++)
            if (json_get(config, objects[i], &inner) && json_kind_of(inner) == JSON_OBJECT &&
                json_get(inner, *names, &value) && json_to_double(value, &number) && number > 0)
                return MIN(number, (double)MODEL_NUMBER_MAX);
    }
    return 0;
}

#define NUMBER(...) number_find(config, (const char *const[]){__VA_ARGS__, NULL})

static struct str text_part(struct str config)
{
    struct str inner;
    bool has_part = json_get(config, "text_config", &inner) && json_kind_of(inner) == JSON_OBJECT;
    return has_part ? inner : config;
}

/* ---- kinds of buffers ---- */

/* The number of frequencies of one rotary embedding: half of the part that rotates. */
static uint64_t rope_elements(struct str config, double share)
{
    double heads = NUMBER("num_attention_heads", "n_head", "num_heads");
    double dim = NUMBER("head_dim");
    double given = NUMBER("partial_rotary_factor", "rotary_pct");
    double latent = NUMBER("qk_rope_head_dim"); /* DeepSeek: this part rotates as a whole */
    if (latent > 0)
        return (uint64_t)latent / 2;
    if (dim == 0 && heads >= 1) {
        uint64_t whole = (uint64_t)NUMBER("hidden_size", "n_embd", "d_model") / (uint64_t)heads;
        dim = (double)whole;
    }
    return ((uint64_t)(dim * (given > 0 ? given : share)) + 1) / 2;
}

static size_t rope_make(struct str config, double share, struct model_buffer *out)
{
    uint64_t n = rope_elements(text_part(config), share);
    out[0] = (struct model_buffer){"inv_freq", n, 4, .is_float = true};
    out[1] = (struct model_buffer){"original_inv_freq", n, 4, .is_float = true};
    return 2;
}

static bool has_layers_of(struct str list, const char *kind)
{
    struct str one;
    bool is_begun = false;
    cleanup_buf struct buf quoted = BUF_INIT;
    buf_add_json(&quoted, str_of(kind));
    while (json_element(&list, &is_begun, &one))
        if (str_equal(one, buf_str(&quoted)))
            return true;
    return false;
}

/* Makes one rotary embedding for each kind of attention. Without a list of layers, the model has both kinds. */
static size_t rope_layers_make(struct str config, struct model_buffer *out)
{
    static const char *const kinds[][3] = {
        {"full_attention", "full_attention_inv_freq", "full_attention_original_inv_freq"},
        {"sliding_attention", "sliding_attention_inv_freq", "sliding_attention_original_inv_freq"}};
    struct str text = text_part(config), list;
    uint64_t dim = rope_elements(text, 1);
    size_t n = 0;
    bool has_list = json_get(text, "layer_types", &list) && json_kind_of(list) == JSON_ARRAY;
    for (size_t i = 0; i < countof(kinds); i++) {
        if (has_list && !has_layers_of(list, kinds[i][0]))
            continue;
        out[n++] = (struct model_buffer){kinds[i][1], dim, 4, .is_float = true};
        out[n++] = (struct model_buffer){kinds[i][2], dim, 4, .is_float = true};
    }
    return n;
}

/* The object with the numbers of the vision part; the top object if there is none. */
static struct str vision_part(struct str config)
{
    struct str inner;
    bool has_part = json_get(config, "vision_config", &inner) && json_kind_of(inner) == JSON_OBJECT;
    return has_part ? inner : config;
}

/* A patch of an image rotates by its row and by its column. Each takes a quarter of a head. */
static size_t vision_rope_make(struct str config, struct model_buffer *out)
{
    config = vision_part(config);
    uint64_t heads = (uint64_t)NUMBER("num_heads", "num_attention_heads");
    uint64_t width = (uint64_t)NUMBER("embed_dim", "hidden_size");
    uint64_t n = heads > 0 ? width / heads / 4 : 0;
    out[0] = (struct model_buffer){"inv_freq", n, 4, .is_float = true};
    out[1] = (struct model_buffer){"original_inv_freq", n, 4, .is_float = true};
    return 2;
}

/* The position numbers of the patches of an image, and of the token that stands for the whole image. */
static size_t patches_make(struct str config, struct model_buffer *out)
{
    config = vision_part(config);
    uint64_t image = (uint64_t)NUMBER("image_size"), patch = (uint64_t)NUMBER("patch_size");
    uint64_t side = patch > 0 ? image / patch : 0;
    out[0] = (struct model_buffer){"position_ids", side * side + 1, 8};
    return 1;
}

static struct model_buffer other_make(struct str name, struct str config)
{
    uint64_t positions =
        (uint64_t)NUMBER("n_positions", "max_position_embeddings", "n_ctx", "seq_length");
    uint64_t width = (uint64_t)NUMBER("d_model", "hidden_size", "n_embd");
    if (str_equal(name, STR("scale")))
        return (struct model_buffer){"embed_scale", 1, 4, .is_float = true};
    if (str_equal(name, STR("gptj"))) {
        uint64_t rotary = (uint64_t)NUMBER("rotary_dim", "n_embd", "hidden_size");
        return (struct model_buffer){"embed_positions", positions * rotary, 4, .is_float = true};
    }
    if (str_equal(name, STR("sinusoid"))) /* two positions are kept for padding */
        return (struct model_buffer){"weights", (positions + 2) * width, 4, .is_float = true};
    if (str_equal(name, STR("neo")))
        return (struct model_buffer){"attn.attention.bias", positions * positions, 1,
                                     .is_bool = true};
    if (str_equal(name, STR("bigcode")))
        return (struct model_buffer){"bias", positions * positions, 1, .is_bool = true};
    return (struct model_buffer){0};
}

size_t model_buffers_make(struct str spec, struct str config,
                          struct model_buffer out[MODEL_BUFFERS_MAX])
{
    struct str name;
    double share = 1;
    if (!str_next(&spec, ':', &name))
        return 0;
    if (spec.at && spec.len > 0 && double_parse(spec, &share, NULL) != 0)
        share = 1;
    if (str_equal(name, STR("rope")))
        return rope_make(config, share, out);
    if (str_equal(name, STR("rope_layers")))
        return rope_layers_make(config, out);
    if (str_equal(name, STR("vision_rope")))
        return vision_rope_make(config, out);
    if (str_equal(name, STR("patches")))
        return patches_make(config, out);
    if (str_equal(name, STR("ids2"))) {
        uint64_t n = (uint64_t)NUMBER("max_position_embeddings");
        out[0] = (struct model_buffer){"position_ids", n, 8};
        out[1] = (struct model_buffer){"token_type_ids", n, 8};
        return 2;
    }
    out[0] = other_make(name, config);
    return out[0].name ? 1 : 0;
}
