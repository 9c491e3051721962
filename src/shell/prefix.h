/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints a worker's output on one of muster's streams, in whole lines with the worker's name before each.
 */
#pragma once

#include "shell/shell.h"

struct prefix {
    const char *name;
    int fd;
    struct buf line; /* unfinished */
};

/*
 * Takes more output, and prints its whole lines; of a line that is longer than a megabyte, also pieces. `is_end`: also
 * a last line without newline. It waits while the reader is slow; a signal to end ends the process meanwhile.
 * ERR_SYS: the reader is gone.
 */
MUST_CHECK int prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes,
                            bool is_end, struct err *err);
void prefix_release(struct prefix *prefix);
