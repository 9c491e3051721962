/* SPDX-License-Identifier: Apache-2.0
 *
 * muster merge of files of tensors: a table with one row for each kind of file.
 */
#pragma once

#include "opt/cmd.h"
#include "rule/merge_options.h"
#include "tensor/kind.h"

struct inputs;

/* The `context` with which the merges of records and of tensors call back. */
struct merging {
    struct app *app;
    const struct inputs *inputs; /* the files as they were before they were opened */
};
void merging_note(void *context, const char *text);
int merging_placing(void *context, int fd, struct err *err);

/* The options for all kinds. */
struct tensors_request {
    const char *out_path;
    const struct merge_options *options;
    uint64_t expect; /* UINT64_MAX: any number of records */
    bool force, dry_run, reflink;
};

/* Finds the kind of all files; TENSOR_NONE: they are records. ERR_USAGE for files of two kinds. */
MUST_CHECK int tensors_look(char **paths, size_t n_files, enum tensor_kind *kind, struct err *err);
/* ERR_USAGE if the output's extension is that of another format. */
MUST_CHECK int tensors_output_check(enum tensor_kind kind, const char *path, struct err *err);
/* Prints what was done with the files. */
MUST_CHECK int tensors_merge(struct merging *merging, const struct tensors_request *ask,
                             enum tensor_kind kind, char **paths, size_t n_files, struct err *err);
