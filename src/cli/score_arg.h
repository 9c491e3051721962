/* SPDX-License-Identifier: Apache-2.0
 *
 * The options of figures, for every verb that makes a file of records. `at` is the offset of the
 * request's struct score_opts.
 */
#pragma once

#include "data/file_merge/score.h"

/* Stores the two fields of a struct score_opts. */
MUST_CHECK int score_fields_store(struct str text, void *field, struct err *err);
bool score_fields_text(const void *field, struct buf *out);

/* clang-format off */
#define SCORE_OPTS(score_letter, by_letter, positive_letter, at)                                                       \
    {OPT_HEADING, .help = "Figures"},                                                                                  \
    {OPT_PARSE, score_letter, "score", "TRUE=PREDICTED", "compare these two fields of the output's records: accuracy, precision, recall, F1, false positives and negatives, on stdout", at, .parse = score_fields_store, .format = score_fields_text}, \
    {OPT_TEXT, by_letter, "by", "FIELD", "also print the figures for each value of this field", (at) + offsetof(struct score_opts, by_field)}, \
    {OPT_TEXT, positive_letter, "positive", "LABEL", "print figures for this label only, against all others", (at) + offsetof(struct score_opts, positive)}, \
    {OPT_TEXTS, 0, "ignore", "LABEL", "leave out records whose true or predicted label is LABEL, and print their number (may be repeated)", (at) + offsetof(struct score_opts, ignored)}, \
    {OPT_TEXT, 0, "score-out", "FILE", "also write the figures to FILE: .csv, .tsv, .json or .jsonl", (at) + offsetof(struct score_opts, out_path)}
/* clang-format on */
