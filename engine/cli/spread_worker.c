/* SPDX-License-Identifier: Apache-2.0
 *
 * A worker of `muster kge tracin --gpus`, which starts it: it loads the model and the
 * triples once, and answers items. It is a hidden verb of the same program.
 */
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/influence_matrix.h"
#include "cli/kge_verbs.h"
#include "cli/spread_answer.h"
#include "cli/spread_files.h"
#include "muster/worker.h"
#include "tracin/topk.h"

struct spread_worker {
    const char *dir;
    struct tracin_request ask;
    struct buf options;
    struct spread_train train;
    struct spread_tests tests;
    struct spread_plan plan;
    struct kge_models models;
    struct tracin_opts opts;
    int values_fd; /* of the file of rows */
    uint64_t values_at;
    /* The current block, its training triples in the order of its ranges, and its tests. */
    const struct spread_block *block;
    uint32_t *order;
    struct tracin_test *block_tests;
    struct tracin_session *session; /* keeps what was computed for these tests */
};

/* The current item. */
struct task {
    struct spread_worker *worker;
    struct spread_item item;
    const uint32_t *order; /* indices of the item's training triples */
    struct topk *tops;     /* by test; NULL for SPREAD_ROWS */
    struct spread_answer answer;
};

/* ---- loading ---- */

/*
 * Takes the backend that is named like the kind of device, unless --backend names one. Processors
 * compute for CPU slots and simulated GPUs.
 */
static int backend_choose(struct spread_worker *worker, const struct muster_place *place,
                          struct err *err)
{
    struct num_backend backend;
    struct err why = {0};
    if (strcmp(place->device_kind, "cpu") == 0 || strcmp(place->device_kind, "sim") == 0 ||
        worker->ask.models.backend)
        return 0;
    worker->ask.models.backend = place->device_kind;
    int rc = num_open_any(&backend, place->device_kind, &why);
    if (rc == 0)
        num_close(&backend);
    if (rc && rc != ERR_USAGE) /* a backend of this name exists */
        return fail(err, rc, "%s; --gpus cpu:N takes processors", why.text);
    return rc ? fail(err, ERR_UNAVAILABLE,
                     "this muster-kge cannot compute on %s devices; --gpus cpu:N takes processors",
                     place->device_kind)
              : 0;
}

/* Reads the request. The request and the checkpoints must be as they were when the run began. */
static int options_load(struct spread_worker *worker, struct err *err)
{
    cleanup_buf struct buf now = BUF_INIT;
    int rc = spread_options_read(&worker->ask, worker->dir, &worker->options, err);
    if (rc == 0)
        rc = spread_options_add(&worker->ask, &now, err);
    if (rc == 0 && !str_equal(buf_str(&now), buf_str(&worker->options)))
        rc = fail(err, ERR_DATA,
                  "a checkpoint has changed since the run began; --force begins anew");
    return rc;
}

/*
 * The number of threads that the user asked for, else the number that muster gives the seat; 0:
 * neither is known.
 */
static unsigned threads_given(void)
{
    static const char *const names[] = {"MUSTER_KGE_THREADS", "OMP_NUM_THREADS"};
    uint64_t n = 0;
    for (size_t i = 0; i < countof(names); i++) {
        const char *given = getenv(names[i]);
        if (given && u64_parse(str_of(given), 1, 4096, &n, NULL) == 0)
            return (unsigned)n;
    }
    return 0;
}

static int values_open(struct spread_worker *worker, struct err *err)
{
    cleanup_free char *path = path_join(worker->dir, SPREAD_VALUES);
    cleanup_buf struct buf header = BUF_INIT;
    if (worker->plan.form != SPREAD_ROWS)
        return 0;
    if (tracin_is_matrix(&worker->ask))
        influence_matrix_header(&header, worker->tests.n, worker->train.n);
    worker->values_at = header.len;
    worker->values_fd = open(path, O_WRONLY | O_CLOEXEC);
    return worker->values_fd < 0 ? fail_errno(err, "open %s", path) : 0;
}

static int worker_load(struct spread_worker *worker, const struct app *app,
                       const struct muster_place *place, struct err *err)
{
    int rc = options_load(worker, err);
    if (rc == 0)
        rc = backend_choose(worker, place, err);
    if (rc == 0)
        rc = spread_train_read(&worker->train, worker->dir, err);
    if (rc == 0)
        rc = spread_tests_read(&worker->tests, worker->dir, worker->train.n, err);
    if (rc == 0)
        rc = kge_models_open(&worker->models, &worker->ask.models, NULL, app, err);
    if (rc == 0)
        rc = spread_plan_make(&worker->plan, &worker->ask, &worker->models, &worker->tests,
                              worker->train.n, err);
    if (rc == 0)
        rc = values_open(worker, err);
    worker->models.opts.format = worker->ask.precision;
    worker->opts = worker->models.opts;
    worker->opts.order = worker->ask.order;
    worker->opts.top_k = 1; /* only self-influences are taken from it; the best are chosen in
                             * on_row() */
    worker->opts.n_threads = threads_given();
    return rc;
}

