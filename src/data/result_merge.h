/* SPDX-License-Identifier: Apache-2.0
 *
 * The merge of a run's results: streams the committed ranges of a run in input order into one
 * file, and proves on the way that every index occurs exactly once, as a result or among the
 * items set aside. The file is written beside its place, synced and renamed. Memory is bounded.
 * Files that are on disk already are merged by file_merge/.
 *
 * The rows come through a callback, so that this module knows nothing of runs or their
 * database.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "data/format.h"
#include "data/source.h"

/* A range of results: the items from `first` on, `count` lines in [offset, offset+bytes) of the
 * file at part_path. */
struct result_range {
    uint64_t first, count;
    const char *part_path; /* valid until the next call */
    uint64_t offset, bytes;
};

struct result_merge_opts {
    const char *out_path; /* "-" is stdout */
    enum out_format format;
    bool results_are_json; /* false: they are text lines, which become strings in JSONL and JSON */
    bool in_order;         /* false: ranges come as they were committed */
    bool overwrite;        /* an existing file is refused otherwise (ERR_USAGE) */
    bool join;             /* write the input's fields with the result's; needs `source` */
    struct source *source;
    uint64_t n_items; /* of the run: the items that are proven to be there */
    bool partial_ok;  /* missing items are no error (`muster results`) */

    /* Gives the next range: 1 and a row, 0 at the end, negative on error. */
    int (*next_range)(void *context, struct result_range *row, struct err *err);
    /* Gives the items set aside, ascending: 1 and the item, 0 at the end. NULL: no such items. */
    int (*next_failed_item)(void *context, uint64_t *item, struct err *err);
    /* Called when the whole output is on disk and about to be put in place. NULL: not called. */
    int (*placing)(void *context, int fd, struct err *err);
    void *context;
};

struct result_merge_stats {
    uint64_t n_results, n_failed_items, n_missing;
    uint64_t bytes_out;
};

/*
 * ERR_DATA if an index occurs twice or is missing, naming the first one, or if a part is shorter
 * than its rows say or holds another number of lines; nothing is then put in place.
 */
MUST_CHECK int result_merge_write(const struct result_merge_opts *opts,
                                  struct result_merge_stats *stats, struct err *err);
