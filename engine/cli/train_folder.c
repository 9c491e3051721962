/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/train_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/outfile.h"
#include "base/parse.h"
#include "base/xalloc.h"
#include "cli/json_out.h"
#include "train/state.h"

enum {
    HISTORY_BYTES_MAX = 1 << 30
};

static const char state_name[] = "training_state.safetensors",
                  best_name[] = "best_model.safetensors", final_name[] = "final_model.safetensors";

static bool is_leader(const struct train_job *job)
{
    return team_is_leader(job->opts.train.mode.team);
}

static char *path_of(const struct train_job *job, const char *name)
{
    return path_join(job->opts.folder, name);
}

static struct train_settings settings_of(const struct train_job *job)
{
    return (struct train_settings){buf_str(&job->settings), buf_str(&job->validation)};
}

static uint64_t id_of(const struct train_job *job)
{
    return train_settings_id(buf_str(&job->settings));
}

int folder_state_save(struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, state_name);
    job->state_ms = clock_now_ms();
    if (!is_leader(job))
        return trainer_fetch(&job->trainer, err);
    const struct train_settings settings = settings_of(job);
    return train_state_save(&job->trainer, &settings, path, err);
}

/* ---- the history: one line for each epoch ---- */

int folder_history_put(const struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, "training_history.jsonl");
    if (!is_leader(job))
        return 0;
    return file_replace(path, buf_str(&job->history), err);
}

/* Reads the lines of finished epochs. A process that was killed may have written one line more. */
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

void folder_history_add(struct train_job *job, const struct rank_metrics *valid, uint64_t ms)
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

/* ---- what is there already ---- */

/* checkpoint_epoch_<N>.safetensors */
static bool checkpoint_parse(const char *name, uint64_t *epoch)
{
    struct str at = str_of(name), prefix = STR("checkpoint_epoch_"), suffix = STR(".safetensors");
    if (!str_starts_with(at, prefix) || !str_ends_with(at, suffix) ||
        at.len <= prefix.len + suffix.len)
        return false;
    at.at += prefix.len;
    at.len -= prefix.len + suffix.len;
    return u64_parse(at, 0, UINT64_MAX, epoch, NULL) == 0;
}

static const char *checkpoint_folder(const struct train_job *job)
{
    return job->opts.checkpoint_folder ? job->opts.checkpoint_folder : job->opts.folder;
}

/* True for the number of an epoch that gets a checkpoint, and that is not over yet. */
static bool gets_checkpoint(const struct train_job *job, uint64_t epoch)
{
    uint64_t every = job->opts.checkpoint_every;
    return every > 0 && epoch % every == 0 && epoch > job->trainer.at.epoch &&
           epoch <= job->opts.n_epochs;
}

static int old_unlink(const char *folder, const char *name, struct err *err)
{
    cleanup_free char *path = path_join(folder, name);
    if (unlink(path) == 0 || errno == ENOENT)
        return 0;
    return fail_errno(err, "remove %s", path);
}

/*
 * The trainings whose checkpoints this command may replace or remove: its own training, and with
 * --force the trainings whose state or models are in the folder.
 */
struct trainings {
    uint64_t ids[4];
    size_t n;
    bool is_replaced; /* the training in the folder, by --force */
};

static const char *const own_names[] = {state_name, best_name, final_name};

/*
 * A restart continues what the first start has begun, although its command says --force. If that
 * start failed before it replaced an older training, the state is not of this one.
 */
static bool is_replaced(const struct train_job *job)
{
    cleanup_free char *state = path_of(job, state_name);
    uint64_t id;
    bool is_own = train_file_id(state, &id) && id == id_of(job);
    return job->opts.overwrite && !(job->opts.is_restarted && is_own);
}

static void trainings_find(const struct train_job *job, struct trainings *all)
{
    *all = (struct trainings){.ids = {id_of(job)}, .n = 1, .is_replaced = is_replaced(job)};
    for (size_t i = 0; all->is_replaced && i < countof(own_names); i++) {
        cleanup_free char *path = path_of(job, own_names[i]);
        all->n += train_file_id(path, &all->ids[all->n]);
    }
}

static bool is_of(const struct trainings *all, const char *path)
{
    uint64_t id;
    if (!train_file_id(path, &id))
        return false;
    for (size_t i = 0; i < all->n; i++)
        if (all->ids[i] == id)
            return true;
    return false;
}

static int others_fail(const char *path, const char *option, struct err *err)
{
    return fail(err, ERR_USAGE,
                "%s exists and is not of this training; another %s keeps it, --force replaces it",
                path, option);
}

/*
 * Looks at a checkpoint that is there. With --force it is removed if it belongs to one of `all`, or
 * is in the way.
 */
static int checkpoint_look(const struct train_job *job, const struct trainings *all,
                           const char *name, size_t *n_others, struct err *err)
{
    uint64_t epoch;
    cleanup_free char *path = path_join(checkpoint_folder(job), name);
    if (!checkpoint_parse(name, &epoch))
        return 0;
    bool is_own = is_of(all, path), is_in_the_way = gets_checkpoint(job, epoch);
    if (all->is_replaced && (is_own || is_in_the_way))
        return old_unlink(checkpoint_folder(job), name, err);
    if (!is_own && is_in_the_way)
        return others_fail(path, "--checkpoint-dir", err);
    *n_others += !is_own;
    return 0;
}

