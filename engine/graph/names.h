/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of dictionaries: names and their indices 0 … n-1. Entities have one dictionary, relations another.
 */
#pragma once

#include "base/err.h"
#include "base/name_index.h"
#include "graph/flaws.h"

/*
 * A file of `name<TAB>index`, in any order, whose indices are 0 … n-1: a model's tables have a row for each.
 * What is wrong is counted in flaws; if lines are lost (is_lenient or not), and indices are missing
 * therefore, that is ERR_DATA.
 */
MUST_CHECK int names_read(struct name_index *names, const char *path, bool is_lenient,
                          struct flaws *flaws, struct err *err);
/* The same form, in the order of the indices. */
MUST_CHECK int names_write(const struct name_index *names, const char *path, bool overwrite,
                           struct err *err);
