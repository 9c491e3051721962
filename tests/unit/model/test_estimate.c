/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/test.h"

#include <string.h>

#include "model/estimate.h"

#define GIB ((uint64_t)1 << 30)

static const char llama_config[] =
    "{\"model_type\":\"llama\",\"hidden_size\":4096,\"num_hidden_layers\":32,"
    "\"num_attention_heads\":32,\"num_key_value_heads\":8,\"vocab_size\":128256,"
    "\"intermediate_size\":14336,\"max_position_embeddings\":8192,\"torch_dtype\":\"bfloat16\"}";

static void config_is(struct model_config *out, const char *text)
{
    struct err err = {0};
    if (model_config_parse(str_of(text), out, &err) != 0)
        fail_msg("%s: %s", text, err.text);
}

/* Llama 3 8B, whose files have this many parameters of two bytes. */
static struct model llama(void)
{
    struct model model = {.n_parts = 1, .n_files = 4, .n_tensors = 291, .has_config = true};
    model.parts[0] = (struct model_part){"BF16", 16, 8030261248, 16060522496};
    config_is(&model.config, llama_config);
    return model;
}

static struct estimate estimated(const struct model *model, const struct estimate_wish *wish)
{
    struct estimate out;
    assert_int_equal(estimate_make(model, wish, &out, NULL), 0);
    return out;
}

static void a_llama_has_the_cache_that_its_config_says(void **state)
{
    (void)state;
    struct model model = llama();
    assert_int_equal(model.config.head_dim, 128);
    struct estimate e = estimated(&model, &(struct estimate_wish){.context = 8192, .batch = 4});
    assert_int_equal(e.token_bytes, 131072); /* 2 * 32 layers * 8 heads * 128 * 2 bytes */
    assert_int_equal(e.cache_bytes, 4 * GIB);
    assert_int_equal(e.total_bytes, 16060522496 + 4 * GIB);
    assert_int_equal(e.gradient_bytes + e.optimizer_bytes + e.activation_bytes, 0);
    assert_false(e.is_partial);
    config_is(&model.config,
              "{\"hidden_size\":4096,\"num_hidden_layers\":32,\"num_attention_heads\":32,"
              "\"head_dim\":256,\"torch_dtype\":\"float32\"}");
    e = estimated(&model, &(struct estimate_wish){.context = 1, .batch = 1});
    assert_int_equal(e.token_bytes,
                     2 * 32 * 32 * 256 * 4); /* no number of KV heads: as many as heads */
}

#define FIVE_SLIDE \
    "\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\",\"sliding_attention\","
#define SIX FIVE_SLIDE "\"full_attention\","
#define GEMMA3_1B                                                                   \
    "\"num_hidden_layers\":26,\"num_attention_heads\":4,\"num_key_value_heads\":1," \
    "\"head_dim\":256,\"hidden_size\":1152,\"sliding_window\":512,\"torch_dtype\":\"bfloat16\""
#define GPT_OSS_20B                                                                   \
    "\"model_type\":\"gpt_oss\",\"num_hidden_layers\":24,\"num_attention_heads\":64," \
    "\"num_key_value_heads\":8,\"head_dim\":64,\"hidden_size\":2880,\"sliding_window\":128"
#define QWEN2_72B                                                                   \
    "\"model_type\":\"qwen2\",\"num_hidden_layers\":80,\"num_attention_heads\":64," \
    "\"num_key_value_heads\":8,\"hidden_size\":8192,\"sliding_window\":131072"

