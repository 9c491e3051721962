/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes parts as files that appear together or not at all, whatever the parts contain.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"
#include "data/split/split.h"

struct split_source {
    size_t n_parts;  /* the target has as many names */
    uint64_t n_open; /* files that the source has open during the split */
    bool (*is_input)(const void *context, const struct stat *st);
    int (*fill)(void *context, size_t part, struct outfile *file, struct err *err);
    void *context;
};

/*
 * The general form of split_target_check() and split_write(), with the same errors. Those two call
 * these functions with records as the source.
 */
MUST_CHECK int split_put_check(const struct split_source *source, const struct split_target *target,
                               struct err *err);
MUST_CHECK int split_put(const struct split_source *source, const struct split_target *target,
                         struct err *err);
