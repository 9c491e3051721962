/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trial prints: the end of it, for the cause of its death and for messages, and what the
 * user says by patterns is printed: a rate, a number of items, that it is loaded. Pure.
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
 * POSIX extended; the number is what the first group holds, or where there is none the match, or
 * the only number in it.
 */
struct output_pattern {
    regex_t regex;
    bool is_set;
};

/* ERR_USAGE if it is no pattern, in the words of its option. NULL: none. */
MUST_CHECK int output_pattern_make(struct output_pattern *pattern, const char *option,
                                   const char *text, struct err *err);
void output_pattern_release(struct output_pattern *pattern);
/* True if the line matches; *number: the number in it, if that is above 0, else 0. */
bool output_pattern_find(const struct output_pattern *pattern, const char *line, double *number);

/* What was last found of a pattern. */
struct output_match {
    const struct output_pattern *pattern; /* borrowed; NULL: none */
    double number;                        /* the last that was above 0; 0: none */
    uint64_t at_us;                       /* of the last line that matches; 0: none does */
};

struct output_matches {
    struct output_match *at;
    size_t len;
};

/* One stream of a trial. */
struct output {
    struct buf tail, line;
};

/*
 * Takes what the stream brought at now_us, which is not 0. A line ends with \n or \r, as progress
 * bars do.
 */
void output_take(struct output *output, struct str bytes, struct output_matches matches,
                 uint64_t now_us);
/* The stream has ended, perhaps within a line. */
void output_end(struct output *output, struct output_matches matches, uint64_t now_us);
struct str output_tail(const struct output *output);
/* The last line that is not empty. */
struct str output_last_line(const struct output *output);
void output_release(struct output *output);
