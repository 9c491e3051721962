/* SPDX-License-Identifier: Apache-2.0
 *
 *     bench_gpu [BACKEND [TESTS [TRAIN [ENTITIES]]]]      cuda 1000 1000000 40943
 *
 * TracIn and training by a backend, on a ConvE model with d = 200 and triples drawn at random: what
 * its products reach alone, seconds and questions a second for each precision with the share of
 * that, where that time goes, how far off 16 bits are, and 20 pairs against gradients of every
 * parameter in float64. Prints a table; 1 where an influence is wrong.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/rng.h"
#include "base/xalloc.h"
#include "op_times.h"
#include "tracin/rounding.h"
#include "train/rounding.h"

enum {
    TOP_K = 100,
    CHECKED = 20,
    BATCH = 256,
    UPDATES = 10, /* at a time */
    TRAINED_MAX = 1 << 16
};

static const char *const format_names[] = {
    [NUM_FULL] = "float32", [NUM_BF16] = "bfloat16", [NUM_FP16] = "fp16"};

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- products alone ---- */

/* Operations a second of c = a b' with a side of n numbers; rows are packed where it is wanted. */
static int rate_of(const struct num_backend *be, enum num_format format, size_t n, double *rate,
                   struct err *err)
{
    void *arrays[3] = {NULL};
    size_t bytes = n * n * sizeof(float);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(arrays); i++)
        rc = be->allocate(be, bytes, &arrays[i], err);
    for (size_t i = 0; rc == 0 && i < countof(arrays); i++)
        be->fill_zero(be, arrays[i], bytes);
    struct num_gemm op = {NUM_F32, false, true, n, n, n, n, n, n, 1, 0};
    op.a = arrays[0];
    op.b = arrays[1];
    op.c = arrays[2];
    op.format = format;
    for (int round = 0; rc == 0 && round < 4; round++) {
        const int n_times = round == 0 ? 1 : 5;
        double begin = now_s();
        for (int i = 0; i < n_times; i++)
            be->gemm(be, &op);
        rc = be->wait(be, err);
        double done = 2.0 * (double)n * (double)n * (double)n * n_times / (now_s() - begin);
        *rate = round == 0 ? 0 : MAX(*rate, done);
    }
    for (size_t i = 0; i < countof(arrays); i++)
        be->release(be, arrays[i]);
    return rc;
}

/* ---- runs ---- */

static struct counted {
    struct num_backend inner;
    _Atomic uint64_t operations[2]; /* in float32, in the format */
} counted;

static void gemm_counted(const struct num_backend *be, const struct num_gemm *op)
{
    (void)be;
    counted.operations[op->format != NUM_FULL] += 2 * (uint64_t)op->m * op->n * op->k;
    counted.inner.gemm(&counted.inner, op);
}

/* What was counted, at the rate of products alone. */
static double alone_s(const double *rates, enum num_format format)
{
    return (double)counted.operations[0] / rates[NUM_FULL] +
           (double)counted.operations[1] / rates[format];
}

struct scene {
    struct conve *model;
    struct tracin_checkpoint checkpoint;
    struct triple *train;
    struct tracin_test *tests;
    size_t n_train, n_tests;
};

static struct triple drawn(struct rng *rng, const struct conve_shape *shape)
{
    return (struct triple){(uint32_t)rng_below(rng, shape->n_entities),
                           (uint32_t)rng_below(rng, shape->n_relations),
                           (uint32_t)rng_below(rng, shape->n_entities)};
}

static void scene_init(struct scene *scene, size_t n_tests, size_t n_train, size_t n_entities)
{
    const struct conve_shape shape = {n_entities, 18, 10, 20, 32, 3, 3, LAYOUT_WIDTH, false, 1e-5};
    struct rng rng = {.state = 1};
    *scene = (struct scene){.model = conve_new(&shape, "random"), .n_train = n_train};
    scene->n_tests = n_tests;
    train_init(scene->model, 1);
    scene->checkpoint = (struct tracin_checkpoint){scene->model, 1e-3};
    scene->train = xcalloc(n_train, sizeof(*scene->train));
    scene->tests = xcalloc(n_tests, sizeof(*scene->tests));
    for (size_t i = 0; i < n_train; i++)
        scene->train[i] = drawn(&rng, &shape);
    for (size_t i = 0; i < n_tests; i++)
        scene->tests[i].triple = drawn(&rng, &shape);
}

static void scene_release(struct scene *scene)
{
    conve_free(scene->model);
    free(scene->train);
    free(scene->tests);
}

