/* SPDX-License-Identifier: Apache-2.0
 *
 * Influences as files: the JSON and CSV of TiePin's programs, and JSON lines. A test triple's
 * influences are written as they come, and a file is put in place when it is whole.
 */
#pragma once

#include "base/outfile.h"
#include "cli/json_out.h"
#include "cli/kge_data.h"
#include "tracin/tracin.h"

/* The forms of files; the JSON ones as the modes of TiePin's programs write them. */
enum influence_form {
    INFLUENCES_TEST,   /* one object, results without labels (mode test) */
    INFLUENCES_SINGLE, /* an array of labelled results (mode single, and each file of a batch) */
    INFLUENCES_LONE,   /* one object without labels, of one test triple (tracin_pytorch.py) */
    INFLUENCES_PER_TRIPLE, /* one labelled object (tracin_test_<i>.json) */
    INFLUENCES_CSV,        /* one row for each influence */
    INFLUENCES_JSONL       /* one object for each influence, on a line of its own */
};

/* What all results of a command have in common. */
struct influence_scene {
    const struct kge_data *data;
    size_t n_tests;
    size_t top_k; /* 0: all */
    const double *learning_rates;
    size_t n_learning_rates;
};

/* One test triple, and its influences. */
struct influence_result {
    size_t test_index; /* index in its file, from 0 */
    struct triple test;
    double self_influence;
    const struct tracin_influence *at;
    size_t n;
};

struct influence_out {
    struct outfile file;
    enum influence_form form;
    const struct influence_scene *scene;
    struct json_out json;
    struct buf scratch;
};

#define INFLUENCE_OUT_INIT    \
    {                         \
        .file = OUTFILE_INIT, \
    }

/* ERR_USAGE if the file exists and may not be overwritten. The scene is borrowed. */
MUST_CHECK int influence_out_open(struct influence_out *out, const char *path,
                                  enum influence_form form, bool overwrite,
                                  const struct influence_scene *scene, struct err *err);
MUST_CHECK int influence_out_add(struct influence_out *out, const struct influence_result *result,
                                 struct err *err);
MUST_CHECK int influence_out_commit(struct influence_out *out, struct err *err);
void influence_out_close(struct influence_out *out);
