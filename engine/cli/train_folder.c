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
                  best_name[] = "best_model.safetensors", final_name[] = "final_model.safetensors",
                  checkpoint_prefix[] = "checkpoint_epoch_", model_suffix[] = ".safetensors";

static bool is_leader(const struct train_job *job)
{
    return team_is_leader(job->opts.train.mode.team);
}

static char *path_of(const struct train_job *job, const char *name)
{
    return path_join(job->opts.folder, name);
}

int folder_state_save(struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, state_name);
    job->state_ms = clock_now_ms();
    if (!is_leader(job))
        return trainer_fetch(&job->trainer, err);
    return train_state_save(&job->trainer, buf_str(&job->settings), path, err);
}

/* ---- the history: one line for each epoch ---- */

int folder_history_put(const struct train_job *job, struct err *err)
{
    cleanup_free char *path = path_of(job, "training_history.jsonl");
    if (!is_leader(job))
        return 0;
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
    return is_leader(job) ? trainer_model_save(&job->trainer, path, err) : 0;
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
    uint64_t epoch = job->trainer.at.epoch + 1;
    if (job->opts.checkpoint_every == 0 || epoch % job->opts.checkpoint_every != 0)
        return 0;
    cleanup_free char *path = xasprintf("%s/%s%" PRIu64 "%s", checkpoint_folder(job),
                                        checkpoint_prefix, epoch, model_suffix);
    return model_save(job, path, err);
}
