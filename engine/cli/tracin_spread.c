/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tracin_spread.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/json.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/json_out.h"
#include "cli/spread_map.h"
#include "cli/spread_merge.h"

enum {
    ITEMS_FEW = 8 /* with fewer items than this there may be more devices than items */
};

struct tracin_spread {
    const struct tracin_request *ask;
    const struct app *app;
    char *dir;
    struct buf options;
    int lock_fd, front_fd;
    bool is_found; /* the folder has a run that the same command began */
    bool is_placing, is_replacing;
    struct spread_tests tests;
    struct spread_plan plan;
    struct spread_times times;
};

/* ---- the folder ---- */

static char *dir_new(const struct tracin_request *ask)
{
    if (ask->run_dir)
        return path_absolute(ask->run_dir);
    char *path = tracin_is_batch(ask) ? path_join(ask->output_dir, "batch_tracin.run")
                                      : xasprintf("%s.run", ask->output);
    char *absolute = path_absolute(path);
    free(path);
    return absolute;
}

static int folder_lock(struct tracin_spread *spread, struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, SPREAD_LOCK);
    struct err why = {0};
    if (ours_open(path, O_RDWR | O_CREAT, &spread->lock_fd, &why) != 0)
        return fail(err, ERR_USAGE, "%s", why.text);
    if (flock(spread->lock_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(err, ERR_UNAVAILABLE, "another muster kge tracin is at work in %s",
                    spread->dir);
    return 0; /* also for another errno: a file system may have no locks */
}

static int folder_clear(struct tracin_spread *spread, struct err *err)
{
    fd_close(&spread->lock_fd);
    spread->is_found = spread->is_placing = spread->is_replacing = false;
    return spread_files_remove(spread->dir, err);
}

/* Finds out whether a run was begun in the folder, and by this command. */
static int folder_compare(struct tracin_spread *spread, struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, SPREAD_OPTIONS);
    cleanup_free char *placing = path_join(spread->dir, SPREAD_PLACING);
    cleanup_free char *replaces = path_join(spread->dir, SPREAD_REPLACES);
    bool is_same;
    if (!path_exists(path))
        return folder_clear(spread, err);
    int rc = spread_files_check(spread->dir, err);
    if (rc == 0)
        rc = spread_file_compare(path, buf_str(&spread->options), &is_same, err);
    if (rc == 0 && !is_same)
        rc = fail(err, ERR_USAGE,
                  "%s holds what another command has begun, or its checkpoint has changed since: "
                  "that command goes on with it, --force begins anew",
                  spread->dir);
    spread->is_found = rc == 0;
    spread->is_placing = rc == 0 && path_exists(placing);
    spread->is_replacing = rc == 0 && path_exists(replaces);
    return rc;
}

static int folder_open(struct tracin_spread *spread, struct err *err)
{
    if (!path_exists(spread->dir))
        return 0;
    if (!spread_files_are_all(spread->dir))
        return fail(err, ERR_USAGE,
                    "%s is there and no run of muster kge tracin; --run-dir names another place",
                    spread->dir);
    struct err why = {0};
    int rc = ours_check_folder(spread->dir, &why);
    if (rc)
        return fail(err, rc, "%s; --run-dir names another place", why.text);
    rc = folder_lock(spread, err);
    if (rc == 0)
        rc = spread->ask->overwrite ? folder_clear(spread, err) : folder_compare(spread, err);
    return rc;
}

static int place_check(const struct tracin_request *ask, const char *dir, struct err *err)
{
    if (tracin_is_batch(ask))
        return 0;
    cleanup_free char *output = path_absolute(ask->output);
    if (strcmp(output, dir) == 0)
        return fail(err, ERR_USAGE,
                    "-o and --run-dir both name %s: the result is a file, and what is done "
                    "meanwhile a folder",
                    ask->output);
    if (!ask->run_dir && output_is_direct(ask->output))
        return fail(err, ERR_USAGE,
                    "%s is no file that a run's folder could be beside: --run-dir DIR names one",
                    ask->output);
    return 0;
}

int tracin_spread_open(struct tracin_spread **out, const struct tracin_request *ask,
                       const struct app *app, int front_fd, struct err *err)
{
    *out = NULL;
    if (!ask->gpus)
        return 0;
    struct tracin_spread *spread = xmalloc(sizeof(*spread));
    *spread = (struct tracin_spread){
        .ask = ask, .app = app, .dir = dir_new(ask), .lock_fd = -1, .front_fd = front_fd};
    int rc = place_check(ask, spread->dir, err);
    if (rc == 0)
        rc = spread_options_add(ask, &spread->options, err);
    if (rc == 0)
        rc = folder_open(spread, err);
    *out = spread;
    return rc;
}

