/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler_kit.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

enum {
    RANKS_MAX = 9,
    ITEMS_MAX = 250
};

static void shares_are_contiguous_and_differ_by_at_most_one(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 40; n++)
        for (uint32_t n_parts = 1; n_parts < 12; n_parts++) {
            uint64_t at = 0, begin, before = UINT64_MAX;
            for (uint32_t part = 0; part < n_parts; part++) {
                uint64_t size = muster_share(n, part, n_parts, &begin);
                assert_int_equal(begin, at);
                assert_true(size <= before && size + 1 >= (n + n_parts - 1) / n_parts);
                before = size;
                at += size;
            }
            assert_int_equal(at, n);
        }
}

/* What one simulated epoch is checked against: drawn at random, then kept. */
struct epoch {
    struct muster_sampler_opts opts;
    uint64_t number;
    uint64_t expected[ITEMS_MAX]; /* the global order, by a world of one */
    uint32_t n_seen[ITEMS_MAX];
    uint64_t n_positions;
    double weights[ITEMS_MAX];
    uint32_t lengths[ITEMS_MAX];
};

static void draw_epoch(struct epoch *epoch, struct rng *rng)
{
    *epoch = (struct epoch){.number = rng_below(rng, 4)};
    epoch->opts = (struct muster_sampler_opts){
        .n_items = rng_below(rng, 8) == 0 ? rng_below(rng, 3) : rng_below(rng, ITEMS_MAX),
        .batch = 1 + rng_below(rng, 40),
        .seed = rng_next(rng),
        .order = (enum muster_order)rng_below(rng, 4),
        .shards = rng_below(rng, 2) ? 0 : 1 + (uint32_t)rng_below(rng, 12),
        .pool_batches = (uint32_t)rng_below(rng, 4),
        .weights = epoch->weights,
        .n_draws = rng_below(rng, 2) ? 0 : rng_below(rng, ITEMS_MAX),
        .lengths = epoch->lengths,
    };
    for (size_t i = 0; i < ITEMS_MAX; i++) {
        epoch->weights[i] = 1 + (double)rng_below(rng, 5);
        epoch->lengths[i] = (uint32_t)rng_below(rng, 30);
    }
    struct muster_sampler *alone = sampler_of(&epoch->opts);
    epoch->n_positions = muster_sampler_positions(alone);
    for (uint64_t i = 0; i < epoch->n_positions; i++)
        epoch->expected[i] = muster_sampler_at(alone, epoch->number, i);
    assert_true(muster_sampler_at(alone, epoch->number, epoch->n_positions) == UINT64_MAX);
    muster_sampler_free(alone);
}

/* Reads a rank's share in pieces; each must be what the global order has there. */
static void read_share(struct epoch *epoch, struct muster_sampler *sampler,
                       const struct muster_batch *batch)
{
    uint64_t indices[7], done = 0;
    size_t n;
    while ((n = muster_sampler_read(sampler, batch, done, indices, 7)) > 0)
        for (size_t i = 0; i < n; i++, done++) {
            assert_int_equal(indices[i], epoch->expected[batch->begin + done]);
            epoch->n_seen[batch->begin + done]++;
        }
    assert_int_equal(done, batch->n);
}

/* One global batch on all ranks; false at the end of the epoch. */
static bool step_all(struct epoch *epoch, struct muster_sampler **ranks, uint32_t world,
                     uint64_t *n_steps)
{
    uint64_t at = 0, n_most = 0, told_most = 0;
    int more = -1;
    for (uint32_t rank = 0; rank < world; rank++) {
        struct muster_batch batch = {0};
        bool has_more = muster_sampler_has_more(ranks[rank]);
        int rc = muster_sampler_next(ranks[rank], &batch);
        assert_int_equal(rc, has_more);
        assert_true(more == -1 || more == rc);
        more = rc;
        if (rc == 0)
            continue;
        assert_int_equal(batch.begin, rank == 0 ? batch.first : at);
        at = batch.begin + batch.n;
        n_most = batch.n > n_most ? batch.n : n_most;
        told_most = batch.n_most;
        n_steps[rank] += batch.n > 0;
        assert_int_equal(batch.epoch, epoch->number);
        read_share(epoch, ranks[rank], &batch);
        if (rank == world - 1)
            assert_int_equal(at, batch.first + batch.n_global);
    }
    assert_int_equal(n_most, told_most);
    return more == 1;
}

