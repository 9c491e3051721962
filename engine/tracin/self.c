/* SPDX-License-Identifier: Apache-2.0
 *
 * The influence of triples on themselves, by tiles.
 */
#include <math.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "tracin/crew.h"
#include "tracin/plan.h"

struct bench {
    struct factors factors;
    struct factor_scratch scratch;
    void *dots;
    double *values;
};

struct self_run {
    const struct num_backend *be;
    const struct tracin_checkpoint *checkpoints;
    size_t n_checkpoints;
    struct factor_plan plan;
    struct cut cut;
    struct conve_weights *weights; /* by checkpoint */
    const struct triple *triples;
    size_t n_triples;
    struct bench *benches; /* by thread */
    int (*piece)(void *context, size_t begin, const double *values, size_t n, struct err *err);
    void *context;
};

static size_t tile_n(const struct self_run *run, size_t tile)
{
    return MIN(run->cut.train_tile, run->n_triples - tile * run->cut.train_tile);
}

static void tile_make(void *context, unsigned thread, size_t tile)
{
    struct self_run *run = context;
    struct bench *bench = &run->benches[thread];
    size_t n = tile_n(run, tile);
    bench->factors.triples = run->triples + tile * run->cut.train_tile;
    bench->factors.n = n;
    memset(bench->values, 0, n * sizeof(*bench->values));
    for (size_t c = 0; c < run->n_checkpoints; c++) {
        factors_compute_shared(run->be, &run->plan, &run->weights[c], &bench->scratch,
                               &bench->factors);
        factors_self(run->be, &run->plan, run->checkpoints[c].learning_rate, &bench->factors,
                     bench->dots, bench->values);
    }
}

static int tile_hand_over(void *context, unsigned thread, size_t tile, struct err *err)
{
    struct self_run *run = context;
    size_t begin = tile * run->cut.train_tile, n = tile_n(run, tile);
    const double *values = run->benches[thread].values;
    for (size_t i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return fail(err, ERR_DATA,
                        "the influence of triple %zu on itself is %g: the model's numbers are too "
                        "large for this precision",
                        begin + i, values[i]);
    return run->piece(run->context, begin, values, n, err);
}

static void run_init(struct self_run *run)
{
    run->weights = xcalloc(run->n_checkpoints, sizeof(*run->weights));
    for (size_t c = 0; c < run->n_checkpoints; c++)
        conve_weights_init(&run->weights[c], run->checkpoints[c].model, run->plan.dtype);
    run->benches = xcalloc(run->cut.n_threads, sizeof(*run->benches));
    for (unsigned i = 0; i < run->cut.n_threads; i++) {
        struct bench *bench = &run->benches[i];
        factors_init(&bench->factors, &run->plan, run->cut.train_tile);
        factor_scratch_init(&bench->scratch, &run->plan, run->cut.train_tile);
        bench->dots = xmalloc(2 * run->cut.train_tile * num_bytes(run->plan.dtype));
        bench->values = xmalloc(run->cut.train_tile * sizeof(*bench->values));
    }
}

static void run_release(struct self_run *run)
{
    for (size_t c = 0; c < run->n_checkpoints; c++)
        conve_weights_release(&run->weights[c]);
    for (unsigned i = 0; i < run->cut.n_threads; i++) {
        factors_release(&run->benches[i].factors);
        factor_scratch_release(&run->benches[i].scratch);
        free(run->benches[i].dots);
        free(run->benches[i].values);
    }
    free(run->weights);
    free(run->benches);
}

int tracin_self(const struct tracin_checkpoint *checkpoints, size_t n_checkpoints,
                const struct tracin_opts *opts, const struct triple *triples, size_t n_triples,
                int (*piece)(void *context, size_t begin, const double *values, size_t n,
                             struct err *err),
                void *context, struct err *err)
{
    struct num_backend be = {0};
    struct self_run run = {.be = opts->backend,
                           .checkpoints = checkpoints,
                           .n_checkpoints = n_checkpoints,
                           .triples = triples,
                           .n_triples = n_triples,
                           .piece = piece,
                           .context = context};
    int rc = arguments_check(checkpoints, n_checkpoints, opts, err);
    if (rc == 0 && n_triples == 0)
        rc = fail(err, ERR_USAGE, "there is no triple");
    if (rc == 0)
        rc = triples_check(&checkpoints[0].model->shape, "triple", triples, n_triples, err);
    if (rc != 0)
        return rc;
    factor_plan_init(&run.plan, &checkpoints[0].model->shape, opts);
    rc = cut_choose(&run.plan, opts, n_checkpoints, 0, n_triples, &run.cut, err);
    if (rc == 0 && !run.be) {
        rc = num_open(&be, NULL, err);
        run.be = &be;
    }
    if (rc != 0)
        return rc;
    run_init(&run);
    size_t tile = run.cut.train_tile;
    struct crew_work work = {&run, (n_triples + tile - 1) / tile, tile_make, tile_hand_over};
    rc = crew_run(run.cut.n_threads, &work, err);
    run_release(&run);
    num_close(&be);
    return rc;
}