static int top_take(void *context, size_t test, double self, const struct tracin_influence *at,
                    size_t n, struct err *err)
{
    (void)test, (void)self, (void)at, (void)err;
    *(size_t *)context += n;
    return 0;
}

static int run_time(const struct scene *scene, const struct tracin_opts *opts, const double *rates,
                    struct err *err)
{
    double least = 0;
    size_t n_taken = 0;
    const struct tracin_sink sink = {.context = &n_taken, .top = top_take};
    for (int round = 0; round < 3; round++) {
        counted.operations[0] = counted.operations[1] = 0;
        double begin = now_s();
        int rc = tracin_run(&scene->checkpoint, 1, opts, scene->train, scene->n_train, scene->tests,
                            scene->n_tests, &sink, err);
        if (rc != 0)
            return rc;
        double seconds = now_s() - begin;
        least = round == 0 ? seconds : MIN(least, seconds);
    }
    double alone = alone_s(rates, opts->format);
    printf("| TracIn, %s, %zu test x %zu training triples | %.3f s | its %.2e operations in "
           "products would take %.3f s alone: %.0f %% |\n",
           format_names[opts->format], scene->n_tests, scene->n_train, least,
           (double)(counted.operations[0] + counted.operations[1]), alone, 100 * alone / least);
    fflush(stdout);
    return 0;
}

/* By operation, for a tile: by one thread, since operations of two wait for each other. */
static int run_dissect(const struct scene *scene, const struct tracin_opts *opts, struct err *err)
{
    struct tracin_plan plan;
    struct tracin_opts one = *opts;
    size_t n_taken = 0;
    const struct tracin_sink sink = {.context = &n_taken, .top = top_take};
    one.n_threads = 1;
    int rc = tracin_plan(&scene->checkpoint, 1, &one, scene->n_tests, scene->n_train, &plan, err);
    double begin = now_s();
    op_times_begin();
    if (rc == 0)
        rc = tracin_run(&scene->checkpoint, 1, &one, scene->train, scene->n_train, scene->tests,
                        scene->n_tests, &sink, err);
    op_times_end(now_s() - begin, (double)scene->n_train / (double)plan.train_tile);
    return rc;
}

static int format_measure(const struct scene *scene, const struct tracin_opts *opts,
                          struct err *err)
{
    struct rounding_error error;
    int rc = opts->format == NUM_FULL
                 ? 0
                 : rounding_measure(&scene->checkpoint, 1, opts, scene->train, scene->n_train,
                                    scene->tests, scene->n_tests, &error, err);
    if (rc == 0 && opts->format != NUM_FULL)
        printf("| its error, %zu test x %zu training triples | %.1e in the median | %.1e at most, "
               "%zu of the %zu strongest stay |\n",
               error.n_tests, error.n_train, error.median_relative, error.max_relative,
               error.n_kept, error.n_strongest);
    return rc;
}

/* ---- training ---- */

static int updates_run(struct trainer *trainer, size_t n, uint64_t *n_questions, struct err *err)
{
    int rc = 0;
    *n_questions = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        if (trainer_epoch_is_over(trainer))
            trainer_epoch_next(trainer);
        *n_questions -= trainer->at.n_questions;
        rc = trainer_update(trainer, err);
        *n_questions += trainer->at.n_questions;
    }
    return rc == 0 ? trainer->be->wait(trainer->be, err) : rc;
}

static int updates_time(struct trainer *trainer, const double *rates, struct err *err)
{
    enum num_format format = trainer->opts.mode.format;
    struct train_rounding error;
    uint64_t n_questions = 0, n_done = 0;
    trainer_epoch_prepare(trainer);
    int rc = format == NUM_FULL ? 0 : train_rounding_measure(trainer, &error, err);
    if (rc == 0)
        rc = updates_run(trainer, 2, &n_questions, err); /* room is made, clocks go up */
    counted.operations[0] = counted.operations[1] = 0;
    double begin = now_s(), seconds = 0;
    for (; rc == 0 && seconds < 0.5; seconds = now_s() - begin) {
        rc = updates_run(trainer, UPDATES, &n_questions, err);
        n_done += n_questions;
    }
    double alone = alone_s(rates, format);
    if (rc != 0)
        return rc;
    printf("| training, %s, batches of %zu | %.0f questions/s | its products would take %.0f %% of "
           "the time alone |\n",
           format_names[format], trainer->opts.batch_size, (double)n_done / seconds,
           100 * alone / seconds);
    if (format != NUM_FULL)
        printf("| its error, a batch | gradients %.1e of their length | loss %.1e |\n",
               error.gradients, error.loss);
    fflush(stdout);
    return 0;
}