/* Looks at all checkpoints that are there, and prints how many of other trainings stay. */
static int checkpoints_look(const struct train_job *job, const struct trainings *all,
                            struct err *err)
{
    DIR *folder = opendir(checkpoint_folder(job));
    size_t n = 0;
    int rc = 0;
    if (!folder)
        return fail_errno(err, "open %s", checkpoint_folder(job));
    for (const struct dirent *entry; rc == 0 && (entry = readdir(folder)) != NULL;)
        rc = checkpoint_look(job, all, entry->d_name, &n, err);
    closedir(folder);
    if (rc == 0 && n > 0)
        say(job->app, "%s has %zu checkpoint%s that %s not of this training, which stay%s",
            checkpoint_folder(job), n, plural(n), n == 1 ? "is" : "are", n == 1 ? "s" : "");
    return rc;
}

/*
 * Removes files that would be taken for results of this training. The state is removed first:
 * without it, no command continues the old training.
 */
static int old_remove(const struct train_job *job, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < countof(own_names); i++)
        rc = old_unlink(job->opts.folder, own_names[i], err);
    return rc;
}

/* Checks the file of the best model, which is in no other file. */
static int best_check(const struct train_job *job, struct err *err)
{
    const struct train_progress *at = &job->trainer.at;
    cleanup_free char *path = path_of(job, best_name);
    uint64_t id;
    if (at->best_epoch == 0)
        return 0;
    if (!path_exists(path))
        return fail(err, ERR_USAGE,
                    "%s is gone, the best model so far, of epoch %" PRIu64
                    " with a validation MRR of %.4f: put it back, or --force begins anew",
                    path, at->best_epoch, at->best);
    /* A file without an id may come from an older muster. */
    return train_file_id(path, &id) && id != id_of(job)
               ? fail(
                     err, ERR_USAGE,
                     "%s is of another training: put that of this one back, or --force begins anew",
                     path)
               : 0;
}

static int state_go_on(struct train_job *job, const char *path, struct err *err)
{
    const struct train_progress *at = &job->trainer.at;
    const struct train_settings settings = settings_of(job);
    int rc = ours_check_owner(path, err);
    if (rc)
        return wrap(err, rc, "nothing to go on from (--force begins anew)");
    rc = train_state_load(&job->trainer, &settings, path, err);
    if (rc != 0)
        return rc == ERR_DATA ? wrap(err, rc, "nothing to go on from (--force begins anew)") : rc;
    if (at->epoch > job->opts.n_epochs || (at->epoch == job->opts.n_epochs && at->batch > 0))
        return fail(err, ERR_USAGE,
                    "%s is %" PRIu64 " epochs and %" PRIu64 " batches on, past --epochs %" PRIu64
                    ": more of them, or --force to begin anew",
                    path, at->epoch, at->batch, job->opts.n_epochs);
    rc = best_check(job, err);
    if (rc)
        return rc;
    if (train_job_is_over(job))
        say(job->app, "the training is over already, after epoch %" PRIu64 ": a larger %s goes on",
            at->epoch, at->epoch >= job->opts.n_epochs ? "--epochs" : "--patience");
    else
        say(job->app, "going on in epoch %" PRIu64 ", after %" PRIu64 " of %zu batches",
            at->epoch + 1, at->batch, job->trainer.batches.n_batches);
    return history_read(job, err);
}

/*
 * Begins without a state. A training that was killed before it saved a state may have left a best
 * model.
 */
static int state_begin(const struct train_job *job, const struct trainings *all, struct err *err)
{
    cleanup_free char *final = path_of(job, final_name);
    cleanup_free char *best = path_of(job, best_name);
    if (path_exists(final))
        return fail(err, ERR_USAGE, "%s exists, without a %s to go on with; --force replaces it",
                    final, state_name);
    return path_exists(best) && !is_of(all, best) ? others_fail(best, "-o", err) : 0;
}

/* Continues from the state, if there is one; else the folder must not have a finished model. */
static int state_take(struct train_job *job, struct err *err)
{
    cleanup_free char *state = path_of(job, state_name);
    struct trainings all;
    trainings_find(job, &all);
    int rc = all.is_replaced      ? old_remove(job, err)
             : path_exists(state) ? state_go_on(job, state, err)
                                  : state_begin(job, &all, err);
    return rc == 0 ? checkpoints_look(job, &all, err) : rc;
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

int folder_begin(struct train_job *job, struct err *err)
{
    if (!is_leader(job))
        return 0;
    int rc = folder_take(job, err);
    if (rc == 0)
        rc = state_take(job, err);
    return rc == 0 ? folder_history_put(job, err) : rc;
}

/* ---- models ---- */

static int model_save(const struct train_job *job, const char *path, struct err *err)
{
    return is_leader(job) ? train_model_save(&job->trainer, id_of(job), path, err) : 0;
}

int folder_best_save(const struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, best_name);
    return model_save(job, path, err);
}

int folder_final_save(const struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, final_name);
    return model_save(job, path, err);
}

int folder_checkpoint_save(const struct train_job *job, struct err *err)
{
    const struct trainings own = {.ids = {id_of(job)}, .n = 1};
    uint64_t epoch = job->trainer.at.epoch + 1;
    if (!gets_checkpoint(job, epoch))
        return 0;
    cleanup_free char *path =
        xasprintf("%s/checkpoint_epoch_%" PRIu64 ".safetensors", checkpoint_folder(job), epoch);
    /* Another training may have begun in the folder of checkpoints meanwhile. */
    if (is_leader(job) && path_exists(path) && !is_of(&own, path))
        return fail(err, ERR_USAGE,
                    "%s is there now and not of this training: the same command with another "
                    "--checkpoint-dir goes on",
                    path);
    return model_save(job, path, err);
}
