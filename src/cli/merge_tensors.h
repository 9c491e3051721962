/* SPDX-License-Identifier: Apache-2.0
 *
 * muster merge of files of tensors: one row a kind, each with its way to make one file of several.
 */
#pragma once

#include "opt/cmd.h"
#include "rule/merge_options.h"
#include "tensor/kind.h"

/* What is asked for, whatever the kind. */
struct tensors_request {
    const char *out_path;
    const struct merge_options *options;
    uint64_t expect; /* UINT64_MAX: any number of records */
    bool force, dry_run, reflink;
};

/* The kind that all files are of; TENSOR_NONE: they are records. Files of two kinds are ERR_USAGE. */
MUST_CHECK int tensors_look(char **paths, size_t n_files, enum tensor_kind *kind, struct err *err);
/* ERR_USAGE where the output's extension is that of another format than it will have. */
MUST_CHECK int tensors_output_check(enum tensor_kind kind, const char *path, struct err *err);
/* Says what became of them. */
MUST_CHECK int tensors_merge(struct app *app, const struct tensors_request *ask,
                             enum tensor_kind kind, char **paths, size_t n_files, struct err *err);