bool tracin_spread_may_replace(const struct tracin_spread *spread)
{
    return spread && (spread->is_placing || spread->is_replacing);
}

bool tracin_spread_goes_on(const struct tracin_spread *spread)
{
    return spread && spread->is_found;
}

void tracin_spread_close(struct tracin_spread *spread)
{
    if (!spread)
        return;
    fd_close(&spread->lock_fd);
    spread_tests_release(&spread->tests);
    spread_plan_release(&spread->plan);
    buf_release(&spread->options);
    free(spread->dir);
    free(spread);
}

/* ---- what the workers read ---- */

static int shared_put(const struct tracin_spread *spread, const char *name, struct str bytes,
                      struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, name);
    return file_replace(path, bytes, err);
}

/*
 * Writes a file of a new run; of a continued run, checks that it is the same as at the beginning.
 */
static int shared_settle(const struct tracin_spread *spread, const char *name, struct str bytes,
                         struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, name);
    bool is_same;
    if (!spread->is_found)
        return file_replace(path, bytes, err);
    int rc = spread_file_compare(path, bytes, &is_same, err);
    if (rc == 0 && !is_same)
        rc = fail(err, ERR_USAGE,
                  "%s: the triples have changed since the run began: --force begins anew",
                  spread->dir);
    return rc;
}

static void items_format(const struct spread_plan *plan, struct buf *out)
{
    for (size_t i = 0; i < plan->n_items; i++) {
        struct spread_item item = spread_plan_item(plan, i);
        buf_addf(out, "{\"item\":%zu,\"tests\":[%zu,%zu],\"train\":[%zu,%zu]}\n", i,
                 item.block->first_test, item.block->n_tests, item.begin, item.n);
    }
}

static bool tests_equal(const struct tracin_job_test *test, const struct spread_tests *tests,
                        size_t at)
{
    const struct tracin_test *begun = &tests->at[at];
    return test->index == tests->places[at] &&
           memcmp(&test->triple, &begun->triple, sizeof(test->triple)) == 0 &&
           test->n_train_indices == begun->n_train_indices &&
           (test->n_train_indices == 0 ||
            memcmp(test->train_indices, begun->train_indices,
                   test->n_train_indices * sizeof(*test->train_indices)) == 0);
}

enum {
    NOT_ASKED = -1
};

/*
 * Sets asked[i] to the job's number of test i of the run, or NOT_ASKED: a batch that continues may
 * ask for fewer tests than the run began with, as some have their files already.
 */
static int tests_match(const struct tracin_spread *spread, const struct tracin_job *job,
                       ptrdiff_t *asked, struct err *err)
{
    size_t n_found = 0;
    for (size_t i = 0; i < spread->tests.n; i++) {
        bool is_asked =
            n_found < job->n_tests && tests_equal(&job->tests[n_found], &spread->tests, i);
        asked[i] = is_asked ? (ptrdiff_t)n_found++ : NOT_ASKED;
    }
    bool is_same =
        n_found == job->n_tests && (tracin_is_batch(spread->ask) || n_found == spread->tests.n);
    return is_same
               ? 0
               : fail(err, ERR_USAGE,
                      "%s: the test triples have changed since the run began: --force begins anew",
                      spread->dir);
}

static int tests_settle(struct tracin_spread *spread, const struct tracin_job *job, size_t n_train,
                        struct err *err)
{
    cleanup_buf struct buf bytes = BUF_INIT;
    for (size_t i = 0; job && i < job->n_tests; i++) {
        const struct tracin_job_test *test = &job->tests[i];
        spread_tests_add(
            &bytes, test->index,
            &(struct tracin_test){test->triple, test->train_indices, test->n_train_indices});
    }
    int rc = spread->is_found ? 0 : shared_put(spread, SPREAD_TESTS, buf_str(&bytes), err);
    return rc ? rc : spread_tests_read(&spread->tests, spread->dir, n_train, err);
}

/* Makes the file of rows in its final length; that of a matrix begins with the header. */
static int values_make(const struct tracin_spread *spread, size_t n_train, struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, SPREAD_VALUES);
    cleanup_buf struct buf header = BUF_INIT;
    if (spread->is_found || spread->plan.form != SPREAD_ROWS)
        return 0;
    if (tracin_is_matrix(spread->ask))
        influence_matrix_header(&header, spread->tests.n, n_train);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0)
        return fail_errno(err, "create %s", path);
    int rc = write_all(fd, buf_text(&header), header.len, err);
    off_t size = (off_t)(header.len + spread->plan.n_values * sizeof(double));
    if (rc == 0 && (ftruncate(fd, size) != 0 || fsync(fd) != 0))
        rc = fail_errno(err, "%s: %ld bytes", path, (long)size);
    return rc;
}

