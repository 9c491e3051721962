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
#include "tracin/bench.h"
#include "tracin/topk.h"
#include "tracin/training_subset.h"

enum {
    BEST_MAX = 128 /* most strongest influences of a test; for more, whole rows are read from a
                    * device */
};

struct tracin_session {
    struct setting with;
    const struct tracin_opts *opts;
    const struct triple *train;
    size_t n_train;
    /*
     * The training subset (training_subset.h). NULL: all training triples in the order of their
     * file, for sinks that take rows.
     */
    const uint32_t *subset;
    size_t n_subset;
    const struct tracin_sink *sink;
    struct bench *benches; /* by thread */
    uint64_t n_pairs_done, n_pairs;

    /* The current tests. */
    const struct tracin_test *tests;
    size_t first_test, n_tests;
    struct triple *test_triples;
    struct factors *test_factors; /* by checkpoint */
    size_t n_best;                /* 0: the whole tile is read */
    struct topk *tops;
    double *selves;
    struct self_scratch self_scratch;
    size_t n_train_max, n_all_tests;
    bool are_tests_made; /* the factors of all tests are computed, and are kept */
};

/* ---- a tile ---- */

static void tile_take(const struct tracin_session *run, struct bench *bench, size_t tile)
{
    size_t begin = tile * run->with.cut.train_tile;
    bench->n = MIN(run->with.cut.train_tile, run->n_subset - begin);
    for (size_t i = 0; i < bench->n; i++) {
        bench->index[i] = run->subset ? run->subset[begin + i] : (uint32_t)(begin + i);
        bench->triples[i] = run->train[bench->index[i]];
    }
}

static void tile_make(void *context, unsigned thread, size_t tile)
{
    struct tracin_session *run = context;
    struct bench *bench = &run->benches[thread];
    tile_take(run, bench, tile);
    bench_compute(bench, &run->with, run->test_factors, run->n_tests, run->n_best,
                  run->opts->order);
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

static int value_check(const struct tracin_session *run, size_t test, uint32_t index, double value,
                       struct err *err)
{
    return isfinite(value)
               ? 0
               : fail(err, ERR_DATA,
                      "the influence of training triple %u on test triple %zu is %g: the model's "
                      "numbers are too large for this precision",
                      index, run->first_test + test, value);
}

/* Makes row `test` as doubles, with NaN for training triples that the test's filter leaves out. */
static int row_read(struct tracin_session *run, struct bench *bench, size_t test, struct err *err)
{
    const struct tracin_test *of = &run->tests[run->first_test + test];
    for (size_t i = 0; i < bench->n; i++) {
        double value = bench_value(bench, &run->with, test, i);
        int rc = value_check(run, test, bench->index[i], value, err);
        if (rc != 0)
            return rc;
        bench->row[i] = is_left_out(of, bench->index[i]) ? (double)NAN : value;
    }
    return 0;
}

static int row_hand_over(struct tracin_session *run, struct bench *bench, size_t test,
                         struct err *err)
{
    const struct tracin_sink *sink = run->sink;
    int rc = row_read(run, bench, test, err);
    if (rc == 0 && sink->row)
        rc = sink->row(sink->context, run->first_test + test, bench->index[0], bench->row, bench->n,
                       err);
    for (size_t i = 0; rc == 0 && run->tops && i < bench->n; i++)
        if (!isnan(bench->row[i]))
            topk_add(&run->tops[test], bench->index[i], bench->row[i]);
    return rc;
}

static int best_hand_over(struct tracin_session *run, struct bench *bench, size_t test,
                          struct err *err)
{
    bool is_kept = true; /* the influences that follow are weaker */
    int rc = 0;
    for (size_t i = 0; rc == 0 && is_kept && i < bench->n_best; i++) {
        uint32_t index = bench->value_ids[test * bench->n_best + i];
        double value = bench_value(bench, &run->with, test, i);
        rc = value_check(run, test, index, value, err);
        is_kept = topk_add(&run->tops[test], index, value);
    }
    return rc;
}

/* Returns the error of a thread, if there is one. */
static int bench_outcome(const struct bench *bench, struct err *err)
{
    return bench->rc == 0 ? 0 : fail(err, bench->rc, "%s", bench->err.text);
}

static int tile_hand_over(void *context, unsigned thread, size_t tile, struct err *err)
{
    struct tracin_session *run = context;
    struct bench *bench = &run->benches[thread];
    const struct tracin_sink *sink = run->sink;
    int rc = bench_outcome(bench, err);
    (void)tile;
    for (size_t test = 0; rc == 0 && test < run->n_tests; test++)
        rc = bench->n_best ? best_hand_over(run, bench, test, err)
                           : row_hand_over(run, bench, test, err);
    if (rc != 0)
        return rc;
    run->n_pairs_done += run->n_tests * bench->n;
    return sink->progress ? sink->progress(sink->context, run->n_pairs_done, run->n_pairs, err) : 0;
}

/* ---- tests ---- */

static void tests_make(void *context, unsigned thread, size_t piece)
{
    struct tracin_session *run = context;
    struct bench *bench = &run->benches[thread];
    size_t begin = piece * run->with.cut.train_tile;
    size_t n = MIN(run->with.cut.train_tile, run->n_tests - begin);
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        struct factors *factors = &run->test_factors[c];
        factors_compute(run->with.be, &run->with.plan, &run->with.weights[c], &bench->scratch,
                        factors, begin, n);
    }
    /* Other threads will read the factors. */
    bench->rc = run->with.be->wait(run->with.be, &bench->err);
}