/* From a state on, on `world` ranks, for steps_max global batches; *state becomes where it ends. */
static bool run_part(struct epoch *epoch, uint32_t world, uint64_t steps_max,
                     struct muster_sampler_state *state)
{
    struct muster_sampler *ranks[RANKS_MAX];
    uint64_t told[RANKS_MAX], n_steps[RANKS_MAX] = {0};
    bool has_more = true;
    for (uint32_t rank = 0; rank < world; rank++) {
        struct muster_sampler_opts opts = epoch->opts;
        opts.rank = rank;
        opts.world = world;
        ranks[rank] = sampler_of(&opts);
        assert_int_equal(muster_sampler_resume(ranks[rank], state), 0);
        told[rank] = muster_sampler_steps(ranks[rank], rank);
    }
    for (uint64_t step = 0; has_more && step < steps_max; step++)
        has_more = step_all(epoch, ranks, world, n_steps);
    for (uint32_t rank = 0; rank < world; rank++) {
        struct muster_sampler_state mine;
        if (!has_more)
            assert_int_equal(told[rank], n_steps[rank]);
        muster_sampler_state(ranks[rank], &mine);
        if (rank > 0)
            assert_memory_equal(&mine, state, sizeof(mine));
        *state = mine;
        muster_sampler_free(ranks[rank]);
    }
    return has_more;
}

static void every_index_comes_once_whatever_the_ranks_and_the_resume_points(void **state)
{
    (void)state;
    struct rng rng = {.state = 19};
    static struct epoch epoch;
    for (int trial = 0; trial < 10000; trial++) {
        draw_epoch(&epoch, &rng);
        struct muster_sampler_state at = {.epoch = epoch.number};
        while (run_part(&epoch, 1 + (uint32_t)rng_below(&rng, RANKS_MAX), 1 + rng_below(&rng, 12),
                        &at))
            if (epoch.opts.order != MUSTER_ORDER_BUCKETED && rng_below(&rng, 2) == 0)
                epoch.opts.batch = 1 + rng_below(&rng, 40);
        assert_int_equal(at.epoch, epoch.number + 1);
        assert_int_equal(at.position, 0);
        uint32_t n_of_item[ITEMS_MAX] = {0};
        for (uint64_t i = 0; i < epoch.n_positions; i++) {
            assert_int_equal(epoch.n_seen[i], 1);
            assert_true(epoch.expected[i] < epoch.opts.n_items);
            n_of_item[epoch.expected[i]]++;
        }
        for (uint64_t i = 0; i < epoch.opts.n_items && epoch.opts.order != MUSTER_ORDER_WEIGHTED;
             i++)
            assert_int_equal(n_of_item[i], 1);
    }
}

static void what_was_asked_before_does_not_matter(void **state)
{
    (void)state;
    struct rng rng = {.state = 8};
    static struct epoch epoch;
    for (int trial = 0; trial < 200; trial++) {
        draw_epoch(&epoch, &rng);
        struct muster_sampler *used = sampler_of(&epoch.opts);
        for (int look = 0; look < 40 && epoch.n_positions > 0; look++) {
            uint64_t position = rng_below(&rng, epoch.n_positions);
            muster_sampler_at(used, rng_below(&rng, 5), rng_below(&rng, epoch.n_positions));
            assert_int_equal(muster_sampler_at(used, epoch.number, position),
                             epoch.expected[position]);
        }
        muster_sampler_free(used);
    }
}

