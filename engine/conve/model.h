/* SPDX-License-Identifier: Apache-2.0
 *
 * A ConvE model in memory. It is read from safetensors or from a torch file (a state dict under any
 * key, with the names of the plain implementation or of PyKEEN, or a whole pickled PyKEEN model,
 * which is read as data), and written as safetensors with all that is needed to build it again.
 */
#pragma once

#include "conve/params.h"
#include "conve/shape.h"

struct conve {
    struct conve_shape shape;
    enum conve_naming naming; /* the naming in the file that the model came from */
    bool is_reciprocal;       /* relation n_relations / 2 + r is the inverse of r */
    double learning_rate;     /* the rate of its last updates, if its file has it; 0: not known */
    char *path;
    float *at[PARAM_N]; /* row-major; NULL for a parameter that the model does not have */
};

/*
 * The keys of facts that the sizes of the tensors do not show. The values are texts, in the
 * __metadata__ of safetensors, and in the state dict or the model_config of torch files. Training
 * adds the learning rate.
 */
#define CONVE_LAYOUT        "conve.layout"
#define CONVE_HEIGHT        "conve.height"
#define CONVE_BN_EPS        "conve.bn_eps"
#define CONVE_RECIPROCAL    "conve.reciprocal"
#define CONVE_LEARNING_RATE "conve.learning_rate"

/* What may be saved along with a model. */
struct conve_extra {
    struct str metadata; /* more members of __metadata__, each with a comma before it */
    struct {
        const char *prefix; /* put before a parameter's name */
        const float *at[PARAM_N_TRAINED];
    } groups[2];
    size_t n_groups;
};

struct conve_load_opts {
    /*
     * For facts that the file does not state and its sizes leave open. 0 and LAYOUT_AUTO:
     * conve_load() finds the fact, or fails and says what is possible.
     */
    size_t height, width;
    enum conve_layout layout;
};

/*
 * ERR_USAGE: the file cannot be opened, or more than one shape fits and opts do not choose one.
 * ERR_DATA: there is no ConvE model in the file, its tensors do not fit each other, or a weight is
 * not finite (the text names tensor and place).
 */
MUST_CHECK int conve_load(struct conve **out, const char *path, const struct conve_load_opts *opts,
                          struct err *err);
/* extra may be NULL. */
MUST_CHECK int conve_save(const struct conve *model, const char *path, bool overwrite,
                          const struct conve_extra *extra, struct err *err);
/*
 * Renumbers the n relations of a PyKEEN model with inverse triples: 2 r and 2 r + 1 become r and
 * n / 2 + r.
 */
void conve_relations_unweave(struct conve *model);
void conve_free(struct conve *model);
/* A model of zeros; `path` is its name in messages. The caller has checked the shape. */
struct conve *conve_new(const struct conve_shape *shape, const char *path);
/* ERR_DATA if a number is not finite, or a variance is below zero; the text names the first one. */
MUST_CHECK int conve_check_finite(const struct conve *model, struct err *err);

/* The number of elements of all trained parameters. */
uint64_t conve_n_parameters(const struct conve_shape *shape);
/*
 * ERR_DATA if the tables have other sizes than the dictionaries; the text gives both sizes and what
 * they count.
 */
MUST_CHECK int conve_check_dictionaries(const struct conve *model, size_t n_entities,
                                        size_t n_relations, struct err *err);
