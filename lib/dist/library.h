/* SPDX-License-Identifier: Apache-2.0
 *
 * A library that is loaded when it is needed, and a struct of pointers to its functions.
 */
#pragma once

#include <stddef.h>

#include "inside.h"

/*
 * names[i] is the function for the i-th member of out, a struct of n pointers. A function whose name ends in '?' may
 * be missing, and is NULL then. 0, or MUSTER_DIST_EENV: a function is missing. `library`: its name in messages.
 */
int md_library_find(struct muster_dist *dist, void *handle, const char *library,
                    const char *const *names, size_t n, void *out);
