/* SPDX-License-Identifier: Apache-2.0 */
#include "data/input.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fs.h"
#include "base/xalloc.h"

enum {
    PIECE_BYTES = 256 * 1024
};

static bool is_stdin(const char *path)
{
    return strcmp(path, "-") == 0;
}

static void ring_hold(struct input *input)
{
    struct input_ring *ring = input->ring;
    struct input **slot = &ring->held[ring->next++ % INPUTS_OPEN_MAX];
    if (*slot)
        fd_close(&(*slot)->text_fd);
    *slot = input;
}

static void ring_forget(struct input *input)
{
    for (size_t i = 0; input->ring && i < INPUTS_OPEN_MAX; i++)
        if (input->ring->held[i] == input)
            input->ring->held[i] = NULL;
}

static int plain_reopen(struct input *input, struct err *err)
{
    cleanup_fd int fd = open(input->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "open %s again", input->path);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail_errno(err, "look at %s", input->path);
    if (st.st_ino != input->st.st_ino || st.st_dev != input->st.st_dev)
        return fail(err, ERR_DATA, "%s was replaced by another file during the run", input->path);
    input->text_fd = steal_fd(&fd);
    ring_hold(input);
    return 0;
}

/*
 * Creates the spool's file: in `folder`, under a name, so that a resume finds it; or nameless among
 * the temporary files if there is no folder.
 */
static int spool_create(struct input *input, const char *folder, struct err *err)
{
    if (!folder)
        return spool_open(&input->text_fd, err);
    int rc = mkdir_parents(folder, 0775, err);
    if (rc)
        return rc;
    if (unlink(input->data_path) != 0 && errno != ENOENT)
        return fail_errno(err, "remove %s", input->data_path);
    input->text_fd = open(input->part_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0664);
    return input->text_fd < 0 ? fail_errno(err, "create %s", input->part_path) : 0;
}

/* Opens the complete spool that an earlier run left; *is_reused is set if there was one. */
static int spool_reuse(struct input *input, bool *is_reused, struct err *err)
{
    struct stat st;
    input->text_fd = open(input->data_path, O_RDONLY | O_CLOEXEC);
    if (input->text_fd >= 0) {
        if (fstat(input->text_fd, &st) != 0)
            return fail_errno(err, "look at %s", input->data_path);
        input->text_bytes = (uint64_t)st.st_size;
        input->is_whole = *is_reused = true;
        return 0;
    }
    if (errno != ENOENT)
        return fail_errno(err, "open %s", input->data_path);
    if (input->is_stream)
        return fail(err, ERR_DATA,
                    "%s had not been read to its end when the run stopped, and its rest is lost; "
                    "start over with the whole input (--fresh)",
                    input->name);
    return 0;
}

static int spool_begin(struct input *input, const struct source_opts *opts, size_t path_index,
                       struct err *err)
{
    bool is_reused = false;
    if (opts->spool_dir) {
        input->part_path = xasprintf("%s/input-%zu.part", opts->spool_dir, path_index);
        input->data_path = xasprintf("%s/input-%zu.data", opts->spool_dir, path_index);
        int rc = opts->reuse_spool ? spool_reuse(input, &is_reused, err) : 0;
        if (rc || is_reused)
            return rc;
    }
    input->packed = input->unpack ? xmalloc(PIECE_BYTES) : NULL;
    return spool_create(input, opts->spool_dir, err);
}