/* From the config.json of these models on Hugging Face; without layer_types, as the class has it. */
static void layers_with_a_window_keep_no_more_than_that(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t context, cache_bytes;
    } cases[] = {
        /* mistralai/Mistral-7B-v0.1, and v0.3, which has no window */
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":32,\"num_attention_heads\":32,"
         "\"num_key_value_heads\":8,\"hidden_size\":4096,\"sliding_window\":4096}",
         32768, 32 * 4096ul * 4096},
        {"{\"model_type\":\"mistral\",\"num_hidden_layers\":32,\"num_attention_heads\":32,"
         "\"num_key_value_heads\":8,\"hidden_size\":4096,\"sliding_window\":null}",
         32768, 32 * 4096ul * 32768},
        /* google/gemma-2-9b: every second layer */
        {"{\"model_type\":\"gemma2\",\"num_hidden_layers\":42,\"num_attention_heads\":16,"
         "\"num_key_value_heads\":8,\"head_dim\":256,\"hidden_size\":3584,\"sliding_window\":4096}",
         8192, 21 * 8192ul * (8192 + 4096)},
        {"{\"model_type\":\"gemma2\",\"num_hidden_layers\":42,\"num_attention_heads\":16,"
         "\"num_key_value_heads\":8,\"head_dim\":256,\"hidden_size\":3584,\"sliding_window\":4096}",
         100, 42 * 8192ul * 100},
        /* google/gemma-3-1b-it, with the list and without */
        {"{\"model_type\":\"gemma3_text\"," GEMMA3_1B "}", 32768, 1024ul * (4 * 32768 + 22 * 512)},
        {"{\"model_type\":\"gemma3_text\"," GEMMA3_1B ",\"layer_types\":[" SIX SIX SIX SIX
         "\"sliding_attention\",\"sliding_attention\"]}",
         32768, 1024ul * (4 * 32768 + 22 * 512)},
        {"{\"model_type\":\"gemma3\",\"text_config\":{" GEMMA3_1B ",\"sliding_window_pattern\":2}}",
         32768, 1024ul * (13 * 32768 + 13 * 512)},
        /* openai/gpt-oss-20b */
        {"{" GPT_OSS_20B "}", 131072, 2048ul * 12 * (131072 + 128)},
        {"{" GPT_OSS_20B ",\"use_sliding_window\":false}", 1000, 2048ul * 24 * 1000},
        /* Qwen/Qwen2-72B-Instruct does not use its window */
        {"{" QWEN2_72B ",\"max_window_layers\":80,\"use_sliding_window\":false}", 200000,
         4096ul * 80 * 200000},
        {"{" QWEN2_72B ",\"max_window_layers\":70,\"use_sliding_window\":true}", 200000,
         4096ul * (70 * 200000ul + 10 * 131072)},
        {"{" QWEN2_72B "}", 200000, 4096ul * 80 * 200000},
        /* layers that share what others keep, layers without attention, and a class of which nothing is known */
        {"{\"num_hidden_layers\":4,\"num_attention_heads\":1,\"hidden_size\":8,\"sliding_window\":2,"
         "\"num_kv_shared_layers\":1,\"layer_types\":[\"sliding_attention\",\"linear_attention\","
         "\"full_attention\",\"full_attention\"]}",
         10, 32 * (2 + 0 + 10)},
        {"{\"num_hidden_layers\":4,\"num_attention_heads\":1,\"hidden_size\":8,"
         "\"attention_chunk_size\":3,\"layer_types\":[\"chunked_attention\",\"full_attention\"]}",
         10, 32 * (3 + 30)},
        {"{\"model_type\":\"other\",\"num_hidden_layers\":4,\"num_attention_heads\":1,"
         "\"hidden_size\":8,\"sliding_window\":2,\"sliding_window_pattern\":\"LLLG\"}",
         10, 32 * 4 * 10},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct model model = {.has_config = true};
        config_is(&model.config, cases[i].text);
        struct estimate e =
            estimated(&model, &(struct estimate_wish){.context = cases[i].context, .batch = 3});
        if (e.cache_bytes != 3 * cases[i].cache_bytes || e.is_partial)
            fail_msg("%s: %lu", cases[i].text, e.cache_bytes);
    }
}

static void a_gguf_says_windows_as_llama_cpp_has_them(void **state)
{
    (void)state;
    static const struct {
        const char *kind;
        uint64_t period, n_window_layers;
    } cases[] = {{"gemma3", 0, 5}, {"gemma2", 0, 3}, {"gpt-oss", 0, 3},
                 {"phi3", 0, 0},   {"llama", 0, 0},  {"other", 3, 4}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct model_config c = {.n_layers = 6, .window = 100};
        model_config_windows_set(&c, cases[i].kind, cases[i].period, false);
        assert_int_equal(c.n_window_layers, cases[i].n_window_layers);
        assert_int_equal(model_config_layer_tokens(&c, 0, 1000), c.n_window_layers ? 100 : 1000);
        assert_int_equal(model_config_layer_tokens(&c, 5, 1000), 1000);
    }
}

static void classes_without_a_cache_are_known(void **state)
{
    (void)state;
    struct model model = llama();
    config_is(&model.config, "{\"architectures\":[\"Mamba2ForCausalLM\"],\"hidden_size\":2560,"
                             "\"num_hidden_layers\":64,\"num_heads\":80,\"head_dim\":64}");
    struct estimate e = estimated(&model, &(struct estimate_wish){.context = 100, .batch = 1});
    assert_int_equal(e.token_bytes, 0);
    assert_int_equal(e.cache_bytes, 0);
    assert_false(e.is_partial);
}

