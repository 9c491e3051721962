/* SPDX-License-Identifier: Apache-2.0
 *
 *     bench_kge MODEL TRAIN TESTS THREADS [gemm]
 *
 * TracIn over files of uint32 triples, the 100 best of each test triple; prints seconds and
 * processor seconds, loading not counted, and the sum over the best. With `gemm`, on one thread:
 * the processor seconds in matrix products, and what OpenBLAS takes for the same ones alone, its
 * operands at hand.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fs.h"
#include "base/xalloc.h"
#include "tracin/tracin.h"
#include <time.h>

enum {
    SHAPES_MAX = 2048, /* tiles that share features have fewer rows */
    TRIPLES_BYTES_MAX = 1 << 30
};

/* Products of one shape. */
struct shape_time {
    struct num_gemm op;
    uint64_t n, ns;
};

static struct gemm_log {
    struct num_backend inner;
    struct shape_time shapes[SHAPES_MAX];
    size_t n_shapes;
} gemm_log;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static struct shape_time *shape_of(const struct num_gemm *op)
{
    for (size_t i = 0; i < gemm_log.n_shapes; i++) {
        const struct num_gemm *known = &gemm_log.shapes[i].op;
        if (known->m == op->m && known->n == op->n && known->k == op->k &&
            known->trans_a == op->trans_a && known->trans_b == op->trans_b)
            return &gemm_log.shapes[i];
    }
    ASSERT(gemm_log.n_shapes < SHAPES_MAX);
    gemm_log.shapes[gemm_log.n_shapes] = (struct shape_time){.op = *op};
    return &gemm_log.shapes[gemm_log.n_shapes++];
}

static void gemm_logged(const struct num_backend *be, const struct num_gemm *op)
{
    uint64_t begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    (void)be;
    gemm_log.inner.gemm(&gemm_log.inner, op);
    struct shape_time *shape = shape_of(op);
    shape->ns += now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
    shape->n++;
}

/* The least of some runs. */
static uint64_t alone_ns(const struct num_gemm *like)
{
    struct num_gemm op = *like;
    op.lda = op.trans_a ? op.m : op.k;
    op.ldb = op.trans_b ? op.k : op.n;
    op.ldc = op.n;
    float *a = xcalloc(op.m * op.k, sizeof(*a)), *b = xcalloc(op.k * op.n, sizeof(*b));
    float *c = xcalloc(op.m * op.n, sizeof(*c));
    op.a = a;
    op.b = b;
    op.c = c;
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < 6; round++) {
        uint64_t begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        gemm_log.inner.gemm(&gemm_log.inner, &op);
        best = MIN(best, now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin);
    }
    free(a);
    free(b);
    free(c);
    return best;
}

static void log_print(void)
{
    double within = 0, alone = 0;
    for (size_t i = 0; i < gemm_log.n_shapes; i++) {
        const struct shape_time *shape = &gemm_log.shapes[i];
        double least = (double)alone_ns(&shape->op) * 1e-9 * (double)shape->n;
        double spent = (double)shape->ns * 1e-9;
        double gflop = 2e-9 * (double)shape->n * (double)shape->op.m * (double)shape->op.n *
                       (double)shape->op.k;
        printf("shape\t%zux%zux%zu\t%" PRIu64 "\t%.4f\t%.4f\t%.1f\n", shape->op.m, shape->op.n,
               shape->op.k, shape->n, spent, least, gflop / spent);
        within += spent;
        alone += least;
    }
    printf("gemm\t%.4f\t%.4f\n", within, alone);
}

/* The sum over the best, so that nobody can be fast and wrong. */
static int top_sum(void *context, size_t test, double self, const struct tracin_influence *at,
                   size_t n, struct err *err)
{
    (void)test, (void)self, (void)err;
    for (size_t i = 0; i < n; i++)
        *(double *)context += fabs(at[i].value);
    return 0;
}

static int measure(const struct conve *model, const struct buf *train, const struct buf *tests,
                   unsigned n_threads, bool is_logged, struct err *err)
{
    struct num_backend be;
    int rc = num_open(&be, NULL, err);
    if (rc != 0)
        return rc;
    size_t n_train = train->len / sizeof(struct triple);
    double sum = 0;
    size_t n_tests = tests->len / sizeof(struct triple);
    const struct triple *triples = (const struct triple *)(const void *)tests->at;
    struct tracin_test *wanted = xcalloc(n_tests, sizeof(*wanted));
    for (size_t i = 0; i < n_tests; i++)
        wanted[i].triple = triples[i];
    struct tracin_opts opts = {
        .top_k = MIN((size_t)100, n_train), .n_threads = n_threads, .backend = &be};
    struct tracin_checkpoint checkpoint = {model, 1e-3};
    struct tracin_sink sink = {.context = &sum, .top = top_sum};
    gemm_log.inner = be;
    if (is_logged)
        be.gemm = gemm_logged;
    uint64_t begin = now_ns(CLOCK_MONOTONIC), begin_cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    rc = tracin_run(&checkpoint, 1, &opts, (const struct triple *)(const void *)train->at, n_train,
                    wanted, n_tests, &sink, err);
    if (rc == 0)
        printf("seconds\t%.4f\t%.4f\t%.9g\t%s\n", (double)(now_ns(CLOCK_MONOTONIC) - begin) * 1e-9,
               (double)(now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin_cpu) * 1e-9, sum, be.description);
    if (rc == 0 && is_logged)
        log_print();
    free(wanted);
    num_close(&be);
    return rc;
}

int main(int argc, char **argv)
{
    struct conve *model = NULL;
    struct buf train = BUF_INIT, tests = BUF_INIT;
    struct err err = {0};
    if (argc < 5)
        return 2;
    bool is_logged = argc > 5;
    int rc = conve_load(&model, argv[1], &(struct conve_load_opts){0}, &err);
    if (rc == 0)
        rc = file_read(argv[2], TRIPLES_BYTES_MAX, &train, &err);
    if (rc == 0)
        rc = file_read(argv[3], TRIPLES_BYTES_MAX, &tests, &err);
    if (rc == 0)
        rc = measure(model, &train, &tests, is_logged ? 1 : (unsigned)strtoul(argv[4], NULL, 10),
                     is_logged, &err);
    if (rc != 0)
        fprintf(stderr, "bench_kge: %s\n", err.text);
    conve_free(model);
    buf_release(&train);
    buf_release(&tests);
    return rc == 0 ? 0 : 1;
}