/* By operation, for an update. */
static int updates_dissect(struct trainer *trainer, struct err *err)
{
    uint64_t n_questions = 0;
    double begin = now_s();
    op_times_begin();
    int rc = updates_run(trainer, UPDATES, &n_questions, err);
    op_times_end(now_s() - begin, UPDATES);
    return rc;
}

/* Of a model of its own: it changes. */
static int training_time(const struct scene *scene, const struct num_backend *be,
                         enum num_format format, const double *rates, struct err *err)
{
    const struct train_opts opts = {.mode = {{0.2, 0.2, 0.3},
                                             .drops_before_bn0 = true,
                                             .label_smoothing = 0.1,
                                             .format = format},
                                    .is_grouped = true,
                                    .batch_size = BATCH,
                                    .accumulate = 1,
                                    .learning_rate = 1e-3,
                                    .decay = 1};
    struct conve *model = conve_new(&scene->model->shape, "random");
    struct thread_pool *pool = thread_pool_open(1);
    struct trainer trainer;
    train_init(model, 1);
    int rc = trainer_open(&trainer, model, &opts, scene->train,
                          MIN(scene->n_train, (size_t)TRAINED_MAX), be, pool, err);
    if (rc == 0)
        rc = updates_time(&trainer, rates, err);
    if (rc == 0)
        rc = updates_dissect(&trainer, err);
    trainer_close(&trainer);
    thread_pool_close(pool);
    conve_free(model);
    return rc;
}

/* ---- the whole ---- */

static int exactness_check(const struct scene *scene, const struct tracin_opts *opts,
                           struct err *err)
{
    struct tracin_check check;
    struct triple tests[CHECKED];
    size_t n_tests = MIN(scene->n_tests, (size_t)CHECKED);
    const struct tracin_check_opts check_opts = {.n_pairs = CHECKED, .seed = 1};
    for (size_t i = 0; i < n_tests; i++)
        tests[i] = scene->tests[i].triple;
    int rc = tracin_check_run(&scene->checkpoint, 1, opts, &check_opts, scene->train,
                              scene->n_train, tests, n_tests, &check, err);
    if (rc != 0)
        return rc;
    printf("| float32 against gradients of every parameter in float64, %zu pairs | %.1e at most | "
           "bar: 1e-4 |\n",
           check.n_pairs, check.max_relative);
    return check.max_relative <= 1e-4 ? 0 : fail(err, ERR_FAILED, "influences are wrong");
}

static int measure(const struct scene *scene, struct num_backend *be, struct err *err)
{
    double rates[countof(format_names)] = {0};
    size_t side = MIN((size_t)8192, 8 * scene->n_tests);
    int rc = 0;
    printf("%s\n\n| what | figure | |\n|---|---|---|\n", be->description);
    for (enum num_format format = NUM_FULL; rc == 0 && format <= NUM_FP16; format++) {
        rc = rate_of(be, format, side, &rates[format], err);
        printf("| products alone, %s, %zu x %zu x %zu | %.3g TFLOP/s | |\n", format_names[format],
               side, side, side, rates[format] * 1e-12);
    }
    counted.inner = *be;
    be->gemm = gemm_counted;
    for (enum num_format format = NUM_FULL; rc == 0 && format <= NUM_FP16; format++) {
        const struct tracin_opts opts = {
            .top_k = MIN((size_t)TOP_K, scene->n_train), .backend = be, .format = format};
        rc = run_time(scene, &opts, rates, err);
        if (rc == 0)
            rc = run_dissect(scene, &opts, err);
        if (rc == 0)
            rc = format_measure(scene, &opts, err);
    }
    for (enum num_format format = NUM_FULL; rc == 0 && format <= NUM_FP16; format++)
        rc = training_time(scene, be, format, rates, err);
    const struct tracin_opts opts = {.backend = be};
    return rc == 0 ? exactness_check(scene, &opts, err) : rc;
}

int main(int argc, char **argv)
{
    struct num_backend opened, be;
    struct scene scene;
    struct err err = {0};
    size_t sizes[] = {1000, 1000000, 40943};
    for (int i = 2; i < argc && i < 5; i++)
        sizes[i - 2] = strtoul(argv[i], NULL, 10);
    int rc = num_open_any(&opened, argc > 1 ? argv[1] : "cuda", &err);
    if (rc == 0) {
        op_times_open(&be, &opened);
        scene_init(&scene, sizes[0], sizes[1], sizes[2]);
        rc = measure(&scene, &be, &err);
        scene_release(&scene);
        num_close(&opened);
    }
    if (rc != 0)
        fprintf(stderr, "bench_gpu: %s\n", err.text);
    return err_exit_status(rc) * (rc != 0);
}
