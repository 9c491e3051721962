/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler: the position of the ranks in the global order, and the cutting of batches.
 * sampler_order.h has the order itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sampler_order.h"

struct muster_sampler {
    uint64_t batch;
    uint32_t rank, world, shards;
    uint64_t epoch, position; /* the next batch begins there */
    struct mw_order order;
    int code; /* the sticky error */
    char error[200];
};

static const uint64_t items_limit = UINT64_C(1) << 62;

static int check(const struct muster_sampler_opts *opts, char *error, size_t error_cap)
{
    const char *why = NULL;
    uint32_t world = opts->world > 0 ? opts->world : 1;
    if (opts->n_items > items_limit || opts->n_draws > items_limit)
        why = "more than 2^62 items";
    else if (opts->batch == 0)
        why = "a batch of 0 items";
    else if (opts->order < MUSTER_ORDER_SHUFFLED || opts->order > MUSTER_ORDER_BUCKETED)
        why = "no such order";
    if (why)
        snprintf(error, error_cap, "%s", why);
    else if (opts->rank >= world)
        snprintf(error, error_cap, "rank %u in a world of %u", opts->rank, world);
    else
        return 0;
    return MUSTER_SAMPLER_EUSE;
}

struct muster_sampler *muster_sampler_new(const struct muster_sampler_opts *opts)
{
    struct muster_sampler *sampler = calloc(1, sizeof(*sampler));
    if (!sampler)
        return NULL;
    sampler->batch = opts->batch;
    sampler->rank = opts->rank;
    sampler->world = opts->world > 0 ? opts->world : 1;
    sampler->shards = opts->shards;
    sampler->code = check(opts, sampler->error, sizeof(sampler->error));
    if (sampler->code == 0)
        sampler->code =
            mw_order_init(&sampler->order, opts, sampler->error, sizeof(sampler->error));
    return sampler;
}

void muster_sampler_free(struct muster_sampler *sampler)
{
    if (sampler)
        mw_order_release(&sampler->order);
    free(sampler);
}

const char *muster_sampler_error(const struct muster_sampler *sampler)
{
    return sampler ? sampler->error : "no memory for a sampler";
}

uint64_t muster_share(uint64_t n, uint32_t part, uint32_t n_parts, uint64_t *begin)
{
    uint64_t size = n / n_parts, n_larger = n % n_parts;
    *begin = part * size + (part < n_larger ? part : n_larger);
    return size + (part < n_larger);
}

/* The part of a batch of n items that a rank takes. */
static uint64_t share_of(const struct muster_sampler *sampler, uint64_t n, uint32_t rank,
                         uint64_t *begin)
{
    if (sampler->shards == 0)
        return muster_share(n, rank, sampler->world, begin);
    uint64_t first, end, n_shards = muster_share(sampler->shards, rank, sampler->world, &first);
    /* The part after the last one begins at n. */
    muster_share(n, (uint32_t)first, sampler->shards, begin);
    muster_share(n, (uint32_t)(first + n_shards), sampler->shards, &end);
    return end - *begin;
}

bool muster_sampler_has_more(const struct muster_sampler *sampler)
{
    return sampler && sampler->code == 0 && sampler->position < sampler->order.n_positions;
}

int muster_sampler_next(struct muster_sampler *sampler, struct muster_batch *batch)
{
    if (!sampler || sampler->code != 0)
        return sampler ? sampler->code : MUSTER_SAMPLER_ENOMEM;
    uint64_t left = sampler->order.n_positions - sampler->position, begin;
    if (left == 0) {
        sampler->epoch++;
        sampler->position = 0;
        return 0;
    }
    *batch = (struct muster_batch){.epoch = sampler->epoch, .first = sampler->position};
    batch->n_global = left < sampler->batch ? left : sampler->batch;
    /* The first parts are the larger ones. */
    batch->n_most = share_of(sampler, batch->n_global, 0, &begin);
    batch->n = share_of(sampler, batch->n_global, sampler->rank, &begin);
    batch->begin = batch->first + begin;
    sampler->position += batch->n_global;
    return 1;
}

uint64_t muster_sampler_steps(const struct muster_sampler *sampler, uint32_t rank)
{
    if (!sampler || sampler->code != 0 || rank >= sampler->world)
        return 0;
    uint64_t left = sampler->order.n_positions - sampler->position, begin;
    uint64_t n_full = left / sampler->batch, rest = left % sampler->batch;
    return (share_of(sampler, sampler->batch, rank, &begin) > 0 ? n_full : 0) +
           (share_of(sampler, rest, rank, &begin) > 0);
}

size_t muster_sampler_read(struct muster_sampler *sampler, const struct muster_batch *batch,
                           uint64_t from, uint64_t *indices, size_t indices_max)
{
    if (!sampler || sampler->code != 0 || from >= batch->n)
        return 0;
    uint64_t n = batch->n - from < indices_max ? batch->n - from : indices_max;
    for (uint64_t i = 0; i < n; i++)
        indices[i] = muster_sampler_at(sampler, batch->epoch, batch->begin + from + i);
    return n;
}

uint64_t muster_sampler_at(struct muster_sampler *sampler, uint64_t epoch, uint64_t position)
{
    if (!sampler || sampler->code != 0 || position >= sampler->order.n_positions)
        return UINT64_MAX;
    return mw_order_at(&sampler->order, epoch, position);
}

uint64_t muster_sampler_positions(const struct muster_sampler *sampler)
{
    return sampler && sampler->code == 0 ? sampler->order.n_positions : 0;
}

void muster_sampler_state(const struct muster_sampler *sampler, struct muster_sampler_state *state)
{
    *state = (struct muster_sampler_state){0};
    if (sampler)
        *state = (struct muster_sampler_state){
            .epoch = sampler->epoch, .position = sampler->position, .plan = sampler->order.plan};
}

int muster_sampler_resume(struct muster_sampler *sampler, const struct muster_sampler_state *state)
{
    if (!sampler || sampler->code != 0)
        return sampler ? sampler->code : MUSTER_SAMPLER_ENOMEM;
    const struct mw_order *order = &sampler->order;
    if (state->plan != 0 && state->plan != order->plan)
        snprintf(
            sampler->error, sizeof(sampler->error),
            "the state was saved by a sampler of other items, of another seed or another order");
    else if (state->position > order->n_positions)
        snprintf(sampler->error, sizeof(sampler->error),
                 "the state is at position %llu of an epoch that has %llu",
                 (unsigned long long)state->position, (unsigned long long)order->n_positions);
    else {
        sampler->epoch = state->epoch;
        sampler->position = state->position;
        return 0;
    }
    sampler->code = MUSTER_SAMPLER_EPLAN;
    return sampler->code;
}