static void training_takes_gradients_optimizer_and_activations(void **state)
{
    (void)state;
    static const struct {
        enum estimate_optimizer optimizer;
        uint64_t bytes;
    } optimizers[] = {
        {OPTIMIZER_ADAM, 12 * 8030261248},
        {OPTIMIZER_ADAM8BIT, 16311468160}, /* 2.03125 for each */
        {OPTIMIZER_SGD, 2 * 8030261248},
        {OPTIMIZER_NONE, 0},
    };
    /* s = 2048, b = 2, h = 4096, a = 32, v = 128256: 32 layers, and s b h + 4 s b (h + v) once. */
    static const struct {
        enum estimate_recompute recompute;
        uint64_t bytes;
    } recomputes[] = {
        {RECOMPUTE_NONE, 32 * (34ul * 2048 * 2 * 4096 + 5ul * 32 * 2048 * 2048 * 2) + 2185232384},
        {RECOMPUTE_SELECTIVE, 18253611008 + 2185232384},
        {RECOMPUTE_FULL, 1073741824 + 2185232384},
    };
    struct model model = llama();
    struct estimate_wish wish = {.is_training = true, .context = 2048, .batch = 2};
    for (size_t i = 0; i < countof(optimizers); i++) {
        wish.optimizer = optimizers[i].optimizer;
        struct estimate e = estimated(&model, &wish);
        assert_int_equal(e.optimizer_bytes, optimizers[i].bytes);
        assert_int_equal(e.gradient_bytes, 16060522496);
        assert_int_equal(e.cache_bytes, 0);
    }
    for (size_t i = 0; i < countof(recomputes); i++) {
        wish.recompute = recomputes[i].recompute;
        struct estimate e = estimated(&model, &wish);
        assert_int_equal(e.activation_bytes, recomputes[i].bytes);
        assert_int_equal(e.total_bytes, 2 * 16060522496 + recomputes[i].bytes);
    }
}

static void what_has_no_gradient_is_not_trained(void **state)
{
    (void)state;
    struct model model = {.n_parts = 3};
    model.parts[0] = (struct model_part){"F32", 32, 1000, 4000};
    model.parts[1] = (struct model_part){"I64", 64, 10, 80};
    model.parts[2] = (struct model_part){"F8_E4M3", 8, 100, 100};
    struct estimate e =
        estimated(&model, &(struct estimate_wish){.is_training = true, .context = 1, .batch = 1});
    assert_int_equal(e.weight_bytes, 4180);
    assert_int_equal(e.gradient_bytes, 4000 + 200);
    assert_int_equal(e.optimizer_bytes, 8 * 1000 + 12 * 100);
    assert_true(e.is_partial); /* there is no config */
    assert_int_equal(e.activation_bytes, 0);
}

static void names_of_other_configs_are_known(void **state)
{
    (void)state;
    struct model_config c;
    config_is(
        &c,
        "{\"n_embd\":768,\"n_layer\":12,\"n_head\":12,\"n_positions\":1024,\"vocab_size\":50257,"
        "\"n_inner\":null}");
    assert_int_equal(c.hidden, 768);
    assert_int_equal(c.n_kv_heads, 12);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.context_max, 1024);
    assert_int_equal(c.element_bytes, 2);
    config_is(
        &c,
        "{\"model_type\":\"gemma3\",\"text_config\":{\"hidden_size\":2560,\"num_hidden_layers\":34,"
        "\"dtype\":\"float32\"}}");
    assert_string_equal(c.kind, "gemma3");
    assert_int_equal(c.hidden, 2560);
    assert_int_equal(c.element_bytes, 4);
    assert_true(!model_config_has_cache(&c));
    config_is(&c, "{}");
    assert_true(!model_config_has_layers(&c));
}

