/* SPDX-License-Identifier: Apache-2.0
 *
 * The folder that muster kge tracin and its workers share when the work is spread over devices:
 *
 *   options        the options that the results depend on; a command with the same ones continues
 *   train, tests   triples as indices (32 bits), filters applied
 *   items.jsonl    the items that the map deals out
 *   map/           the folder of the map's run, as of muster map
 *   answers.jsonl  its output
 *   rows           influences that go into no answer: float64, the piece of each item in its place
 *   why            why a worker gave up: an error code and a sentence
 *   placing        exists once results begin to be put in place
 *   replaces       exists if the run was begun with --force: a command that continues it may
 *                  replace existing results, too
 *   lock           held by muster kge tracin
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

#define SPREAD_WORKER_VERB "tracin-worker"

/*
 * These two convert a request to bytes and back: every option that may change a result, files by
 * their absolute paths, and the size and time of each checkpoint. The request that is read borrows
 * its texts from `bytes`; cmd_release() frees its lists.
 */
MUST_CHECK int spread_options_add(const struct tracin_request *ask, struct buf *out,
                                  struct err *err);
MUST_CHECK int spread_options_read(struct tracin_request *ask, const char *dir, struct buf *bytes,
                                   struct err *err);

/*
 * Makes the plan for these tests; without tests, for the self-influences of the training triples.
 * The command and each worker make the same plan from the same sizes and the same memory. So if the
 * user gave no --memory, a fixed size is set in `models`, because free memory may differ between
 * them.
 */
MUST_CHECK int spread_plan_make(struct spread_plan *plan, const struct tracin_request *ask,
                                struct kge_models *models, const struct spread_tests *tests,
                                size_t n_train, struct err *err);

/*
 * Fails if a file of the run is no regular file or belongs to another user: these files are written
 * and read by name.
 */
MUST_CHECK int spread_files_check(const char *dir, struct err *err);
/* *is_same: the content of the file is these bytes. No more than so many bytes are read. */
MUST_CHECK int spread_file_compare(const char *path, struct str bytes, bool *is_same,
                                   struct err *err);
/* Removes all files of a run, and the folder if nothing else is in it. */
MUST_CHECK int spread_files_remove(const char *dir, struct err *err);
/* True if the folder is empty, or has only files of such a run, its lock among them. */
bool spread_files_are_all(const char *dir);
