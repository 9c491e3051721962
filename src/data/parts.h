/* SPDX-License-Identifier: Apache-2.0
 *
 * Part files read through windows: results of several workers interleave, but each worker's are
 * read in order, so every part keeps the bytes that come next.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    N_PARTS_OPEN = 32,
    PART_WINDOW_BYTES = 64 * 1024
};

struct part {
    char *path; /* NULL: free */
    int fd;
    uint64_t base; /* of the window */
    uint64_t hole; /* up to here the file was written to without a gap */
    struct buf window;
    uint64_t used_at;
};

struct parts {
    struct part open[N_PARTS_OPEN];
    uint64_t n_uses;
};

void parts_release(struct parts *parts);
/* The part, opened if it is not; valid until N_PARTS_OPEN others were asked for. */
MUST_CHECK int parts_get(struct parts *parts, const char *path, struct part **out, struct err *err);
/*
 * Bytes from `offset` on, at least `want` of them, as many as are at hand, never beyond `end`.
 * ERR_DATA if the part is shorter than `end`.
 */
MUST_CHECK int part_view(struct part *part, uint64_t offset, uint64_t end, size_t want,
                         struct str *out, struct err *err);
