/* SPDX-License-Identifier: Apache-2.0
 *
 * What is about to get its name in a folder that others use too, written down before the first
 * part does and removed when the last one has. So the next split knows the parts of one that was
 * killed between, though they are named as any others: by their inode, size and time.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"

struct split_journal {
    const char *path;    /* borrowed; NULL: there is none to be kept */
    struct outfile file; /* ours, locked while parts get their names */
    bool is_placed;
    int fd;          /* one that was there, locked */
    struct buf text; /* of that one */
    /* Those of its parts that are in place, sorted; none if all are, as nothing is missing then. */
    struct str *left;
    size_t n_left;
};

#define SPLIT_JOURNAL_INIT             \
    {                                  \
        .file = OUTFILE_INIT, .fd = -1 \
    }

/*
 * Looks for one at `path`, whose parts are in `folder`. ERR_USAGE where another split is at work
 * on it, or it is no journal. To be released after a failure too.
 */
MUST_CHECK int split_journal_read(struct split_journal *journal, const char *path,
                                  const char *folder, struct err *err);
/* Is this a part of a split that was killed before it had placed all of them? */
bool split_journal_has(const struct split_journal *journal, const char *path,
                       const struct stat *st);
/* Removes those parts, and then the journal. */
MUST_CHECK int split_journal_clear(struct split_journal *journal, const char *folder,
                                   struct err *err);
/* These are complete and synced, and have no names, or ones beside those that they get. */
MUST_CHECK int split_journal_begin(struct split_journal *journal, const struct outfile *files,
                                   const char *const *names, size_t n_files, struct err *err);
/* Nothing is left to be cleared up. */
MUST_CHECK int split_journal_end(struct split_journal *journal, struct err *err);
void split_journal_release(struct split_journal *journal);
