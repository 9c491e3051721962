/* SPDX-License-Identifier: Apache-2.0
 *
 * Influences on a list of test triples. Each test triple has the training triples that count for
 * it, and the files that its result goes to.
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
    size_t index; /* index in its file */
    struct triple triple;
    uint32_t *train_indices; /* ascending; NULL: all of them */
    size_t n_train_indices;
    char *own[OWN_FILES_MAX]; /* paths, in the order of own_forms; NULL: none */
    bool is_done;             /* its own files are in place */
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
    struct influence_scene scene;                  /* top_k is set before a file is opened */
    struct influence_out shared[SHARED_FILES_MAX]; /* open files that get every result */
    size_t n_shared;
    struct influence_matrix *matrix; /* if not NULL: gets all influences instead of files */
    struct tracin_spread *spread;    /* NULL: this process computes */
    const struct app *app;
};

/*
 * Takes these positions of the test triples. The caller sets the filters and files of the tests
 * afterwards.
 */
void tracin_job_init(struct tracin_job *job, const struct app *app, const struct kge_data *data,
                     struct kge_models *models, const size_t *places, size_t n_places);
void tracin_job_release(struct tracin_job *job);
/*
 * Restricts each test triple to the training triples near it. If a test triple has none: ERR_DATA,
 * and the text names it; with `lonely` (n_tests entries, or NULL) it is marked there instead.
 */
MUST_CHECK int tracin_job_filter(struct tracin_job *job, const struct proximity_opts *opts,
                                 bool *lonely, struct err *err);
/* Opens a file that gets every result. */
MUST_CHECK int tracin_job_share(struct tracin_job *job, const char *path, enum influence_form form,
                                struct err *err);
/*
 * Computes, and puts the files in place; a test triple's own files as soon as it is done. A
 * positive result is an exit status, as from tracin_spread_run().
 */
MUST_CHECK int tracin_job_run(struct tracin_job *job, struct err *err);
/* Adds a few lines on how the job would be computed. */
MUST_CHECK int tracin_job_explain(const struct tracin_job *job, struct buf *out, struct err *err);
/* "(cat, eats, mouse)", for messages. */
void tracin_triple_format(const struct kge_data *data, struct triple triple, struct buf *out);
