/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files that muster keeps from one run to the next: in MUSTER_CACHE_DIR, else in muster/ of XDG_CACHE_HOME or
 * ~/.cache. Each file is replaced as a whole, under a lock of its own. A file that is damaged or belongs to another
 * user is ignored; muster works without it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/*
 * Adds the content of the file to *out. `name`: "fit.json". Returns 1 if the file exists, 0 if not; ERR_DATA or
 * ERR_USAGE if it is damaged or belongs to another user.
 */
MUST_CHECK int cache_file_read(const char *name, uint64_t bytes_max, struct buf *out,
                               struct err *err);
/* Sets the error that the content of the file makes no sense. Returns ERR_DATA. */
int cache_file_damaged(const char *name, struct err *err);
/*
 * Makes the folder and takes the lock, before a caller reads the file and writes it again. The caller closes *lock_fd
 * afterwards. ERR_USAGE if there is no place for the file, or if another process keeps the lock for long.
 */
MUST_CHECK int cache_file_lock(const char *name, int *lock_fd, struct err *err);
/* Writes the file; durably, unless is_fast. */
MUST_CHECK int cache_file_write(const char *name, struct str text, bool is_fast, struct err *err);
