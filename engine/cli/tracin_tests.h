/* SPDX-License-Identifier: Apache-2.0
 *
 * Which triples `muster kge tracin` takes for test triples, and in what order: --test-triple,
 * --test-indices and --triples-order.
 */
#pragma once

#include "cli/tracin_request.h"

/*
 * To be called after the files are read: puts the triples into the order of --triples-order, and
 * adds the triple of --test-triple. ERR_USAGE: its words are neither names nor indices. ERR_DATA:
 * its file does not hold exactly one triple.
 */
MUST_CHECK int tracin_tests_take(struct kge_data *data, const struct tracin_request *ask,
                                 const struct app *app, struct err *err);
/* The file of --test-triple; NULL if the triple is given by its words, or not at all. */
const char *tracin_triple_file(const struct tracin_request *ask);
/*
 * Finds the positions of the test triples that are asked for, in the order given; *places is a new
 * array. If the user chose single ones, prints which triples they are.
 */
MUST_CHECK int tracin_places_find(const struct tracin_request *ask, const struct kge_data *data,
                                  const struct app *app, size_t **places, size_t *n_places,
                                  struct err *err);
