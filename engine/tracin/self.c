/* SPDX-License-Identifier: Apache-2.0
 *
 * The influence of triples on themselves, by tiles.
 */
#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "tracin/setting.h"

struct bench {
    struct factors factors;
    struct factor_scratch scratch;
    struct self_scratch dots;
    double *values;
    int rc;
    struct err err;
};

struct self_run {
    struct setting with;
    const struct triple *triples;
    size_t n_triples;
    struct bench *benches; /* by thread */
    int (*piece)(void *context, size_t begin, const double *values, size_t n, struct err *err);
    void *context;
};

static size_t tile_n(const struct self_run *run, size_t tile)
{
    return MIN(run->with.cut.train_tile, run->n_triples - tile * run->with.cut.train_tile);
}

static void tile_make(void *context, unsigned thread, size_t tile)
{
    struct self_run *run = context;
    struct bench *bench = &run->benches[thread];
    size_t n = tile_n(run, tile);
    bench->factors.triples = run->triples + tile * run->with.cut.train_tile;
    bench->factors.n = n;
    memset(bench->values, 0, n * sizeof(*bench->values));
    for (size_t c = 0; c < run->with.n_checkpoints; c++) {
        factors_compute_shared(run->with.be, &run->with.plan, &run->with.weights[c],
                               &bench->scratch, &bench->factors);
        int rc = factors_self(run->with.be, &run->with.plan, run->with.checkpoints[c].learning_rate,
                              &bench->factors, &bench->dots, bench->values, &bench->err);
        bench->rc = bench->rc ? bench->rc : rc;
    }
}

static int tile_hand_over(void *context, unsigned thread, size_t tile, struct err *err)
{
    struct self_run *run = context;
    size_t begin = tile * run->with.cut.train_tile, n = tile_n(run, tile);
    const struct bench *bench = &run->benches[thread];
    const double *values = bench->values;
    if (bench->rc != 0)
        return fail(err, bench->rc, "%s", bench->err.text);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return fail(err, ERR_DATA,
                        "the influence of triple %zu on itself is %g: the model's numbers are too "
                        "large for this precision",
                        begin + i, values[i]);
    return run->piece(run->context, begin, values, n, err);
}

static int run_make(void *context, struct err *err)
{
    struct self_run *run = context;
    const struct num_backend *be = run->with.be;
    const struct factor_plan *plan = &run->with.plan;
    size_t tile = run->with.cut.train_tile;
    int rc = 0;
    run->benches = xcalloc(run->with.cut.n_threads, sizeof(*run->benches));
    for (unsigned i = 0; rc == 0 && i < run->with.cut.n_threads; i++) {
        struct bench *bench = &run->benches[i];
        bench->values = xmalloc(tile * sizeof(*bench->values));
        rc = factors_init(&bench->factors, be, plan, tile, err);
        if (rc == 0)
            rc = factor_scratch_init(&bench->scratch, be, plan, tile, err);
        if (rc == 0)
            rc = self_scratch_init(&bench->dots, be, plan, tile, err);
    }
    return rc;
}

static void run_release(void *context)
{
    struct self_run *run = context;
    const struct num_backend *be = run->with.be;
    for (unsigned i = 0; i < run->with.cut.n_threads; i++) {
        factors_release(&run->benches[i].factors, be);
        factor_scratch_release(&run->benches[i].scratch, be);
        self_scratch_release(&run->benches[i].dots, be);
        free(run->benches[i].values);
    }
    free(run->benches);
}

int tracin_self(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                const struct tracin_opts *opts, const struct triple *triples, size_t n_triples,
                int (*piece)(void *context, size_t begin, const double *values, size_t n,
                             struct err *err),
                void *context, struct err *err)
{
    struct self_run run = {
        .triples = triples, .n_triples = n_triples, .piece = piece, .context = context};
    int rc = arguments_check(checkpoints, n_checkpoints, opts, err);
    if (rc == 0 && n_triples == 0)
        rc = fail(err, ERR_USAGE, "there is no triple");
    if (rc == 0)
        rc = triples_check(&checkpoints[0].model->shape, "triple", triples, n_triples, err);
    if (rc != 0)
        return rc;
    rc = setting_open(&run.with, checkpoints, n_checkpoints, opts, 0, n_triples, err);
    if (rc != 0)
        return rc;
    const struct room_maker maker = {&run, run_make, run_release};
    rc = setting_make_room(&run.with, &maker, err);
    size_t tile = run.with.cut.train_tile;
    struct thread_pool_work work = {&run, (n_triples + tile - 1) / tile, tile_make, tile_hand_over};
    if (rc == 0) {
        rc = thread_pool_run(run.with.pool, &work, err);
        run_release(&run);
    }
    setting_close(&run.with);
    return rc;
}
