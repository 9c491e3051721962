/* SPDX-License-Identifier: Apache-2.0
 *
 * What the name of a field says about its value. The same names mean the same in metadata and in
 * files of tensors.
 */
#pragma once

#include "base/buf.h"

/* Is this the name of a count, so that the merged value is the sum over the parts? */
bool is_count_name(const char *name);
/*
 * The things that a count counts: "questions" for "num_questions", "samples" for "n_samples". at ==
 * NULL: `name` is not the name of a count, or does not say what is counted.
 */
struct str counted_by(struct str name);
/*
 * Is this the name of an object of settings, such as args or config? No value in such an object is
 * a count.
 */
bool is_settings_name(struct str name);
/*
 * The name without the suffix that tells one share from another: "run7" for "run7_gpu_0" and for
 * "run7_merged".
 */
struct str share_stem(struct str name);
/* Adds "run7_merged" for the stem "run7". */
void merged_name_add(struct str stem, struct buf *out);

/*
 * The names of fields that give the number of records (num_questions and the like), the likeliest
 * first; ends with NULL.
 */
extern const char *const record_count_names[];
/*
 * The value of the first field of record_count_names that is a number in `object`; UINT64_MAX if
 * there is none. `count_of` returns false if `object` has no such field or its value is not a
 * number.
 */
uint64_t record_count_said(bool (*count_of)(const void *object, struct str name, uint64_t *count),
                           const void *object);
