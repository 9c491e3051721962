/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of muster's own in folders that others may write to. A name there may lead to anything: a link to
 * a file of the caller, a FIFO that nobody writes to, a file that somebody else put there. So these
 * functions never follow a link at the end of a path, never wait, and judge a file by its descriptor.
 *
 * "Ours" is what belongs to the effective user and cannot be written by everybody. Root's files are
 * root's: what another user made is not ours to root either. Where a file system shows other owners or
 * modes than it was given (NFS with squashed users, CIFS, vfat), it is compared with a file that this
 * process makes there.
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
/* ERR_DATA if something other than a regular file has this name. That nothing has it is no error. */
MUST_CHECK int plain_file_check(const char *path, struct err *err);

/* For writing: made with mode 0664 where `flags` has O_CREAT. What is there already must be a regular
 * file of ours under one name only, or it is refused as by ours_check_file. */
MUST_CHECK int ours_open(const char *path, int flags, int *fd, struct err *err);
/* ERR_DATA if it is no regular file, or has a second name (a hard link); ERR_USAGE, saying whose it is, if
 * it is not ours. That nothing has this name is no error. */
MUST_CHECK int ours_check_file(const char *path, struct err *err);
/* As ours_check_file for what a program goes on from that muster writes as it writes outputs: with the modes
 * of the umask, whatever these are, and perhaps with a second name. */
MUST_CHECK int ours_check_owner(const char *path, struct err *err);
/* As ours_check_file of a folder; links to folders are not followed. */
MUST_CHECK int ours_check_folder(const char *path, struct err *err);
/* Is it, in that folder? */
bool ours_is(const struct stat *st, const char *folder);
/* "alice (uid 1000)" */
void owner_name(char out[80], uid_t uid);
