/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests x training triples. As many tests as fit stay in memory, and the training triples go by in
 * tiles: a thread computes a tile's factors and its products with all tests, and tiles are handed
 * over in order.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "tracin/setting.h"
#include "tracin/topk.h"

/* What a thread works in. */
struct bench {
    struct factors factors;
    struct factor_scratch scratch;
    struct product_scratch product;
    void *out;       /* tests x tile */
    double *row;     /* of one test */
    uint32_t *index; /* of the tile's training triples */
    struct triple *triples;
    size_t n;
};

struct run {
    struct setting with;
    const struct tracin_opts *opts;
    const struct triple *train;
    size_t n_train;
    /*
     * The training triples that any test of the block wants, those of one head and relation next
     * to each other: they share half of the work. NULL: all as they come, for sinks that take
     * rows.
     */
    const uint32_t *used;
    size_t n_used;
    const struct tracin_sink *sink;
    struct bench *benches; /* by thread */
    uint64_t n_pairs_done, n_pairs;

    /* Of the tests at hand. */
    const struct tracin_test *tests;
    size_t first_test, n_tests;
    struct triple *test_triples;
    struct factors *test_factors; /* by checkpoint */
    struct topk *tops;
    double *selves;
};

/* ---- a tile ---- */

static void tile_take(const struct run *run, struct bench *bench, size_t tile)
{
    size_t begin = tile * run->with.cut.train_tile;
    bench->n = MIN(run->with.cut.train_tile, run->n_used - begin);
    for (size_t i = 0; i < bench->n; i++) {
        bench->index[i] = run->used ? run->used[begin + i] : (uint32_t)(begin + i);
        bench->triples[i] = run->train[bench->index[i]];
    }
}

static void tile_make(void *context, unsigned thread, size_t tile)
{
    struct run *run = context;
    struct bench *bench = &run->benches[thread];
    tile_take(run, bench, tile);
    bench->factors.triples = bench->triples;
    bench->factors.n = bench->n;
    memset(bench->out, 0, run->n_tests * bench->n * num_bytes(run->with.plan.dtype));
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        factors_compute_shared(run->with.be, &run->with.plan, &run->with.weights[c],
                               &bench->scratch, &bench->factors);
        factors_product(run->with.be, &run->with.plan, run->with.checkpoints[c].learning_rate,
                        &run->test_factors[c], &bench->factors, &bench->product, bench->out);
    }
}

static int by_index(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static bool is_left_out(const struct tracin_test *test, uint32_t index)
{
    return test->train_indices &&
           !bsearch(&index, test->train_indices, test->n_train_indices, sizeof(index), by_index);
}

/* Row `test` as doubles, what its filter leaves out as NaN. */
static int row_read(struct run *run, struct bench *bench, size_t test, struct err *err)
{
    const struct tracin_test *of = &run->tests[run->first_test + test];
    const char *row = num_at(run->with.plan.dtype, bench->out, test * bench->n);
    for (size_t i = 0; i < bench->n; i++) {
        double value = run->with.plan.dtype == NUM_F64
                           ? ((const double *)(const void *)row)[i]
                           : (double)((const float *)(const void *)row)[i];
        if (!isfinite(value))
            return fail(err, ERR_DATA,
                        "the influence of training triple %u on test triple %zu is %g: the model's "
                        "numbers are too large for this precision",
                        bench->index[i], run->first_test + test, value);
        bench->row[i] = is_left_out(of, bench->index[i]) ? (double)NAN : value;
    }
    return 0;
}

static int tile_hand_over(void *context, unsigned thread, size_t tile, struct err *err)
{
    struct run *run = context;
    struct bench *bench = &run->benches[thread];
    const struct tracin_sink *sink = run->sink;
    (void)tile;
    for (size_t test = 0; test < run->n_tests; test++) {
        int rc = row_read(run, bench, test, err);
        if (rc == 0 && sink->row)
            rc = sink->row(sink->context, run->first_test + test, bench->index[0], bench->row,
                           bench->n, err);
        if (rc != 0)
            return rc;
        for (size_t i = 0; run->tops && i < bench->n; i++)
            if (!isnan(bench->row[i]))
                topk_add(&run->tops[test], bench->index[i], bench->row[i]);
    }
    run->n_pairs_done += run->n_tests * bench->n;
    return sink->progress ? sink->progress(sink->context, run->n_pairs_done, run->n_pairs, err) : 0;
}

/* ---- tests ---- */

static void tests_make(void *context, unsigned thread, size_t piece)
{
    struct run *run = context;
    struct bench *bench = &run->benches[thread];
    size_t begin = piece * run->with.cut.train_tile;
    size_t n = MIN(run->with.cut.train_tile, run->n_tests - begin);
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        struct factors *factors = &run->test_factors[c];
        factors_compute(run->with.be, &run->with.plan, &run->with.weights[c], &bench->scratch,
                        factors, begin, n);
    }
}

