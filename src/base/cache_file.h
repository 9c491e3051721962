/* SPDX-License-Identifier: Apache-2.0
 *
 * Small files that muster keeps from one run to the next: in MUSTER_CACHE_DIR, else in muster/ of
 * XDG_CACHE_HOME or ~/.cache. Each is replaced whole, under a lock of its own. One that is damaged
 * or somebody else's is left out of account, and nothing depends on it.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

/* Adds what is in the file to *out. `name`: "fit.json". 1: it is there; 0: it is not; ERR_DATA or
 * ERR_USAGE: it is damaged, or somebody else's. */
MUST_CHECK int cache_file_read(const char *name, uint64_t bytes_max, struct buf *out,
                               struct err *err);
/* What it holds makes no sense. Returns ERR_DATA. */
int cache_file_damaged(const char *name, struct err *err);
/*
 * Makes the folder and takes the lock, before the file is read and written again. *lock_fd: to be
 * closed afterwards. ERR_USAGE: there is no place for it, or another process has the lock for long.
 */
MUST_CHECK int cache_file_lock(const char *name, int *lock_fd, struct err *err);
/* Durable, or not so (is_fast). */
MUST_CHECK int cache_file_write(const char *name, struct str text, bool is_fast, struct err *err);
