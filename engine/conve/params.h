/* SPDX-License-Identifier: Apache-2.0
 *
 * The parameters of ConvE by name: ours, which are those of the plain PyTorch implementation, and
 * PyKEEN's. Trained parameters come first; the statistics after them receive no gradient.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "conve/shape.h"

/*
 * In the order in which the plain implementation lists them; X(ID, plain name, PyKEEN's name,
 * PyKEEN's name in a model without norms). The last two differ because PyKEEN numbers its layers
 * and counts norms.
 */
#define CONVE_TRAINED(X)                                                                       \
    X(ENTITY, "entity_embeddings.weight", "entity_representations.0._embeddings.weight",       \
      "entity_representations.0._embeddings.weight")                                           \
    X(RELATION, "relation_embeddings.weight", "relation_representations.0._embeddings.weight", \
      "relation_representations.0._embeddings.weight")                                         \
    X(BN0_WEIGHT, "bn0.weight", "interaction.hr2d.0.weight", NULL)                             \
    X(BN0_BIAS, "bn0.bias", "interaction.hr2d.0.bias", NULL)                                   \
    X(CONV_WEIGHT, "conv1.weight", "interaction.hr2d.2.weight", "interaction.hr2d.1.weight")   \
    X(CONV_BIAS, "conv1.bias", "interaction.hr2d.2.bias", "interaction.hr2d.1.bias")           \
    X(BN1_WEIGHT, "bn1.weight", "interaction.hr2d.3.weight", NULL)                             \
    X(BN1_BIAS, "bn1.bias", "interaction.hr2d.3.bias", NULL)                                   \
    X(FC_WEIGHT, "fc.weight", "interaction.hr1d.0.weight", "interaction.hr1d.0.weight")        \
    X(FC_BIAS, "fc.bias", "interaction.hr1d.0.bias", "interaction.hr1d.0.bias")                \
    X(BN2_WEIGHT, "bn2.weight", "interaction.hr1d.2.weight", NULL)                             \
    X(BN2_BIAS, "bn2.bias", "interaction.hr1d.2.bias", NULL)                                   \
    X(ENTITY_BIAS, "entity_bias.weight", "entity_representations.1._embeddings.weight",        \
      "entity_representations.1._embeddings.weight")

#define CONVE_STATISTICS(X)                                                  \
    X(BN0_MEAN, "bn0.running_mean", "interaction.hr2d.0.running_mean", NULL) \
    X(BN0_VAR, "bn0.running_var", "interaction.hr2d.0.running_var", NULL)    \
    X(BN1_MEAN, "bn1.running_mean", "interaction.hr2d.3.running_mean", NULL) \
    X(BN1_VAR, "bn1.running_var", "interaction.hr2d.3.running_var", NULL)    \
    X(BN2_MEAN, "bn2.running_mean", "interaction.hr1d.2.running_mean", NULL) \
    X(BN2_VAR, "bn2.running_var", "interaction.hr1d.2.running_var", NULL)

enum conve_param {
#define X(id, plain, pykeen, bare) PARAM_##id,
    CONVE_TRAINED(X) PARAM_N_TRAINED,
    PARAM_LAST_TRAINED = PARAM_N_TRAINED - 1,
    CONVE_STATISTICS(X)
#undef X
    PARAM_N
};

enum conve_naming {
    NAMING_PLAIN,
    NAMING_PYKEEN,
    NAMING_PYKEEN_BARE, /* without norms */
    NAMING_N
};

/* A set of trained parameters: bit PARAM_x. */
typedef uint32_t conve_params;
#define CONVE_PARAMS_ALL ((conve_params)(1u << PARAM_N_TRAINED) - 1)

enum {
    CONVE_DIMS_MAX = 4
};

struct conve_param_dims {
    size_t at[CONVE_DIMS_MAX], n_dims, n_elements;
};

/* Returns NULL for a norm's parameter in NAMING_PYKEEN_BARE. */
const char *conve_param_name(enum conve_param param, enum conve_naming naming);
bool conve_param_is_norm(enum conve_param param);
/* The trained parameters that a model of the shape has. */
conve_params conve_params_all(const struct conve_shape *shape);
/* n_elements is 0 for the entity bias if the shape has none. */
struct conve_param_dims conve_param_dims(const struct conve_shape *shape, enum conve_param param);

/*
 * Parses a set of names, separated by commas: a whole name of either naming ("fc.weight"), a module
 * ("fc", "bn2"), "embeddings" (both tables and the bias), "all". The text of ERR_USAGE lists the
 * names.
 */
MUST_CHECK int conve_params_parse(const struct conve_shape *shape, struct str text,
                                  conve_params *out, struct err *err);
/*
 * Takes the n last layers, counted from the score: bn2, fc, bn1, conv1, bn0, embeddings. ERR_USAGE
 * if n is 0 or the model has fewer layers.
 */
MUST_CHECK int conve_params_last(const struct conve_shape *shape, size_t n, conve_params *out,
                                 struct err *err);
/*
 * The parameters that TiePin's programs take for the n last layers. With PyKEEN's names: the n last
 * parameters of PyKEEN's list, which ends with entity bias and relation embeddings. With plain
 * names: fc, and if n is above 2 also the n - 2 parameters listed before fc, embeddings left out.
 * If n is more than there are: all of them.
 */
conve_params conve_params_last_listed(const struct conve_shape *shape, enum conve_naming naming,
                                      size_t n);
/* Adds the names of the parameters, separated by ", ". */
void conve_params_format(const struct conve_shape *shape, conve_params params,
                         enum conve_naming naming, struct buf *out);
