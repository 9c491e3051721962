/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/model.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"

struct conve *conve_new(const struct conve_shape *shape, const char *path)
{
    struct conve *model = xcalloc(1, sizeof(*model));
    model->shape = *shape;
    model->path = xstrdup(path);
    for (unsigned param = 0; param < PARAM_N; param++) {
        size_t n = conve_param_dims(shape, (enum conve_param)param).n_elements;
        if (n)
            model->at[param] = xcalloc(n, sizeof(float));
    }
    return model;
}

void conve_free(struct conve *model)
{
    if (!model)
        return;
    for (unsigned param = 0; param < PARAM_N; param++)
        free(model->at[param]);
    free(model->path);
    free(model);
}

uint64_t conve_n_parameters(const struct conve_shape *shape)
{
    uint64_t n = 0;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        n += conve_param_dims(shape, (enum conve_param)param).n_elements;
    return n;
}

void conve_relations_unweave(struct conve *model)
{
    size_t n = model->shape.n_relations / 2, dim = conve_dim(&model->shape);
    float *woven = model->at[PARAM_RELATION], *table = xcalloc(2 * n * dim, sizeof(*table));
    for (size_t r = 0; r < n; r++) {
        memcpy(table + r * dim, woven + 2 * r * dim, dim * sizeof(*table));
        memcpy(table + (n + r) * dim, woven + (2 * r + 1) * dim, dim * sizeof(*table));
    }
    free(woven);
    model->at[PARAM_RELATION] = table;
}

static bool is_variance(enum conve_param param)
{
    return param == PARAM_BN0_VAR || param == PARAM_BN1_VAR || param == PARAM_BN2_VAR;
}

int conve_check_finite(const struct conve *model, struct err *err)
{
    for (unsigned param = 0; param < PARAM_N; param++) {
        enum conve_param which = (enum conve_param)param;
        size_t n = conve_param_dims(&model->shape, which).n_elements;
        for (size_t i = 0; i < n; i++) {
            float value = model->at[param][i];
            if (!isfinite(value))
                return fail(err, ERR_DATA, "%s: %s[%zu] is %g", model->path,
                            conve_param_name(which, model->naming), i, (double)value);
            if (is_variance(which) && value < 0)
                return fail(err, ERR_DATA, "%s: %s[%zu] is %g, and a variance is not below 0",
                            model->path, conve_param_name(which, model->naming), i, (double)value);
        }
    }
    return 0;
}

int conve_check_dictionaries(const struct conve *model, size_t n_entities, size_t n_relations,
                             struct err *err)
{
    const struct {
        const char *what;
        size_t rows, names, rows_per_name;
    } tables[] = {
        {"entities", model->shape.n_entities, n_entities, 1},
        {"relations", model->shape.n_relations, n_relations, model->is_reciprocal ? 2 : 1},
    };
    if (!model->is_reciprocal && model->shape.n_entities == n_entities &&
        model->shape.n_relations == 2 * n_relations)
        return fail(
            err, ERR_DATA,
            "%s has %zu relations, twice those of the dictionary: it was trained with reciprocal "
            "ones; muster kge export --reciprocal --model-path %s -o FILE makes one that goes with "
            "the dictionary, if PyKEEN wrote it",
            model->path, model->shape.n_relations, model->path);
    for (size_t i = 0; i < countof(tables); i++)
        if (tables[i].rows != tables[i].names * tables[i].rows_per_name)
            return fail(
                err, ERR_DATA,
                "%s has %zu %s%s and the dictionary names %zu: they are not of one training",
                model->path, tables[i].rows / tables[i].rows_per_name, tables[i].what,
                tables[i].rows_per_name > 1 ? ", each both ways," : "", tables[i].names);
    return 0;
}
