/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trial prints: the end of it, for the cause of its death and for messages, and the rate,
 * where the user says by a pattern how it is printed. Pure.
 */
#pragma once

#include <regex.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    OUTPUT_TAIL_BYTES = 4096, /* as much as core/verdict.h looks at */
    OUTPUT_LINE_BYTES = 4096  /* of a longer line the rest is not looked at */
};

/*
 * POSIX extended; the rate is what the first group holds, or all of the match where there is
 * none.
 */
struct rate_pattern {
    regex_t regex;
    bool is_set;
};

/* ERR_USAGE if it is no pattern. NULL: none. */
MUST_CHECK int rate_pattern_make(struct rate_pattern *pattern, const char *text, struct err *err);
void rate_pattern_release(struct rate_pattern *pattern);
/* The rate in a line; 0: none. */
double rate_pattern_find(const struct rate_pattern *pattern, const char *line);

/* One stream of a trial. */
struct output {
    struct buf tail, line;
};

/*
 * Takes what the stream brought; *rate becomes what was printed last. A line ends with \n or \r,
 * as progress bars do.
 */
void output_take(struct output *output, struct str bytes, const struct rate_pattern *pattern,
                 double *rate);
/* The stream has ended, perhaps within a line. */
void output_end(struct output *output, const struct rate_pattern *pattern, double *rate);
struct str output_tail(const struct output *output);
/* The last line that is not empty. */
struct str output_last_line(const struct output *output);
void output_release(struct output *output);
