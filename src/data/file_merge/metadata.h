/* SPDX-License-Identifier: Apache-2.0
 *
 * What several processes wrote about their shares of one job, one JSON object each, as one object
 * about the whole. A table of rules by member name (metadata_rules.c) says what becomes of each:
 *
 *   counts   num_questions, total_tokens, true_positive … whole numbers are added up
 *   ratios   accuracy, precision, f1_score … worked out again from their counts, which are added up;
 *            accuracy without a count of correct ones from the counts that the files' own accuracies
 *            stand for, never by cutting a product off
 *   names    batch_name loses its _gpu_N or _shard_N and gets _merged
 *   times    timestamp, if they are texts: the last in the order of bytes, which is the latest of
 *            those that are written alike, as by ISO 8601
 *   dropped  data_file, which is another one for the merged data
 *
 * Anything else is kept if it is the same in every file, and otherwise becomes an array in the
 * order of the files, null where a file lacks it. Objects within are merged by the same rules, but
 * in those that hold settings (args, config, params …) nothing is added up, and in none is anything
 * dropped. At the top, num_gpus is the number of files, gpu_metadata the list of them; files that
 * are merged ones count with what they list.
 *
 * Numbers and texts stay as they are written, unless they are worked out.
 *
 * Rules by path (rule/rule.h) come before all that. A member that a rule is about must be in every file, but
 * for drop, collect (null stands for it) and ratios; with a rule for ".", num_gpus and gpu_metadata are not added.
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
    const struct merge_rules *rules; /* NULL: none */
    /* What the user should look at: a member that some files lack, a ratio without counts. */
    void (*note)(void *context, const char *text);
    void *context;
};

/*
 * Every file has a text or a number at this path pattern (rule/path_pattern.h), and no two are
 * equal: ERR_DATA with both places otherwise.
 */
MUST_CHECK int metadata_ids(const char *path, const struct metadata_part *parts, size_t n_parts,
                            struct err *err);
/*
 * Adds the value, an object unless a rule says otherwise, indented by two, with a newline at its end. ERR_DATA
 * if a part is no object, has a member twice, holds fewer questions than its num_questions says, if a sum does
 * not fit into 64 bits, or if a rule does not fit its values; ERR_USAGE for a rule that is about nothing.
 */
MUST_CHECK int metadata_merge(const struct metadata_opts *opts, const struct metadata_part *parts,
                              size_t n_parts, struct buf *out, struct err *err);
