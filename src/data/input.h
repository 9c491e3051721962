/* SPDX-License-Identifier: Apache-2.0
 *
 * One file of the input as bytes that can be read at any offset. A plain file is read where it
 * lies; stdin, pipes, .gz and .zst are first spooled into a file beside the run, a piece at a
 * time, and the spool is read. A spool that has everything is called <name>.data, before that
 * <name>.part.
 */
#pragma once

#include <sys/stat.h>

#include "data/source.h"
#include "data/unpack.h"

enum {
    INPUTS_OPEN_MAX = 64
};

/*
 * Plain files beyond INPUTS_OPEN_MAX are closed, the longest-open first, and opened again when
 * needed.
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
    uint64_t text_bytes; /* that can be read now */
    bool is_whole;       /* text_bytes will not grow */

    /* Spooled inputs only. */
    int raw_fd; /* what is spooled: 0 is stdin and not ours */
    bool is_stream;
    struct unpack *unpack;
    char *packed; /* read and not yet unpacked */
    struct str packed_rest;
    uint64_t packed_read;
    char *part_path, *data_path; /* NULL: the spool has no name */
};

#define INPUT_INIT                  \
    {                               \
        .text_fd = -1, .raw_fd = -1 \
    }

MUST_CHECK int input_open(struct input *input, const struct source_opts *opts, size_t path_index,
                          struct input_ring *ring, struct err *err);
void input_close(struct input *input);
/* Spool on for about bytes_max bytes of text. Never waits. Nothing to do for a plain file. */
MUST_CHECK int input_fill(struct input *input, size_t bytes_max, struct err *err);
/* What is spooled now is all that is wanted: the spool counts as whole. */
MUST_CHECK int input_finish(struct input *input, struct err *err);
/* All of [offset, offset+len), which lies within text_bytes, or an error that names the file. */
MUST_CHECK int input_read(struct input *input, uint64_t offset, char *at, size_t len,
                          struct err *err);
