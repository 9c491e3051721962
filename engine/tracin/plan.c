/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/parse.h"
#include "num/thread_pool.h"

enum {
    TILE = 256, /* training triples in a tile; the products reach nine tenths of OpenBLAS's best */
    DEVICE_TILE = 8192,
    DEVICE_THREADS = 2, /* one thread reads results while the other one's tile is computed */
    TESTS_AT_ONCE_MAX = 4096,
    MEMORY_MIB_MAX = 768,
    MEMORY_MIB_MIN = 32
};

static bool is_device(const struct cut_ask *ask)
{
    return ask->be && ask->be->is_device;
}

/*
 * Returns at most half of the free memory, and at most a quarter of the free addresses: half of
 * these are for threads.
 */
static uint64_t memory_default(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t kib = 0;
    if (file_read("/proc/meminfo", 1 << 16, &text, NULL) == 0) {
        const char *at = strstr(buf_text(&text), "MemAvailable:");
        kib = at ? strtoull(at + sizeof("MemAvailable:") - 1, NULL, 10) : 0;
    }
    uint64_t half_mib = MIN(kib / 2048, thread_pool_addresses_free() >> 22);
    return MIN(MAX(half_mib, (uint64_t)MEMORY_MIB_MIN), (uint64_t)MEMORY_MIB_MAX) << 20;
}

/* By default 7/8 of the free memory of a device, because its products need some, too. */
static uint64_t memory_of(const struct cut_ask *ask)
{
    if (ask->memory_bytes || ask->opts->memory_bytes)
        return ask->memory_bytes ? ask->memory_bytes : ask->opts->memory_bytes;
    return is_device(ask) ? ask->be->memory_free(ask->be) / 8 * 7 : memory_default();
}

struct costs {
    uint64_t test, thread;
};

static struct costs costs_of(const struct cut_ask *ask, size_t tests, size_t tile)
{
    const struct factor_plan *plan = ask->plan;
    uint64_t pair = 3 * num_bytes(plan->dtype) + sizeof(double);
    uint64_t packed = 0; /* bytes of rows in 16 bits */
    if (is_device(ask) && plan->format != NUM_FULL)
        packed = (tests + tile) * conve_n_features(&plan->shape) * sizeof(uint16_t);
    return (struct costs){
        .test = ask->n_checkpoints * factors_bytes(plan, 1) +
                MIN(ask->opts->top_k, ask->n_train) * sizeof(struct tracin_influence),
        .thread = factors_bytes(plan, tile) + factor_scratch_bytes(plan, tile) +
                  tile * (tests * pair + 64) + packed,
    };
}

/*
 * Returns the most rows of a matrix with a column for each entity: places in it are 32-bit numbers.
 */
static size_t rows_max(const struct factor_plan *plan)
{
    return plan->is_all ? MAX(UINT32_MAX / plan->shape.n_entities, (size_t)1) : SIZE_MAX;
}

static int too_few(uint64_t budget, const struct costs *costs, struct err *err)
{
    char given[16];
    size_format(given, budget);
    return fail(err, ERR_USAGE,
                "%s of memory is too little: one pair of triples takes %" PRIu64 " MiB (--memory)",
                given, (costs->test + costs->thread + (1 << 20) - 1) >> 20);
}

int cut_choose(const struct cut_ask *ask, struct cut *cut, struct err *err)
{
    uint64_t budget = memory_of(ask);
    unsigned of_device = DEVICE_THREADS, n_threads = ask->opts->n_threads;
    unsigned wanted = n_threads ? n_threads : is_device(ask) ? of_device : thread_pool_processors();
    size_t of_all = MAX(MAX(ask->n_train, ask->n_tests), (size_t)1);
    size_t tile =
        MIN(is_device(ask) ? MIN(of_all, (size_t)DEVICE_TILE) : TILE, rows_max(ask->plan));
    size_t tests = MIN(MIN(ask->n_tests, (size_t)TESTS_AT_ONCE_MAX), rows_max(ask->plan));
    struct costs costs;
    for (;;) {
        costs = costs_of(ask, tests, tile);
        if (tests * costs.test + costs.thread <= budget)
            break;
        if (tests > 1 && (tests * costs.test > budget / 2 || tile == 1))
            tests = (tests + 1) / 2;
        else if (tile > 1)
            tile /= 2;
        else
            return too_few(budget, &costs, err);
    }
    uint64_t fit = (budget - tests * costs.test) / costs.thread;
    size_t n_tiles = (MAX(tests, ask->n_train) + tile - 1) / tile;
    fit = MIN(fit, MAX(n_tiles, (size_t)1));
    *cut = (struct cut){.tests_at_once = tests,
                        .train_tile = tile,
                        .n_threads = (unsigned)MIN((uint64_t)wanted, fit)};
    cut->bytes = tests * costs.test + cut->n_threads * costs.thread;
    return 0;
}

/* ---- arguments ---- */

static bool shapes_equal(const struct conve_shape *a, const struct conve_shape *b)
{
    return a->n_entities == b->n_entities && a->n_relations == b->n_relations &&
           a->height == b->height && a->width == b->width && a->n_filters == b->n_filters &&
           a->kernel_height == b->kernel_height && a->kernel_width == b->kernel_width &&
           a->layout == b->layout && a->has_entity_bias == b->has_entity_bias &&
           a->lacks_norms == b->lacks_norms;
}

int arguments_check(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                    const struct tracin_opts *opts, struct err *err)
{
    if (n_checkpoints == 0)
        return fail(err, ERR_USAGE, "no checkpoint is given");
    for (size_t i = 0; i < n_checkpoints; i++) {
        if (!(checkpoints[i].learning_rate > 0) || !isfinite(checkpoints[i].learning_rate))
            return fail(err, ERR_USAGE, "%s: expected a learning rate above 0, found %g",
                        checkpoints[i].model->path, checkpoints[i].learning_rate);
        if (!shapes_equal(&checkpoints[0].model->shape, &checkpoints[i].model->shape))
            return fail(err, ERR_DATA, "%s and %s are models of different sizes or kinds",
                        checkpoints[0].model->path, checkpoints[i].model->path);
    }
    if (opts->format != NUM_FULL && opts->dtype != NUM_F32)
        return fail(err, ERR_USAGE, "rounding to 16 bits goes with float32");
    if (!(opts->label_smoothing >= 0 && opts->label_smoothing < 1))
        return fail(err, ERR_USAGE, "expected a label smoothing from 0 to below 1, found %g",
                    opts->label_smoothing);
    return 0;
}

int triples_check(const struct conve_shape *shape, const char *what, const struct triple *triples,
                  size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const struct {
            const char *role;
            uint32_t index;
            size_t rows;
        } ends[] = {{"head", triples[i].head, shape->n_entities},
                    {"relation", triples[i].relation, shape->n_relations},
                    {"tail", triples[i].tail, shape->n_entities}};
        for (size_t e = 0; e < countof(ends); e++)
            if (ends[e].index >= ends[e].rows)
                return fail(err, ERR_DATA, "%s %zu: its %s is number %u, the model has %zu", what,
                            i, ends[e].role, ends[e].index, ends[e].rows);
    }
    return 0;
}