static int tests_hand_over(void *context, unsigned thread, size_t piece, struct err *err)
{
    struct tracin_session *run = context;
    (void)piece;
    return bench_outcome(&run->benches[thread], err);
}

/* Computes self-influences first, then rounds the factors of the tests, for the products. */
static int selves_compute(struct tracin_session *run, struct err *err)
{
    const struct num_backend *be = run->with.be;
    int rc = 0;
    memset(run->selves, 0, run->n_tests * sizeof(*run->selves));
    for (size_t c = 0; rc == 0 && c < run->with.n_checkpoints; c++)
        rc = factors_self(be, &run->with.plan, run->with.checkpoints[c].learning_rate,
                          &run->test_factors[c], &run->self_scratch, run->selves, err);
    for (size_t c = 0; c < run->with.n_checkpoints; c++)
        factors_round(be, &run->with.plan, &run->test_factors[c]);
    return rc == 0 ? be->wait(be, err) : rc;
}

static size_t n_wanted(const struct tracin_session *run, size_t test)
{
    const struct tracin_test *of = &run->tests[run->first_test + test];
    return of->train_indices ? of->n_train_indices : run->n_train;
}

/*
 * Returns how many influences of each test are read from a tile if the strongest suffice; else 0:
 * all.
 */
static size_t n_best_of(const struct tracin_session *run)
{
    bool is_all_read = !run->with.be->is_device || run->sink->row || run->opts->top_k > BEST_MAX;
    for (size_t test = 0; !is_all_read && test < run->n_tests; test++)
        is_all_read = run->tests[run->first_test + test].train_indices;
    return is_all_read ? 0 : run->opts->top_k;
}

static void tops_init(struct tracin_session *run)
{
    run->tops = xcalloc(run->n_tests, sizeof(*run->tops));
    for (size_t test = 0; test < run->n_tests; test++)
        topk_init(&run->tops[test], MIN(run->opts->top_k, n_wanted(run, test)), run->opts->order);
}

static void tops_drop(struct tracin_session *run)
{
    for (size_t test = 0; run->tops && test < run->n_tests; test++)
        topk_release(&run->tops[test]);
    free(run->tops);
    run->tops = NULL;
}

static int tops_hand_over(struct tracin_session *run, struct err *err)
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

/* Computes the factors of the current tests, and their influences on themselves. */
static int block_make(struct tracin_session *run, struct err *err)
{
    size_t tile = run->with.cut.train_tile;
    for (size_t test = 0; test < run->n_tests; test++)
        run->test_triples[test] = run->tests[run->first_test + test].triple;
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        run->test_factors[c].triples = run->test_triples;
        run->test_factors[c].n = run->test_factors[c].n_features = run->n_tests;
    }
    struct thread_pool_work work = {run, (run->n_tests + tile - 1) / tile, tests_make,
                                    tests_hand_over};
    int rc = thread_pool_run(run->with.pool, &work, err);
    return rc == 0 ? selves_compute(run, err) : rc;
}

/* Runs the current tests against all training triples. */
static int block_run(struct tracin_session *run, struct err *err)
{
    size_t tile = run->with.cut.train_tile;
    int rc = run->are_tests_made ? 0 : block_make(run, err);
    if (rc != 0)
        return rc;
    run->are_tests_made = run->n_tests == run->n_all_tests;
    run->n_best = n_best_of(run);
    uint32_t *subset = NULL;
    run->n_subset = run->n_train;
    if (!run->sink->row)
        subset = training_subset_new(&run->with.plan.shape, run->train, run->n_train,
                                     run->tests + run->first_test, run->n_tests, &run->n_subset);
    run->subset = subset;
    run->n_pairs -= (uint64_t)run->n_tests * (run->n_train - run->n_subset);
    if (run->opts->top_k)
        tops_init(run);
    struct thread_pool_work work = {run, (run->n_subset + tile - 1) / tile, tile_make,
                                    tile_hand_over};
    rc = thread_pool_run(run->with.pool, &work, err);
    free(subset);
    if (rc != 0)
        tops_drop(run);
    return rc == 0 && run->tops ? tops_hand_over(run, err) : rc;
}

/* ---- the whole ---- */

