/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of all ranks of a machine that contain one of some texts, copied into one file for each stream:
 * attempt_N/filtered_stdout.log and filtered_stderr.log, as of torchrun.
 */
#pragma once

#include "base/buf.h"
#include "base/env_list.h"
#include "base/err.h"
#include "proc/logfile.h"

struct line_copy {
    struct env_list texts; /* none: no line is copied */
    struct logfile *file;  /* NULL: there is none */
};

struct line_copies {
    struct line_copy out, errors;
    uint32_t generation; /* of the files */
};

/*
 * Parses texts between commas; two commas stand for a comma within a text. NULL or "": none. ERR_USAGE: a text is
 * empty.
 */
MUST_CHECK int line_copy_parse(const char *filters, struct line_copy *copy, struct err *err);
/* Opens the files of a generation in its folder, if they are not open. */
MUST_CHECK int line_copies_open(struct line_copies *copies, const char *folder, uint32_t generation,
                                struct err *err);
/* Takes more output of a rank. `line` is its unfinished line; `before` comes before each line; `is_end`: the last line may
 * be without newline. */
void line_copy_add(struct line_copy *copy, struct buf *line, const char *before, struct str bytes,
                   bool is_end);
/* The errno of the first write that failed; 0: none did. */
int line_copies_close(struct line_copies *copies);
