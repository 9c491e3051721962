/* SPDX-License-Identifier: Apache-2.0 */
#include "conve/params.h"

static const char *const names[PARAM_N][NAMING_N] = {
#define X(id, plain, pykeen, bare) [PARAM_##id] = {plain, pykeen, bare},
    CONVE_TRAINED(X) CONVE_STATISTICS(X)
#undef X
};

/* The layers by the names that users may give, from the score backwards: embeddings last. */
static const struct layer {
    const char *name;
    conve_params params;
} layers[] = {
    {"bn2", 1u << PARAM_BN2_WEIGHT | 1u << PARAM_BN2_BIAS},
    {"fc", 1u << PARAM_FC_WEIGHT | 1u << PARAM_FC_BIAS},
    {"bn1", 1u << PARAM_BN1_WEIGHT | 1u << PARAM_BN1_BIAS},
    {"conv1", 1u << PARAM_CONV_WEIGHT | 1u << PARAM_CONV_BIAS},
    {"bn0", 1u << PARAM_BN0_WEIGHT | 1u << PARAM_BN0_BIAS},
    {"embeddings", 1u << PARAM_ENTITY | 1u << PARAM_RELATION | 1u << PARAM_ENTITY_BIAS},
};

const char *conve_param_name(enum conve_param param, enum conve_naming naming)
{
    return names[param][naming];
}

struct conve_param_dims conve_param_dims(const struct conve_shape *shape, enum conve_param param)
{
    size_t dim = conve_dim(shape), filters = shape->n_filters;
    struct conve_param_dims dims = {0};
    switch (param) {
    case PARAM_ENTITY:
        dims = (struct conve_param_dims){{shape->n_entities, dim}, 2};
        break;
    case PARAM_RELATION:
        dims = (struct conve_param_dims){{shape->n_relations, dim}, 2};
        break;
    case PARAM_CONV_WEIGHT:
        dims =
            (struct conve_param_dims){{filters, 1, shape->kernel_height, shape->kernel_width}, 4};
        break;
    case PARAM_FC_WEIGHT:
        dims = (struct conve_param_dims){{dim, conve_n_features(shape)}, 2};
        break;
    case PARAM_ENTITY_BIAS:
        dims = (struct conve_param_dims){{shape->has_entity_bias ? shape->n_entities : 0, 1}, 2};
        break;
    case PARAM_BN0_WEIGHT:
    case PARAM_BN0_BIAS:
    case PARAM_BN0_MEAN:
    case PARAM_BN0_VAR:
        dims = (struct conve_param_dims){{1}, 1};
        break;
    case PARAM_CONV_BIAS:
    case PARAM_BN1_WEIGHT:
    case PARAM_BN1_BIAS:
    case PARAM_BN1_MEAN:
    case PARAM_BN1_VAR:
        dims = (struct conve_param_dims){{filters}, 1};
        break;
    case PARAM_FC_BIAS:
    case PARAM_BN2_WEIGHT:
    case PARAM_BN2_BIAS:
    case PARAM_BN2_MEAN:
    case PARAM_BN2_VAR:
        dims = (struct conve_param_dims){{dim}, 1};
        break;
    case PARAM_N:
        BUG("parameter %d", (int)param);
    }
    dims.n_elements = 1;
    for (size_t i = 0; i < dims.n_dims; i++)
        dims.n_elements *= dims.at[i];
    return dims;
}

bool conve_param_is_norm(enum conve_param param)
{
    return !names[param][NAMING_PYKEEN_BARE];
}

conve_params conve_params_all(const struct conve_shape *shape)
{
    conve_params params = CONVE_PARAMS_ALL;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        if ((shape->lacks_norms && conve_param_is_norm((enum conve_param)param)) ||
            (!shape->has_entity_bias && param == PARAM_ENTITY_BIAS))
            params &= ~((conve_params)1 << param);
    return params;
}

