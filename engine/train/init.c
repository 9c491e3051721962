/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets the first weights. Sources: Glorot, Bengio, "Understanding the difficulty of training deep
 * feedforward neural networks", AISTATS 2010; torch.nn.Conv2d and Linear, which draw biases from
 * U(-1/sqrt(n), 1/sqrt(n)), where n is the number of inputs of a unit.
 */
#include <math.h>

#include "base/rng.h"
#include "train/trainer.h"

/* Draws a number of the standard normal distribution, by the method of Box and Muller. */
static double normal_draw(struct rng *rng)
{
    double radius = sqrt(-2 * log(1 - rng_unit(rng)));
    return radius * cos(2 * acos(-1.0) * rng_unit(rng));
}

struct fan {
    double in, out; /* 0: none */
};

static struct fan fan_of(const struct conve_shape *shape, enum conve_param param)
{
    double kernel = (double)conve_kernel_size(shape), dim = (double)conve_dim(shape);
    double filters = (double)shape->n_filters, features = (double)conve_n_features(shape);
    const struct {
        enum conve_param param;
        struct fan fan;
    } fans[] = {
        {PARAM_ENTITY, {dim, (double)shape->n_entities}},
        {PARAM_RELATION, {dim, (double)shape->n_relations}},
        {PARAM_CONV_WEIGHT, {kernel, kernel * filters}},
        {PARAM_CONV_BIAS, {kernel, kernel * filters}},
        {PARAM_FC_WEIGHT, {features, dim}},
        {PARAM_FC_BIAS, {features, dim}},
    };
    for (size_t i = 0; i < countof(fans); i++)
        if (fans[i].param == param)
            return fans[i].fan;
    return (struct fan){0, 0};
}

static bool is_one(enum conve_param param)
{
    return param == PARAM_BN0_WEIGHT || param == PARAM_BN1_WEIGHT || param == PARAM_BN2_WEIGHT ||
           param == PARAM_BN0_VAR || param == PARAM_BN1_VAR || param == PARAM_BN2_VAR;
}

void train_init(struct conve *model, uint64_t seed)
{
    for (unsigned p = 0; p < PARAM_N; p++) {
        enum conve_param param = (enum conve_param)p;
        struct rng rng = {.state = item_seed(seed, p)};
        struct fan fan = fan_of(&model->shape, param);
        bool is_bias = param == PARAM_CONV_BIAS || param == PARAM_FC_BIAS;
        double deviation = fan.in > 0 ? sqrt(2 / (fan.in + fan.out)) : 0;
        double bound = fan.in > 0 ? 1 / sqrt(fan.in) : 0;
        size_t n = conve_param_dims(&model->shape, param).n_elements;
        for (size_t i = 0; i < n; i++) {
            double value = is_one(param) ? 1 : 0;
            if (is_bias)
                value = bound * (2 * rng_unit(&rng) - 1);
            else if (fan.in > 0)
                value = deviation * normal_draw(&rng);
            model->at[param][i] = (float)value;
        }
    }
}
