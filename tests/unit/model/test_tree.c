/* SPDX-License-Identifier: Apache-2.0
 *
 * The modules of a model. That they are those of transformers' classes is tested in
 * tests/device_maps.
 */
#include "unit/test.h"

#include <string.h>

#include "model/architecture.h"
#include "model/buffers.h"
#include "model/tree.h"
#include "tensor/grow.h"

/* A model of tensors of 8 float32 elements, in this order. */
static void model_make(struct model *model, const char *config, const char *names)
{
    struct str rest = str_of(names), name;
    *model = (struct model){.n_parts = 1};
    model->parts[0] = (struct model_part){.dtype = "F32", .bits = 32};
    while (str_next(&rest, ' ', &name)) {
        name_index_add(&model->names, name);
        PUSH(model->tensors, model->n_tensors, model->cap_tensors,
             (struct model_tensor){.n_elements = 8, .bytes = 32});
    }
    buf_add_text(&model->config_text, config);
    assert_int_equal(model_config_parse(str_of(config), &model->config, NULL), 0);
}

/* The names of the modules, but for the root, with ! behind those that are whole. */
static void modules_are(const struct model_tree *tree, const char *expected)
{
    struct buf found = BUF_INIT;
    for (size_t i = 1; i < tree->of.n_modules; i++) {
        buf_addf(&found, "%s", i > 1 ? " " : "");
        buf_add_str(&found, tree->modules[i].name);
        buf_add_text(&found, tree->modules[i].is_whole ? "!" : "");
    }
    assert_string_equal(buf_text(&found), expected);
    buf_release(&found);
}

static const struct partition_tensor *tensor_named(const struct model_tree *tree, const char *name)
{
    for (size_t i = 0; i < tree->of.n_tensors; i++)
        if (str_equal(tree->tensors[i].name, str_of(name)))
            return &tree->tensors[i];
    return NULL;
}

static void modules_come_in_the_order_of_the_class(void **state)
{
    (void)state;
    struct model model;
    struct model_tree tree;
    model_make(&model,
               "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,"
               "\"num_attention_heads\":4,\"tie_word_embeddings\":true,\"dtype\":\"float16\"}",
               "model.embed_tokens.weight model.layers.0.up.bias model.layers.0.up.weight "
               "model.layers.10.up.weight model.layers.2.up.weight model.norm.weight");
    assert_int_equal(model_tree_make(&model, &(struct model_tree_wish){0}, &tree, NULL), 0);
    modules_are(&tree, "model model.embed_tokens model.layers model.layers.0! model.layers.0.up "
                       "model.layers.2! model.layers.2.up model.layers.10! model.layers.10.up "
                       "model.norm model.rotary_emb lm_head");
    assert_false(tree.is_guessed);
    /* A head has 16 elements, of which 8 pairs rotate; floats are loaded in two bytes. */
    assert_int_equal(tensor_named(&tree, "model.rotary_emb.inv_freq")->bytes, 16);
    assert_int_equal(tensor_named(&tree, "model.norm.weight")->bytes, 16);
    assert_true(tensor_named(&tree, "model.layers.0.up.bias") ==
                tensor_named(&tree, "model.layers.0.up.weight") + 1);
    const struct partition_tensor *head = tensor_named(&tree, "lm_head.weight");
    assert_true(head && head->tied == 1);
    assert_int_equal(tensor_named(&tree, "model.embed_tokens.weight")->tied, 1);
    model_tree_release(&tree);
    model_release(&model);
}

static void a_model_without_its_head_gets_the_prefix(void **state)
{
    (void)state;
    struct model model;
    struct model_tree tree;
    model_make(&model, "{\"architectures\":[\"GPT2LMHeadModel\"]}",
               "h.0.attn.bias h.0.attn.c_attn.bias ln_f.weight wte.weight");
    assert_int_equal(model_tree_make(&model, &(struct model_tree_wish){0}, &tree, NULL), 0);
    modules_are(&tree, "transformer transformer.wte transformer.drop transformer.h "
                       "transformer.h.0! transformer.h.0.attn transformer.h.0.attn.c_attn "
                       "transformer.ln_f lm_head");
    assert_null(tensor_named(&tree, "transformer.h.0.attn.bias")); /* a mask, not a parameter */
    model_tree_release(&tree);
    model_release(&model);
}

static void without_an_architecture_the_order_is_guessed(void **state)
{
    (void)state;
    struct model model;
    struct model_tree tree;
    model_make(&model, "{\"num_hidden_layers\":2}",
               "head.weight layers.1.a.weight layers.0.b.0.weight norm.weight tok_emb.weight");
    assert_int_equal(model_tree_make(&model, &(struct model_tree_wish){0}, &tree, NULL), 0);
    assert_true(tree.is_guessed);
    modules_are(&tree, "tok_emb layers layers.0! layers.0.b layers.0.b.0 layers.1! layers.1.a "
                       "norm head");
    model_tree_release(&tree);
    model_release(&model);
}

