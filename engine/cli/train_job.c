/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/rng.h"
#include "base/xalloc.h"
#include "cli/eval_scorer.h"
#include "cli/json_out.h"
#include "cli/kge_models.h"
#include "cli/precision_arg.h"
#include "cli/train_precision.h"
#include "train/state.h"

enum {
    SAY_EVERY_MS = 5000,
    HISTORY_BYTES_MAX = 1 << 30
};

static const char state_name[] = "training_state.safetensors",
                  best_name[] = "best_model.safetensors", final_name[] = "final_model.safetensors",
                  checkpoint_prefix[] = "checkpoint_epoch_", model_suffix[] = ".safetensors";

/* ---- what training depends on ---- */

static uint64_t triples_hash(const struct triples *triples)
{
    uint64_t hash = triples->n;
    for (size_t i = 0; i < triples->n; i++)
        hash = item_seed(hash ^ (uint64_t)triples->at[i].head << 32 ^ triples->at[i].tail,
                         triples->at[i].relation);
    return hash;
}

static void settings_add(struct train_job *job)
{
    const struct conve_shape *shape = &job->model->shape;
    const struct train_opts *train = &job->opts.train;
    const double *dropout = train->mode.dropout;
    buf_addf(&job->settings,
             "entities=%zu relations=%zu embedding=%zux%zu channels=%zu kernel=%zux%zu layout=%s "
             "entity_bias=%d reciprocal=%d ",
             shape->n_entities, shape->n_relations, shape->height, shape->width, shape->n_filters,
             shape->kernel_height, shape->kernel_width, conve_layout_name(shape->layout),
             shape->has_entity_bias, job->model->is_reciprocal);
    buf_addf(&job->settings,
             "questions=%s batch_size=%zu accumulate=%zu learning_rate=%.17g lr_decay=%.17g "
             "label_smoothing=%.17g dropout=%.17g,%.17g,%.17g seed=%" PRIu64
             " triples=%zu/%016" PRIx64,
             train->is_grouped ? "grouped" : "one-positive", train->batch_size, train->accumulate,
             train->learning_rate, train->decay, train->mode.label_smoothing,
             dropout[DROPOUT_INPUT], dropout[DROPOUT_FEATURES], dropout[DROPOUT_OUTPUT],
             train->seed, job->questions.n, triples_hash(&job->questions));
    if (train->mode.format != NUM_FULL)
        buf_addf(&job->settings, " precision=%s", precision_name(train->mode.format));
}

static char *path_of(const struct train_job *job, const char *name)
{
    return path_join(job->opts.folder, name);
}

static int state_save(struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, state_name);
    job->state_ms = clock_now_ms();
    return train_state_save(&job->trainer, buf_str(&job->settings), path, err);
}

/* ---- the history: one line for each epoch ---- */

static int history_put(const struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, "training_history.jsonl");
    return file_replace(path, buf_str(&job->history), err);
}

/* Reads the lines of finished epochs: a process that was killed may have written one line more. */
static int history_read(struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, "training_history.jsonl");
    cleanup_buf struct buf text = BUF_INIT;
    struct str rest, line;
    if (!path_exists(path))
        return 0;
    int rc = plain_file_read(path, HISTORY_BYTES_MAX, &text, err);
    rest = buf_str(&text);
    for (uint64_t i = 0; rc == 0 && i < job->trainer.at.epoch && str_next(&rest, '\n', &line);
         i++) {
        buf_add_str(&job->history, line);
        buf_add_char(&job->history, '\n');
    }
    return rc;
}

static void history_add(struct train_job *job, const struct rank_metrics *valid, uint64_t ms)
{
    struct json_out json = {.to = &job->history};
    json_out_open(&json, '{');
    json_out_u64(&json, "epoch", job->trainer.at.epoch + 1);
    json_out_double(&json, "loss", trainer_loss(&job->trainer));
    json_out_double(&json, "learning_rate", trainer_learning_rate(&job->trainer));
    json_out_double(&json, "seconds", (double)ms / 1000);
    if (valid) {
        json_out_double(&json, "valid_mrr", valid->mean_reciprocal);
        json_out_double(&json, "valid_hits_at_1", valid->hits[0]);
        json_out_double(&json, "valid_hits_at_3", valid->hits[1]);
        json_out_double(&json, "valid_hits_at_10", valid->hits[2]);
    }
    json_out_close(&json, '}');
    buf_add_char(&job->history, '\n');
}

/* ---- opening ---- */

