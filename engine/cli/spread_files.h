/* SPDX-License-Identifier: Apache-2.0
 *
 * What muster kge tracin and its workers share when the work is spread over devices: the folder of the run.
 *
 *   options        the request, as far as it decides about numbers: the same command is known by it
 *   train, tests   triples as indices, filters applied: 32-bit numbers
 *   items.jsonl    what muster map deals out; map/ is its run's folder, answers.jsonl what it puts in place
 *   rows           influences that go into no answer: float64, each where its item has its place
 *   why            a worker's reason to give up: an error code, and a sentence
 *   placing        there from when results are put in place
 *   replaces       there if the run was begun with --force: results that are there are replaced, also by who goes on
 *   lock, map.lock held by muster kge tracin, and by the muster that it started
 */
#pragma once

#include "cli/spread_plan.h"
#include "cli/spread_triples.h"
#include "cli/tracin_request.h"

#define SPREAD_OPTIONS  "options"
#define SPREAD_ITEMS    "items.jsonl"
#define SPREAD_MAP      "map"
#define SPREAD_ANSWERS  "answers.jsonl"
#define SPREAD_VALUES   "rows"
#define SPREAD_WHY      "why"
#define SPREAD_PLACING  "placing"
#define SPREAD_REPLACES "replaces"
#define SPREAD_LOCK     "lock"
#define SPREAD_MAP_LOCK "map.lock"

#define SPREAD_WORKER_VERB "tracin-worker"

/*
 * A request as bytes, and back: every option that may change a number, files by their absolute paths, and of the
 * checkpoints also size and time. What is read borrows from `bytes`; cmd_release() frees its lists.
 */
MUST_CHECK int spread_options_add(const struct tracin_request *ask, struct buf *out,
                                  struct err *err);
MUST_CHECK int spread_options_read(struct tracin_request *ask, const char *dir, struct buf *bytes,
                                   struct err *err);

/*
 * The plan of these tests; none: of the training triples on themselves. Both sides make it, of the same sizes and
 * the same memory. Sets the memory of `models`, where the user did not, since what is free now is no size.
 */
MUST_CHECK int spread_plan_make(struct spread_plan *plan, const struct tracin_request *ask,
                                struct kge_models *models, const struct spread_tests *tests,
                                size_t n_train, struct err *err);

/* Everything that a run leaves goes, and the folder if nothing else is in it. */
MUST_CHECK int spread_files_remove(const char *dir, struct err *err);
/* Is there nothing in the folder but files of such a run, its lock among them? Also if it is empty. */
bool spread_files_are_all(const char *dir);
