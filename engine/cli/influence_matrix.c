/* SPDX-License-Identifier: Apache-2.0
 *
 * The format: numpy.lib.format, version 1.0.
 */
#include "cli/influence_matrix.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/xalloc.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers are written as they are: <f8");

enum {
    ALIGN_BYTES = 64,
    PREFIX_BYTES = 10 /* the magic, the version, and the length in two bytes */
};

void influence_matrix_header(struct buf *out, size_t n_tests, size_t n_train)
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
    influence_matrix_header(&matrix->file.pending, n_tests, n_train);
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

enum {
    COPY_BYTES = 1 << 20
};

static int file_copy(struct influence_matrix *matrix, int from, struct err *err)
{
    cleanup_free char *piece = xmalloc(COPY_BYTES);
    for (uint64_t at = 0; at < matrix->file.bytes;) {
        ssize_t got = TEMP_FAILURE_RETRY(pread(from, piece, COPY_BYTES, (off_t)at));
        if (got <= 0)
            return got < 0
                       ? fail_errno(err, "%s: read its numbers", matrix->file.name)
                       : fail(err, ERR_DATA, "%s: its numbers end too early", matrix->file.name);
        int rc = outfile_patch(&matrix->file, at, (struct str){piece, (size_t)got}, err);
        if (rc)
            return rc;
        at += (uint64_t)got;
    }
    return 0;
}

/* True if an earlier command moved the file, and was ended before it could record that. */
static bool is_in_place(const struct influence_matrix *matrix)
{
    struct stat st;
    return errno == ENOENT && matrix->file.overwrite && stat(matrix->file.path, &st) == 0 &&
           (uint64_t)st.st_size == matrix->file.bytes;
}

/*
 * Replaces the unfinished file beside the output's path (matrix->file) by `from`, so that the
 * commit renames it.
 */
int influence_matrix_take(struct influence_matrix *matrix, const char *from, struct err *err)
{
    struct stat here, there;
    cleanup_fd int fd = open(from, O_RDWR | O_CLOEXEC);
    matrix->is_in_place = fd < 0 && is_in_place(matrix);
    if (matrix->is_in_place)
        return 0;
    if (fd < 0 || fstat(fd, &there) != 0 || fstat(matrix->file.fd, &here) != 0)
        return fail_errno(err, "open %s", from);
    if ((uint64_t)there.st_size != matrix->file.bytes)
        return fail(err, ERR_DATA, "%s: expected %lu bytes, found %ld", from,
                    (unsigned long)matrix->file.bytes, (long)there.st_size);
    if (here.st_dev != there.st_dev)
        return file_copy(matrix, fd, err);
    if (matrix->file.beside)
        unlink(matrix->file.beside);
    free(matrix->file.beside);
    matrix->file.beside = xstrdup(from);
    fd_close(&matrix->file.fd);
    matrix->file.fd = steal_fd(&fd);
    matrix->is_taken = true;
    return 0;
}

int influence_matrix_commit(struct influence_matrix *matrix, struct err *err)
{
    int rc = matrix->is_in_place ? 0 : outfile_commit(&matrix->file, err);
    if (rc && matrix->is_taken)
        free(steal_ptr(&matrix->file.beside)); /* else outfile_close() would remove `from` */
    return rc;
}

void influence_matrix_close(struct influence_matrix *matrix)
{
    if (matrix->is_taken)
        free(steal_ptr(&matrix->file.beside));
    outfile_close(&matrix->file);
}