static void what_cannot_be_is_said(void **state)
{
    (void)state;
    static const double negative[] = {1, -2, 1}, nan_in[] = {1, 1, NAN}, zeros[] = {0, 0, 0};
    static const struct {
        struct muster_sampler_opts opts;
        const char *message;
    } cases[] = {
        {{.n_items = 3}, "a batch of 0 items"},
        {{.n_items = UINT64_MAX, .batch = 1}, "more than 2^62 items"},
        {{.n_items = 3, .batch = 1, .rank = 2, .world = 2}, "rank 2 in a world of 2"},
        {{.n_items = 3, .batch = 1, .rank = 1}, "rank 1 in a world of 1"},
        {{.n_items = 3, .batch = 1, .order = (enum muster_order)9}, "no such order"},
        {{.n_items = 3, .batch = 1, .order = MUSTER_ORDER_WEIGHTED},
         "a weighted order needs weights"},
        {{.n_items = 3, .batch = 1, .order = MUSTER_ORDER_WEIGHTED, .weights = negative},
         "the weight of item 1 is -2: expected a finite one, >= 0"},
        {{.n_items = 3, .batch = 1, .order = MUSTER_ORDER_WEIGHTED, .weights = nan_in},
         "the weight of item 2 is nan: expected a finite one, >= 0"},
        {{.n_items = 3, .batch = 1, .order = MUSTER_ORDER_WEIGHTED, .weights = zeros},
         "all weights are 0"},
        {{.n_items = 3, .batch = 1, .order = MUSTER_ORDER_BUCKETED},
         "a bucketed order needs lengths"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct muster_sampler *sampler = muster_sampler_new(&cases[i].opts);
        struct muster_batch batch;
        assert_string_equal(muster_sampler_error(sampler), cases[i].message);
        assert_int_equal(muster_sampler_next(sampler, &batch), MUSTER_SAMPLER_EUSE);
        assert_true(muster_sampler_at(sampler, 0, 0) == UINT64_MAX);
        assert_false(muster_sampler_has_more(sampler));
        muster_sampler_free(sampler);
    }
    struct muster_batch batch;
    assert_int_equal(muster_sampler_next(NULL, &batch), MUSTER_SAMPLER_ENOMEM);
    muster_sampler_free(NULL);
}

static void a_state_fits_only_the_order_that_it_was_saved_from(void **state)
{
    (void)state;
    static const double ones[] = {1, 1, 1, 1, 1}, others[] = {1, 1, 2, 1, 1};
    static const uint32_t lengths[] = {1, 2, 3, 4, 5}, longer[] = {1, 2, 3, 4, 6};
    static const struct {
        struct muster_sampler_opts saved, other;
        bool fits;
    } cases[] = {
        {{.n_items = 5, .batch = 2}, {.n_items = 5, .batch = 3, .world = 2}, true},
        {{.n_items = 5, .batch = 2}, {.n_items = 6, .batch = 2}, false},
        {{.n_items = 5, .batch = 2}, {.n_items = 5, .batch = 2, .seed = 1}, false},
        {{.n_items = 5, .batch = 2},
         {.n_items = 5, .batch = 2, .order = MUSTER_ORDER_SEQUENTIAL},
         false},
        {{.n_items = 5, .batch = 2, .order = MUSTER_ORDER_WEIGHTED, .weights = ones},
         {.n_items = 5, .batch = 3, .order = MUSTER_ORDER_WEIGHTED, .weights = ones},
         true},
        {{.n_items = 5, .batch = 2, .order = MUSTER_ORDER_WEIGHTED, .weights = ones},
         {.n_items = 5, .batch = 2, .order = MUSTER_ORDER_WEIGHTED, .weights = others},
         false},
        {{.n_items = 5, .batch = 2, .order = MUSTER_ORDER_BUCKETED, .lengths = lengths},
         {.n_items = 5, .batch = 2, .order = MUSTER_ORDER_BUCKETED, .lengths = longer},
         false},
        {{.n_items = 5, .batch = 2, .order = MUSTER_ORDER_BUCKETED, .lengths = lengths},
         {.n_items = 5, .batch = 3, .order = MUSTER_ORDER_BUCKETED, .lengths = lengths},
         false},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct muster_sampler *saved = sampler_of(&cases[i].saved),
                              *other = sampler_of(&cases[i].other);
        struct muster_sampler_state at;
        struct muster_batch batch;
        assert_int_equal(muster_sampler_next(saved, &batch), 1);
        muster_sampler_state(saved, &at);
        int rc = muster_sampler_resume(other, &at);
        assert_int_equal(rc, cases[i].fits ? 0 : MUSTER_SAMPLER_EPLAN);
        rc = muster_sampler_next(other, &batch);
        assert_int_equal(rc, cases[i].fits ? 1 : MUSTER_SAMPLER_EPLAN);
        if (cases[i].fits)
            assert_int_equal(batch.first, 2);
        muster_sampler_free(saved);
        muster_sampler_free(other);
    }
    struct muster_sampler *sampler = sampler_of(&cases[0].saved);
    const struct muster_sampler_state beyond = {.position = 6};
    assert_int_equal(muster_sampler_resume(sampler, &beyond), MUSTER_SAMPLER_EPLAN);
    assert_string_equal(muster_sampler_error(sampler),
                        "the state is at position 6 of an epoch that has 5");
    muster_sampler_free(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_are_contiguous_and_differ_by_at_most_one),
        cmocka_unit_test(every_index_comes_once_whatever_the_ranks_and_the_resume_points),
        cmocka_unit_test(what_was_asked_before_does_not_matter),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(a_state_fits_only_the_order_that_it_was_saved_from),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
