/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that several ranks print, of which one is enough: eight ranks that fail print one traceback eight times, line
 * by line, all at the same time. The first copy of each line is shown. The same line of another rank is an echo,
 * which is only counted, if it comes soon after, and if this rank's last echo was of an earlier line. Pure.
 *
 * Lines count as the same if they differ only in numbers behind words such as rank, cuda or pid, in the rank's own
 * pid, in addresses, and in times of day.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct fold;
struct fold *fold_new(uint32_t n_ranks);
void fold_free(struct fold *fold);

/* True: the line is an echo. `line` has no newline; now_ms is never smaller than before. */
bool fold_takes(struct fold *fold, uint32_t rank, uint32_t pid, struct str line, uint64_t now_ms);

/* Echoes that the user was not told of yet. */
struct fold_note {
    uint32_t n_ranks;         /* that had any */
    uint32_t n_least, n_most; /* lines of one rank */
    uint32_t rank;            /* one of them */
};
/*
 * True: the user is to be told of the echoes in *out, since no echo has come for a while. `is_end`: does not wait for
 * that.
 */
bool fold_note(struct fold *fold, uint64_t now_ms, bool is_end, struct fold_note *out);

/* Adds the form of a line that is compared. */
void fold_normalise(struct buf *out, struct str line, uint32_t pid);
/* Are the last lines of two texts the same? At least one line and at most n_lines are compared. */
bool fold_ends_alike(struct str a, uint32_t a_pid, struct str b, uint32_t b_pid, size_t n_lines);
