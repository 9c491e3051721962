/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>

/*
 * The candidate nearest to a misspelt word, for "did you mean"; NULL when none is near enough
 * (edit distance above a third of the word, at least 1, at most 3).
 */
const char *suggest(const char *word, const char *const *candidates, size_t n_candidates);
