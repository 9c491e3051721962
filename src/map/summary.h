/* SPDX-License-Identifier: Apache-2.0
 *
 * The summary at the end of a run: figures measured in it, and the next step.
 */
#pragma once

#include "map/session.h"

/* Prints the summary on stderr, unless quiet. stats NULL: the run did not complete. */
void summary_print(struct session *s, const struct result_merge_stats *stats);
/* The same as one JSON object, for --on-finish. */
void summary_json(struct session *s, int status, struct buf *out);
/*
 * Adds the command that resumes the run: `muster resume NAME`, followed by `option` if that is not NULL. If the run is
 * part of another command (run.go_on), adds that command, because it does more than the run.
 */
void summary_go_on(const struct session *s, const char *option, struct buf *out);
/* What to type after `muster resume`; free() it. */
char *summary_run_new(const struct session *s);
