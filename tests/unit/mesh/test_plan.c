/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is measured when, over many shapes of machines.
 */
#include "unit/test.h"

#include "base/cleanup.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "mesh/plan.h"

enum {
    RANKS_MAX = 1024
};

struct shape {
    uint32_t host_of[RANKS_MAX], n_ranks, n_hosts;
};

static struct shape shape_of(const uint32_t *counts, uint32_t n_hosts)
{
    struct shape shape = {.n_hosts = n_hosts};
    for (uint32_t host = 0; host < n_hosts; host++)
        for (uint32_t i = 0; i < counts[host]; i++)
            shape.host_of[shape.n_ranks++] = host;
    return shape;
}

static struct shape even_shape(uint32_t n_hosts, uint32_t n_each)
{
    uint32_t counts[RANKS_MAX];
    for (uint32_t i = 0; i < n_hosts; i++)
        counts[i] = n_each;
    return shape_of(counts, n_hosts);
}

/* In each round a host is in one pair at most; no pair comes twice; rounds are in order. */
static void rounds_check(const struct shape *shape, const struct pair_plan *plan)
{
    cleanup_free uint32_t *round_of_host = xcalloc(shape->n_hosts + 1, sizeof(uint32_t));
    cleanup_free bool *is_met = xcalloc((size_t)shape->n_ranks * shape->n_ranks + 1, sizeof(bool));
    uint32_t round = 0;
    for (size_t i = 0; i < plan->len; i++) {
        const struct plan_pair *pair = &plan->at[i];
        uint32_t hosts[] = {shape->host_of[pair->a], shape->host_of[pair->b]};
        assert_true(pair->a < pair->b && pair->b < shape->n_ranks);
        assert_true(pair->round >= round && pair->round < plan->n_rounds);
        round = pair->round;
        assert_false(is_met[pair->a * shape->n_ranks + pair->b]);
        is_met[pair->a * shape->n_ranks + pair->b] = true;
        for (size_t k = 0; k < (hosts[0] == hosts[1] ? 1 : 2); k++) {
            assert_true(round_of_host[hosts[k]] < round + 1);
            round_of_host[hosts[k]] = round + 1;
        }
    }
}

/* How many of the pairs of hosts have a pair of ranks. */
static size_t host_pairs_count(const struct shape *shape, const struct pair_plan *plan)
{
    cleanup_free bool *is_met = xcalloc((size_t)shape->n_hosts * shape->n_hosts + 1, sizeof(bool));
    size_t n = 0;
    for (size_t i = 0; i < plan->len; i++) {
        uint32_t a = shape->host_of[plan->at[i].a], b = shape->host_of[plan->at[i].b];
        bool *is_pair = &is_met[MIN(a, b) * shape->n_hosts + MAX(a, b)];
        n += a != b && !*is_pair;
        *is_pair = true;
    }
    return n;
}

static void planned(const struct shape *shape, struct pair_plan *plan)
{
    pair_plan_make(shape->host_of, shape->n_ranks, plan);
    rounds_check(shape, plan);
    assert_int_equal(plan->n_possible, (size_t)shape->n_ranks * (shape->n_ranks - 1) / 2);
}

static void test_few_ranks_measure_every_pair(void **state)
{
    const struct {
        uint32_t n_hosts, n_each;
    } shapes[] = {{1, 1}, {1, 2}, {1, 8}, {1, 12}, {2, 1}, {2, 4}, {3, 1}, {3, 3}, {7, 1}, {16, 1}};
    (void)state;
    for (size_t i = 0; i < countof(shapes); i++) {
        struct shape shape = even_shape(shapes[i].n_hosts, shapes[i].n_each);
        struct pair_plan plan;
        planned(&shape, &plan);
        assert_int_equal(plan.depth, PLAN_ALL_PAIRS);
        assert_int_equal(plan.len, plan.n_possible);
        assert_true(plan.about_ms <= PLAN_BUDGET_MS);
        pair_plan_release(&plan);
    }
}

static void test_hosts_with_unequal_ranks_meet_in_every_pair(void **state)
{
    struct rng rng = {7};
    (void)state;
    for (int i = 0; i < 300; i++) {
        uint32_t counts[5], n_hosts = 1 + (uint32_t)rng_below(&rng, 5);
        for (uint32_t host = 0; host < n_hosts; host++)
            counts[host] = 1 + (uint32_t)rng_below(&rng, 3);
        struct shape shape = shape_of(counts, n_hosts);
        struct pair_plan plan;
        planned(&shape, &plan);
        assert_true(plan.len == plan.n_possible || plan.depth != PLAN_ALL_PAIRS);
        assert_int_equal(host_pairs_count(&shape, &plan), n_hosts * (n_hosts - 1) / 2);
        pair_plan_release(&plan);
    }
}

static void test_hosts_with_many_ranks_meet_with_each_of_them(void **state)
{
    struct shape shape = even_shape(2, 16);
    struct pair_plan plan;
    bool has_met[32] = {false};
    (void)state;
    planned(&shape, &plan);
    assert_int_equal(plan.depth, PLAN_EACH_RANK);
    for (size_t i = 0; i < plan.len; i++)
        if (shape.host_of[plan.at[i].a] != shape.host_of[plan.at[i].b])
            has_met[plan.at[i].a] = has_met[plan.at[i].b] = true;
    for (size_t i = 0; i < countof(has_met); i++)
        assert_true(has_met[i]);
    pair_plan_release(&plan);
}

static void test_many_hosts_meet_in_pairs_and_the_time_is_bounded(void **state)
{
    struct shape shape = even_shape(64, 16);
    struct pair_plan plan;
    (void)state;
    planned(&shape, &plan);
    assert_int_equal(plan.depth, PLAN_EACH_HOST);
    assert_int_equal(host_pairs_count(&shape, &plan), 64 * 63 / 2);
    assert_true(plan.about_ms <= PLAN_BUDGET_HOSTS_MS);
    pair_plan_release(&plan);
    struct shape large = even_shape(1024, 1);
    planned(&large, &plan);
    assert_int_equal(plan.depth, PLAN_SOME_HOSTS);
    assert_true(plan.about_ms <= PLAN_BUDGET_HOSTS_MS);
    assert_int_equal(plan.len, (size_t)plan.n_rounds * 512); /* nobody waits */
    pair_plan_release(&plan);
    struct shape one = even_shape(1, 1024);
    planned(&one, &plan);
    assert_int_equal(plan.len, PLAN_NEIGHBOURS_MAX);
    pair_plan_release(&plan);
}

static void test_a_rank_alone_has_no_pair(void **state)
{
    struct pair_plan plan;
    (void)state;
    pair_plan_make((const uint32_t[]){0}, 1, &plan);
    assert_int_equal(plan.len, 0);
    pair_plan_release(&plan);
    pair_plan_make(NULL, 0, &plan);
    assert_int_equal(plan.len, 0);
    pair_plan_release(&plan);
    pair_plan_make((const uint32_t[]){0, 5}, 2, &plan); /* hosts between them are missing */
    assert_int_equal(plan.len, 1);
    pair_plan_release(&plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_few_ranks_measure_every_pair),
        cmocka_unit_test(test_hosts_with_unequal_ranks_meet_in_every_pair),
        cmocka_unit_test(test_hosts_with_many_ranks_meet_with_each_of_them),
        cmocka_unit_test(test_many_hosts_meet_in_pairs_and_the_time_is_bounded),
        cmocka_unit_test(test_a_rank_alone_has_no_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
