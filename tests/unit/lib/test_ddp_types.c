/* SPDX-License-Identifier: Apache-2.0
 *
 * Gradients of each type, to the last bit: means of 16-bit floats over uneven shares of the samples, up to
 * the limits of their type, and shards of a model that has all types.
 */
#include "lib/ranks.h"

#include "base/attr.h"
#include "base/rng.h"
#include "dist/half.h"
#include "muster/ddp.h"

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

/* A finite value of any size, often near the largest. */
static uint16_t half_draw(uint32_t rank, size_t i, bool is_brain)
{
    uint16_t bits = (uint16_t)mix64((uint64_t)rank * 100003 + i), top = is_brain ? 0x7f80 : 0x7c00;
    uint16_t largest = (uint16_t)(top - 1 - (bits & 3));
    return i % 3 == 0 ? largest : (bits & top) == top ? bits & 0x83ff : bits;
}

/* The mean: in float32, in the order of the ranks, and rounded once. */
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

/*
 * If one rank alone has samples, its gradient is the mean, bit for bit, although 16 bits are sent.
 */
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
        for (int k = 0; k < 4; k++) /* two types; in memory of the caller and of the library */
            if (halves_step(dist, shares[i], k % 2 == 1, k < 2 ? memory : NULL))
                return 1;
    return wire_step(dist) || muster_dist_close(dist);
}

static void test_halves(void **state)
{
    (void)state;
    ranks_run(N_WORLD, halves, NULL);
}

/* ---- shards ---- */

enum {
    N_SHARDS = 8,
    COUNT_MAX = 20000 /* more than goes through one exchange */
};

static const struct {
    const char *name;
    enum muster_type type;
    size_t count;
} kinds[] = {{"a", MUSTER_FLOAT64, 10001},     {"b", MUSTER_BFLOAT16, 64},
             {"c", MUSTER_FLOAT32, COUNT_MAX}, {"d", MUSTER_FLOAT16, 333},
             {"e", MUSTER_FLOAT32, 1},         {"f", MUSTER_FLOAT64, 1}};

static const uint64_t shard_samples[N_SHARDS] = {3, 0, 1, 4, 1, 5, 9, 2};

static void value_put(void *at, size_t i, enum muster_type type, double value)
{
    float single = (float)value;
    uint16_t half = type == MUSTER_BFLOAT16 ? md_to_bfloat16(single) : md_to_float16(single);
    const void *from = type == MUSTER_FLOAT64   ? (const void *)&value
                       : type == MUSTER_FLOAT32 ? (const void *)&single
                                                : (const void *)&half;
    memcpy((char *)at + i * muster_type_bytes(type), from, muster_type_bytes(type));
}

/* Sums of such values depend on their order. */
static double shard_value(uint32_t shard, size_t param, size_t i)
{
    return (double)(int64_t)mix64((uint64_t)shard * 100003 + param * 31 + i * 8) / 1e17;
}

/* shard_value(), rounded to the type of the parameter. */
static double shard_value_as(uint32_t shard, size_t param, size_t i)
{
    enum muster_type type = kinds[param].type;
    uint64_t room = 0;
    float single;
    value_put(&room, 0, type, shard_value(shard, param, i));
    memcpy(&single, &room, sizeof(single));
    if (type == MUSTER_FLOAT64)
        return shard_value(shard, param, i);
    if (type == MUSTER_FLOAT32)
        return (double)single;
    return (double)half_widen((uint16_t)room, type == MUSTER_BFLOAT16);
}

/*
 * The mean by its definition: a tree over shards, in float64 for that type and in float32 for the
 * others.
 */
static void shards_expect(size_t param, size_t i, void *out)
{
    double doubles[N_SHARDS], n_all = 0;
    float singles[N_SHARDS];
    for (uint32_t s = 0; s < N_SHARDS; s++) {
        doubles[s] = shard_value_as(s, param, i) * (double)shard_samples[s];
        singles[s] = (float)shard_value_as(s, param, i) * (float)shard_samples[s];
        n_all += (double)shard_samples[s];
    }
    for (size_t n = N_SHARDS / 2; n > 0; n /= 2)
        for (size_t s = 0; s < n; s++) {
            doubles[s] = doubles[2 * s] + doubles[2 * s + 1];
            singles[s] = singles[2 * s] + singles[2 * s + 1];
        }
    bool is_double = kinds[param].type == MUSTER_FLOAT64;
    value_put(out, 0, kinds[param].type,
              is_double ? doubles[0] / n_all : (double)(singles[0] / (float)n_all));
}

static int shards_compare(struct muster_ddp *ddp, uint32_t rank, uint32_t size)
{
    for (size_t p = 0; p < countof(kinds); p++) {
        size_t width = muster_type_bytes(kinds[p].type);
        const char *gradient = muster_ddp_gradient(ddp, p);
        for (size_t i = 0; i < kinds[p].count; i++) {
            uint64_t expected = 0;
            shards_expect(p, i, &expected);
            CHECK(memcmp(gradient + i * width, &expected, width) == 0,
                  "rank %u of %u: value %zu of '%s' (%s) has other bits", rank, size, i,
                  kinds[p].name, muster_type_name(kinds[p].type));
        }
    }
    return 0;
}

static int shards(uint32_t rank, uint32_t size, const void *arg)
{
    struct muster_dist *dist = muster_dist_open(NULL);
    struct muster_param params[countof(kinds)];
    static uint64_t memory[COUNT_MAX];
    uint32_t first, end;
    (void)arg;
    for (size_t p = 0; p < countof(kinds); p++)
        params[p] = (struct muster_param){kinds[p].name, kinds[p].type, kinds[p].count, NULL,
                                          p == 2 && rank % 2 == 1 ? memory : NULL};
    struct muster_ddp *ddp = muster_ddp_new(dist, params, countof(kinds),
                                            &(struct muster_ddp_opts){.n_shards = N_SHARDS});
    CHECK(ddp, "%s", muster_dist_error(dist));
    muster_ddp_shards(ddp, &first, &end);
    for (uint32_t s = first; s < end; s++) {
        for (size_t p = 0; p < countof(kinds); p++)
            for (size_t i = 0; i < kinds[p].count; i++)
                value_put(muster_ddp_gradient(ddp, p), i, kinds[p].type, shard_value(s, p, i));
        CHECK(muster_ddp_shard(ddp, shard_samples[s]) == 0, "%s", muster_dist_error(dist));
    }
    CHECK(muster_ddp_finish(ddp) == 0, "%s", muster_dist_error(dist));
    if (shards_compare(ddp, rank, size))
        return 1;
    muster_ddp_free(ddp);
    return muster_dist_close(dist);
}

static void test_shards(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < countof(sizes); i++)
        ranks_run(sizes[i], shards, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_halves),
                                       cmocka_unit_test(test_shards)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
