/* SPDX-License-Identifier: Apache-2.0
 *
 * One file of the input as bytes that can be read at any offset. A plain file is read directly.
 * stdin, pipes, .gz and .zst are spooled piece by piece into a file of the run's folder, and the
 * spool is read: input-<n>.part while it is incomplete, input-<n>.data when it is complete. Without
 * a folder the spool is a nameless temporary file.
 */
#pragma once

#include <sys/stat.h>

#include "data/source.h"
#include "data/unpack.h"

enum {
    INPUTS_OPEN_MAX = 64
};

/*
 * At most INPUTS_OPEN_MAX plain files are open at a time. When one more is opened, the one that was
 * opened first is closed; it is opened again when it is read next.
 */
struct input_ring {
    struct input *held[INPUTS_OPEN_MAX];
    size_t next;
};

struct input {
    const char *path; /* borrowed */
    const char *name; /* for messages: the path or "stdin" */
    struct input_ring *ring;
    struct stat st;
    int text_fd;         /* the plain file or the spool */
    uint64_t text_bytes; /* how much can be read now */
    bool is_whole;       /* text_bytes will not grow */

    /* Spooled inputs only. */
    int raw_fd; /* the file that is spooled; 0 is stdin, which is never closed */
    bool is_stream;
    struct unpack *unpack;
    char *packed; /* read and not yet unpacked */
    struct str packed_rest;
    uint64_t packed_read;
    char *part_path, *data_path; /* NULL: a nameless spool */
};

#define INPUT_INIT                  \
    {                               \
        .text_fd = -1, .raw_fd = -1 \
    }

MUST_CHECK int input_open(struct input *input, const struct source_opts *opts, size_t path_index,
                          struct input_ring *ring, struct err *err);
void input_close(struct input *input);
/* Spools about bytes_max more bytes of text. Never waits. Does nothing for a plain file. */
MUST_CHECK int input_fill(struct input *input, size_t bytes_max, struct err *err);
/* Declares the spool complete as it is now; the rest of the input is not read. */
MUST_CHECK int input_finish(struct input *input, struct err *err);
/*
 * ERR_USAGE if the stream's content differs from its complete spool; with `may_go_on` the stream
 * may be longer than the spool. Waits for the stream.
 */
MUST_CHECK int input_compare_stream(struct input *input, bool may_go_on, struct err *err);
/* Reads all of [offset, offset+len), which must be within text_bytes. Errors name the file. */
MUST_CHECK int input_read(struct input *input, uint64_t offset, char *at, size_t len,
                          struct err *err);
