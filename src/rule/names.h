/* SPDX-License-Identifier: Apache-2.0
 *
 * What the names of fields say about them, in metadata and in files of tensors alike.
 */
#pragma once

#include "base/buf.h"

/* Is it a number of things, which of several parts is their sum? */
bool is_count_name(const char *name);
/* "questions" of "num_questions", "samples" of "n_samples": what such a count is the number of; at NULL: it is
 * the name of no count, or of one that does not say of what. */
struct str counted_by(struct str name);
/* Does it hold what was asked for, such as args and config? Nothing in there is a count. */
bool is_settings_name(struct str name);
/* "run7" of "run7_gpu_0" and of "run7_merged": without what tells one share from another. */
struct str share_stem(struct str name);
/* "run7_merged" of that stem. */
void merged_name_add(struct str stem, struct buf *out);

/* What says how many records there are, the likeliest first: num_questions and its like. NULL behind
 * the last. */
extern const char *const record_count_names[];
/* What the first of them says that is a number, UINT64_MAX if none does. `count_of` is false where there is none. */
uint64_t record_count_said(bool (*count_of)(const void *object, struct str name, uint64_t *count),
                           const void *object);