static void names_and_layouts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    struct model model;
    struct model_tree tree;
    struct err err = {0};
    model_make(&model, "{}",
               "a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a");
    assert_int_equal(model_tree_make(&model, &(struct model_tree_wish){0}, &tree, &err), ERR_DATA);
    model_tree_release(&tree);
    model_release(&model);
    model_make(&model, "{}", "a.b");
    const struct model_tree_wish wish = {.layout = STR("a{rope")};
    assert_int_equal(model_tree_make(&model, &wish, &tree, &err), ERR_USAGE);
    assert_string_equal(err.text, "'a{rope' is no module of a layout");
    model_tree_release(&tree);
    model_release(&model);
}

static void every_layout_of_the_table_can_be_read(void **state)
{
    (void)state;
    const struct architecture *row;
    for (size_t i = 0; (row = architecture_row(i)) != NULL; i++) {
        struct str rest = str_of(row->layout), renames = str_of(row->renames), word;
        struct layout_module module;
        struct model_buffer buffers[MODEL_BUFFERS_MAX];
        struct err err = {0};
        size_t n = 0;
        while (layout_next(&rest, &module, &err)) {
            n++;
            if (module.buffers.len > 0)
                assert_true(model_buffers_make(module.buffers, STR("{}"), buffers) > 0);
        }
        assert_int_equal(err.code, 0);
        assert_true(n > 2);
        while (row->renames && str_next(&renames, ' ', &word))
            assert_non_null(memchr(word.at, '=', word.len));
    }
    assert_null(architecture_find(STR("")));
    assert_null(architecture_find(STR("LlamaForCausal")));
    assert_non_null(architecture_find(STR("Qwen2ForCausalLM")));
}

static void marks_are_read_in_their_order(void **state)
{
    (void)state;
    struct str rest = STR(" a.*!2=b.c{rope:0.5}  d#- ");
    struct layout_module m;
    assert_true(layout_next(&rest, &m, NULL));
    assert_true(str_equal(m.path, STR("a.*")) && m.is_whole && m.has_cache && m.class_digit == 2);
    assert_true(str_equal(m.tied_to, STR("b.c")) && str_equal(m.buffers, STR("rope:0.5")));
    assert_true(layout_next(&rest, &m, NULL));
    assert_true(str_equal(m.path, STR("d")) && m.is_whole && !m.has_cache && m.is_always);
    assert_false(layout_next(&rest, &m, NULL));
}

static void buffers_have_the_sizes_that_config_says(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *config;
        uint64_t n_elements;
    } cases[] = {
        {"rope", "{\"hidden_size\":4096,\"num_attention_heads\":32}", 64},
        {"rope", "{\"head_dim\":256}", 128},
        {"rope:0.25", "{\"head_dim\":80}", 10},
        {"rope:0.25", "{\"head_dim\":80,\"rotary_pct\":1}", 40},
        {"rope", "{\"head_dim\":96,\"rope_parameters\":{\"partial_rotary_factor\":0.5}}", 24},
        {"rope", "{\"head_dim\":192,\"qk_rope_head_dim\":64}", 32},
        {"rope", "{\"text_config\":{\"head_dim\":128}}", 64},
        {"gptj", "{\"n_positions\":2048,\"rotary_dim\":64}", 2048 * 64},
        {"sinusoid", "{\"max_position_embeddings\":2048,\"d_model\":1024}", 2050 * 1024},
        {"vision_rope", "{\"vision_config\":{\"embed_dim\":1280,\"num_heads\":16}}", 20},
        {"patches", "{\"vision_config\":{\"image_size\":336,\"patch_size\":14}}", 577},
        {"rope", "{}", 0},
    };
    struct model_buffer buffers[MODEL_BUFFERS_MAX];
    for (size_t i = 0; i < countof(cases); i++) {
        assert_true(model_buffers_make(str_of(cases[i].spec), str_of(cases[i].config), buffers) >
                    0);
        assert_int_equal(buffers[0].n_elements, cases[i].n_elements);
    }
    assert_int_equal(model_buffers_make(STR("rope_layers"), STR("{}"), buffers), 4);
    assert_int_equal(model_buffers_make(STR("rope_layers"),
                                        STR("{\"layer_types\":[\"full_attention\"]}"), buffers),
                     2);
    assert_int_equal(model_buffers_make(STR("nothing"), STR("{}"), buffers), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(modules_come_in_the_order_of_the_class),
        cmocka_unit_test(a_model_without_its_head_gets_the_prefix),
        cmocka_unit_test(without_an_architecture_the_order_is_guessed),
        cmocka_unit_test(names_and_layouts_that_cannot_be_are_refused),
        cmocka_unit_test(every_layout_of_the_table_can_be_read),
        cmocka_unit_test(marks_are_read_in_their_order),
        cmocka_unit_test(buffers_have_the_sizes_that_config_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
