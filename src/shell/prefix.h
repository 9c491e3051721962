/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a worker's output on one of muster's streams, in whole lines, with the worker's name before each or as they are.
 */
#pragma once

#include "shell/shell.h"

struct prefix {
    const char *before; /* before each line: "gpu_0: "; NULL: nothing, and ends of lines are kept */
    int fd;
    struct buf line; /* unfinished */
};

/*
 * Takes more output, and prints its whole lines; a line that is longer than a megabyte is printed in pieces.
 * `is_end`: prints a last line without newline as well. Waits while the reader is slow; a signal that ends the run
 * ends the process meanwhile. When the reader is gone, the run ends (shell_output_lost), and nothing more is printed.
 */
void prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes, bool is_end);
/* Prints an unfinished line, such as a question or a progress bar, of a stream without `before`. */
void prefix_rest_print(struct shell *shell, struct prefix *prefix);
void prefix_release(struct prefix *prefix);
/* Prints a last line without newline, and releases the prefix. */
void prefix_end(struct shell *shell, struct prefix *prefix);