static int run_make(void *context, struct err *err)
{
    struct tracin_session *run = context;
    const struct num_backend *be = run->with.be;
    size_t n_tests = run->with.cut.tests_at_once;
    const struct bench_size size = {n_tests, run->with.cut.train_tile,
                                    be->is_device && run->opts->top_k <= BEST_MAX ? run->opts->top_k
                                                                                  : 0};
    run->test_factors = xcalloc(run->with.n_checkpoints, sizeof(*run->test_factors));
    run->test_triples = xcalloc(n_tests, sizeof(*run->test_triples));
    run->selves = xcalloc(n_tests, sizeof(*run->selves));
    run->benches = xcalloc(run->with.cut.n_threads, sizeof(*run->benches));
    int rc = self_scratch_init(&run->self_scratch, be, &run->with.plan, n_tests, err);
    for (size_t c = 0; rc == 0 && c < run->with.n_checkpoints; c++)
        rc = factors_init(&run->test_factors[c], be, &run->with.plan, n_tests, err);
    for (unsigned i = 0; rc == 0 && i < run->with.cut.n_threads; i++)
        rc = bench_init(&run->benches[i], &run->with, &size, err);
    return rc;
}

static void run_release(void *context)
{
    struct tracin_session *run = context;
    for (size_t c = 0; c < run->with.n_checkpoints; c++)
        factors_release(&run->test_factors[c], run->with.be);
    for (unsigned i = 0; i < run->with.cut.n_threads; i++)
        bench_release(&run->benches[i], &run->with);
    self_scratch_release(&run->self_scratch, run->with.be);
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

static int session_check(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                         const struct tracin_opts *opts, size_t n_train,
                         const struct tracin_test *tests, size_t n_tests, struct err *err)
{
    int rc = arguments_check(checkpoints, n_checkpoints, opts, err);
    if (rc != 0)
        return rc;
    if (n_train == 0 || n_tests == 0)
        return fail(err, ERR_USAGE, "there is no %s triple", n_train == 0 ? "training" : "test");
    if (n_train > UINT32_MAX)
        return fail(err, ERR_USAGE, "%zu training triples are more than %u", n_train, UINT32_MAX);
    return tests_check(&checkpoints[0].model->shape, tests, n_tests, n_train, err);
}

int tracin_session_open(struct tracin_session **out, const struct tracin_checkpoint *checkpoints,
                        size_t n_checkpoints, const struct tracin_opts *opts, size_t n_train_max,
                        const struct tracin_test *tests, size_t n_tests, struct err *err)
{
    *out = NULL;
    int rc = session_check(checkpoints, n_checkpoints, opts, n_train_max, tests, n_tests, err);
    if (rc != 0)
        return rc;
    struct tracin_session *run = xmalloc(sizeof(*run));
    *run = (struct tracin_session){
        .opts = opts, .n_train_max = n_train_max, .tests = tests, .n_all_tests = n_tests};
    rc = setting_open(&run->with, checkpoints, n_checkpoints, opts, n_tests, n_train_max, err);
    if (rc != 0) {
        free(run);
        return rc;
    }
    const struct room_maker maker = {run, run_make, run_release};
    rc = setting_make_room(&run->with, &maker, err);
    if (rc == 0) {
        *out = run;
        return 0;
    }
    setting_close(&run->with);
    free(run);
    return rc;
}

int tracin_session_run(struct tracin_session *session, const struct triple *train, size_t n_train,
                       const struct tracin_sink *sink, struct err *err)
{
    ASSERT(n_train <= session->n_train_max);
    if (n_train == 0)
        return fail(err, ERR_USAGE, "there is no training triple");
    if (session->opts->top_k > n_train)
        return fail(err, ERR_USAGE, "the best %zu of %zu training triples are asked for",
                    session->opts->top_k, n_train);
    int rc = triples_check(&session->with.checkpoints[0].model->shape, "training triple", train,
                           n_train, err);
    session->train = train;
    session->n_train = n_train;
    session->sink = sink;
    session->n_pairs = (uint64_t)session->n_all_tests * n_train;
    session->n_pairs_done = 0;
    for (size_t at = 0; at < session->n_all_tests && rc == 0; at += session->n_tests) {
        session->first_test = at;
        session->n_tests = MIN(session->with.cut.tests_at_once, session->n_all_tests - at);
        rc = block_run(session, err);
    }
    return rc;
}

void tracin_session_close(struct tracin_session *session)
{
    if (!session)
        return;
    run_release(session);
    setting_close(&session->with);
    free(session);
}

/* NOLINTNEXTLINE(readability-function-size): what a run is made of, each by its name */
int tracin_run(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
               const struct tracin_opts *opts, const struct triple *train, size_t n_train,
               const struct tracin_test *tests, size_t n_tests, const struct tracin_sink *sink,
               struct err *err)
{
    struct tracin_session *session;
    int rc = tracin_session_open(&session, checkpoints, n_checkpoints, opts, n_train, tests,
                                 n_tests, err);
    if (rc == 0)
        rc = tracin_session_run(session, train, n_train, sink, err);
    tracin_session_close(session);
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
    const struct cut_ask ask = {&factors, opts, opts->backend, n_checkpoints, n_tests, n_train, 0};
    rc = cut_choose(&ask, &cut, err);
    if (rc == 0)
        *plan = (struct tracin_plan){cut.tests_at_once, cut.train_tile, cut.n_threads, cut.bytes};
    return rc;
}
