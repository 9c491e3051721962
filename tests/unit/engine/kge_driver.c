/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests in Python ask of the engine:
 *
 *     kge_driver MODEL TRIPLES OUT [height=N] [layout=width|height] [train] [all] [save=PATH]
 *
 * TRIPLES holds uint32 triples. For the sum of softplus(-score) over them, or with `all` of the
 * binary cross entropy over all entities with label smoothing 0.1, OUT gets as float64 the scores,
 * the gradient of each parameter by its plain name, and all influences of the triples on one
 * another. With `train` the gradients are those of a training step over them, its loss is `all`'s,
 * and there are no scores. Facts go to stdout as JSON.
 */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>

#include "base/fs.h"
#include "base/outfile.h"
#include "base/xalloc.h"
#include "conve/pass.h"
#include "tracin/tracin.h"
#include "train/batches.h"

struct driver {
    struct num_backend be;
    struct conve *model;
    const char *out;
    const struct triple *triples;
    size_t n;
    bool is_training, is_all;
    struct buf influences;
};

static const double smoothing = 0.1;

static int put(const struct driver *driver, const char *name, const double *at, size_t n,
               struct err *err)
{
    char *path = path_join(driver->out, name);
    int rc = outfile_put(path, (struct str){(const char *)at, n * sizeof(*at)}, err);
    free(path);
    return rc;
}

static void slopes_compute(const struct driver *driver, double *scores, size_t n_scores)
{
    size_t width = n_scores / driver->n;
    for (size_t i = 0; i < n_scores; i++) {
        double label = driver->is_all ? smoothing / (double)width : 1;
        if (driver->is_all && i % width == driver->triples[i / width].tail)
            label += 1 - smoothing;
        scores[i] = (1 / (1 + exp(-scores[i])) - label) / (double)width;
    }
}

static int gradients_each_put(const struct driver *driver, struct conve_gradients *gradients,
                              struct err *err)
{
    int rc = 0;
    for (unsigned param = 0; rc == 0 && param < PARAM_N_TRAINED; param++)
        if (gradients->at[param])
            rc = put(driver, conve_param_name((enum conve_param)param, NAMING_PLAIN),
                     gradients->at[param],
                     conve_param_dims(&driver->model->shape, (enum conve_param)param).n_elements,
                     err);
    return rc;
}

static int of_pass_put(const struct driver *driver, const struct conve_weights *weights,
                       struct conve_gradients *gradients, struct err *err)
{
    struct conve_pass pass;
    size_t n_scores = driver->n * (driver->is_all ? driver->model->shape.n_entities : 1);
    double *scores = xcalloc(n_scores, sizeof(*scores));
    conve_pass_init(&pass, &driver->be, weights, driver->n);
    conve_forward(&pass, driver->triples, driver->n);
    conve_scores(&pass, driver->is_all, scores);
    int rc = put(driver, "scores", scores, n_scores, err);
    slopes_compute(driver, scores, n_scores);
    conve_backward(&pass, driver->is_all, scores, gradients);
    conve_pass_release(&pass);
    free(scores);
    return rc;
}

/* Twice, a half each time: what was there is added to. */
static int of_step_put(const struct driver *driver, const struct conve_weights *weights,
                       struct conve_gradients *gradients, struct err *err)
{
    const struct train_mode mode = {.label_smoothing = smoothing};
    struct batches batches;
    struct thread_pool *pool = thread_pool_open(2);
    double loss = 0;
    int rc = batches_init(&batches, driver->triples, driver->n, false, driver->n, err);
    if (rc != 0)
        return rc;
    const struct train_limits limits = batches_limits(&batches);
    struct train_step *step;
    rc = train_step_new(&step, &driver->be, pool, weights, &mode, &limits, err);
    struct train_batch batch = batches_at(&batches, 0);
    for (int half = 0; rc == 0 && half < 2; half++)
        rc =
            train_step_run(step, &batch, 0, (double)driver->n / 2, half > 0, gradients, &loss, err);
    if (rc == 0)
        rc = put(driver, "loss", &loss, 1, err);
    train_step_free(step);
    batches_release(&batches);
    thread_pool_close(pool);
    return rc;
}

