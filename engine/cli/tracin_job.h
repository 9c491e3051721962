/* SPDX-License-Identifier: Apache-2.0
 *
 * Influences on a list of test triples, each with the training triples that count for it and the files that its
 * result goes to.
 */
#pragma once

#include "cli/influence_matrix.h"
#include "cli/influence_out.h"
#include "cli/kge_models.h"
#include "graph/proximity.h"

enum {
    OWN_FILES_MAX = 2,
    SHARED_FILES_MAX = 2
};

struct tracin_job_test {
    size_t index; /* in its file */
    struct triple triple;
    uint32_t *train_indices; /* ascending; with n_train_indices 0: all of them */
    size_t n_train_indices;
    char *own[OWN_FILES_MAX]; /* paths, in the order of own_forms; NULL: none */
    bool is_done;             /* they are in place */
};

struct tracin_spread;

struct tracin_job {
    const struct kge_data *data;
    struct kge_models *models;
    struct tracin_job_test *tests;
    size_t n_tests;
    enum tracin_order order;
    bool overwrite;
    enum influence_form own_forms[OWN_FILES_MAX];
    struct influence_scene scene;                  /* with top_k, set before a file is opened */
    struct influence_out shared[SHARED_FILES_MAX]; /* open ones, that get every result */
    size_t n_shared;
    struct influence_matrix *matrix; /* gets every influence instead; may be NULL */
    struct tracin_spread *spread;    /* computes on devices instead of here; may be NULL */
    const struct app *app;
};

/* Takes the places of test triples; their filters and files are still to come. */
void tracin_job_init(struct tracin_job *job, const struct app *app, const struct kge_data *data,
                     struct kge_models *models, const size_t *places, size_t n_places);
void tracin_job_release(struct tracin_job *job);
/*
 * Restricts each test triple to what is near it. A test triple with nothing near it is ERR_DATA, and named; with
 * `lonely` it is marked there instead (n_tests entries).
 */
MUST_CHECK int tracin_job_filter(struct tracin_job *job, const struct proximity_opts *opts,
                                 bool *lonely, struct err *err);
/* A file that gets every result. */
MUST_CHECK int tracin_job_share(struct tracin_job *job, const char *path, enum influence_form form,
                                struct err *err);
/*
 * Computes, and puts the files in place: each test triple's own as soon as it is done. Positive: an exit status, as
 * tracin_spread_run has it.
 */
MUST_CHECK int tracin_job_run(struct tracin_job *job, struct err *err);
/* How it would be computed, in a few lines. */
MUST_CHECK int tracin_job_explain(const struct tracin_job *job, struct buf *out, struct err *err);
/* "(cat, eats, mouse)", for messages. */
void tracin_triple_format(const struct kge_data *data, struct triple triple, struct buf *out);
