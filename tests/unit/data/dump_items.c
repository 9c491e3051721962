/* SPDX-License-Identifier: Apache-2.0
 *
 * dump_items FILE: its items as muster sees them, one a line. For test_against_python.py.
 */
#include <unistd.h>

#include "base/fs.h"
#include "data/source.h"

static int dump(const char *path, struct err *err)
{
    struct source *source = NULL;
    struct buf out = BUF_INIT;
    int rc = source_open(&source, &(struct source_opts){.paths = &path, .n_paths = 1}, err);
    while (rc == 0 && !source_is_complete(source))
        rc = source_scan(source, 1 << 20, err);
    for (uint64_t first = 0, n_out; rc == 0 && first < source_known(source); first += n_out) {
        buf_reset(&out);
        rc = source_lines(source, first, source_known(source) - first, 1 << 16, &out, &n_out, err);
        if (rc == 0)
            rc = write_all(STDOUT_FILENO, out.at, out.len, err);
    }
    buf_release(&out);
    source_close(source);
    return rc;
}

int main(int argc, char **argv)
{
    struct err err = {0};
    if (argc != 2)
        return 2;
    int rc = dump(argv[1], &err);
    if (rc)
        fprintf(stderr, "dump_items: %s\n", err.text);
    return err_exit_status(rc);
}
