/* SPDX-License-Identifier: Apache-2.0
 *
 * What the name of a field tells about its value. The same holds in metadata and in files of tensors.
 */
#pragma once

#include "base/buf.h"

/* Is this the name of a count, so that the merged value is the sum over the parts? */
bool is_count_name(const char *name);
/*
 * "questions" of "num_questions", "samples" of "n_samples": the things that the count is the number of. at == NULL:
 * `name` is not the name of a count, or does not tell what is counted.
 */
struct str counted_by(struct str name);
/* Is this the name of an object of settings, such as args or config? Nothing in such an object is a
 * count. */
bool is_settings_name(struct str name);
/* "run7" of "run7_gpu_0" and of "run7_merged": the name without the suffix that tells one share
 * from another. */
struct str share_stem(struct str name);
/* Adds "run7_merged" for the stem "run7". */
void merged_name_add(struct str stem, struct buf *out);

/*
 * The names of fields that hold the number of records, the likeliest first: num_questions and the like. NULL behind
 * the last.
 */
extern const char *const record_count_names[];
/*
 * The value of the first of these fields whose value in `object` is a number; UINT64_MAX if there is none. `count_of`
 * returns false if `object` has no such field or it is not a number.
 */
uint64_t record_count_said(bool (*count_of)(const void *object, struct str name, uint64_t *count),
                           const void *object);
