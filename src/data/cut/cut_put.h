/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts as files that appear together or not at all, whatever they are filled with.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"
#include "data/cut/cut.h"

struct cut_source {
    size_t n_parts;  /* and as many names has the target */
    uint64_t n_open; /* files that are open meanwhile */
    bool (*is_input)(const void *context, const struct stat *st);
    int (*fill)(void *context, size_t part, struct outfile *file, struct err *err);
    void *context;
};

/* As cut_target_check() and cut_write() have it, which are this for records. */
MUST_CHECK int cut_put_check(const struct cut_source *source, const struct cut_target *target,
                             struct err *err);
MUST_CHECK int cut_put(const struct cut_source *source, const struct cut_target *target,
                       struct err *err);
