/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of TiePin's batch driver: a list of test triples, each with its own filter and its own
 * files, in one process with one graph and one model.
 *
 *   DIR/triple_017_<head>_<tail>_tracin.json, …_tracin.csv
 *   DIR/filtered_training/triple_017_<head>_<tail>_filtered_train.txt
 *   DIR/batch_tracin_summary.json
 */
#pragma once

#include "cli/tracin_spread.h"

/*
 * `data` holds the test triples. ERR_FAILED if some of them have no training triple near them; all
 * others are done then. spread may be NULL.
 */
MUST_CHECK int tracin_batch_run(const struct tracin_request *ask, const struct app *app,
                                const struct kge_data *data, struct kge_models *models,
                                struct tracin_spread *spread, struct err *err);

/* "triple_017_CHEBI_1_MONDO_2", which is valid in a file's name. A new string. */
char *tracin_base_name(size_t index, struct str head, struct str tail);
/* True if both files of a test triple are complete and have n_influences influences. */
bool tracin_files_are_whole(const char *json, const char *csv, size_t n_influences);
