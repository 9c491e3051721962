/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/state_list.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"

#define LAYERS                                                                            \
    PARAM_BN0_WEIGHT, PARAM_BN0_BIAS, PARAM_BN0_MEAN, PARAM_BN0_VAR, PARAM_CONV_WEIGHT,   \
        PARAM_CONV_BIAS, PARAM_BN1_WEIGHT, PARAM_BN1_BIAS, PARAM_BN1_MEAN, PARAM_BN1_VAR, \
        PARAM_FC_WEIGHT, PARAM_FC_BIAS, PARAM_BN2_WEIGHT, PARAM_BN2_BIAS, PARAM_BN2_MEAN, \
        PARAM_BN2_VAR

static const enum conve_param plain_order[] = {PARAM_ENTITY, PARAM_RELATION, LAYERS,
                                               PARAM_ENTITY_BIAS};
static const enum conve_param pykeen_order[] = {LAYERS, PARAM_ENTITY, PARAM_ENTITY_BIAS,
                                                PARAM_RELATION};

static void tensor_add(struct state_list *list, const char *name,
                       const struct conve_param_dims *dims, const float *at)
{
    struct state_tensor *tensor = &list->at[list->n++];
    *tensor = (struct state_tensor){.dims = *dims, .at = at};
    snprintf(tensor->name, sizeof(tensor->name), "%s", name);
}

/* Given "bn0.running_var", adds "bn0.num_batches_tracked", which torch lists after it. */
static void count_add(struct state_list *list, const char *var_name)
{
    static const struct conve_param_dims scalar = {.n_elements = 1};
    const char *dot = strrchr(var_name, '.');
    char name[STATE_NAME_MAX];
    snprintf(name, sizeof(name), "%.*s.num_batches_tracked", (int)(dot - var_name), var_name);
    tensor_add(list, name, &scalar, NULL);
}

static bool is_variance(enum conve_param param)
{
    return param == PARAM_BN0_VAR || param == PARAM_BN1_VAR || param == PARAM_BN2_VAR;
}

/*
 * Returns a copy in which r and n / 2 + r have become 2 r and 2 r + 1, as PyKEEN numbers a relation
 * and its inverse.
 */
static float *relations_woven(const struct conve *model)
{
    size_t n = model->shape.n_relations / 2, dim = conve_dim(&model->shape);
    const float *table = model->at[PARAM_RELATION];
    float *woven = xcalloc(2 * n * dim, sizeof(*woven));
    for (size_t r = 0; r < n; r++) {
        memcpy(woven + 2 * r * dim, table + r * dim, dim * sizeof(*woven));
        memcpy(woven + (2 * r + 1) * dim, table + (n + r) * dim, dim * sizeof(*woven));
    }
    return woven;
}

void state_list_init(struct state_list *list, const struct conve *model, bool is_pykeen)
{
    struct conve_shape shape = model->shape;
    const enum conve_param *order = is_pykeen ? pykeen_order : plain_order;
    enum conve_naming naming = !is_pykeen          ? NAMING_PLAIN
                               : shape.lacks_norms ? NAMING_PYKEEN_BARE
                                                   : NAMING_PYKEEN;
    *list = (struct state_list){0};
    if (is_pykeen && model->is_reciprocal)
        list->owned[0] = relations_woven(model);
    if (is_pykeen && !shape.has_entity_bias)
        list->owned[1] = xcalloc(shape.n_entities, sizeof(float));
    shape.has_entity_bias |= is_pykeen;
    for (size_t i = 0; i < countof(plain_order); i++) {
        enum conve_param param = order[i];
        struct conve_param_dims dims = conve_param_dims(&shape, param);
        const float *at = param == PARAM_RELATION && list->owned[0]      ? list->owned[0]
                          : param == PARAM_ENTITY_BIAS && list->owned[1] ? list->owned[1]
                                                                         : model->at[param];
        if (dims.n_elements == 0 || (shape.lacks_norms && conve_param_is_norm(param)))
            continue;
        tensor_add(list, conve_param_name(param, naming), &dims, at);
        if (is_variance(param))
            count_add(list, conve_param_name(param, naming));
    }
}

void state_list_release(struct state_list *list)
{
    for (size_t i = 0; i < countof(list->owned); i++)
        free(list->owned[i]);
    *list = (struct state_list){0};
}
