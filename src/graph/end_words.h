/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds the words that say why a job failed, in what it printed on stderr.
 */
#pragma once

#include "graph/plan.h"

/*
 * Adds ": " and these words, shortened; nothing if there are none. `tail`: the end of the job's stderr. The words are
 * its last line. muster's own verbs end with a summary: there the words are the item that was set aside, or the rank
 * that failed first, with what the worker or rank said.
 */
void end_words_add(struct str tail, enum plan_kind kind, struct buf *out);