/* Writes all that the workers read. The options come last: without them no run has begun. */
static int run_prepare(struct tracin_spread *spread, const struct kge_data *data,
                       const struct tracin_job *job, struct kge_models *models, struct err *err)
{
    cleanup_buf struct buf items = BUF_INIT;
    struct str train = {(const char *)data->train.at, data->train.n * sizeof(*data->train.at)};
    int rc = mkdir_parents(spread->dir, 0775, err);
    if (rc == 0 && spread->lock_fd < 0)
        rc = folder_lock(spread, err);
    if (rc == 0)
        rc = shared_settle(spread, SPREAD_TRAIN, train, err);
    if (rc == 0)
        rc = tests_settle(spread, job, data->train.n, err);
    if (rc == 0)
        rc = spread_plan_make(&spread->plan, spread->ask, models, &spread->tests, data->train.n,
                              err);
    if (rc)
        return rc;
    items_format(&spread->plan, &items);
    rc = shared_settle(spread, SPREAD_ITEMS, buf_str(&items), err);
    if (rc == 0)
        rc = values_make(spread, data->train.n, err);
    if (rc == 0 && !spread->is_found && spread->ask->overwrite)
        rc = shared_put(spread, SPREAD_REPLACES, STR(""), err);
    if (rc == 0 && !spread->is_found)
        rc = shared_put(spread, SPREAD_OPTIONS, buf_str(&spread->options), err);
    kge_models_unload(models);
    return rc;
}

/* ---- the map ---- */

/* Returns the error that a worker wrote as "4 sentence" (code and text); 0: none did. */
static int worker_why(const struct tracin_spread *spread, struct err *err)
{
    cleanup_free char *path = path_join(spread->dir, SPREAD_WHY);
    cleanup_buf struct buf text = BUF_INIT;
    struct str sentence, code;
    uint64_t number = 0;
    if (file_read(path, 4096, &text, NULL) != 0)
        return 0;
    sentence = buf_str(&text);
    if (!str_next(&sentence, ' ', &code) || u64_parse(code, 1, 64, &number, NULL) != 0)
        return 0;
    return fail(err, -(int)number, "%.*s", (int)sentence.len, sentence.at);
}

/* Fails with the reason that a worker gave, if any, as the command would without workers. */
static int map_failed(const struct tracin_spread *spread, int status, struct err *err)
{
    int rc = status > 0 && status < 128 ? worker_why(spread, err) : 0;
    if (!spread->is_found && !spread_map_has_begun(spread->dir))
        (void)!spread_files_remove(spread->dir, NULL);
    return rc ? rc : status;
}

/* A range is at least one tile long, so little work may give fewer items than there are devices. */
static void cut_say(const struct tracin_spread *spread)
{
    size_t n = spread->plan.n_items;
    if (n < ITEMS_FEW)
        say(spread->app,
            "there is too little work for many devices: at most %zu device%s of --gpus will be used",
            n, plural(n));
}

static int items_compute(struct tracin_spread *spread, struct err *err)
{
    cleanup_free char *answers = path_join(spread->dir, SPREAD_ANSWERS);
    cleanup_free char *why = path_join(spread->dir, SPREAD_WHY);
    if (spread->is_placing)
        return 0;
    say(spread->app, "%s%zu item%s; what is done is kept in %s",
        spread->is_found ? "going on with " : "", spread->plan.n_items,
        plural(spread->plan.n_items), spread->dir);
    cut_say(spread);
    int rc = remove_tree(why, err);
    if (rc)
        return rc;
    rc = spread_map_run(spread->ask, spread->app, spread->dir, spread->front_fd, err);
    if (rc)
        return map_failed(spread, rc, err);
    return path_exists(answers)
               ? shared_put(spread, SPREAD_PLACING, STR(""), err)
               : fail(err, ERR_FAILED, "%s is not there any more (--force begins anew)", answers);
}

/* ---- results ---- */

/* A sink that passes on only the tests that the job asks for, with their numbers in the job. */
struct asked_sink {
    const struct tracin_sink *sink;
    const ptrdiff_t *asked;
};

static int on_top(void *context, size_t test, double self_influence,
                  const struct tracin_influence *at, size_t n, struct err *err)
{
    const struct asked_sink *of = context;
    return of->asked[test] == NOT_ASKED ? 0
                                        : of->sink->top(of->sink->context, (size_t)of->asked[test],
                                                        self_influence, at, n, err);
}

