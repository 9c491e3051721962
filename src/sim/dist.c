/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/dist.h"

#include <math.h>

#include "base/attr.h"
#include "base/rng.h"

static double normal(struct rng *rng)
{
    /* Box and Muller; 1 - u because the logarithm of 0 is no number. */
    double radius = sqrt(-2 * log(1 - rng_unit(rng)));
    return radius * cos(2 * M_PI * rng_unit(rng));
}

static double constant_ms(const struct dist *d, struct rng *rng, uint64_t item)
{
    (void)rng, (void)item;
    return d->mean_ms;
}

static double uniform_ms(const struct dist *d, struct rng *rng, uint64_t item)
{
    (void)item;
    return d->mean_ms * (1 + d->spread * (2 * rng_unit(rng) - 1));
}

static double log_normal_ms(const struct dist *d, struct rng *rng, uint64_t item)
{
    (void)item;
    return d->mean_ms * exp(d->spread * normal(rng) - d->spread * d->spread / 2);
}

static double pareto_ms(const struct dist *d, struct rng *rng, uint64_t item)
{
    (void)item;
    double least_ms = d->mean_ms * (d->spread - 1) / d->spread;
    return least_ms * pow(1 - rng_unit(rng), -1 / d->spread);
}

static double list_ms(const struct dist *d, struct rng *rng, uint64_t item)
{
    (void)rng;
    double scale = d->mean_ms > 0 ? d->mean_ms : 1;
    return d->n_list > 0 ? d->list_ms[item % d->n_list] * scale : 0;
}

static double (*const draw_ms[])(const struct dist *d, struct rng *rng, uint64_t item) = {
    [DIST_CONSTANT] = constant_ms, [DIST_UNIFORM] = uniform_ms, [DIST_LOG_NORMAL] = log_normal_ms,
    [DIST_PARETO] = pareto_ms,     [DIST_LIST] = list_ms,
};

uint64_t dist_us(const struct dist *dist, uint64_t seed, uint64_t item)
{
    struct rng rng = {.state = item_seed(seed, item)};
    double ms = draw_ms[dist->kind](dist, &rng, item);
    double max_ms = dist->max_ms > 0 ? dist->max_ms : DIST_MAX_S * 1e3;
    return ms > 0 ? (uint64_t)(MIN(ms, max_ms) * 1000) : 0;
}
