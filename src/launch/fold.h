/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that several ranks print, of which one is enough: eight ranks that fail print one traceback eight times, line by
 * line, all at the same time. The first one of each line is shown; a line of another rank that is the same, and comes soon,
 * and behind the one that this rank repeated last, is an echo, and only counted. Pure.
 *
 * Lines are the same if they differ only in what differs between ranks: numbers behind words such as rank, cuda or pid, the
 * rank's own pid, addresses, and times of day.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

struct fold;
struct fold *fold_new(uint32_t n_ranks);
void fold_free(struct fold *fold);

/* True: it is an echo. `line` without its newline; now_ms never smaller than before. */
bool fold_takes(struct fold *fold, uint32_t rank, uint32_t pid, struct str line, uint64_t now_ms);

/* Echoes that nothing was said about yet. */
struct fold_note {
    uint32_t n_ranks;         /* that had any */
    uint32_t n_least, n_most; /* lines of a rank */
    uint32_t rank;            /* one of them */
};
/* True: there is something to say, because no echo has come for a while; `is_end`: in any case. */
bool fold_note(struct fold *fold, uint64_t now_ms, bool is_end, struct fold_note *out);

/* What is compared of a line. */
void fold_normalise(struct buf *out, struct str line, uint32_t pid);
/* Of two texts, the last lines (at most so many), and not none. */
bool fold_ends_alike(struct str a, uint32_t a_pid, struct str b, uint32_t b_pid, size_t n_lines);