static void questions_take(struct train_job *job)
{
    const struct triples *train = &job->data->train;
    uint32_t n_relations = (uint32_t)job->data->relations.len;
    for (size_t i = 0; i < train->n; i++)
        triples_add(&job->questions, train->at[i]);
    for (size_t i = 0; job->model->is_reciprocal && i < train->n; i++) {
        struct triple triple = train->at[i];
        triples_add(&job->questions,
                    (struct triple){triple.tail, triple.relation + n_relations, triple.head});
    }
}

/* checkpoint_epoch_<N>.safetensors */
static bool is_checkpoint(const char *name)
{
    size_t begin = strlen(checkpoint_prefix), n;
    if (strncmp(name, checkpoint_prefix, begin) != 0)
        return false;
    n = strspn(name + begin, "0123456789");
    return n > 0 && strcmp(name + begin + n, model_suffix) == 0;
}

static const char *checkpoint_folder(const struct train_job *job)
{
    return job->opts.checkpoint_folder ? job->opts.checkpoint_folder : job->opts.folder;
}

static int old_unlink(const char *folder, const char *name, struct err *err)
{
    cleanup_free char *path = path_join(folder, name);
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    return fail_errno(err, "remove %s", path);
}

/* Counts the checkpoints, and with `removes` removes them. */
static int checkpoints_look(const struct train_job *job, bool removes, size_t *n, struct err *err)
{
    DIR *folder = opendir(checkpoint_folder(job));
    int rc = 0;
    *n = 0;
    if (!folder)
        return fail_errno(err, "open %s", checkpoint_folder(job));
    for (const struct dirent *entry; rc == 0 && (entry = readdir(folder)) != NULL;)
        if (is_checkpoint(entry->d_name)) {
            ++*n;
            rc = removes ? old_unlink(checkpoint_folder(job), entry->d_name, err) : 0;
        }
    closedir(folder);
    return rc;
}

/*
 * Removes files that would be taken for results of this training. The state is removed first:
 * without it, no command continues the old training.
 */
static int old_remove(const struct train_job *job, struct err *err)
{
    static const char *const names[] = {state_name, best_name, final_name};
    size_t n;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(names); i++)
        rc = old_unlink(job->opts.folder, names[i], err);
    return rc == 0 ? checkpoints_look(job, true, &n, err) : rc;
}

/* Says that there are checkpoints of another training; without --force they are kept. */
static int old_checkpoints_say(const struct train_job *job, struct err *err)
{
    size_t n;
    int rc = checkpoints_look(job, false, &n, err);
    if (rc == 0 && n > 0)
        say(job->app,
            "%s has %zu checkpoint%s of an earlier training, which stay%s; --force removes them",
            checkpoint_folder(job), n, plural(n), n == 1 ? "s" : "");
    return rc;
}

static int state_go_on(struct train_job *job, const char *path, struct err *err)
{
    const struct train_progress *at = &job->trainer.at;
    int rc = ours_check_owner(path, err);
    if (rc)
        return wrap(err, rc, "nothing to go on from (--force begins anew)");
    rc = train_state_load(&job->trainer, buf_str(&job->settings), path, err);
    if (rc != 0)
        return rc == ERR_DATA ? wrap(err, rc, "nothing to go on from (--force begins anew)") : rc;
    if (at->epoch > job->opts.n_epochs || (at->epoch == job->opts.n_epochs && at->batch > 0))
        return fail(err, ERR_USAGE,
                    "%s is %" PRIu64 " epochs and %" PRIu64 " batches on, past --epochs %" PRIu64
                    ": more of them, or --force to begin anew",
                    path, at->epoch, at->batch, job->opts.n_epochs);
    say(job->app, "going on in epoch %" PRIu64 ", after %" PRIu64 " of %zu batches", at->epoch + 1,
        at->batch, job->trainer.batches.n_batches);
    return history_read(job, err);
}

/* Continues from the state, if there is one; else the folder must not have a finished model. */
static int state_take(struct train_job *job, struct err *err)
{
    cleanup_free char *state = path_of(job, state_name);
    cleanup_free char *final = path_of(job, final_name);
    if (job->opts.overwrite)
        return old_remove(job, err);
    if (path_exists(state))
        return state_go_on(job, state, err);
    if (path_exists(final))
        return fail(err, ERR_USAGE, "%s exists, without a %s to go on with; --force replaces it",
                    final, state_name);
    return old_checkpoints_say(job, err);
}

