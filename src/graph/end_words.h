/* SPDX-License-Identifier: Apache-2.0
 *
 * Of what a job printed on stderr, the words that say why it failed.
 */
#pragma once

#include "graph/plan.h"

/*
 * Adds them behind ": ", cut; nothing if there are none. `tail`: the end of its stderr. The last line is the one; but of
 * muster's own verbs, which end with a summary, what that names: the item that was set aside, the rank that failed first,
 * with what it said.
 */
void end_words_add(struct str tail, enum plan_kind kind, struct buf *out);