static void selves_compute(struct run *run)
{
    void *scratch = xmalloc(2 * run->n_tests * num_bytes(run->with.plan.dtype));
    memset(run->selves, 0, run->n_tests * sizeof(*run->selves));
    for (size_t c = 0; c < run->with.n_checkpoints; c++)
        factors_self(run->with.be, &run->with.plan, run->with.checkpoints[c].learning_rate,
                     &run->test_factors[c], scratch, run->selves);
    free(scratch);
}

static size_t n_wanted(const struct run *run, size_t test)
{
    const struct tracin_test *of = &run->tests[run->first_test + test];
    return of->train_indices ? of->n_train_indices : run->n_train;
}

static int by_head_and_relation(const void *a, const void *b, void *train)
{
    const struct triple *left = (const struct triple *)train + *(const uint32_t *)a;
    const struct triple *right = (const struct triple *)train + *(const uint32_t *)b;
    if (left->head != right->head)
        return left->head > right->head ? 1 : -1;
    if (left->relation != right->relation)
        return left->relation > right->relation ? 1 : -1;
    return by_index(a, b);
}

/* By training triple; NULL if a test wants all. free() it. */
static bool *wanted_new(const struct run *run)
{
    bool *is_wanted = xcalloc(run->n_train, sizeof(*is_wanted));
    for (size_t test = 0; test < run->n_tests; test++) {
        const struct tracin_test *of = &run->tests[run->first_test + test];
        if (!of->train_indices) {
            free(is_wanted);
            return NULL;
        }
        for (size_t i = 0; i < of->n_train_indices; i++)
            is_wanted[of->train_indices[i]] = true;
    }
    return is_wanted;
}

/* free() it. */
static uint32_t *used_new(const struct run *run, size_t *n_used)
{
    *n_used = run->n_train;
    if (run->sink->row)
        return NULL;
    bool *is_wanted = wanted_new(run);
    uint32_t *used = xmalloc(run->n_train * sizeof(*used));
    *n_used = 0;
    for (size_t i = 0; i < run->n_train; i++)
        if (!is_wanted || is_wanted[i])
            used[(*n_used)++] = (uint32_t)i;
    free(is_wanted);
    qsort_r(used, *n_used, sizeof(*used), by_head_and_relation, (void *)(uintptr_t)run->train);
    return used;
}

static void tops_init(struct run *run)
{
    run->tops = xcalloc(run->n_tests, sizeof(*run->tops));
    for (size_t test = 0; test < run->n_tests; test++)
        topk_init(&run->tops[test], MIN(run->opts->top_k, n_wanted(run, test)), run->opts->order);
}

static int tops_hand_over(struct run *run, struct err *err)
{
    int rc = 0;
    for (size_t test = 0; test < run->n_tests; test++) {
        struct topk *top = &run->tops[test];
        topk_sort(top);
        if (rc == 0 && run->sink->top)
            rc = run->sink->top(run->sink->context, run->first_test + test, run->selves[test],
                                top->at, top->n, err);
        topk_release(top);
    }
    free(run->tops);
    run->tops = NULL;
    return rc;
}

/* Some tests against all training triples. */
static int block_run(struct run *run, struct err *err)
{
    size_t tile = run->with.cut.train_tile;
    for (size_t test = 0; test < run->n_tests; test++)
        run->test_triples[test] = run->tests[run->first_test + test].triple;
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        run->test_factors[c].triples = run->test_triples;
        run->test_factors[c].n = run->test_factors[c].n_features = run->n_tests;
    }
    struct crew_work work = {run, (run->n_tests + tile - 1) / tile, tests_make, NULL};
    int rc = crew_run(run->with.crew, &work, err);
    if (rc != 0)
        return rc;
    selves_compute(run);
    uint32_t *used = used_new(run, &run->n_used);
    run->used = used;
    run->n_pairs -= (uint64_t)run->n_tests * (run->n_train - run->n_used);
    if (run->opts->top_k)
        tops_init(run);
    work = (struct crew_work){run, (run->n_used + tile - 1) / tile, tile_make, tile_hand_over};
    rc = crew_run(run->with.crew, &work, err);
    free(used);
    for (size_t test = 0; run->tops && rc != 0 && test < run->n_tests; test++)
        topk_release(&run->tops[test]);
    return rc == 0 && run->tops ? tops_hand_over(run, err) : rc;
}

/* ---- the whole ---- */

static void benches_init(struct run *run)
{
    size_t tile = run->with.cut.train_tile, tests = run->with.cut.tests_at_once;
    size_t pairs_bytes = tests * tile * num_bytes(run->with.plan.dtype);
    run->benches = xcalloc(run->with.cut.n_threads, sizeof(*run->benches));
    for (unsigned i = 0; i < run->with.cut.n_threads; i++) {
        struct bench *bench = &run->benches[i];
        factors_init(&bench->factors, &run->with.plan, tile);
        factor_scratch_init(&bench->scratch, &run->with.plan, tile);
        bench->product.first = xmalloc(pairs_bytes);
        bench->product.second = xmalloc(pairs_bytes);
        bench->out = xmalloc(pairs_bytes);
        bench->row = xmalloc(tile * sizeof(*bench->row));
        bench->index = xmalloc(tile * sizeof(*bench->index));
        bench->triples = xmalloc(tile * sizeof(*bench->triples));
    }
}