static int gradients_put(const struct driver *driver, struct err *err)
{
    struct conve_weights weights;
    struct conve_gradients gradients;
    conve_weights_init(&weights, driver->model, NUM_F64);
    conve_gradients_init(&gradients, &driver->model->shape, NUM_F64);
    int rc = driver->is_training ? of_step_put(driver, &weights, &gradients, err)
                                 : of_pass_put(driver, &weights, &gradients, err);
    if (rc == 0)
        rc = gradients_each_put(driver, &gradients, err);
    conve_gradients_release(&gradients);
    conve_weights_release(&weights);
    return rc;
}

static int row_take(void *context, size_t test, size_t begin, const double *values, size_t n,
                    struct err *err)
{
    struct driver *driver = context;
    (void)test, (void)begin, (void)err;
    buf_add(&driver->influences, values, n * sizeof(*values));
    return 0;
}

static int influences_put(struct driver *driver, struct err *err)
{
    struct tracin_checkpoint checkpoint = {driver->model, 1};
    struct tracin_opts opts = {.loss = driver->is_all ? TRACIN_ONE_VS_ALL : TRACIN_POSITIVE,
                               .label_smoothing = driver->is_all ? smoothing : 0};
    struct tracin_sink sink = {.context = driver, .row = row_take};
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < driver->n; i++) {
        struct tracin_test test = {.triple = driver->triples[i]};
        rc = tracin_run(&checkpoint, 1, &opts, driver->triples, driver->n, &test, 1, &sink, err);
    }
    if (rc == 0)
        rc = put(driver, "influences", (const double *)(const void *)driver->influences.at,
                 driver->n * driver->n, err);
    buf_release(&driver->influences);
    return rc;
}

static int drive(struct driver *driver, const char *model, const struct conve_load_opts *opts,
                 const char *save, struct err *err)
{
    int rc = conve_load(&driver->model, model, opts, err);
    if (rc == 0 && save)
        rc = conve_save(driver->model, save, true, NULL, err);
    if (rc == 0)
        rc = num_open(&driver->be, "ref", err);
    if (rc == 0)
        rc = gradients_put(driver, err);
    if (rc == 0)
        rc = influences_put(driver, err);
    if (rc != 0)
        return rc;
    const struct conve_shape *shape = &driver->model->shape;
    printf("{\"entities\":%zu,\"relations\":%zu,\"height\":%zu,\"width\":%zu,\"filters\":%zu,"
           "\"layout\":\"%s\",\"entity_bias\":%s,\"bn_eps\":%.17g}\n",
           shape->n_entities, shape->n_relations, shape->height, shape->width, shape->n_filters,
           conve_layout_name(shape->layout), shape->has_entity_bias ? "true" : "false",
           shape->bn_eps);
    return 0;
}

int main(int argc, char **argv)
{
    struct driver driver = {0};
    struct conve_load_opts opts = {0};
    struct buf triples = BUF_INIT;
    struct err err = {0};
    const char *save = NULL;
    if (argc < 4)
        return 2;
    for (int i = 4; i < argc; i++) {
        if (strncmp(argv[i], "height=", 7) == 0)
            opts.height = strtoul(argv[i] + 7, NULL, 10);
        if (strcmp(argv[i], "layout=width") == 0)
            opts.layout = LAYOUT_WIDTH;
        if (strcmp(argv[i], "layout=height") == 0)
            opts.layout = LAYOUT_HEIGHT;
        if (strncmp(argv[i], "save=", 5) == 0)
            save = argv[i] + 5;
        driver.is_training |= strcmp(argv[i], "train") == 0;
        driver.is_all |= strcmp(argv[i], "all") == 0;
    }
    driver.out = argv[3];
    int rc = file_read(argv[2], 1 << 20, &triples, &err);
    driver.triples = (const struct triple *)(const void *)triples.at;
    driver.n = triples.len / sizeof(struct triple);
    if (rc == 0)
        rc = drive(&driver, argv[1], &opts, save, &err);
    if (rc != 0)
        fprintf(stderr, "kge_driver: %s\n", err.text);
    conve_free(driver.model);
    num_close(&driver.be);
    buf_release(&triples);
    return rc == 0 ? 0 : err_exit_status(rc);
}