static conve_params params_named(struct str name)
{
    if (str_equal(name, STR("all")))
        return CONVE_PARAMS_ALL;
    for (size_t i = 0; i < countof(layers); i++)
        if (str_equal(name, str_of(layers[i].name)))
            return layers[i].params;
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        for (unsigned naming = 0; naming < NAMING_N; naming++)
            if (names[param][naming] && str_equal(name, str_of(names[param][naming])))
                return 1u << param;
    return 0;
}

int conve_params_parse(const struct conve_shape *shape, struct str text, conve_params *out,
                       struct err *err)
{
    struct str piece;
    *out = 0;
    while (str_next(&text, ',', &piece)) {
        piece = str_trim(piece);
        conve_params found = params_named(piece);
        if (found == 0) {
            cleanup_buf struct buf known = BUF_INIT;
            conve_params_format(shape, CONVE_PARAMS_ALL, NAMING_PLAIN, &known);
            return fail(
                err, ERR_USAGE,
                "there is no layer '%.*s': all, bn2, fc, bn1, conv1, bn0, embeddings, or %s",
                (int)piece.len, piece.at, buf_text(&known));
        }
        if ((found & conve_params_all(shape)) == 0)
            return fail(err, ERR_USAGE, "this model has no '%.*s'", (int)piece.len, piece.at);
        *out |= found & conve_params_all(shape);
    }
    return 0;
}

int conve_params_last(const struct conve_shape *shape, size_t n, conve_params *out, struct err *err)
{
    conve_params all = conve_params_all(shape);
    size_t n_layers = 0;
    *out = 0;
    for (size_t i = 0; i < countof(layers); i++) {
        if ((layers[i].params & all) == 0)
            continue;
        if (n_layers++ < n)
            *out |= layers[i].params & all;
    }
    return n > 0 && n <= n_layers
               ? 0
               : fail(err, ERR_USAGE, "expected 1 to %zu last layers, found %zu", n_layers, n);
}

/* The order in which model.named_parameters() lists them: PyKEEN has the tables last. */
static const enum conve_param pykeen_list[] = {
    PARAM_BN0_WEIGHT, PARAM_BN0_BIAS,    PARAM_CONV_WEIGHT, PARAM_CONV_BIAS,  PARAM_BN1_WEIGHT,
    PARAM_BN1_BIAS,   PARAM_FC_WEIGHT,   PARAM_FC_BIAS,     PARAM_BN2_WEIGHT, PARAM_BN2_BIAS,
    PARAM_ENTITY,     PARAM_ENTITY_BIAS, PARAM_RELATION,
};
static const enum conve_param plain_list_before_fc[] = {
    PARAM_BN0_WEIGHT, PARAM_BN0_BIAS,   PARAM_CONV_WEIGHT,
    PARAM_CONV_BIAS,  PARAM_BN1_WEIGHT, PARAM_BN1_BIAS,
};

static conve_params last_of(const enum conve_param *list, size_t n_list, conve_params all, size_t n)
{
    conve_params out = 0;
    for (size_t i = n_list; i > 0 && n > 0; i--) {
        conve_params one = (conve_params)1 << list[i - 1];
        n -= (all & one) != 0;
        out |= all & one;
    }
    return out;
}

conve_params conve_params_last_listed(const struct conve_shape *shape, enum conve_naming naming,
                                      size_t n)
{
    enum {
        N_FC = 2 /* fc's weight and bias, which are taken whatever n is */
    };
    conve_params all = conve_params_all(shape);
    if (naming != NAMING_PLAIN)
        return last_of(pykeen_list, countof(pykeen_list), all, n);
    return last_of(plain_list_before_fc, countof(plain_list_before_fc), all,
                   n > N_FC ? n - N_FC : 0) |
           1u << PARAM_FC_WEIGHT | 1u << PARAM_FC_BIAS;
}

void conve_params_format(const struct conve_shape *shape, conve_params params,
                         enum conve_naming naming, struct buf *out)
{
    const char *separator = "";
    for (unsigned param = 0; param < PARAM_N_TRAINED; param++)
        if (params & conve_params_all(shape) & 1u << param) {
            buf_addf(out, "%s%s", separator, names[param][naming]);
            separator = ", ";
        }
}