/* Makes and locks the folder, so that errors show before the first epoch. */
static int folder_take(struct train_job *job, struct err *err)
{
    int rc = mkdir_parents(job->opts.folder, 0777, err);
    if (rc == 0)
        rc = mkdir_parents(checkpoint_folder(job), 0777, err);
    if (rc != 0)
        return rc;
    job->lock_fd = open(job->opts.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job->lock_fd < 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", job->opts.folder);
    if (flock(job->lock_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return fail(err, ERR_USAGE, "another training is at work in %s", job->opts.folder);
    return 0;
}

static void pools_open(struct train_job *job)
{
    job->validation_pool = thread_pool_open(job->opts.n_threads);
    kge_threads_say(job->app, job->opts.n_threads, thread_pool_n_threads(job->validation_pool));
    job->pool = job->backend.is_device ? thread_pool_open(1) : job->validation_pool;
}

int train_job_open(struct train_job *job, const struct train_job_opts *opts, struct conve *model,
                   const char *backend, const struct kge_data *data, const struct app *app,
                   struct err *err)
{
    *job =
        (struct train_job){.opts = *opts, .app = app, .data = data, .model = model, .lock_fd = -1};
    questions_take(job);
    settings_add(job);
    int rc = num_open_any(&job->backend, backend, err);
    if (rc == 0)
        rc = num_open(&job->validation_backend, job->backend.is_device ? NULL : backend, err);
    if (rc != 0)
        return rc;
    pools_open(job);
    train_init(model, opts->train.seed);
    rc = trainer_open(&job->trainer, model, &opts->train, job->questions.at, job->questions.n,
                      &job->backend, job->pool, err);
    if (rc != 0)
        return rc;
    kge_known_build(&job->known, data);
    job->state_ms = job->said_ms = job->epoch_ms = clock_now_ms();
    rc = folder_take(job, err);
    if (rc == 0)
        rc = state_take(job, err);
    if (rc == 0)
        rc = history_put(job, err);
    trainer_epoch_prepare(&job->trainer);
    return rc;
}

void train_job_close(struct train_job *job)
{
    if (job->lock_fd >= 0)
        close(job->lock_fd);
    trainer_close(&job->trainer);
    if (job->validation_pool != job->pool)
        thread_pool_close(job->validation_pool);
    thread_pool_close(job->pool);
    num_close(&job->validation_backend);
    num_close(&job->backend);
    known_release(&job->known);
    triples_release(&job->questions);
    conve_free(job->model);
    buf_release(&job->history);
    buf_release(&job->settings);
}

/* ---- being told to stop ---- */

static atomic_bool is_told;

/*
 * A second SIGINT or SIGTERM ends the process at once. SIGHUP does not count: when a terminal
 * closes, kernel and shell each send one.
 */
static void on_stop(int number)
{
    static atomic_bool is_asked;
    atomic_store(&is_told, true);
    if (number != SIGHUP && atomic_exchange(&is_asked, true)) {
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
}

static void stops_watch(const struct train_job *job)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_stop};
    for (size_t i = 0; i < countof(signals); i++)
        sigaction(signals[i], &action, NULL);
    thread_pool_stop_when(job->pool, &is_told);
    thread_pool_stop_when(job->validation_pool, &is_told);
}

/* ---- epochs ---- */

static int validate(struct train_job *job, struct rank_metrics *metrics, struct err *err)
{
    struct rank_metrics sides[SIDE_N + 1];
    const struct triples *valid = &job->data->valid;
    const struct ranks_opts opts = {.n_entities = job->model->shape.n_entities,
                                    .known = &job->known,
                                    .ties = TIES_MEAN,
                                    .tails_only = !job->model->is_reciprocal};
    size_t n = valid->n;
    if (job->opts.max_valid_triples > 0)
        n = MIN(n, (size_t)job->opts.max_valid_triples);
    int rc = eval_rank(job->model, &job->validation_backend, job->validation_pool, &opts, valid->at,
                       n, sides, err);
    *metrics = sides[SIDE_N];
    return rc;
}

static int best_keep(struct train_job *job, double mrr, struct err *err)
{
    struct train_progress *at = &job->trainer.at;
    cleanup_free char *path = path_of(job, best_name);
    if (at->best_epoch > 0 && mrr <= at->best) {
        at->n_worse++;
        return 0;
    }
    at->best = mrr;
    at->best_epoch = at->epoch + 1;
    at->n_worse = 0;
    return trainer_model_save(&job->trainer, path, err);
}

static int checkpoint_save(const struct train_job *job, struct err *err)
{
    uint64_t epoch = job->trainer.at.epoch + 1;
    if (job->opts.checkpoint_every == 0 || epoch % job->opts.checkpoint_every != 0)
        return 0;
    cleanup_free char *path = xasprintf("%s/%s%" PRIu64 "%s", checkpoint_folder(job),
                                        checkpoint_prefix, epoch, model_suffix);
    return trainer_model_save(&job->trainer, path, err);
}

/*
 * Does what an epoch needs after its last update. *is_cut: it was told to stop, before anything was
 * changed.
 */
static int epoch_end(struct train_job *job, bool *is_cut, struct err *err)
{
    uint64_t epoch = job->trainer.at.epoch + 1, ms = clock_now_ms() - job->epoch_ms;
    bool is_validated = job->data->valid.n > 0 &&
                        (epoch % job->opts.eval_every == 0 || epoch == job->opts.n_epochs);
    struct rank_metrics valid = {0};
    int rc = trainer_fetch(&job->trainer, err);
    if (rc == 0 && is_validated)
        rc = validate(job, &valid, err);
    *is_cut = rc == ERR_STOPPED;
    if (rc == 0 && is_validated)
        rc = best_keep(job, valid.mean_reciprocal, err);
    if (rc != 0)
        return rc;
    char mrr[64] = "";
    if (is_validated)
        snprintf(mrr, sizeof(mrr), ", validation MRR %.4f, Hits@10 %.4f", valid.mean_reciprocal,
                 valid.hits[RANK_N_HITS - 1]);
    say(job->app, "epoch %" PRIu64 " of %" PRIu64 ": loss %.6f%s, %.1f s", epoch,
        job->opts.n_epochs, trainer_loss(&job->trainer), mrr, (double)ms / 1000);
    history_add(job, is_validated ? &valid : NULL, ms);
    rc = checkpoint_save(job, err);
    if (rc == 0)
        rc = history_put(job, err);
    trainer_epoch_next(&job->trainer);
    job->said_ms = job->epoch_ms = clock_now_ms();
    return rc;
}

static void progress_say(struct train_job *job)
{
    const struct train_progress *at = &job->trainer.at;
    uint64_t now_ms = clock_now_ms();
    if (now_ms - job->said_ms < SAY_EVERY_MS)
        return;
    job->said_ms = now_ms;
    say(job->app, "epoch %" PRIu64 " of %" PRIu64 ": %.0f%%, loss %.6f, %.0f questions/s",
        at->epoch + 1, job->opts.n_epochs,
        100 * (double)at->batch / (double)job->trainer.batches.n_batches,
        trainer_loss(&job->trainer),
        1000 * (double)at->n_questions / (double)MAX(now_ms - job->epoch_ms, (uint64_t)1));
}

static int stop(struct train_job *job, struct err *err)
{
    int rc = state_save(job, err);
    if (rc != 0)
        return rc;
    return fail(err, ERR_STOPPED,
                "stopped in epoch %" PRIu64 " after %" PRIu64
                " of %zu batches; the same command%s goes on from there",
                job->trainer.at.epoch + 1, job->trainer.at.batch, job->trainer.batches.n_batches,
                job->opts.overwrite ? " without --force" : "");
}

static bool is_over(const struct train_job *job)
{
    const struct train_progress *at = &job->trainer.at;
    return at->epoch >= job->opts.n_epochs ||
           (job->opts.patience > 0 && at->n_worse >= job->opts.patience);
}

static int epochs_run(struct train_job *job, struct err *err)
{
    int rc = 0;
    while (rc == 0 && !is_over(job)) {
        bool is_cut = false;
        if (!trainer_epoch_is_over(&job->trainer)) {
            rc = trainer_update(&job->trainer, err);
            is_cut = rc == ERR_STOPPED;
        }
        if (rc == 0 && trainer_epoch_is_over(&job->trainer))
            rc = epoch_end(job, &is_cut, err);
        if (is_cut || (rc == 0 && atomic_load(&is_told) && !is_over(job)))
            return stop(job, err);
        if (rc == 0 && clock_now_ms() - job->state_ms >= job->opts.state_every_ms)
            rc = state_save(job, err);
        if (rc == 0)
            progress_say(job);
    }
    return rc;
}

int train_job_run(struct train_job *job, struct err *err)
{
    cleanup_free char *final = path_of(job, final_name);
    const struct train_progress *at = &job->trainer.at;
    stops_watch(job);
    say(job->app, "%zu questions in batches of %zu, %" PRIu64 " parameters, %u thread%s, %s",
        job->trainer.batches.n, job->trainer.batches.size, conve_n_parameters(&job->model->shape),
        thread_pool_n_threads(job->pool), plural(thread_pool_n_threads(job->pool)),
        job->backend.description);
    if (!is_over(job))
        train_precision_report(&job->trainer, job->app);
    int rc = epochs_run(job, err);
    if (rc == 0)
        rc = state_save(job, err);
    if (rc == 0)
        rc = trainer_model_save(&job->trainer, final, err);
    if (rc == 0 && at->best_epoch > 0)
        say(job->app, "best validation MRR %.4f after epoch %" PRIu64, at->best, at->best_epoch);
    return rc;
}
