/* SPDX-License-Identifier: Apache-2.0
 *
 * The model's gradients against differences of its own loss, in float64; names and sizes of
 * parameters.
 */
#include "unit/test.h"

#include <string.h>

#include "base/xalloc.h"
#include "conve/pass.h"
#include "unit/engine/kit.h"

enum {
    BATCH = 5
};

struct scene {
    struct num_backend be;
    struct conve *model;
    struct conve_weights weights;
    struct triple triples[BATCH];
    bool is_all;
    double label;
};

static struct scene scene_of(const struct conve_shape *shape, bool is_all)
{
    struct scene scene = {.is_all = is_all, .label = is_all ? 0.1 : 1};
    assert_int_equal(num_open(&scene.be, "ref", NULL), 0);
    scene.model = kit_model(shape, 77);
    conve_weights_init(&scene.weights, scene.model, NUM_F64);
    kit_triples(shape, 5, scene.triples, BATCH);
    return scene;
}

static void scene_end(struct scene *scene)
{
    conve_weights_release(&scene->weights);
    conve_free(scene->model);
    num_close(&scene->be);
}

static size_t n_scores(const struct scene *scene)
{
    return BATCH * (scene->is_all ? scene->model->shape.n_entities : 1);
}

/* inv_std is of the model's float32 variance; trained parameters do not enter it. */
static double loss_of(struct scene *scene, struct conve_gradients *gradients)
{
    struct conve_pass pass;
    conve_pass_init(&pass, &scene->be, &scene->weights, BATCH);
    conve_forward(&pass, scene->triples, BATCH);
    size_t n = n_scores(scene);
    double *scores = xcalloc(n, sizeof(double)), *loss = xcalloc(n, sizeof(double)), sum = 0;
    conve_scores(&pass, scene->is_all, scores);
    scene->be.logistic(&scene->be,
                       &(struct num_logistic){NUM_F64, n, scene->label, 1, scores, loss, scores});
    for (size_t i = 0; i < n; i++)
        sum += loss[i];
    if (gradients)
        conve_backward(&pass, scene->is_all, scores, gradients);
    free(scores);
    free(loss);
    conve_pass_release(&pass);
    return sum;
}

static void gradients_of_shape(const struct conve_shape *shape, bool is_all)
{
    struct scene scene = scene_of(shape, is_all);
    struct conve_gradients gradients;
    conve_gradients_init(&gradients, shape, NUM_F64);
    loss_of(&scene, &gradients);
    struct rng rng = {.state = 3};
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++) {
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        for (size_t trial = 0; trial < MIN(n, (size_t)12); trial++) {
            size_t i = n <= 12 ? trial : rng_below(&rng, n);
            double *at = (double *)scene.weights.owned[param] + i, was = *at, step = 1e-5;
            *at = was + step;
            double above = loss_of(&scene, NULL);
            *at = was - step;
            double below = loss_of(&scene, NULL);
            *at = was;
            double expected = (above - below) / (2 * step);
            double found = ((double *)gradients.at[param])[i];
            if (!(fabs(found - expected) <= 1e-6 * (1 + fabs(expected))))
                fail_msg("%s[%zu]: gradient %.12g, difference %.12g (layout %s, all %d)",
                         conve_param_name((enum conve_param)param, NAMING_PLAIN), i, found,
                         expected, conve_layout_name(shape->layout), is_all);
        }
    }
    conve_gradients_release(&gradients);
    scene_end(&scene);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(kit_shapes); i++)
        gradients_of_shape(&kit_shapes[i], i % 2);
}

/*
 * 200 x (N + R) + 1,946,586 of the plain implementation's defaults; PyKEEN's map is 32 x 18 x 18.
 */
