/* SPDX-License-Identifier: Apache-2.0 */
#include "trial/input.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
    PIECE_BYTES = 64 * 1024
};

int trial_input_open(struct trial_input *input, const char *path, struct err *err)
{
    struct stat st;
    *input = (struct trial_input)TRIAL_INPUT_INIT;
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) != 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", path);
    if (!S_ISREG(st.st_mode))
        return fail(err, ERR_USAGE,
                    "--stdin %s: every run reads it from its beginning, so it must be a file",
                    path);
    input->fd = steal_fd(&fd);
    return 0;
}

static int piece_read(struct trial_input *input, struct err *err)
{
    ssize_t n;
    buf_reserve(&input->pending, PIECE_BYTES);
    do
        n = read(input->fd, input->pending.at + input->pending.len, PIECE_BYTES);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return fail_errno(err, "read the file of --stdin");
    buf_extend(&input->pending, (size_t)n);
    return 0;
}

int trial_input_pump(struct trial_input *input, struct node_worker *worker, struct err *err)
{
    while (input->fd >= 0 && node_is_open(worker, STREAM_IN)) {
        int rc = input->pending.len == 0 ? piece_read(input, err) : 0;
        if (rc)
            return rc;
        if (input->pending.len == 0) {
            node_finish(worker, STREAM_IN);
            fd_close(&input->fd);
            break;
        }
        ssize_t taken = node_write(worker, STREAM_IN, buf_str(&input->pending));
        if (taken < 0)
            break; /* the worker reads no more, which is no error */
        buf_consume(&input->pending, (size_t)taken);
        if (input->pending.len > 0)
            break;
    }
    return 0;
}

void trial_input_close(struct trial_input *input)
{
    fd_close(&input->fd);
    buf_release(&input->pending);
}