static struct spread_merge merge_of(const struct tracin_spread *spread, const struct kge_data *data)
{
    return (struct spread_merge){.dir = spread->dir,
                                 .plan = &spread->plan,
                                 .tests = &spread->tests,
                                 .train = data->train.at,
                                 .n_train = data->train.n,
                                 .top_k = (size_t)spread->ask->top_k,
                                 .order = spread->ask->order};
}

int tracin_spread_run(struct tracin_spread *spread, const struct tracin_job *job,
                      const struct tracin_sink *sink, struct err *err)
{
    int rc = run_prepare(spread, job->data, job, job->models, err);
    cleanup_free ptrdiff_t *asked = xcalloc(spread->tests.n + 1, sizeof(*asked));
    const struct asked_sink of = {sink, asked};
    const struct tracin_sink asked_only = {.context = (void *)(uintptr_t)&of, .top = on_top};
    const struct spread_merge merge = merge_of(spread, job->data);
    cleanup_free char *values = path_join(spread->dir, SPREAD_VALUES);
    if (rc == 0)
        rc = tests_match(spread, job, asked, err);
    if (rc == 0)
        rc = items_compute(spread, err);
    if (rc == 0 && job->matrix)
        rc = spread_times_read(&merge, &spread->times, err);
    else if (rc == 0)
        rc = spread_merge(&merge, &asked_only, &spread->times, err);
    return rc == 0 && job->matrix ? influence_matrix_take(job->matrix, values, err) : rc;
}

int tracin_spread_self(struct tracin_spread *spread, const struct kge_data *data,
                       struct kge_models *models, double *values, struct err *err)
{
    int rc = run_prepare(spread, data, NULL, models, err);
    const struct spread_merge merge = merge_of(spread, data);
    if (rc == 0)
        rc = items_compute(spread, err);
    if (rc == 0)
        rc = spread_times_read(&merge, &spread->times, err);
    return rc ? rc : spread_values_read(spread->dir, 0, 0, data->train.n, values, err);
}

/* ---- the end ---- */

/* A further device helps as long as each device computes at least as long as it loads. */
static void times_say(const struct tracin_spread *spread)
{
    const struct spread_times *times = &spread->times;
    double load_s = times->n_lives > 0 ? (double)times->load_ms / 1e3 / (double)times->n_lives : 0;
    double work_s = (double)times->work_ms / 1e3;
    if (times->n_workers < 2 || load_s <= 0 || work_s >= load_s * (double)times->n_workers)
        return;
    size_t n_paid = (size_t)(work_s / load_s);
    if (n_paid <= 1)
        say(spread->app,
            "loading took %.1f s a worker, the work %.1f s: one device would have done", load_s,
            work_s);
    else
        say(spread->app,
            "loading took %.1f s a worker, the work %.1f s in all: %zu devices would have done",
            load_s, work_s, n_paid);
}

void tracin_spread_unplace(const struct tracin_spread *spread)
{
    cleanup_free char *placing = path_join(spread->dir, SPREAD_PLACING);
    if (unlink(placing) != 0 && errno != ENOENT)
        say(spread->app, "%s: %s", placing, errno_text(errno));
}

int tracin_spread_end(struct tracin_spread *spread, struct err *err)
{
    times_say(spread);
    return folder_clear(spread, err);
}

int tracin_spread_explain(const struct tracin_request *ask, const struct tracin_job *job,
                          struct buf *out, struct err *err)
{
    struct spread_tests tests = {.n = job->n_tests};
    struct spread_plan plan = {0};
    char range[32], values[16];
    tests.at = xcalloc(job->n_tests, sizeof(*tests.at));
    for (size_t i = 0; i < job->n_tests; i++)
        tests.at[i] = (struct tracin_test){job->tests[i].triple, job->tests[i].train_indices,
                                           job->tests[i].n_train_indices};
    int rc = spread_plan_make(&plan, ask, job->models, &tests, job->data->train.n, err);
    if (rc == 0) {
        count_format(range, plan.train_per_item);
        size_format(values, plan.n_values * sizeof(double));
        buf_addf(out,
                 "on devices: %zu item%s of up to %zu test triples and %s training triples%s%s\n",
                 plan.n_items, plural(plan.n_items), plan.blocks[plan.n_blocks - 1].n_tests, range,
                 plan.form == SPREAD_ROWS ? "; on disk meanwhile: " : "",
                 plan.form == SPREAD_ROWS ? values : "");
    }
    spread_plan_release(&plan);
    spread_tests_release(&tests);
    return rc;
}
