/* SPDX-License-Identifier: Apache-2.0
 *
 * A training in its folder: begins, or continues from a saved state; runs the epochs with their
 * validation, and writes the files.
 */
#pragma once

#include "cli/kge_data.h"
#include "train/trainer.h"

struct train_job_opts {
    struct train_opts train;
    const char *folder;
    const char *checkpoint_folder; /* NULL: `folder` */
    uint64_t n_epochs;
    uint64_t checkpoint_every, eval_every; /* in epochs; checkpoint_every 0: never */
    uint64_t patience;                     /* validations without a better MRR before the
                                            * training ends; 0: no limit */
    uint64_t state_every_ms;
    uint64_t max_valid_triples; /* 0: all */
    unsigned n_threads;
    bool overwrite;
    bool is_restarted; /* a launcher has started this command again */
};

/* In a team (opts.train.mode.team), only rank 0 touches files and prints anything. */

struct train_job {
    struct train_job_opts opts;
    const struct app *app;
    const struct kge_data *data;
    struct conve *model;
    struct triples questions; /* the questions of training; if the model is reciprocal, also the
                               * inverse ones */
    struct known known;
    struct trainer trainer;
    struct num_backend backend;                 /* for training */
    struct num_backend validation_backend;      /* for validation; a host backend */
    struct thread_pool *pool, *validation_pool; /* the same pool, unless a device trains */
    struct buf history, settings, validation;   /* settings and validation: as in struct
                                                 * train_settings */
    uint64_t state_ms, said_ms, epoch_ms;       /* times of the last save, the last message and
                                                 * the beginning of the epoch */
    int lock_fd;                                /* lock of the folder: one training at a time */
};

/* Takes the model over. The other arguments are borrowed. */
MUST_CHECK int train_job_open(struct train_job *job, const struct train_job_opts *opts,
                              struct conve *model, const char *backend, const struct kge_data *data,
                              const struct app *app, struct err *err);
/* All epochs are done, or --patience has ended them. */
bool train_job_is_over(const struct train_job *job);
/* ERR_STOPPED after SIGINT, SIGTERM or SIGHUP, with the state saved. */
MUST_CHECK int train_job_run(struct train_job *job, struct err *err);
void train_job_close(struct train_job *job);
