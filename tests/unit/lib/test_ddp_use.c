/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses of ddp that are wrong in a way of which the results would not speak: each is an error on all
 * ranks, whose words say what it was. And its shards beside those of a sampler.
 */
#include "lib/ranks.h"

#include "base/attr.h"
#include "muster/ddp.h"
#include "muster/sampler.h"

enum {
    COUNT = 8
};

struct scene {
    struct muster_dist *dist;
    struct muster_param params[2];
    struct muster_ddp_opts opts;
    float values[2][COUNT], gradients[2][COUNT];
};

struct bad_case {
    const char *said;
    int code;
    int (*run)(struct scene *scene, bool is_odd);
};

/* ---- what is registered ---- */

static int new_try(struct scene *scene, const struct muster_param *params)
{
    struct muster_ddp *ddp =
        muster_ddp_new(scene->dist, params, countof(scene->params), &scene->opts);
    muster_ddp_free(ddp);
    return ddp ? 0 : muster_dist_code(scene->dist);
}

static int run_no_array(struct scene *scene, bool is_odd)
{
    return new_try(scene, is_odd ? NULL : scene->params);
}

static int run_too_many(struct scene *scene, bool is_odd)
{
    (void)is_odd;
    scene->params[1].gradient = NULL;
    scene->params[1].count = SIZE_MAX;
    return new_try(scene, scene->params);
}

/* As of a layer that is used twice. */
static int run_shared(struct scene *scene, bool is_odd)
{
    if (is_odd)
        scene->params[1].gradient = &scene->gradients[0][COUNT - 1];
    return new_try(scene, scene->params);
}

static int run_other_finite(struct scene *scene, bool is_odd)
{
    scene->opts.allows_nonfinite = is_odd;
    return new_try(scene, scene->params);
}

static int run_other_null(struct scene *scene, bool is_odd)
{
    if (is_odd)
        scene->params[1].value = NULL;
    return new_try(scene, scene->params);
}

/* ---- samples that are counted where they have no effect ---- */

static int run_accumulate_shards(struct scene *scene, bool is_odd)
{
    scene->opts.n_shards = 4;
    struct muster_ddp *ddp =
        muster_ddp_new(scene->dist, scene->params, countof(scene->params), &scene->opts);
    uint32_t first, end;
    int rc = is_odd ? muster_ddp_accumulate(ddp, 100) : 0;
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t s = first; rc == 0 && s < end; s++)
        rc = muster_ddp_shard(ddp, 10);
    rc = rc ? rc : muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    return rc;
}

/* Which is a sum over its samples before it is a mean. */
static int run_shard_overflow(struct scene *scene, bool is_odd)
{
    scene->opts.n_shards = 4;
    struct muster_ddp *ddp =
        muster_ddp_new(scene->dist, scene->params, countof(scene->params), &scene->opts);
    uint32_t first, end;
    int rc = 0;
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t s = first; rc == 0 && s < end; s++) {
        scene->gradients[1][3] = is_odd ? 1e38f : 0;
        rc = muster_ddp_shard(ddp, 10);
    }
    rc = rc ? rc : muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    return rc;
}

static int run_accumulate_within(struct scene *scene, bool is_odd)
{
    struct muster_ddp *ddp =
        muster_ddp_new(scene->dist, scene->params, countof(scene->params), &scene->opts);
    int rc = muster_ddp_begin(ddp, 1);
    if (is_odd)
        rc = rc ? rc : muster_ddp_accumulate(ddp, 1000);
    rc = rc ? rc : muster_ddp_finish(ddp);
    muster_ddp_free(ddp);
    return rc;
}

/* ---- all of them ---- */