static int named_open(struct input *input, struct err *err)
{
    cleanup_fd int fd = open(input->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno_as(err, ERR_USAGE, "open %s", input->path);
    if (fstat(fd, &input->st) != 0)
        return fail_errno_as(err, ERR_USAGE, "look at %s", input->path);
    if (S_ISDIR(input->st.st_mode))
        return fail(err, ERR_USAGE, "%s is a folder; name the files in it", input->path);
    enum packing packing = packing_of_path(input->path);
    input->is_stream = !S_ISREG(input->st.st_mode);
    if (packing != PACK_NONE)
        input->unpack = unpack_new(packing);
    if (input->is_stream || input->unpack) {
        input->raw_fd = steal_fd(&fd);
        return 0;
    }
    input->text_fd = steal_fd(&fd);
    input->text_bytes = (uint64_t)input->st.st_size;
    input->is_whole = true;
    ring_hold(input);
    return 0;
}

int input_open(struct input *input, const struct source_opts *opts, size_t path_index,
               struct input_ring *ring, struct err *err)
{
    *input = (struct input)INPUT_INIT;
    input->path = opts->paths[path_index];
    input->name = is_stdin(input->path) ? "stdin" : input->path;
    input->ring = ring;
    if (is_stdin(input->path)) {
        input->is_stream = true;
        input->raw_fd = STDIN_FILENO;
        (void)fstat(STDIN_FILENO, &input->st); /* stdin may be redirected from a file */
    } else {
        int rc = named_open(input, err);
        if (rc)
            return rc;
    }
    return input->raw_fd >= 0 ? spool_begin(input, opts, path_index, err) : 0;
}

static void raw_close(struct input *input)
{
    if (input->raw_fd == STDIN_FILENO)
        input->raw_fd = -1;
    fd_close(&input->raw_fd);
    unpack_free(input->unpack);
    free(steal_ptr(&input->packed));
    input->unpack = NULL;
}

/* An incomplete spool is of no use and is removed. A complete spool has another name and stays. */
void input_close(struct input *input)
{
    ring_forget(input);
    raw_close(input);
    fd_close(&input->text_fd);
    if (input->part_path)
        unlink(input->part_path);
    free(steal_ptr(&input->part_path));
    free(steal_ptr(&input->data_path));
}

int input_finish(struct input *input, struct err *err)
{
    if (input->is_whole)
        return 0;
    input->is_whole = true;
    raw_close(input);
    if (!input->data_path)
        return 0;
    if (fdatasync(input->text_fd) != 0)
        return fail_errno(err, "sync %s", input->part_path);
    if (rename(input->part_path, input->data_path) != 0)
        return fail_errno(err, "rename %s", input->part_path);
    return fsync_parent(input->data_path, err);
}

static int spool_add(struct input *input, const char *at, size_t len, struct err *err)
{
    int rc = pwrite_all(input->text_fd, at, len, (off_t)input->text_bytes, err);
    if (rc)
        return wrap(err, rc, "spool %s to %s", input->name,
                    input->part_path ? input->part_path : "a temporary file");
    input->text_bytes += len;
    return 0;
}

/* Reads what is available now, which may be nothing; *is_end is set at the end of the input. */
static int raw_read(struct input *input, char *at, size_t *n_out, bool *is_end, struct err *err)
{
    *n_out = 0;
    struct pollfd ready = {.fd = input->raw_fd, .events = POLLIN};
    if (input->is_stream && poll(&ready, 1, 0) == 0)
        return 0;
    ssize_t got = read(input->raw_fd, at, PIECE_BYTES);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 0;
    if (got < 0)
        return fail_errno(err, "read %s", input->name);
    *n_out = (size_t)got;
    input->packed_read += (uint64_t)got;
    *is_end = got == 0;
    return 0;
}

static int unpack_piece(struct input *input, char *piece, size_t *n_out, bool *is_end,
                        struct err *err)
{
    size_t got = 0;
    *n_out = 0;
    int rc = 0;
    if (input->packed_rest.len == 0) {
        rc = raw_read(input, input->packed, &got, is_end, err);
        input->packed_rest = (struct str){input->packed, got};
    }
    if (rc == 0)
        rc = unpack_some(input->unpack, &input->packed_rest, piece, PIECE_BYTES, n_out, err);
    /* At the end of the packed bytes the library may still have buffered output. */
    if (*n_out > 0)
        *is_end = false;
    return rc ? wrap(err, rc, "%s", input->name) : 0;
}

int input_fill(struct input *input, size_t bytes_max, struct err *err)
{
    if (input->is_whole)
        return 0;
    cleanup_free char *piece = xmalloc(PIECE_BYTES);
    uint64_t enough = input->text_bytes + bytes_max;
    while (input->text_bytes < enough) {
        size_t got = 0;
        bool is_end = false;
        uint64_t read_before = input->packed_read;
        int rc = input->unpack ? unpack_piece(input, piece, &got, &is_end, err)
                               : raw_read(input, piece, &got, &is_end, err);
        if (rc == 0 && got > 0)
            rc = spool_add(input, piece, got, err);
        if (rc == 0 && is_end && input->unpack && input->packed_read == 0)
            return fail(err, ERR_DATA,
                        "%s is empty, which no compressed file is; it was probably cut off",
                        input->name);
        if (rc == 0 && is_end && input->unpack && !unpack_is_at_end(input->unpack))
            return fail(err, ERR_DATA,
                        "%s is cut off: it ends after %lu bytes, within a compressed "
                        "block",
                        input->name, input->packed_read);
        if (rc == 0 && is_end)
            return input_finish(input, err);
        if (rc)
            return rc;
        if (got == 0 && input->packed_read == read_before && input->packed_rest.len == 0)
            return 0;
    }
    return 0;
}

/*
 * Compares the piece with the spool's bytes at `at`. Only with `may_go_on` may the piece reach
 * beyond the spool.
 */
static int piece_compare(struct input *input, uint64_t at, struct str piece, bool may_go_on,
                         bool *is_same, struct err *err)
{
    cleanup_free char *then = xmalloc(PIECE_BYTES);
    size_t len = MIN(piece.len, (size_t)(input->text_bytes - at));
    int rc = input_read(input, at, then, len, err);
    *is_same = rc == 0 && memcmp(piece.at, then, len) == 0 && (len == piece.len || may_go_on);
    return rc;
}

int input_compare_stream(struct input *input, bool may_go_on, struct err *err)
{
    cleanup_free char *piece = xmalloc(PIECE_BYTES);
    uint64_t at = 0;
    bool is_end = false, is_same = true;
    int rc = 0;
    if (input->unpack && !input->packed)
        input->packed = xmalloc(PIECE_BYTES);
    while (rc == 0 && is_same && !is_end && !(may_go_on && at == input->text_bytes)) {
        size_t got = 0;
        struct pollfd ready = {.fd = input->raw_fd, .events = POLLIN};
        (void)poll(&ready, 1, -1);
        rc = input->unpack ? unpack_piece(input, piece, &got, &is_end, err)
                           : raw_read(input, piece, &got, &is_end, err);
        if (rc == 0 && got > 0)
            rc = piece_compare(input, at, (struct str){piece, got}, may_go_on, &is_same, err);
        at = MIN(at + got, input->text_bytes);
    }
    return rc ? rc
           : is_same && at == input->text_bytes
               ? 0
               : fail(err, ERR_USAGE,
                      "%s has other content than when the run began; muster resume goes on with "
                      "that one",
                      input->name);
}

int input_read(struct input *input, uint64_t offset, char *at, size_t len, struct err *err)
{
    ASSERT(offset + len <= input->text_bytes);
    int rc = input->text_fd < 0 ? plain_reopen(input, err) : 0;
    for (size_t done = 0; rc == 0 && done < len;) {
        ssize_t got = pread(input->text_fd, at + done, len - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(err, "read %s", input->name);
        if (got == 0)
            return fail(err, ERR_DATA, "%s has shrunk from %lu to %lu bytes since it was opened",
                        input->name, input->text_bytes, offset + done);
        done += (size_t)got;
    }
    return rc;
}
