/* SPDX-License-Identifier: Apache-2.0
 *
 * Which triples `muster kge tracin` takes for test triples, and in what order: --test-triple, --test-indices and
 * --triples-order.
 */
#pragma once

#include "cli/tracin_request.h"

/*
 * After the files are read: puts their triples into the order that is asked for, and takes the triple of
 * --test-triple. ERR_USAGE: its words are no names and no indices; ERR_DATA: its file holds more than one triple.
 */
MUST_CHECK int tracin_tests_take(struct kge_data *data, const struct tracin_request *ask,
                                 const struct app *app, struct err *err);
/* The file of --test-triple; NULL if it is given by its words, or not at all. */
const char *tracin_triple_file(const struct tracin_request *ask);
/*
 * Places of the test triples that are asked for, in the order given; *places is new. Where some were chosen, it is
 * said which triples they are.
 */
MUST_CHECK int tracin_places_find(const struct tracin_request *ask, const struct kge_data *data,
                                  const struct app *app, size_t **places, size_t *n_places,
                                  struct err *err);
