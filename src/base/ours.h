/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of muster's own in folders that others may write to. A name there may lead to anything: a link to
 * a file of the caller, a FIFO that nobody writes to, a file that somebody else put there. So these
 * functions never follow a link at the end of a path, never wait, and judge a file by its descriptor.
 *
 * "Ours" is what belongs to the effective user and cannot be written by everybody. Root's files are
 * root's: what another user made is not ours to root either. Where a file system shows other owners
 * or modes than it was given (NFS with squashed users, CIFS, vfat), a file is compared with one
 * that this process makes there.
 */
#pragma once

#include <stdint.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/err.h"

/* For reading. ERR_USAGE, with errno in err->sys, if it cannot be opened; ERR_DATA for anything but a
 * regular file. */
MUST_CHECK int plain_file_open(const char *path, int *fd, struct err *err);
/* Adds the whole file to out. ERR_DATA too if it has more than max_bytes, or is not ours and has more than
 * 4 MiB: to parse it could take long. */
MUST_CHECK int plain_file_read(const char *path, uint64_t max_bytes, struct buf *out,
                               struct err *err);
/* ERR_DATA if something other than a regular file has this name. No error if nothing has this
 * name. */
MUST_CHECK int plain_file_check(const char *path, struct err *err);

/* Opens a file for writing, and makes it with mode 0664 where `flags` has O_CREAT. An existing file
 * must be a regular file of ours with one name only; otherwise the errors are those of
 * ours_check_file(). */
MUST_CHECK int ours_open(const char *path, int flags, int *fd, struct err *err);
/* ERR_DATA if it is not a regular file, or has a second name (a hard link); ERR_USAGE, saying whose
 * it is, if it is not ours. No error if nothing has this name. */
MUST_CHECK int ours_check_file(const char *path, struct err *err);
/* As ours_check_file(), for a file that muster wrote the way it writes outputs and reads again
 * later, such as a journal: the umask may have made it writable by everybody, and it may have a
 * second name. */
MUST_CHECK int ours_check_owner(const char *path, struct err *err);
/* As ours_check_file(), of a folder; links to folders are not followed. */
MUST_CHECK int ours_check_folder(const char *path, struct err *err);
/* Is the file that `st` describes, which lies in that folder, ours? */
bool ours_is(const struct stat *st, const char *folder);
/* "alice (uid 1000)" */
void owner_name(char out[80], uid_t uid);