static void block_drop(struct spread_worker *worker)
{
    tracin_session_close(worker->session);
    worker->session = NULL;
    free(steal_ptr(&worker->block_tests));
    free(steal_ptr(&worker->order));
}

static void worker_release(struct spread_worker *worker)
{
    block_drop(worker);
    spread_plan_release(&worker->plan);
    kge_models_close(&worker->models);
    spread_tests_release(&worker->tests);
    spread_train_release(&worker->train);
    fd_close(&worker->values_fd);
    cmd_release(&cmd_kge_tracin, &worker->ask);
    buf_release(&worker->options);
}

/* ---- an item ---- */

static int values_put(const struct task *task, size_t test, size_t begin, const double *values,
                      size_t n, struct err *err)
{
    uint64_t at = spread_item_value(&task->item, test) + begin;
    int rc = pwrite_all(task->worker->values_fd, values, n * sizeof(*values),
                        (off_t)(task->worker->values_at + at * sizeof(*values)), err);
    return rc ? wrap(err, rc, "%s/%s", task->worker->dir, SPREAD_VALUES) : 0;
}

/* Writes NaN where a filter leaves the training triple out. */
static int row_put(const struct task *task, size_t test_in_block, size_t begin,
                   const double *values, size_t n, struct err *err)
{
    const struct tracin_test *test =
        &task->worker->tests.at[task->item.block->first_test + test_in_block];
    if (!test->train_indices)
        return values_put(task, test_in_block, begin, values, n, err);
    cleanup_free double *kept = xmalloc(n * sizeof(*kept));
    for (size_t i = 0; i < n; i++)
        kept[i] = spread_is_wanted(test, task->order[begin + i]) ? values[i] : (double)NAN;
    return values_put(task, test_in_block, begin, kept, n, err);
}

static int on_row(void *context, size_t test_in_block, size_t begin, const double *values, size_t n,
                  struct err *err)
{
    struct task *task = context;
    if (!task->tops)
        return row_put(task, test_in_block, begin, values, n, err);
    const struct tracin_test *test =
        &task->worker->tests.at[task->item.block->first_test + test_in_block];
    for (size_t i = 0; i < n; i++)
        if (spread_is_wanted(test, task->order[begin + i]))
            topk_add(&task->tops[test_in_block], task->order[begin + i], values[i]);
    return 0;
}

static int on_self(void *context, size_t test_in_block, double self_influence,
                   const struct tracin_influence *at, size_t n, struct err *err)
{
    struct task *task = context;
    (void)test_in_block;
    (void)at;
    (void)n;
    (void)err;
    buf_add(&task->answer.selves, &self_influence, sizeof(self_influence));
    return 0;
}

static int on_selves(void *context, size_t begin, const double *values, size_t n, struct err *err)
{
    return values_put(context, 0, begin, values, n, err);
}

static void tops_begin(struct task *task)
{
    const struct spread_worker *worker = task->worker;
    if (worker->plan.form != SPREAD_TOPS)
        return;
    size_t k = MIN((size_t)worker->ask.top_k, task->item.n);
    task->tops = xcalloc(task->item.block->n_tests, sizeof(*task->tops));
    for (size_t t = 0; t < task->item.block->n_tests; t++)
        topk_init(&task->tops[t], k, worker->ask.order);
}

static void tops_end(struct task *task)
{
    for (size_t t = 0; task->tops && t < task->item.block->n_tests; t++) {
        topk_sort(&task->tops[t]);
        spread_tops_add(&task->answer.tops, task->tops[t].at, task->tops[t].n);
        topk_release(&task->tops[t]);
    }
    free(task->tops);
}

/* Replaces the engine's message, whose number of the triple counts within the item alone. */
static int numbers_fail(int rc, struct err *err)
{
    return rc == ERR_DATA
               ? fail(err, ERR_DATA,
                      "an influence is not finite: the model's numbers are too large for "
                      "this precision (--dtype float64)")
               : rc;
}

static int influences_compute(struct task *task, const struct triple *train, struct err *err)
{
    struct spread_worker *worker = task->worker;
    const struct spread_block *block = task->item.block;
    const struct tracin_sink sink = {.context = task, .top = on_self, .row = on_row};
    int rc = 0;
    if (!worker->session)
        rc = tracin_session_open(&worker->session, worker->models.checkpoints, worker->models.n,
                                 &worker->opts, worker->plan.train_per_item, worker->block_tests,
                                 block->n_tests, err);
    return rc ? rc : tracin_session_run(worker->session, train, task->item.n, &sink, err);
}

