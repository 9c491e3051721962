/* SPDX-License-Identifier: Apache-2.0 */
#include "tracin/bench.h"

#include <stdlib.h>

#include "base/xalloc.h"

struct room {
    void **at;
    size_t bytes;
};

struct rooms {
    struct room at[6];
};

static struct rooms rooms_of(struct bench *bench, size_t real, const struct bench_size *size)
{
    size_t pairs = size->tests * size->tile * real, n_best = size->tests * size->n_best;
    return (struct rooms){{
        {&bench->product.first, pairs},
        {&bench->product.second, pairs},
        {&bench->out, pairs},
        {&bench->ids, n_best ? size->tile * sizeof(uint32_t) : 0},
        {&bench->best, n_best * real},
        {&bench->best_ids, n_best * sizeof(uint32_t)},
    }};
}

int bench_init(struct bench *bench, const struct setting *with, const struct bench_size *size,
               struct err *err)
{
    const struct num_backend *be = with->be;
    size_t real = num_bytes(with->plan.dtype), tile = size->tile;
    struct rooms rooms = rooms_of(bench, real, size);
    bench->triples = xmalloc(tile * sizeof(*bench->triples));
    bench->index = xmalloc(tile * sizeof(*bench->index));
    bench->values = xmalloc(size->tests * tile * real);
    bench->value_ids = xmalloc(MAX(size->tests * size->n_best, (size_t)1) * sizeof(uint32_t));
    bench->row = xmalloc(tile * sizeof(*bench->row));
    int rc = factors_init(&bench->factors, be, &with->plan, tile, err);
    if (rc == 0)
        rc = factor_scratch_init(&bench->scratch, be, &with->plan, tile, err);
    for (size_t i = 0; rc == 0 && i < countof(rooms.at); i++)
        if (rooms.at[i].bytes)
            rc = be->allocate(be, rooms.at[i].bytes, rooms.at[i].at, err);
    return rc;
}

void bench_release(struct bench *bench, const struct setting *with)
{
    struct rooms rooms = rooms_of(bench, 0, &(struct bench_size){0});
    void *arrays[] = {bench->triples, bench->index, bench->values, bench->value_ids, bench->row};
    factors_release(&bench->factors, with->be);
    factor_scratch_release(&bench->scratch, with->be);
    for (size_t i = 0; i < countof(rooms.at); i++)
        with->be->release(with->be, *rooms.at[i].at);
    for (size_t i = 0; i < countof(arrays); i++)
        free(arrays[i]);
    *bench = (struct bench){0};
}

/* ---- a tile ---- */

static int rows_read(struct bench *bench, const struct setting *with, size_t n_tests)
{
    size_t bytes = n_tests * bench->n * num_bytes(with->plan.dtype);
    return with->be->download(with->be, bench->values, bench->out, bytes, &bench->err);
}

static int best_read(struct bench *bench, const struct setting *with, size_t n_tests,
                     enum tracin_order order)
{
    const struct num_backend *be = with->be;
    size_t n_values = n_tests * bench->n_best;
    be->upload(be, bench->ids, bench->index, bench->n * sizeof(*bench->index));
    be->best(be, &(struct num_best){
                     .dtype = with->plan.dtype,
                     .m = n_tests,
                     .n = bench->n,
                     .k = bench->n_best,
                     .is_magnitude = order == TRACIN_BY_MAGNITUDE,
                     .x = bench->out,
                     .ids = bench->ids,
                     .best = bench->best,
                     .best_ids = bench->best_ids,
                 });
    int rc = be->download(be, bench->values, bench->best, n_values * num_bytes(with->plan.dtype),
                          &bench->err);
    return rc == 0 ? be->download(be, bench->value_ids, bench->best_ids,
                                  n_values * sizeof(*bench->value_ids), &bench->err)
                   : rc;
}

void bench_compute(struct bench *bench, const struct setting *with,
                   const struct factors *test_factors, size_t n_tests, size_t n_best,
                   enum tracin_order order)
{
    const struct num_backend *be = with->be;
    bench->factors.triples = bench->triples;
    bench->factors.n = bench->n;
    bench->n_best = MIN(n_best, bench->n);
    be->fill_zero(be, bench->out, n_tests * bench->n * num_bytes(with->plan.dtype));
    for (size_t c = 0; c < with->n_checkpoints; c++) {
        factors_compute_shared(be, &with->plan, &with->weights[c], &bench->scratch,
                               &bench->factors);
        factors_round(be, &with->plan, &bench->factors);
        factors_product(be, &with->plan, with->checkpoints[c].learning_rate, &test_factors[c],
                        &bench->factors, &bench->product, bench->out);
    }
    bench->rc =
        bench->n_best ? best_read(bench, with, n_tests, order) : rows_read(bench, with, n_tests);
}

double bench_value(const struct bench *bench, const struct setting *with, size_t test, size_t i)
{
    size_t at = test * (bench->n_best ? bench->n_best : bench->n) + i;
    return with->plan.dtype == NUM_F64 ? ((const double *)bench->values)[at]
                                       : (double)((const float *)bench->values)[at];
}