static void sizes_are_those_of_the_sources(void **state)
{
    (void)state;
    struct conve_shape plain = {1000, 18, 10, 20, 32, 3, 3, LAYOUT_WIDTH, false, 1e-5};
    assert_int_equal(conve_n_parameters(&plain), 200 * (1000 + 18) + 1946586);
    assert_int_equal(conve_n_features(&plain), 9728);
    struct conve_shape pykeen = plain;
    pykeen.layout = LAYOUT_HEIGHT;
    assert_int_equal(conve_n_features(&pykeen), 10368);
    assert_int_equal(conve_shape_check(&plain, NULL), 0);
    plain.kernel_height = 11;
    struct err err = {0};
    assert_int_equal(conve_shape_check(&plain, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "11 x 3"));
}

static void parameters_are_found_by_any_name(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        const char *names;
    } cases[] = {
        {"fc", 0, "fc.weight, fc.bias"},
        {"fc.bias, bn2", 0, "fc.bias, bn2.weight, bn2.bias"},
        {"interaction.hr1d.0.weight", 0, "fc.weight"},
        {"embeddings", 0, "entity_embeddings.weight, relation_embeddings.weight"},
        {"entity_bias.weight", ERR_USAGE, NULL},
        {"fc3", ERR_USAGE, NULL},
        {"", ERR_USAGE, NULL},
    };
    const struct conve_shape *shape = &kit_shapes[0];
    for (size_t i = 0; i < countof(cases); i++) {
        conve_params params = 0;
        struct err err = {0};
        struct buf names = BUF_INIT;
        if (conve_params_parse(shape, str_of(cases[i].text), &params, &err) != cases[i].rc)
            fail_msg("\"%s\": %s", cases[i].text, err.text);
        conve_params_format(shape, params, NAMING_PLAIN, &names);
        if (cases[i].rc == 0)
            assert_string_equal(buf_text(&names), cases[i].names);
        buf_release(&names);
    }
    conve_params last = 0, all = 0, fc = 0;
    assert_int_equal(conve_params_last(shape, 6, &last, NULL), 0);
    assert_int_equal(conve_params_parse(shape, STR("all"), &all, NULL), 0);
    assert_int_equal(last, all);
    assert_int_equal(conve_params_last(shape, 2, &last, NULL), 0);
    assert_int_equal(conve_params_parse(shape, STR("bn2,fc"), &fc, NULL), 0);
    assert_int_equal(last, fc);
    assert_int_equal(conve_params_last(shape, 7, &last, NULL), ERR_USAGE);
}

static void what_is_no_number_is_found_by_place(void **state)
{
    (void)state;
    struct conve *model = kit_model(&kit_shapes[1], 2);
    struct err err = {0};
    assert_int_equal(conve_check_finite(model, &err), 0);
    model->at[PARAM_FC_WEIGHT][17] = NAN;
    assert_int_equal(conve_check_finite(model, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "fc.weight[17] is nan"));
    model->at[PARAM_FC_WEIGHT][17] = 0;
    model->at[PARAM_BN1_VAR][1] = -1;
    assert_int_equal(conve_check_finite(model, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "bn1.running_var[1]"));
    assert_int_equal(conve_check_dictionaries(model, 11, 4, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "3 relations and the dictionary names 4"));
    assert_int_equal(conve_check_dictionaries(model, 11, 3, &err), 0);
    struct conve_shape doubled = kit_shapes[1];
    doubled.n_relations = 6;
    conve_free(model);
    model = kit_model(&doubled, 2);
    assert_int_equal(conve_check_dictionaries(model, 11, 3, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "reciprocal"));
    model->is_reciprocal = true;
    assert_int_equal(conve_check_dictionaries(model, 11, 3, &err), 0);
    assert_int_equal(conve_check_dictionaries(model, 11, 6, &err), ERR_DATA);
    assert_non_null(strstr(err.text, "3 relations, each both ways, and the dictionary names 6"));
    conve_free(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(sizes_are_those_of_the_sources),
        cmocka_unit_test(parameters_are_found_by_any_name),
        cmocka_unit_test(what_is_no_number_is_found_by_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
