/* SPDX-License-Identifier: Apache-2.0
 *
 * Uses of ddp that are wrong in a way of which the results would not speak: each is an error on all
 * ranks, whose words say what it was. And 16-bit gradients of uneven shares, which are no error up to the
 * limits of their type.
 */
#include "lib/ranks.h"

#include "base/attr.h"
#include "base/rng.h"
#include "dist/half.h"
#include "muster/ddp.h"

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

/* ---- 16 bits, and uneven shares of the samples ---- */

enum {
    N_HALVES = 500,
    N_WORLD = 3
};

static const uint64_t shares[][N_WORLD] = {{0, 8, 0}, {1, 2, 0}, {3, 1, 5}, {4, 4, 4}};

static float half_widen(uint16_t half, bool is_brain)
{
    return is_brain ? md_from_bfloat16(half) : md_from_float16(half);
}

/* Any finite one, often near the largest. */
static uint16_t half_draw(uint32_t rank, size_t i, bool is_brain)
{
    uint16_t bits = (uint16_t)mix64((uint64_t)rank * 100003 + i), top = is_brain ? 0x7f80 : 0x7c00;
    uint16_t largest = (uint16_t)(top - 1 - (bits & 3));
    return i % 3 == 0 ? largest : (bits & top) == top ? bits & 0x83ff : bits;
}

/* In float32, in the order of the ranks, and rounded once. */
static uint16_t half_expect(const uint64_t *samples, size_t i, bool is_brain)
{
    double all = (double)(samples[0] + samples[1] + samples[2]);
    bool is_even = samples[0] == samples[1] && samples[1] == samples[2];
    float sum = 0;
    for (uint32_t r = 0; r < N_WORLD; r++) {
        float value = samples[r] > 0 ? half_widen(half_draw(r, i, is_brain), is_brain) : 0;
        sum += is_even ? value : value * (float)((double)samples[r] / all);
    }
    sum = is_even ? sum / N_WORLD : sum;
    return is_brain ? md_to_bfloat16(sum) : md_to_float16(sum);
}

static int halves_step(struct muster_dist *dist, const uint64_t *samples, bool is_brain,
                       uint16_t *gradient)
{
    const struct muster_param param = {"half", is_brain ? MUSTER_BFLOAT16 : MUSTER_FLOAT16,
                                       N_HALVES, NULL, gradient};
    uint32_t rank = muster_dist_rank(dist);
    struct muster_ddp *ddp = muster_ddp_new(dist, &param, 1, NULL);
    CHECK(ddp, "%s", muster_dist_error(dist));
    uint16_t *halves = muster_ddp_gradient(ddp, 0);
    for (size_t i = 0; i < N_HALVES; i++)
        halves[i] = half_draw(rank, i, is_brain);
    CHECK(muster_ddp_begin(ddp, samples[rank]) == 0 && muster_ddp_finish(ddp) == 0, "%s",
          muster_dist_error(dist));
    for (size_t i = 0; i < N_HALVES; i++)
        CHECK(halves[i] == half_expect(samples, i, is_brain),
              "rank %u: %d, %d and %d samples: %s %zu is %04x, expected %04x", rank,
              (int)samples[0], (int)samples[1], (int)samples[2], is_brain ? "bfloat16" : "float16",
              i, halves[i], half_expect(samples, i, is_brain));
    muster_ddp_free(ddp);
    return 0;
}

/* What one rank has alone is the mean, whatever travels. */
static int wire_step(struct muster_dist *dist)
{
    float gradient[2] = {60000, -0x1p-14f};
    const struct muster_param param = {"single", MUSTER_FLOAT32, 2, NULL, gradient};
    struct muster_ddp *ddp =
        muster_ddp_new(dist, &param, 1, &(struct muster_ddp_opts){.wire = MUSTER_FLOAT16});
    CHECK(muster_ddp_begin(ddp, muster_dist_rank(dist) == 1 ? 5 : 0) == 0 &&
              muster_ddp_finish(ddp) == 0,
          "%s", muster_dist_error(dist));
    CHECK(gradient[0] == 60000 && gradient[1] == -0x1p-14f, "%g and %g", (double)gradient[0],
          (double)gradient[1]);
    muster_ddp_free(ddp);
    return 0;
}

static int halves(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    uint16_t memory[N_HALVES];
    (void)rank;
    (void)size;
    (void)arg;
    for (size_t i = 0; i < countof(shares); i++)
        for (int k = 0; k < 4; k++) /* in memory of the library's too */
            if (halves_step(dist, shares[i], k % 2 == 1, k < 2 ? memory : NULL))
                return 1;
    return wire_step(dist) || muster_dist_close(dist);
}

static void test_halves(void **state)
{
    (void)state;
    ranks_run(N_WORLD, halves, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bad), cmocka_unit_test(test_halves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
