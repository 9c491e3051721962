/* SPDX-License-Identifier: Apache-2.0
 *
 * A temporary folder a test, made by setup and removed by teardown: *state is its path.
 */
#pragma once

#include <stdlib.h>

#include "base/fs.h"
#include "base/xalloc.h"

static inline int temp_setup(void **state)
{
    const char *base = getenv("TMPDIR");
    char *path = xasprintf("%s/muster-test-XXXXXX", base ? base : "/tmp");
    *state = path;
    return mkdtemp(path) ? 0 : -1;
}

static inline int temp_teardown(void **state)
{
    int rc = remove_tree(*state, NULL);
    free(*state);
    return rc;
}
