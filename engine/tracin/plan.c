/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fs.h"
#include "base/parse.h"
#include "num/crew.h"

enum {
    TILE = 256, /* training triples; its products reach nine tenths of OpenBLAS's best */
    TESTS_AT_ONCE_MAX = 4096,
    MEMORY_MIB_MAX = 768,
    MEMORY_MIB_MIN = 64
};

/* Half of what is free. */
static uint64_t memory_default(void)
{
    cleanup_buf struct buf text = BUF_INIT;
    uint64_t kib = 0;
    if (file_read("/proc/meminfo", 1 << 16, &text, NULL) == 0) {
        const char *at = strstr(buf_text(&text), "MemAvailable:");
        kib = at ? strtoull(at + sizeof("MemAvailable:") - 1, NULL, 10) : 0;
    }
    uint64_t half_mib = kib / 2048;
    return MIN(MAX(half_mib, (uint64_t)MEMORY_MIB_MIN), (uint64_t)MEMORY_MIB_MAX) << 20;
}

struct costs {
    uint64_t test, thread;
};

static struct costs costs_of(const struct factor_plan *plan, const struct tracin_opts *opts,
                             size_t n_checkpoints, size_t n_train, size_t tests, size_t tile)
{
    uint64_t pair = 3 * num_bytes(plan->dtype) + sizeof(double);
    return (struct costs){
        .test = n_checkpoints * factors_bytes(plan, 1) +
                MIN(opts->top_k, n_train) * sizeof(struct tracin_influence),
        .thread = factors_bytes(plan, tile) + factor_scratch_bytes(plan, tile) +
                  tile * (tests * pair + 64),
    };
}

int cut_choose(const struct factor_plan *plan, const struct tracin_opts *opts, size_t n_checkpoints,
               size_t n_tests, size_t n_train, struct cut *cut, struct err *err)
{
    uint64_t budget = opts->memory_bytes ? opts->memory_bytes : memory_default();
    unsigned wanted = opts->n_threads ? opts->n_threads : crew_processors();
    size_t tile = TILE, tests = MIN(n_tests, (size_t)TESTS_AT_ONCE_MAX);
    struct costs costs;
    for (;;) {
        costs = costs_of(plan, opts, n_checkpoints, n_train, tests, tile);
        if (tests * costs.test + costs.thread <= budget)
            break;
        if (tests > 1 && (tests * costs.test > budget / 2 || tile == 1))
            tests = (tests + 1) / 2;
        else if (tile > 1)
            tile /= 2;
        else
            return fail(err, ERR_USAGE,
                        "%" PRIu64 " MiB of memory are too few: one pair of triples takes %" PRIu64
                        " MiB",
                        budget >> 20, (costs.test + costs.thread + (1 << 20) - 1) >> 20);
    }
    uint64_t fit = (budget - tests * costs.test) / costs.thread;
    size_t n_tiles = (MAX(tests, n_train) + tile - 1) / tile;
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
           a->layout == b->layout && a->has_entity_bias == b->has_entity_bias;
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
            return fail(err, ERR_DATA, "%s and %s are models of different sizes",
                        checkpoints[0].model->path, checkpoints[i].model->path);
    }
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
