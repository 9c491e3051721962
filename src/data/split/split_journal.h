/* SPDX-License-Identifier: Apache-2.0
 *
 * A journal of the parts that are about to get their names in an existing folder. It is written
 * before the first part is renamed and removed after the last one. So the next split can tell the
 * parts of a split that was killed in between from other files of the same names: by inode, size
 * and time.
 */
#pragma once

#include <sys/stat.h>

#include "base/outfile.h"

struct split_journal {
    const char *path;    /* borrowed; NULL: no journal is kept */
    struct outfile file; /* the journal of this split, locked while parts get their names */
    bool is_placed;
    int fd;          /* an existing journal of an earlier split, locked */
    struct buf text; /* the content of the earlier journal */
    /* The parts of the earlier split that are in place, sorted; none if all of them are in place,
     * because that split is complete then. */
    struct str *left;
    size_t n_left;
};

#define SPLIT_JOURNAL_INIT             \
    {                                  \
        .file = OUTFILE_INIT, .fd = -1 \
    }

/*
 * Reads the journal at `path`, if there is one; its parts are in `folder`. ERR_USAGE if another
 * split has locked it, or if the file is not a journal. Call split_journal_release() after a
 * failure too.
 */
MUST_CHECK int split_journal_read(struct split_journal *journal, const char *path,
                                  const char *folder, struct err *err);
/* Is this a part of a split that was killed before it had placed all of them? */
bool split_journal_has(const struct split_journal *journal, const char *path,
                       const struct stat *st);
/* Removes the parts of that killed split, and then its journal. */
MUST_CHECK int split_journal_clear(struct split_journal *journal, const char *folder,
                                   struct err *err);
/*
 * Writes the journal. The files are complete and synced; they have no names yet, or temporary names
 * beside their final ones.
 */
MUST_CHECK int split_journal_begin(struct split_journal *journal, const struct outfile *files,
                                   const char *const *names, size_t n_files, struct err *err);
/* Removes the journal: all parts are in place. */
MUST_CHECK int split_journal_end(struct split_journal *journal, struct err *err);
void split_journal_release(struct split_journal *journal);
