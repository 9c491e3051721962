/* SPDX-License-Identifier: Apache-2.0
 *
 * What a worker prints, as whole lines behind its name, on a stream of muster's own.
 */
#pragma once

#include "shell/shell.h"

struct prefix {
    const char *name;
    int fd;
    struct buf line; /* unfinished */
};

/*
 * More of what it prints: its whole lines go out, and a piece of one that is longer than a megabyte. `is_end`: also
 * what lacks a newline. Where nobody takes them it waits, and a signal to end does so at once.
 * ERR_SYS: nobody reads any more.
 */
MUST_CHECK int prefix_print(struct shell *shell, struct prefix *prefix, struct str bytes,
                            bool is_end, struct err *err);
void prefix_release(struct prefix *prefix);
