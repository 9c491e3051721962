/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_job.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/tracin_spread.h"

enum {
    RESULT_BYTES_MAX = 512 << 20, /* results of the test triples that are computed together */
    PROGRESS_EVERY_MS = 5000
};

void tracin_job_init(struct tracin_job *job, const struct app *app, const struct kge_data *data,
                     struct kge_models *models, const size_t *places, size_t n_places)
{
    *job = (struct tracin_job){.data = data,
                               .models = models,
                               .tests = xcalloc(n_places, sizeof(*job->tests)),
                               .n_tests = n_places,
                               .app = app};
    for (size_t i = 0; i < n_places; i++)
        job->tests[i] =
            (struct tracin_job_test){.index = places[i], .triple = data->test.at[places[i]]};
    job->scene = (struct influence_scene){.data = data, .n_tests = n_places};
    if (models) {
        job->scene.learning_rates = models->learning_rates;
        job->scene.n_learning_rates = models->n_learning_rates;
    }
}

void tracin_job_release(struct tracin_job *job)
{
    for (size_t i = 0; i < job->n_tests; i++) {
        free(job->tests[i].train_indices);
        for (size_t k = 0; k < OWN_FILES_MAX; k++)
            free(job->tests[i].own[k]);
    }
    free(job->tests);
    for (size_t i = 0; i < job->n_shared; i++)
        influence_out_close(&job->shared[i]);
    *job = (struct tracin_job){0};
}

void tracin_triple_format(const struct kge_data *data, struct triple triple, struct buf *out)
{
    struct str head = kge_entity(data, triple.head), tail = kge_entity(data, triple.tail),
               relation = kge_relation(data, triple.relation);
    buf_addf(out, "(%.*s, %.*s, %.*s)", (int)head.len, head.at, (int)relation.len, relation.at,
             (int)tail.len, tail.at);
}

int tracin_job_filter(struct tracin_job *job, const struct proximity_opts *opts, bool *lonely,
                      struct err *err)
{
    struct adjacency adjacency;
    int rc = 0;
    adjacency_build(&adjacency, job->data->train.at, job->data->train.n, job->data->entities.len);
    struct proximity *proximity = proximity_new(&adjacency, opts);
    for (size_t i = 0; rc == 0 && i < job->n_tests; i++) {
        struct tracin_job_test *test = &job->tests[i];
        test->train_indices = proximity_filter(proximity, test->triple, &test->n_train_indices);
        if (lonely)
            lonely[i] = test->n_train_indices == 0;
        if (lonely || test->n_train_indices > 0)
            continue;
        cleanup_buf struct buf name = BUF_INIT;
        tracin_triple_format(job->data, test->triple, &name);
        rc = fail(err, ERR_DATA,
                  "test triple %zu %s has no training triple near it: more --n-hops or a smaller "
                  "--min-degree lets some in",
                  test->index, buf_text(&name));
    }
    proximity_free(proximity);
    adjacency_release(&adjacency);
    return rc;
}

int tracin_job_share(struct tracin_job *job, const char *path, enum influence_form form,
                     struct err *err)
{
    ASSERT(job->n_shared < SHARED_FILES_MAX);
    return influence_out_open(&job->shared[job->n_shared++], path, form, job->overwrite,
                              &job->scene, err);
}

/* ---- results as they come ---- */

/* Successive tests that are computed together. */
struct stretch {
    struct tracin_job *job;
    size_t first;
    uint64_t said_ms;
};

static int own_files_put(struct tracin_job *job, const struct tracin_job_test *test,
                         const struct influence_result *result, struct err *err)
{
    int rc = 0;
    for (size_t k = 0; rc == 0 && k < OWN_FILES_MAX; k++) {
        if (!test->own[k])
            continue;
        struct influence_out out = INFLUENCE_OUT_INIT;
        rc = influence_out_open(&out, test->own[k], job->own_forms[k], job->overwrite, &job->scene,
                                err);
        if (rc == 0)
            rc = influence_out_add(&out, result, err);
        if (rc == 0)
            rc = influence_out_commit(&out, err);
        influence_out_close(&out);
    }
    return rc;
}

static int on_top(void *context, size_t test_in_stretch, double self_influence,
                  const struct tracin_influence *at, size_t n, struct err *err)
{
    struct stretch *stretch = context;
    struct tracin_job *job = stretch->job;
    struct tracin_job_test *test = &job->tests[stretch->first + test_in_stretch];
    const struct influence_result result = {.test_index = test->index,
                                            .test = test->triple,
                                            .self_influence = self_influence,
                                            .at = at,
                                            .n = n};
    int rc = own_files_put(job, test, &result, err);
    test->is_done = rc == 0;
    for (size_t i = 0; rc == 0 && i < job->n_shared; i++)
        rc = influence_out_add(&job->shared[i], &result, err);
    return rc;
}

static int on_row(void *context, size_t test_in_stretch, size_t train_begin, const double *values,
                  size_t n, struct err *err)
{
    struct stretch *stretch = context;
    return influence_matrix_put(stretch->job->matrix, stretch->first + test_in_stretch, train_begin,
                                values, n, err);
}

static int on_progress(void *context, uint64_t n_pairs_done, uint64_t n_pairs, struct err *err)
{
    struct stretch *stretch = context;
    uint64_t now_ms = clock_now_ms();
    (void)err;
    if (now_ms - stretch->said_ms < PROGRESS_EVERY_MS)
        return 0;
    stretch->said_ms = now_ms;
    say(stretch->job->app, "test triples from %zu: %.0f%% of %lu pairs", stretch->first,
        100.0 * (double)n_pairs_done / (double)MAX(n_pairs, 1u), (unsigned long)n_pairs);
    return 0;
}

