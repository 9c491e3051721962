/* SPDX-License-Identifier: Apache-2.0
 *
 * A ConvE model in memory: read from safetensors (ours) or from torch's files (a state dict under
 * any key, as the plain implementation or PyKEEN names it, or a whole pickled PyKEEN model, read
 * as data), and written as safetensors with all that is needed to build it again.
 */
#pragma once

#include "conve/params.h"
#include "conve/shape.h"

struct conve {
    struct conve_shape shape;
    enum conve_naming naming; /* of the file it came from */
    bool is_reciprocal;       /* relation n_relations / 2 + r is r the other way round */
    double learning_rate;     /* of its last updates, as its file has it; 0: not said */
    char *path;
    float *at[PARAM_N]; /* row-major; NULL for what it does not have */
};

/*
 * What the sizes of the tensors do not say, as texts: in the __metadata__ of safetensors, and in the state dict or the
 * model_config of torch's files. Whoever trains adds the learning rate.
 */
#define CONVE_LAYOUT        "conve.layout"
#define CONVE_HEIGHT        "conve.height"
#define CONVE_BN_EPS        "conve.bn_eps"
#define CONVE_RECIPROCAL    "conve.reciprocal"
#define CONVE_LEARNING_RATE "conve.learning_rate"

/* What may be saved with a model, for those who know of it. */
struct conve_extra {
    struct str metadata; /* more members of __metadata__, a comma before each */
    struct {
        const char *prefix; /* of a parameter's name */
        const float *at[PARAM_N_TRAINED];
    } groups[2];
    size_t n_groups;
};

struct conve_load_opts {
    /*
     * What the file does not say and its sizes leave open; 0 and LAYOUT_AUTO: find out, or say
     * what is possible.
     */
    size_t height, width;
    enum conve_layout layout;
};

/*
 * ERR_USAGE: it cannot be opened, or more than one shape fits and none is asked for.
 * ERR_DATA: no such model, tensors that do not fit each other, a weight that is not finite (names
 * tensor and place).
 */
MUST_CHECK int conve_load(struct conve **out, const char *path, const struct conve_load_opts *opts,
                          struct err *err);
/* extra may be NULL. */
MUST_CHECK int conve_save(const struct conve *model, const char *path, bool overwrite,
                          const struct conve_extra *extra, struct err *err);
/* The relations of a PyKEEN model with inverse triples, 2 r and 2 r + 1, become r and n / 2 + r. */
void conve_relations_unweave(struct conve *model);
void conve_free(struct conve *model);
/* All zeros; `path` is what it is called in messages. The shape was checked. */
struct conve *conve_new(const struct conve_shape *shape, const char *path);
/* ERR_DATA naming the first number that is none, or a variance below zero. */
MUST_CHECK int conve_check_finite(const struct conve *model, struct err *err);

/* Sum over what is trained. */
uint64_t conve_n_parameters(const struct conve_shape *shape);
/*
 * ERR_DATA if the tables have other sizes than the dictionaries: both figures, and what they
 * count.
 */
MUST_CHECK int conve_check_dictionaries(const struct conve *model, size_t n_entities,
                                        size_t n_relations, struct err *err);
