/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/list/joblog.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/ours.h"
#include "base/shell.h"
#include "base/xalloc.h"

static const char header[] =
    "Seq\tHost\tStarttime\tJobRuntime\tSend\tReceive\tExitval\tSignal\tCommand\n";

enum {
    HEADER_BYTES = sizeof(header) - 1
};

/* 1: the whole header is there; 0: nothing but a part of it, which a killed run left. */
static int header_check(int fd, const char *path, struct err *err)
{
    char begin[HEADER_BYTES + 1];
    ssize_t got = TEMP_FAILURE_RETRY(pread(fd, begin, sizeof(begin), 0));
    if (got < 0)
        return fail_errno(err, "read %s", path);
    if (memcmp(begin, header, MIN((size_t)got, (size_t)HEADER_BYTES)) != 0)
        return fail(err, ERR_DATA,
                    "%s is not empty, and no log of jobs; name another file, or remove it", path);
    return got >= HEADER_BYTES;
}

/* A run that was killed, or a full disk, may have left a part of a line at the end. */
static int tail_cut(int fd, const char *path, off_t size, struct err *err)
{
    char block[4096];
    while (size > HEADER_BYTES) {
        size_t len = MIN((off_t)sizeof(block), size);
        if (TEMP_FAILURE_RETRY(pread(fd, block, len, size - (off_t)len)) != (ssize_t)len)
            return fail_errno(err, "read %s", path);
        const char *end = memrchr(block, '\n', len);
        if (end) {
            size -= (off_t)len - (end + 1 - block);
            break;
        }
        size -= (off_t)len;
    }
    return TEMP_FAILURE_RETRY(ftruncate(fd, size)) == 0 ? 0 : fail_errno(err, "shorten %s", path);
}

static int log_begin(int fd, const char *path, bool is_resumed, struct err *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "look at %s", path);
    int has_header = header_check(fd, path, err);
    if (has_header < 0)
        return has_header;
    if (has_header && is_resumed)
        return tail_cut(fd, path, st.st_size, err);
    if (TEMP_FAILURE_RETRY(ftruncate(fd, 0)) != 0)
        return fail_errno(err, "empty %s", path);
    int rc = write_all(fd, header, HEADER_BYTES, err);
    return rc == 0 ? 0 : wrap(err, rc, "%s", path);
}

int joblog_open(struct joblog *log, const char *path, bool is_resumed, struct err *err)
{
    cleanup_fd int fd = -1;
    *log = (struct joblog)JOBLOG_INIT;
    int rc = ours_open(path, O_RDWR | O_APPEND | O_CREAT, &fd, err);
    if (rc == 0)
        rc = log_begin(fd, path, is_resumed, err);
    if (rc != 0)
        return rc;
    log->fd = steal_fd(&fd);
    log->path = xstrdup(path);
    return 0;
}

void joblog_command_add(struct buf *out, const char *const *argv)
{
    bool is_text = argv[0] && argv[1] && argv[2] && !argv[3] && strcmp(argv[0], "sh") == 0 &&
                   strcmp(argv[1], "-c") == 0;
    if (is_text) {
        buf_add_text(out, argv[2]);
        return;
    }
    for (size_t i = 0; argv[i]; i++) {
        if (i > 0)
            buf_add_char(out, ' ');
        buf_add_shell_word(out, argv[i]);
    }
}

static void seconds_add(struct buf *out, int width, uint64_t ms)
{
    buf_addf(out, "%*" PRIu64 ".%03u", width, ms / 1000, (unsigned)(ms % 1000));
}

static void command_add(struct buf *out, const char *command)
{
    for (; *command; command++) {
        unsigned char c = (unsigned char)*command;
        buf_add_char(out, c < ' ' || c == 0x7f ? ' ' : *command);
    }
}

int joblog_add(struct joblog *log, const struct joblog_row *row, struct err *err)
{
    enum {
        RUNTIME_WIDTH = 6 /* before the point; GNU parallel prints %10.3f */
    };
    struct buf *line = &log->line;
    buf_reset(line);
    buf_addf(line, "%" PRIu64 "\t", row->seq);
    command_add(line, row->host ? row->host : ":");
    buf_add_char(line, '\t');
    seconds_add(line, 1, row->start_ms > 0 ? (uint64_t)row->start_ms : 0);
    buf_add_char(line, '\t');
    seconds_add(line, RUNTIME_WIDTH, row->runtime_ms);
    buf_addf(line, "\t%" PRIu64 "\t%" PRIu64 "\t%d\t%d\t", row->sent_bytes, row->received_bytes,
             row->exit_status, row->signal);
    command_add(line, row->command);
    buf_add_char(line, '\n');
    int rc = write_all(log->fd, line->at, line->len, err);
    return rc == 0 ? 0 : wrap(err, rc, "%s", log->path);
}

void joblog_close(struct joblog *log)
{
    fd_close(&log->fd);
    free(log->path);
    buf_release(&log->line);
    *log = (struct joblog)JOBLOG_INIT;
}
