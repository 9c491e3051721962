/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_job.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/eval_scorer.h"
#include "cli/kge_models.h"
#include "cli/train_folder.h"
#include "cli/train_precision.h"
#include "cli/train_ranks.h"

enum {
    SAY_EVERY_MS = 5000
};

static const struct team *team_of(const struct train_job *job)
{
    return job->opts.train.mode.team;
}

/* ---- what training depends on ---- */

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
        buf_addf(&job->settings, " precision=%s",
                 choice_word(kge_precisions, (int)train->mode.format));
}

static void triples_word_add(struct buf *out, const char *key, const struct triples *triples)
{
    buf_addf(out, " %s=%zu/%016" PRIx64, key, triples->n, triples_hash(triples));
}

static size_t n_validated(const struct train_job *job)
{
    uint64_t n_max = job->opts.max_valid_triples;
    return n_max > 0 ? MIN(job->data->valid.n, (size_t)n_max) : job->data->valid.n;
}

/* MRRs are comparable only if all belong to the same questions, with the same answers left out. */
static void validation_add(struct train_job *job)
{
    const struct kge_data *data = job->data;
    if (data->valid.n == 0) {
        buf_add_text(&job->validation, "validated=none");
        return;
    }
    buf_addf(&job->validation, "validated=%zu eval_every=%" PRIu64, n_validated(job),
             job->opts.eval_every);
    triples_word_add(&job->validation, "valid", &data->valid);
    triples_word_add(&job->validation, "test", &data->test);
}

/* On processors nothing depends on the cut. */
static void cut_setting_add(struct train_job *job)
{
    if (job->opts.train.mode.is_reproducible && job->backend.is_device)
        buf_add_text(&job->settings, " reproducible=1");
}

/* Compares what all ranks must have alike: the settings, the epochs, and the kind of backend. */
static int ranks_compare(struct train_job *job, struct err *err)
{
    const struct train_job_opts *opts = &job->opts;
    cleanup_buf struct buf all = BUF_INIT;
    const char *numerics = opts->train.mode.is_reproducible ? job->backend.description : "no";
    buf_addf(&all,
             "epochs=%" PRIu64 " patience=%" PRIu64 " device=%d reproducible=", opts->n_epochs,
             opts->patience, job->backend.is_device);
    for (const char *at = numerics; *at; at++)
        buf_add_char(&all, *at == ' ' ? '_' : *at);
    buf_addf(&all, " %s %s", buf_text(&job->validation), buf_text(&job->settings));
    return train_ranks_compare(team_of(job), buf_str(&all), err);
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
    validation_add(job);
    int rc = num_open_any(&job->backend, backend, err);
    if (rc == 0)
        rc = num_open(&job->validation_backend, job->backend.is_device ? NULL : backend, err);
    if (rc == 0)
        rc = ranks_compare(job, err);
    if (rc != 0)
        return rc;
    cut_setting_add(job);
    pools_open(job);
    train_init(model, opts->train.seed);
    rc = trainer_open(&job->trainer, model, &opts->train, job->questions.at, job->questions.n,
                      &job->backend, job->pool, err);
    if (rc != 0)
        return rc;
    kge_known_build(&job->known, data);
    job->state_ms = job->said_ms = job->epoch_ms = clock_now_ms();
    rc = folder_begin(job, err);
    if (rc == 0)
        rc = trainer_share(&job->trainer, err);
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
    buf_release(&job->validation);
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
    if (!team_is_alone(team_of(job)))
        return;
    thread_pool_stop_when(job->pool, &is_told);
    thread_pool_stop_when(job->validation_pool, &is_told);
}

/* ---- epochs ---- */

static int validate(struct train_job *job, struct rank_metrics *metrics, struct err *err)
{
    struct rank_metrics sides[SIDE_N + 1];
    const struct triples *valid = &job->data->valid;
    struct team *team = (struct team *)(uintptr_t)team_of(job);
    const struct ranks_shared shared = {team ? team->rank : 0, team_size(team), train_ranks_join,
                                        team};
    const struct ranks_opts opts = {.shared = team_is_alone(team) ? NULL : &shared,
                                    .n_entities = job->model->shape.n_entities,
                                    .known = &job->known,
                                    .ties = TIES_MEAN,
                                    .tails_only = !job->model->is_reciprocal};
    thread_pool_stop_when(job->validation_pool, &is_told);
    int rc = eval_rank(job->model, &job->validation_backend, job->validation_pool, &opts, valid->at,
                       n_validated(job), sides, err);
    if (!team_is_alone(team))
        thread_pool_stop_when(job->validation_pool, NULL);
    *metrics = sides[SIDE_N];
    return rc;
}

