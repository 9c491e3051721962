/* SPDX-License-Identifier: Apache-2.0
 *
 * All influences as one array of numpy: a row a test triple, a column a training triple, float64; NaN where a
 * filter leaves the training triple out. Written piece by piece where it belongs, so that it is never in memory.
 */
#pragma once

#include "base/outfile.h"

struct influence_matrix {
    struct outfile file;
    size_t n_tests, n_train;
    uint64_t data_at; /* where the numbers begin in the file */
    bool is_taken;    /* the file is another one, moved here */
    bool is_in_place; /* as it was before */
};

#define INFLUENCE_MATRIX_INIT \
    {                         \
        .file = OUTFILE_INIT, \
    }

/* What such a file begins with. */
void influence_matrix_header(struct buf *out, size_t n_tests, size_t n_train);
/* n_tests 0: an array of one dimension. ERR_USAGE for a pipe: pieces do not come in order. */
MUST_CHECK int influence_matrix_open(struct influence_matrix *matrix, const char *path,
                                     bool overwrite, size_t n_tests, size_t n_train,
                                     struct err *err);
MUST_CHECK int influence_matrix_put(struct influence_matrix *matrix, size_t test,
                                    size_t train_begin, const double *values, size_t n,
                                    struct err *err);
/*
 * Instead of pieces: the file at `from`, which is such a file and whole, is moved into the place. Where it cannot be
 * moved there it is copied. It stays where it is if the array is not committed. If it is not
 * there, but such a file is in the place, which may be replaced, that is it.
 */
MUST_CHECK int influence_matrix_take(struct influence_matrix *matrix, const char *from,
                                     struct err *err);
MUST_CHECK int influence_matrix_commit(struct influence_matrix *matrix, struct err *err);
void influence_matrix_close(struct influence_matrix *matrix);
