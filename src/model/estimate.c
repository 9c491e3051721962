/* SPDX-License-Identifier: Apache-2.0 */
#include "model/estimate.h"

#include <string.h>

#include "model/architecture.h"

enum {
    BLOCK_8BIT = 256 /* moments that share a factor */
};

/* Numbers without a bound are multiplied as doubles. A product above this is refused; one below 2^53 is exact. */
static const double bytes_max = 9e18;

static bool is_trained(const struct model_part *part)
{
    return model_part_is_float(part) || strncmp(part->dtype, "F8_", 3) == 0;
}

static double optimizer_bytes(const struct model_part *part, enum estimate_optimizer optimizer)
{
    double n = (double)part->n_parameters;
    switch (optimizer) {
    case OPTIMIZER_ADAM:
        return n * (part->bits < 32 ? 12 : 8);
    case OPTIMIZER_ADAM8BIT:
        return n * 2 * (1 + 4.0 / BLOCK_8BIT);
    case OPTIMIZER_SGD:
        return n * MAX(part->bits, 16u) / 8;
    case OPTIMIZER_NONE:
        return 0;
    }
    BUG("optimizer %d", optimizer);
}

static double layer_bytes(const struct model_config *c, const struct estimate_wish *wish)
{
    double s = (double)wish->context, b = (double)wish->batch, h = (double)c->hidden,
           a = (double)c->n_heads;
    switch (wish->recompute) {
    case RECOMPUTE_NONE:
        return s * b * h * 34 + 5 * a * s * s * b;
    case RECOMPUTE_SELECTIVE:
        return s * b * h * 34;
    case RECOMPUTE_FULL:
        return s * b * h * 2;
    }
    BUG("recomputation %d", wish->recompute);
}

static double activation_bytes(const struct model_config *c, const struct estimate_wish *wish)
{
    double s = (double)wish->context, b = (double)wish->batch, h = (double)c->hidden;
    double ends = s * b * h + 4 * s * b * (h + (double)c->vocab);
    /* The formulas are for elements of 2 bytes. Most of the counted elements have 2 bytes. */
    return ((double)c->n_layers * layer_bytes(c, wish) + ends) * c->element_bytes / 2;
}

static double training_bytes(const struct model *model, const struct estimate_wish *wish,
                             struct estimate *out)
{
    double gradients = 0, optimizer = 0, activations = 0;
    for (size_t i = 0; i < model->n_parts; i++) {
        const struct model_part *part = &model->parts[i];
        if (!is_trained(part))
            continue;
        gradients += (double)part->n_parameters * MAX(part->bits, 16u) / 8;
        optimizer += optimizer_bytes(part, wish->optimizer);
    }
    out->is_partial = !model_config_has_layers(&model->config);
    if (!out->is_partial)
        activations = activation_bytes(&model->config, wish);
    double sum = gradients + optimizer + activations;
    if (sum >= bytes_max)
        return sum;
    out->gradient_bytes = (uint64_t)gradients;
    out->optimizer_bytes = (uint64_t)optimizer;
    out->activation_bytes = (uint64_t)activations;
    return sum;
}

static bool keeps_cache(const struct model *model)
{
    return architecture_keeps_cache(str_of(model->config.class_name));
}

/* Of one sequence. */
static double cache_bytes(const struct model *model, uint64_t context)
{
    const struct model_config *c = &model->config;
    if (!model_config_has_cache(c) || !keeps_cache(model))
        return 0;
    return model_config_cached_tokens(c, context) * model_config_cache_elements(c) *
           c->element_bytes;
}

static double inference_bytes(const struct model *model, const struct estimate_wish *wish,
                              struct estimate *out)
{
    double sum = cache_bytes(model, wish->context) * (double)wish->batch;
    out->is_partial = !model_config_has_cache(&model->config) && keeps_cache(model);
    if (sum < bytes_max)
        out->cache_bytes = (uint64_t)sum;
    return sum;
}

int estimate_make(const struct model *model, const struct estimate_wish *wish, struct estimate *out,
                  struct err *err)
{
    *out = (struct estimate){0};
    for (size_t i = 0; i < model->n_parts; i++) {
        out->n_parameters += model->parts[i].n_parameters;
        out->weight_bytes += model->parts[i].bytes;
    }
    double token = cache_bytes(model, 1), rest = 0;
    if (token < bytes_max) {
        out->token_bytes = (uint64_t)token;
        rest = wish->is_training ? training_bytes(model, wish, out)
                                 : inference_bytes(model, wish, out);
    }
    if (token >= bytes_max || rest + (double)out->weight_bytes >= bytes_max)
        return fail(err, ERR_DATA,
                    "that needs more bytes than 64 bits can count; are --context, --batch and "
                    "config.json right?");
    out->total_bytes = out->weight_bytes + out->cache_bytes + out->gradient_bytes +
                       out->optimizer_bytes + out->activation_bytes;
    return 0;
}

bool estimate_fits(const struct estimate *estimate, const struct estimate_device *device)
{
    uint64_t room = device->total_bytes - MIN(device->margin_bytes, device->total_bytes);
    return estimate->total_bytes <= room;
}