/* ---- the run ---- */

/* How many influences of a test triple are kept in memory. */
static size_t result_size(const struct tracin_job *job, const struct tracin_job_test *test)
{
    size_t n = test->n_train_indices > 0 ? test->n_train_indices : job->data->train.n;
    return job->matrix ? 0 : job->scene.top_k > 0 ? MIN(job->scene.top_k, n) : n;
}

/*
 * How many tests from `first` on are computed together: as many as have room for their results.
 * *largest: the most influences that one of them keeps.
 */
static size_t stretch_len(const struct tracin_job *job, size_t first, size_t *largest)
{
    size_t n = 0, most = 0;
    while (first + n < job->n_tests) {
        size_t size = MAX(most, result_size(job, &job->tests[first + n]));
        if (n > 0 && (n + 1) * size * sizeof(struct tracin_influence) > RESULT_BYTES_MAX)
            break;
        most = size;
        n++;
    }
    *largest = most;
    return n;
}

static int stretch_run(struct tracin_job *job, size_t first, size_t n, size_t top_k,
                       struct err *err)
{
    cleanup_free struct tracin_test *tests = xcalloc(n, sizeof(*tests));
    for (size_t i = 0; i < n; i++) {
        const struct tracin_job_test *test = &job->tests[first + i];
        tests[i] = (struct tracin_test){test->triple, test->train_indices, test->n_train_indices};
    }
    struct stretch stretch = {.job = job, .first = first, .said_ms = clock_now_ms()};
    const struct tracin_sink sink = {.context = &stretch,
                                     .top = job->matrix ? NULL : on_top,
                                     .row = job->matrix ? on_row : NULL,
                                     .progress = on_progress};
    struct tracin_opts opts = job->models->opts;
    opts.order = job->order;
    opts.top_k = top_k;
    return tracin_run(job->models->checkpoints, job->models->n, &opts, job->data->train.at,
                      job->data->train.n, tests, n, &sink, err);
}

static int top_k_check(const struct tracin_job *job, struct err *err)
{
    char count[32];
    count_format(count, job->data->train.n);
    if (job->scene.top_k > job->data->train.n)
        return fail(err, ERR_USAGE, "--top-k %zu: there are only %s training triples",
                    job->scene.top_k, count);
    return 0;
}

static int here_run(struct tracin_job *job, struct err *err)
{
    int rc = 0;
    for (size_t first = 0; rc == 0 && first < job->n_tests;) {
        size_t top_k, n = stretch_len(job, first, &top_k);
        rc = stretch_run(job, first, n, top_k, err);
        first += n;
    }
    return rc;
}

static int devices_run(struct tracin_job *job, struct err *err)
{
    struct stretch all = {.job = job};
    const struct tracin_sink sink = {.context = &all, .top = on_top};
    return tracin_spread_run(job->spread, job, &sink, err);
}

static bool has_own_files(const struct tracin_job *job)
{
    for (size_t k = 0; k < OWN_FILES_MAX; k++)
        if (job->n_tests > 0 && job->tests[0].own[k])
            return true;
    return false;
}

static int shared_commit(struct tracin_job *job, struct err *err)
{
    size_t n_placed = 0;
    int rc = 0;
    for (; rc == 0 && n_placed < job->n_shared; n_placed += rc == 0)
        rc = influence_out_commit(&job->shared[n_placed], err);
    if (rc == 0 && job->matrix)
        rc = influence_matrix_commit(job->matrix, err);
    /* Nothing was put in place, so a file that is there now is not ours to replace later. */
    if (rc && job->spread && n_placed == 0 && !has_own_files(job))
        tracin_spread_unplace(job->spread);
    return rc;
}

int tracin_job_run(struct tracin_job *job, struct err *err)
{
    int rc = top_k_check(job, err);
    if (rc == 0)
        rc = job->spread ? devices_run(job, err) : here_run(job, err);
    if (rc == 0)
        rc = shared_commit(job, err);
    return rc == 0 && job->spread ? tracin_spread_end(job->spread, err) : rc;
}

int tracin_job_explain(const struct tracin_job *job, struct buf *out, struct err *err)
{
    uint64_t n_pairs = 0;
    size_t largest, n_together = stretch_len(job, 0, &largest);
    char pairs[32], tiles[16], results[16];
    struct tracin_plan plan;
    struct tracin_opts opts = job->models->opts;
    int rc = top_k_check(job, err);
    opts.top_k = largest;
    if (rc == 0)
        rc = tracin_plan(job->models->checkpoints, job->models->n, &opts, n_together,
                         job->data->train.n, &plan, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < job->n_tests; i++)
        n_pairs += job->tests[i].train_indices ? job->tests[i].n_train_indices : job->data->train.n;
    count_format(pairs, n_pairs);
    size_format(tiles, plan.memory_bytes);
    size_format(results, n_together * largest * sizeof(struct tracin_influence));
    buf_addf(out, "%zu test triples, %zu training triples, %s pairs, %zu checkpoint%s\n",
             job->n_tests, job->data->train.n, pairs, job->models->n, plural(job->models->n));
    buf_addf(out, "%zu test triples at once, training triples in tiles of %zu, %u thread%s\n",
             MIN(plan.tests_at_once, n_together), plan.train_tile, plan.n_threads,
             plural(plan.n_threads));
    kge_params_format(job->models, out);
    buf_add_char(out, '\n');
    buf_addf(out, "memory: %s for tiles, up to %s for results, and the model\n", tiles, results);
    return 0;
}