static const struct bad_case bad_cases[] = {
    {"rank 1: 2 parameters at NULL", MUSTER_DIST_EUSE, run_no_array},
    {"values: more than memory can have", MUSTER_DIST_EUSE, run_too_many},
    {"rank 1: the gradients of 'first' and 'second' have memory in common", MUSTER_DIST_EUSE,
     run_shared},
    {"rank 1 has other options of ddp than rank 0", MUSTER_DIST_EMISMATCH, run_other_finite},
    {"parameter 1 is 'second' (float32, 8 values, without a value) on rank 1",
     MUSTER_DIST_EMISMATCH, run_other_null},
    {"rank 1: muster_ddp_accumulate where shards are asked for", MUSTER_DIST_EUSE,
     run_accumulate_shards},
    {"rank 1: muster_ddp_accumulate between muster_ddp_begin and muster_ddp_finish",
     MUSTER_DIST_EUSE, run_accumulate_within},
    {"rank 1: the gradient of 'second' has values too large for its type on the way: 1 of 8, the first "
     "at 3",
     MUSTER_DIST_EDATA, run_shard_overflow},
};

static int bad(uint32_t rank, uint32_t size, const void *arg)
{
    const struct bad_case *bad_case = arg;
    struct scene scene = {.dist = muster_dist_open(NULL)};
    static const char *const names[] = {"first", "second"};
    (void)size;
    for (size_t i = 0; i < countof(scene.params); i++)
        scene.params[i] = (struct muster_param){names[i], MUSTER_FLOAT32, COUNT, scene.values[i],
                                                scene.gradients[i]};
    int rc = bad_case->run(&scene, rank == 1);
    CHECK(rc == bad_case->code && strstr(muster_dist_error(scene.dist), bad_case->said),
          "code %d: '%s', not: %s", rc, muster_dist_error(scene.dist), bad_case->said);
    CHECK(muster_dist_close(scene.dist) == rc, "close");
    return 0;
}

static void test_bad(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(bad_cases); i++)
        ranks_run(3, bad, &bad_cases[i]);
}

/* ---- with a sampler ---- */

enum {
    N_ITEMS = 53,
    N_SHARDS = 8
};

/* Reads this rank's items of a batch shard by shard, and counts each. */
static int batch_read(struct muster_ddp *ddp, struct muster_sampler *sampler,
                      const struct muster_batch *batch, int32_t *n_seen)
{
    uint32_t first, end;
    uint64_t indices[N_ITEMS], done = 0, begin;
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t shard = first; shard < end; shard++) {
        uint64_t n = muster_share(batch->n_global, shard, N_SHARDS, &begin);
        CHECK(batch->begin + done == batch->first + begin,
              "shard %u of %u to %u begins at %llu, not %llu", shard, first, end,
              (unsigned long long)(batch->begin + done),
              (unsigned long long)(batch->first + begin));
        CHECK(muster_sampler_read(sampler, batch, done, indices, n) == n, "shard %u", shard);
        for (uint64_t i = 0; i < n; i++)
            n_seen[indices[i]]++;
        done += n;
        CHECK(muster_ddp_shard(ddp, n) == 0, "shard %u", shard);
    }
    CHECK(done == batch->n, "%llu of %llu", (unsigned long long)done, (unsigned long long)batch->n);
    return muster_ddp_finish(ddp);
}

/* A sampler with as many shards gives a rank the shards that it has of ddp. */
static int sampled(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    const struct muster_param param = {"w", MUSTER_FLOAT32, 1, NULL, NULL};
    struct muster_ddp *ddp =
        muster_ddp_new(dist, &param, 1, &(struct muster_ddp_opts){.n_shards = N_SHARDS});
    struct muster_sampler *sampler = muster_sampler_new(&(struct muster_sampler_opts){
        .n_items = N_ITEMS, .batch = 21, .rank = rank, .world = size, .shards = N_SHARDS});
    struct muster_batch batch;
    int32_t n_seen[N_ITEMS] = {0};
    (void)arg;
    while (muster_sampler_next(sampler, &batch) > 0)
        CHECK(batch_read(ddp, sampler, &batch, n_seen) == 0, "rank %u of %u", rank, size);
    CHECK(muster_dist_all_reduce(dist, n_seen, N_ITEMS, MUSTER_INT32, MUSTER_SUM) == 0, "sum");
    for (size_t i = 0; i < N_ITEMS; i++)
        CHECK(n_seen[i] == 1, "item %zu: %d times", i, n_seen[i]);
    muster_sampler_free(sampler);
    muster_ddp_free(ddp);
    return muster_dist_close(dist);
}

static void test_sampled(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= RANKS_MAX; size++)
        ranks_run(size, sampled, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad), cmocka_unit_test(test_sampled)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