static void block_take(struct spread_worker *worker, const struct spread_block *block)
{
    if (worker->block == block)
        return;
    block_drop(worker);
    worker->order =
        spread_order_new(&worker->plan, block, worker->tests.at, worker->train.at, worker->train.n);
    worker->block_tests = xcalloc(block->n_tests, sizeof(*worker->block_tests));
    for (size_t t = 0; t < block->n_tests; t++)
        worker->block_tests[t].triple = worker->tests.at[block->first_test + t].triple;
    worker->block = block;
}

static int task_run(struct task *task, struct err *err)
{
    struct spread_worker *worker = task->worker;
    cleanup_free struct triple *train = xmalloc(task->item.n * sizeof(*train));
    block_take(worker, task->item.block);
    task->order = worker->order + task->item.begin;
    for (size_t i = 0; i < task->item.n; i++)
        train[i] = worker->train.at[task->order[i]];
    tops_begin(task);
    int rc = worker->tests.n > 0
                 ? influences_compute(task, train, err)
                 : tracin_self(worker->models.checkpoints, worker->models.n, &worker->opts, train,
                               task->item.n, on_selves, task, err);
    tops_end(task);
    if (rc == 0 && worker->plan.form == SPREAD_ROWS && fdatasync(worker->values_fd) != 0)
        rc = fail_errno(err, "sync %s/%s", worker->dir, SPREAD_VALUES);
    return numbers_fail(rc, err);
}

static int item_answer(struct spread_worker *worker, struct muster_worker *channel,
                       const struct muster_item *item, const struct spread_answer *about,
                       struct err *err)
{
    if (item->index >= worker->plan.n_items)
        return fail(err, ERR_DATA, "there is no item %lu", (unsigned long)item->index);
    cleanup_buf struct buf text = BUF_INIT;
    struct task task = {.worker = worker,
                        .item = spread_plan_item(&worker->plan, (size_t)item->index),
                        .answer = *about};
    uint64_t begin_ms = clock_now_ms();
    int rc = task_run(&task, err);
    task.answer.item = item->index;
    task.answer.work_ms = clock_now_ms() - begin_ms;
    if (rc == 0) {
        spread_answer_format(&task.answer, &text);
        muster_item_done(channel, item, (struct muster_text){buf_text(&text), text.len});
    }
    spread_answer_release(&task.answer);
    return rc;
}

/* ---- the verb ---- */

/*
 * Writes why the worker gives up. The muster kge tracin that waits prints the text, and ends with
 * the exit status of rc.
 */
static void why_write(const char *dir, int rc, const struct err *why)
{
    cleanup_free char *path = path_join(dir, SPREAD_WHY);
    cleanup_buf struct buf text = BUF_INIT;
    buf_addf(&text, "%d %s", -rc, why->text);
    if (file_replace(path, buf_str(&text), NULL) != 0)
        return; /* the reason is on stderr as well */
}

static int items_work(struct spread_worker *worker, struct muster_worker *channel,
                      const struct spread_answer *about, struct err *err)
{
    struct muster_item item;
    int got;
    while ((got = muster_worker_next(channel, &item)) > 0) {
        int rc = item_answer(worker, channel, &item, about, err);
        if (rc == 0)
            continue;
        /* The item is not retried, because it would fail in the same way on every device. */
        why_write(worker->dir, rc, err);
        muster_item_fail(channel, &item, err->text, false);
    }
    return got < 0 ? fail(err, ERR_SYS, "%s", muster_worker_error(channel)) : 0;
}

static int spread_worker_run(struct app *app, void *request, int argc, char **argv, char **command,
                             struct err *err)
{
    uint64_t begin_ms = clock_now_ms();
    struct muster_place place;
    (void)request;
    (void)argc;
    (void)argv;
    (void)command;
    muster_worker_place(&place);
    if (!*place.run_dir)
        return fail(err, ERR_USAGE, "this verb is for muster kge tracin --gpus, which starts it");
    app->quiet = true;
    cleanup_free char *dir = path_dirname(place.run_dir);
    struct spread_worker worker = {.dir = dir, .values_fd = -1};
    struct muster_worker *channel = muster_worker_open(NULL);
    int rc = worker_load(&worker, app, &place, err);
    if (rc == 0) {
        const struct spread_answer about = {
            .worker = place.worker, .life = place.attempt, .load_ms = clock_now_ms() - begin_ms};
        muster_worker_loaded(channel);
        rc = items_work(&worker, channel, &about, err);
    } else {
        why_write(dir, rc, err);
    }
    if (muster_worker_close(channel) != 0 && rc == 0)
        rc = fail(err, ERR_SYS, "the channel to muster broke");
    worker_release(&worker);
    return rc;
}

static const struct opt no_opts[] = {{.kind = OPT_END}};

const struct cmd cmd_kge_spread_worker = {
    .name = SPREAD_WORKER_VERB,
    .family = "kge",
    .args = "",
    .summary = "compute items of muster kge tracin",
    .opts = no_opts,
    .is_hidden = true,
    .run = spread_worker_run,
};
