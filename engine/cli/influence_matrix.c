/* SPDX-License-Identifier: Apache-2.0
 *
 * The format: numpy.lib.format, version 1.0.
 */
#include "cli/influence_matrix.h"

#include <assert.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they are: <f8");

enum {
    ALIGN_BYTES = 64,
    PREFIX_BYTES = 10 /* the magic, the version, and two bytes of length */
};

static void header_add(struct buf *out, size_t n_tests, size_t n_train)
{
    cleanup_buf struct buf text = BUF_INIT;
    buf_add_text(&text, "{'descr': '<f8', 'fortran_order': False, 'shape': (");
    if (n_tests > 0)
        buf_addf(&text, "%zu, %zu), }", n_tests, n_train);
    else
        buf_addf(&text, "%zu,), }", n_train);
    while ((PREFIX_BYTES + text.len + 1) % ALIGN_BYTES != 0)
        buf_add_char(&text, ' ');
    buf_add_char(&text, '\n');
    buf_add(out, "\x93NUMPY\x01\x00", 8);
    buf_add_char(out, (char)(text.len & 0xff));
    buf_add_char(out, (char)(text.len >> 8));
    buf_add_str(out, buf_str(&text));
}

int influence_matrix_open(struct influence_matrix *matrix, const char *path, bool overwrite,
                          size_t n_tests, size_t n_train, struct err *err)
{
    *matrix = (struct influence_matrix){.n_tests = MAX(n_tests, 1u), .n_train = n_train};
    int rc = outfile_open(&matrix->file, path, overwrite, err);
    if (rc)
        return rc;
    if (matrix->file.is_direct)
        return fail(err, ERR_USAGE,
                    "%s: an array is written out of order, which only a file allows",
                    matrix->file.name);
    header_add(&matrix->file.pending, n_tests, n_train);
    matrix->data_at = matrix->file.pending.len;
    return outfile_extend(&matrix->file, (uint64_t)matrix->n_tests * n_train * sizeof(double), err);
}

int influence_matrix_put(struct influence_matrix *matrix, size_t test, size_t train_begin,
                         const double *values, size_t n, struct err *err)
{
    ASSERT(test < matrix->n_tests && train_begin + n <= matrix->n_train);
    uint64_t at = ((uint64_t)test * matrix->n_train + train_begin) * sizeof(*values);
    struct str bytes = {(const char *)values, n * sizeof(*values)};
    return outfile_patch(&matrix->file, matrix->data_at + at, bytes, err);
}

int influence_matrix_commit(struct influence_matrix *matrix, struct err *err)
{
    return outfile_commit(&matrix->file, err);
}

void influence_matrix_close(struct influence_matrix *matrix)
{
    outfile_close(&matrix->file);
}
