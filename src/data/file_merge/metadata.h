/* SPDX-License-Identifier: Apache-2.0
 *
 * Merges what several processes wrote about their shares of one job, one JSON object each, into one
 * object about the whole job. A table of rules by member name (metadata_rules.c) says what becomes
 * of each member:
 *
 *   counts   num_questions, total_tokens, true_positive … whole numbers are added up
 *   ratios   accuracy, precision, f1_score … computed again from their counts, which are added up;
 *            accuracy without a count of correct ones is computed from the counts that the files'
 *            own accuracies stand for, never by cutting a product off
 *   names    batch_name loses its _gpu_N or _shard_N and gets _merged
 *   times    timestamp, if they are texts: the last in the order of bytes, which is the latest of
 *            those that are written alike, as by ISO 8601
 *   dropped  data_file, because the merged data is in another file
 *
 * Any other member is kept if it is the same in every file, and otherwise becomes an array in the
 * order of the files, with null where a file lacks it. Nested objects are merged by the same rules,
 * except that nothing is added up in objects of settings (args, config, params …) and nothing is
 * dropped in any. At the top level, num_gpus is the number of files and gpu_metadata the list of
 * their objects; a file that is itself a merge counts as the files that it lists.
 *
 * Numbers and texts stay as they are written, unless they are computed.
 *
 * Rules by path (rule/rule.h) come before all of these. A member that such a rule is about must be
 * in every file, except for drop, collect (which writes null where it is missing) and ratios. With
 * a rule for ".", num_gpus and gpu_metadata are not added.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "rule/rule.h"

struct metadata_part {
    const char *name; /* for messages */
    struct str text;  /* one JSON object with white space around it */
};

struct metadata_opts {
    const struct merge_rules *rules; /* NULL: no rules */
    /*
     * Called with what the user should look at: a member that some files lack, a ratio without
     * counts. NULL: not called.
     */
    void (*note)(void *context, const char *text);
    void *context;
};

/*
 * Checks that every file has a text or a number at this path pattern (rule/path_pattern.h), and
 * that no two of them are equal; otherwise ERR_DATA, with both places.
 */
MUST_CHECK int metadata_ids(const char *path, const struct metadata_part *parts, size_t n_parts,
                            struct err *err);
/*
 * Adds the merged value, an object unless a rule says otherwise, indented by two spaces, with a
 * newline at its end. ERR_DATA if a part is no object, has a member twice, or has a list of another
 * length than its count says (num_questions for questions), if a sum does not fit into 64 bits, or
 * if a rule does not fit its values; ERR_USAGE for a rule that applies to nothing.
 */
MUST_CHECK int metadata_merge(const struct metadata_opts *opts, const struct metadata_part *parts,
                              size_t n_parts, struct buf *out, struct err *err);
