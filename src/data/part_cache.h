/* SPDX-License-Identifier: Apache-2.0
 *
 * Part files that are open for reading, each with a window. The results of several workers
 * interleave, but those of one worker are read in order, so each reader keeps the bytes that come
 * next in its file. The reader that was used longest ago is closed when another one is needed.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    N_PARTS_OPEN = 32,
    PART_WINDOW_BYTES = 64 * 1024
};

struct part_reader {
    char *path; /* NULL: free */
    int fd;
    uint64_t base; /* offset of the window in the file */
    uint64_t hole; /* up to here the file has no hole */
    struct buf window;
    uint64_t used_at;
};

struct part_cache {
    struct part_reader open[N_PARTS_OPEN];
    uint64_t n_uses;
};

void part_cache_release(struct part_cache *cache);
/*
 * The reader of a part, which is opened if needed; valid until N_PARTS_OPEN other parts were asked
 * for.
 */
MUST_CHECK int part_cache_get(struct part_cache *cache, const char *path, struct part_reader **out,
                              struct err *err);
/*
 * A view of the bytes from `offset` on: at least `want` of them, at most as many as the window has,
 * never beyond `end`. ERR_DATA if the part is shorter than `end`, or has a large hole before `end`.
 */
MUST_CHECK int part_reader_view(struct part_reader *part, uint64_t offset, uint64_t end,
                                size_t want, struct str *out, struct err *err);
