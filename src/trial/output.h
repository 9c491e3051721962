/* SPDX-License-Identifier: Apache-2.0
 *
 * What a trial prints. The end of its output is kept, for the cause of its death and for messages. The user's
 * patterns find what else counts: a rate, a number of items, the line that tells that it has loaded. Pure.
 */
#pragma once

#include <regex.h>

#include "base/buf.h"
#include "base/err.h"

enum {
    OUTPUT_TAIL_BYTES = 4096, /* as much as core/verdict.h looks at */
    OUTPUT_LINE_BYTES = 4096  /* the rest of a longer line is ignored */
};

/*
 * A POSIX extended regular expression. The number is the text of the first group, or without a group the whole match,
 * or the only number in the match.
 */
struct output_pattern {
    regex_t regex;
    bool is_set;
};

/* Compiles `text`; NULL: no pattern. ERR_USAGE if it is no regular expression; the error names the option. */
MUST_CHECK int output_pattern_make(struct output_pattern *pattern, const char *option,
                                   const char *text, struct err *err);
void output_pattern_release(struct output_pattern *pattern);
/* True if the line matches. *number gets the number in the line if it is above 0, else 0. */
bool output_pattern_find(const struct output_pattern *pattern, const char *line, double *number);

/* The last match of a pattern. */
struct output_match {
    const struct output_pattern *pattern; /* borrowed; NULL: none */
    double number;                        /* the last number above 0; 0: none */
    uint64_t at_us;                       /* when the last matching line came; 0: no line matches */
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
 * Takes bytes that the stream brought at now_us, which is not 0. A line ends with \n, or with \r, because progress
 * bars use \r.
 */
void output_take(struct output *output, struct str bytes, struct output_matches matches,
                 uint64_t now_us);
/* Call it when the stream has ended. The last line may lack its end. */
void output_end(struct output *output, struct output_matches matches, uint64_t now_us);
struct str output_tail(const struct output *output);
/* The last line that is not empty. */
struct str output_last_line(const struct output *output);
void output_release(struct output *output);
