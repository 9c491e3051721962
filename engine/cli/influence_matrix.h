/* SPDX-License-Identifier: Apache-2.0
 *
 * All influences as one array of numpy: one row for each test triple, one column for each training
 * triple, float64; NaN where a filter leaves the training triple out. Each piece is written to its
 * place in the file, so the array is never in memory as a whole.
 */
#pragma once

#include "base/outfile.h"

struct influence_matrix {
    struct outfile file;
    size_t n_tests, n_train;
    uint64_t data_at; /* where the numbers begin in the file */
    bool is_taken;    /* `file` is now the file that was given to influence_matrix_take() */
    bool is_in_place; /* an earlier command has put the whole file in place */
};

#define INFLUENCE_MATRIX_INIT \
    {                         \
        .file = OUTFILE_INIT, \
    }

/* Adds the header of such a file to out. n_tests 0: an array of one dimension. */
void influence_matrix_header(struct buf *out, size_t n_tests, size_t n_train);
/* ERR_USAGE for a pipe: pieces do not come in order. */
MUST_CHECK int influence_matrix_open(struct influence_matrix *matrix, const char *path,
                                     bool overwrite, size_t n_tests, size_t n_train,
                                     struct err *err);
MUST_CHECK int influence_matrix_put(struct influence_matrix *matrix, size_t test,
                                    size_t train_begin, const double *values, size_t n,
                                    struct err *err);
/*
 * Instead of influence_matrix_put(): takes the whole file at `from`. The commit moves it into
 * place; from another file system it is copied. Without a commit the file stays at `from`. If there
 * is no file at `from`, but one of the right size at the output's path, which may be overwritten,
 * an earlier command has moved it: it is kept as the result.
 */
MUST_CHECK int influence_matrix_take(struct influence_matrix *matrix, const char *from,
                                     struct err *err);
MUST_CHECK int influence_matrix_commit(struct influence_matrix *matrix, struct err *err);
void influence_matrix_close(struct influence_matrix *matrix);
