/* SPDX-License-Identifier: Apache-2.0
 *
 * Scores predictions. All figures are computed from counts of (group, true label, predicted label)
 * over all records at once, so that shards of different sizes have their proper weights.
 *
 * A prediction that never occurs as a true label (an empty one, ERROR, a word that the model made
 * up) is wrong, and counts as a prediction of no label. Records without a true label are left out.
 * Both are counted and reported. A rate whose denominator is 0 is undefined: null in JSON, - in the
 * table.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "base/texts.h"

struct score;

struct score_opts {
    struct str true_field, predicted_field; /* at == NULL: nothing is scored */
    const char *by_field;                   /* groups records by this field; NULL: no groups */
    const char *positive;                   /* the only label with figures; NULL: all labels */
    struct texts ignored;                   /* labels whose records are left out, and counted */
    const char *out_path;                   /* of the figures: .json, .csv, .tsv; NULL: no file */
};
/* Parses "true_label=predicted_label"; the fields are borrowed. ERR_USAGE. */
MUST_CHECK int score_fields_parse(struct str text, struct score_opts *out, struct err *err);

/* ERR_USAGE for an option without the one that it needs, and for an output whose name has no known
 * extension. */
MUST_CHECK int score_opts_check(const struct score_opts *opts, struct err *err);

struct score *score_new(const struct score_opts *opts);
void score_free(struct score *score);
/*
 * Counts one record, a JSON object. ERR_DATA if the record lacks a field, or if there are too many
 * labels.
 */
MUST_CHECK int score_add(struct score *score, struct str object, struct err *err);
/*
 * ERR_DATA if there are no figures: no record has a true label, or `positive` is not one of the
 * labels.
 */
MUST_CHECK int score_check(struct score *score, struct err *err);
/* Scores every record of an existing file. *score_out is NULL on errors. */
MUST_CHECK int score_file(const struct score_opts *opts, const char *path, struct score **score_out,
                          struct err *err);
/* Print the figures: as a table for people, or as JSON with one object a line (muster-merge(1)). */
void score_print(const struct score *score, struct buf *out);
void score_print_json(const struct score *score, struct buf *out);
/* Writes the figures to opts.out_path; does nothing if that is NULL. */
MUST_CHECK int score_write(const struct score *score, struct err *err);
