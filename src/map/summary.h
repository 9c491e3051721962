/* SPDX-License-Identifier: Apache-2.0
 *
 * The last words of a run: figures measured in it, and the next step.
 */
#pragma once

#include "map/session.h"

/* On stderr, unless quiet. stats NULL: the run did not complete. */
void summary_print(struct session *s, const struct result_merge_stats *stats);
/* The same as one JSON object, for --on-finish. */
void summary_json(struct session *s, int status, struct buf *out);
/*
 * What is typed to go on: `muster resume NAME`, with `option` behind it where that is not NULL. In a run that is part of
 * another command, which says so by MUSTER_GO_ON, that command: it does more than the run.
 */
void summary_go_on(const struct session *s, const char *option, struct buf *out);
/* What to type after `muster resume`. Borrowed. */
char *summary_run_new(const struct session *s);