static void run_init(struct run *run)
{
    run->test_factors = xcalloc(run->with.n_checkpoints, sizeof(*run->test_factors));
    for (size_t c = 0; c < run->with.n_checkpoints; c++)
        factors_init(&run->test_factors[c], &run->with.plan, run->with.cut.tests_at_once);
    run->test_triples = xcalloc(run->with.cut.tests_at_once, sizeof(*run->test_triples));
    run->selves = xcalloc(run->with.cut.tests_at_once, sizeof(*run->selves));
    benches_init(run);
}

static void run_release(struct run *run)
{
    for (size_t c = 0; c < run->with.n_checkpoints; c++)
        factors_release(&run->test_factors[c]);
    for (unsigned i = 0; i < run->with.cut.n_threads; i++) {
        struct bench *bench = &run->benches[i];
        factors_release(&bench->factors);
        factor_scratch_release(&bench->scratch);
        void *arrays[] = {bench->product.first, bench->product.second, bench->out,
                          bench->row,           bench->index,          bench->triples};
        for (size_t a = 0; a < countof(arrays); a++)
            free(arrays[a]);
    }
    void *arrays[] = {run->test_factors, run->test_triples, run->selves, run->benches, run->tops};
    for (size_t a = 0; a < countof(arrays); a++)
        free(arrays[a]);
}

static int tests_check(const struct conve_shape *shape, const struct tracin_test *tests,
                       size_t n_tests, size_t n_train, struct err *err)
{
    for (size_t i = 0; i < n_tests; i++) {
        int rc = triples_check(shape, "test triple", &tests[i].triple, 1, err);
        if (rc != 0)
            return n_tests > 1 ? wrap(err, rc, "test %zu", i) : rc;
        if (!tests[i].train_indices)
            continue;
        if (tests[i].n_train_indices == 0)
            return fail(err, ERR_USAGE, "test triple %zu: its filter leaves no training triple", i);
        for (size_t t = 0; t < tests[i].n_train_indices; t++)
            if (tests[i].train_indices[t] >= n_train ||
                (t > 0 && tests[i].train_indices[t] <= tests[i].train_indices[t - 1]))
                return fail(err, ERR_USAGE,
                            "test triple %zu: training index %u is above %zu, or not in order", i,
                            tests[i].train_indices[t], n_train - 1);
    }
    return 0;
}

static int run_check(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                     const struct tracin_opts *opts, const struct triple *train, size_t n_train,
                     const struct tracin_test *tests, size_t n_tests, struct err *err)
{
    int rc = arguments_check(checkpoints, n_checkpoints, opts, err);
    if (rc != 0)
        return rc;
    if (n_train == 0 || n_tests == 0)
        return fail(err, ERR_USAGE, "there is no %s triple", n_train == 0 ? "training" : "test");
    if (n_train > UINT32_MAX)
        return fail(err, ERR_USAGE, "%zu training triples are more than %u", n_train, UINT32_MAX);
    if (opts->top_k > n_train)
        return fail(err, ERR_USAGE, "the best %zu of %zu training triples are asked for",
                    opts->top_k, n_train);
    const struct conve_shape *shape = &checkpoints[0].model->shape;
    rc = triples_check(shape, "training triple", train, n_train, err);
    return rc == 0 ? tests_check(shape, tests, n_tests, n_train, err) : rc;
}

/* NOLINTNEXTLINE(readability-function-size): what a run is made of, each by its name */
int tracin_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
               const struct tracin_opts *opts, const struct triple *train, size_t n_train,
               const struct tracin_test *tests, size_t n_tests, const struct tracin_sink *sink,
               struct err *err)
{
    struct run run = {.opts = opts,
                      .train = train,
                      .n_train = n_train,
                      .tests = tests,
                      .sink = sink,
                      .n_pairs = (uint64_t)n_tests * n_train};
    int rc = run_check(checkpoints, n_checkpoints, opts, train, n_train, tests, n_tests, err);
    if (rc != 0)
        return rc;
    rc = setting_open(&run.with, checkpoints, n_checkpoints, opts, n_tests, n_train, err);
    if (rc != 0)
        return rc;
    run_init(&run);
    for (size_t at = 0; at < n_tests && rc == 0; at += run.with.cut.tests_at_once) {
        run.first_test = at;
        run.n_tests = MIN(run.with.cut.tests_at_once, n_tests - at);
        rc = block_run(&run, err);
    }
    run_release(&run);
    setting_close(&run.with);
    return rc;
}

int tracin_plan(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                const struct tracin_opts *opts, size_t n_tests, size_t n_train,
                struct tracin_plan *plan, struct err *err)
{
    struct factor_plan factors;
    struct cut cut;
    int rc = arguments_check(checkpoints, n_checkpoints, opts, err);
    if (rc != 0)
        return rc;
    factor_plan_init(&factors, &checkpoints[0].model->shape, opts);
    rc = cut_choose(&factors, opts, n_checkpoints, n_tests, n_train, &cut, err);
    if (rc == 0)
        *plan = (struct tracin_plan){cut.tests_at_once, cut.train_tile, cut.n_threads, cut.bytes};
    return rc;
}