static int best_keep(struct train_job *job, double mrr, struct err *err)
{
    struct train_progress *at = &job->trainer.at;
    if (at->best_epoch > 0 && mrr <= at->best) {
        at->n_worse++;
        return 0;
    }
    at->best = mrr;
    at->best_epoch = at->epoch + 1;
    at->n_worse = 0;
    return folder_best_save(job, err);
}

/*
 * Does what an epoch needs after its last update. *is_cut: the training was told to stop, before
 * anything was changed.
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
    folder_history_add(job, is_validated ? &valid : NULL, ms);
    rc = folder_checkpoint_save(job, err);
    if (rc == 0)
        rc = folder_history_put(job, err);
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

/*
 * Waits for all ranks, so that no rank ends before all is saved. A launcher ends the other ranks as
 * soon as one has ended, and its signals must not cut off what rank 0 still prints.
 */
static int ranks_await(const struct train_job *job, struct err *err)
{
    if (!team_is_alone(team_of(job)))
        (void)signal(SIGTERM, SIG_IGN);
    team_wait(team_of(job));
    return team_check(team_of(job), err);
}

static int stop(struct train_job *job, struct err *err)
{
    int rc = folder_state_save(job, err);
    if (rc == 0)
        rc = ranks_await(job, err);
    if (rc != 0)
        return rc;
    return fail(err, ERR_STOPPED,
                "stopped in epoch %" PRIu64 " after %" PRIu64
                " of %zu batches; the same command%s goes on from there",
                job->trainer.at.epoch + 1, job->trainer.at.batch, job->trainer.batches.n_batches,
                job->opts.overwrite ? " without --force" : "");
}

bool train_job_is_over(const struct train_job *job)
{
    const struct train_progress *at = &job->trainer.at;
    return at->epoch >= job->opts.n_epochs ||
           (job->opts.patience > 0 && at->n_worse >= job->opts.patience);
}

static int epochs_run(struct train_job *job, struct err *err)
{
    int rc = 0;
    while (rc == 0 && !train_job_is_over(job)) {
        bool is_cut = false;
        if (!trainer_epoch_is_over(&job->trainer)) {
            rc = trainer_update(&job->trainer, err);
            is_cut = rc == ERR_STOPPED;
        }
        if (rc == 0 && trainer_epoch_is_over(&job->trainer))
            rc = epoch_end(job, &is_cut, err);
        bool stops = atomic_load(&is_told);
        bool is_due = clock_now_ms() - job->state_ms >= job->opts.state_every_ms;
        if (rc == 0)
            rc = train_ranks_agree(team_of(job), &stops, &is_due, err);
        if (is_cut || (rc == 0 && stops && !train_job_is_over(job)))
            return stop(job, err);
        if (rc == 0 && is_due)
            rc = folder_state_save(job, err);
        if (rc == 0)
            progress_say(job);
    }
    return rc;
}

int train_job_run(struct train_job *job, struct err *err)
{
    const struct train_progress *at = &job->trainer.at;
    stops_watch(job);
    char ranks[32] = "";
    if (!team_is_alone(team_of(job)))
        snprintf(ranks, sizeof(ranks), "%u ranks of ", team_size(team_of(job)));
    say(job->app, "%zu questions in batches of %zu, %" PRIu64 " parameters, %s%u thread%s, %s",
        job->trainer.batches.n, job->trainer.batches.size, conve_n_parameters(&job->model->shape),
        ranks, thread_pool_n_threads(job->pool), plural(thread_pool_n_threads(job->pool)),
        job->backend.description);
    if (!train_job_is_over(job))
        train_precision_report(&job->trainer, job->app);
    int rc = epochs_run(job, err);
    if (rc == 0)
        rc = folder_state_save(job, err);
    if (rc == 0)
        rc = folder_final_save(job, err);
    if (rc == 0)
        rc = ranks_await(job, err);
    if (rc == 0 && at->best_epoch > 0)
        say(job->app, "best validation MRR %.4f after epoch %" PRIu64, at->best, at->best_epoch);
    return rc;
}
