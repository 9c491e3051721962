/* SPDX-License-Identifier: Apache-2.0
 *
 * Dictionary files: names and their indices 0 … n-1. Entities have one dictionary, relations
 * another.
 */
#pragma once

#include "base/err.h"
#include "base/name_index.h"
#include "graph/flaws.h"

/*
 * Reads lines of `name<TAB>index`, in any order. The indices must be 0 … n-1, because a model's
 * tables have one row for each. Lines with flaws are counted in `flaws`. ERR_DATA if lines are left
 * out and is_lenient is false, or if an index is missing or repeated.
 */
MUST_CHECK int names_read(struct name_index *names, const char *path, bool is_lenient,
                          struct flaws *flaws, struct err *err);
/* Writes a file for names_read(), in the order of the indices. */
MUST_CHECK int names_write(const struct name_index *names, const char *path, bool overwrite,
                           struct err *err);