static void heads_of_other_configs_are_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double elements; /* of the cache of a layer, for a token */
        uint64_t n_layers, intermediate, context_max;
    } cases[] = {
        /* MPT, T5 11B, BART, XGLM, BLOOM, StarCoder, Falcon 7B and 40B */
        {"{\"d_model\":4096,\"n_layers\":32,\"n_heads\":32,\"max_seq_len\":2048}", 2 * 4096, 32, 0,
         2048},
        {"{\"d_model\":1024,\"num_layers\":24,\"num_heads\":128,\"d_kv\":128,\"d_ff\":65536}",
         2 * 128 * 128, 24, 65536, 0},
        {"{\"d_model\":1024,\"decoder_layers\":12,\"decoder_attention_heads\":16,"
         "\"decoder_ffn_dim\":4096,\"max_target_positions\":448}",
         2 * 1024, 12, 4096, 448},
        {"{\"d_model\":1024,\"num_layers\":24,\"attention_heads\":16,\"ffn_dim\":4096}", 2 * 1024,
         24, 4096, 0},
        {"{\"n_embed\":14336,\"n_layer\":70,\"num_attention_heads\":112}", 2 * 14336, 70, 0, 0},
        {"{\"n_embd\":6144,\"n_layer\":40,\"n_head\":48,\"multi_query\":true}", 2 * 128, 40, 0, 0},
        {"{\"hidden_size\":4544,\"num_hidden_layers\":32,\"num_attention_heads\":71,"
         "\"multi_query\":true,\"num_kv_heads\":71,\"new_decoder_architecture\":false}",
         2 * 64, 32, 0, 0},
        {"{\"hidden_size\":8192,\"num_hidden_layers\":60,\"num_attention_heads\":128,"
         "\"multi_query\":true,\"num_kv_heads\":8,\"new_decoder_architecture\":true}",
         2 * 8192, 60, 0, 0},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct model_config c;
        config_is(&c, cases[i].text);
        assert_true(model_config_has_cache(&c));
        assert_true(model_config_cache_elements(&c) == cases[i].elements);
        assert_int_equal(c.n_layers, cases[i].n_layers);
        assert_int_equal(c.intermediate, cases[i].intermediate);
        assert_int_equal(c.context_max, cases[i].context_max);
    }
}

static void a_config_with_impossible_numbers_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"",
                                        "[]",
                                        "{",
                                        "7",
                                        "{\"hidden_size\":0}",
                                        "{\"hidden_size\":-4}",
                                        "{\"vocab_size\":1.5}",
                                        "{\"n_layer\":\"12\"}",
                                        "{\"num_key_value_heads\":1000000001}",
                                        "{\"text_config\":{\"hidden_size\":[]}}"};
    struct model_config c;
    for (size_t i = 0; i < countof(texts); i++)
        if (model_config_parse(str_of(texts[i]), &c, NULL) != ERR_DATA)
            fail_msg("%s is taken", texts[i]);
}

static void what_64_bits_cannot_count_is_refused(void **state)
{
    (void)state;
    struct model model = llama();
    struct estimate e;
    struct estimate_wish wish = {.context = 1000000000, .batch = 1000000000};
    assert_int_equal(estimate_make(&model, &wish, &e, NULL), ERR_DATA);
    wish.is_training = true;
    assert_int_equal(estimate_make(&model, &wish, &e, NULL), ERR_DATA);
    model.config.n_layers = model.config.n_kv_heads = model.config.head_dim = 1000000000;
    wish = (struct estimate_wish){.context = 1, .batch = 1};
    assert_int_equal(estimate_make(&model, &wish, &e, NULL), ERR_DATA);
}

static void a_device_needs_room_for_its_margin(void **state)
{
    (void)state;
    struct estimate e = {.total_bytes = 90};
    assert_true(
        estimate_fits(&e, &(struct estimate_device){.total_bytes = 100, .margin_bytes = 10}));
    assert_true(
        !estimate_fits(&e, &(struct estimate_device){.total_bytes = 100, .margin_bytes = 11}));
    assert_true(
        !estimate_fits(&e, &(struct estimate_device){.total_bytes = 100, .margin_bytes = 200}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_llama_has_the_cache_that_its_config_says),
        cmocka_unit_test(layers_with_a_window_keep_no_more_than_that),
        cmocka_unit_test(a_gguf_says_windows_as_llama_cpp_has_them),
        cmocka_unit_test(classes_without_a_cache_are_known),
        cmocka_unit_test(training_takes_gradients_optimizer_and_activations),
        cmocka_unit_test(what_has_no_gradient_is_not_trained),
        cmocka_unit_test(names_of_other_configs_are_known),
        cmocka_unit_test(heads_of_other_configs_are_known),
        cmocka_unit_test(a_config_with_impossible_numbers_is_refused),
        cmocka_unit_test(what_64_bits_cannot_count_is_refused),
        cmocka_unit_test(a_device_needs_room_for_its_margin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
