/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a worker's output on one of muster's streams, in whole lines, with the worker's name before each or as they are.
 */
#pragma once

#include "shell/shell.h"

struct prefix {
    const char
        *before; /* each line: "gpu_0: "; NULL: nothing, and the ends of lines stay as they are */
    int fd;
    struct buf line; /* unfinished */
};

/*
 * Takes more output, and prints its whole lines; of a line that is longer than a megabyte, also pieces. `is_end`: also
 * a last line without newline. It waits while the reader is slow; a signal to end ends the process meanwhile. When the
 * reader is gone, the run ends (shell_output_lost), and nothing more is printed.
 */
void prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes, bool is_end);
/* Prints an unfinished line as it is, of a stream whose lines have nothing before them: a question, a progress bar. */
void prefix_rest_print(struct shell *shell, struct prefix *prefix);
/* Prints a last line without newline, and releases the prefix. */
void prefix_end(struct shell *shell, struct prefix *prefix);
