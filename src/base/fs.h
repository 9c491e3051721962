/* SPDX-License-Identifier: Apache-2.0
 *
 * Files: paths, whole reads and writes, and the one way to put a result in place (beside, synced,
 * renamed, directory synced).
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

/* New strings, free() them. path_join: no doubled slash; an absolute `name` stands alone. */
char *path_join(const char *folder, const char *name);
/* The working folder; a new string. NULL, with errno, if it was removed. */
char *path_cwd(void);
/* True if the working folder was removed. Then no relative path works, and no file can be made in the folder. */
bool cwd_is_deleted(void);
/* Absolute, without resolving links; works for paths that do not exist yet. */
char *path_absolute(const char *path);
char *path_dirname(const char *path);
/* Borrowed from path. */
const char *path_basename(const char *path);
/* ".jsonl" of "a/b.c.jsonl", "" if there is none; borrowed. ".gz" counts as an extension. */
const char *path_extension(const char *path);

MUST_CHECK int mkdir_parents(const char *path, mode_t mode, struct err *err);
/* As mkdir_parents(); the folders that it made are added to `made`, also on failure, for
 * folders_unmake(). */
MUST_CHECK int folders_make(const char *path, mode_t mode, struct buf *made, struct err *err);
/* Removes the folders in `made` that are still empty. */
void folders_unmake(const struct buf *made);
/* True if nothing more can be written where `path` is, which exists: a file there may have been cut short. */
bool disk_is_full(const char *path);
/* Adds the whole file to out; ERR_USAGE naming the path if it cannot be read, or is over max_bytes. */
MUST_CHECK int file_read(const char *path, size_t max_bytes, struct buf *out, struct err *err);
/* As file_read(), of an open file; `path` is for messages. */
MUST_CHECK int file_read_fd(int fd, const char *path, size_t max_bytes, struct buf *out,
                            struct err *err);
/* Every byte or an error; retries short writes and EINTR. */
MUST_CHECK int write_all(int fd, const void *at, size_t len, struct err *err);
/*
 * As write_all(), where the reader may have stopped reading. Returns 1 if all was written, 0 as
 * soon as nothing could be written for patience_ms (a part may have been written by then).
 */
MUST_CHECK int write_patiently(int fd, const void *at, size_t len, int patience_ms,
                               struct err *err);
MUST_CHECK int pwrite_all(int fd, const void *at, size_t len, off_t offset, struct err *err);
/* A file without a name in TMPDIR, or in /tmp where that is not set; it is gone when it is
 * closed. ERR_USAGE for a folder that cannot have one. */
MUST_CHECK int spool_open(int *fd, struct err *err);
/* fsync of the folder that holds `path`, so that a rename or unlink in it is durable. */
MUST_CHECK int fsync_parent(const char *path, struct err *err);
/* fsync_parent() in two steps: parent_open() can fail for lack of a descriptor, so it is called
 * before the rename. */
MUST_CHECK int parent_open(const char *path, int *fd, struct err *err);
MUST_CHECK int parent_sync(int fd, const char *path, struct err *err);
/*
 * Replace `path` by `content`, atomically and durably: path.new, fsync, rename, fsync folder. Only
 * for muster's own files: an existing path.new is taken for what a killed muster left, and
 * replaced. Files of the user are written with base/outfile.h.
 */
MUST_CHECK int file_replace(const char *path, struct str content, struct err *err);
/* file_replace() without the syncs, for snapshots that may be lost in a power cut (status.json). */
MUST_CHECK int file_replace_fast(const char *path, struct str content, struct err *err);
/* Unlink files and folders below and including path. No error if path does not exist. */
MUST_CHECK int remove_tree(const char *path, struct err *err);
/* True if the file system under path is NFS, Lustre, GPFS, CIFS, FUSE … (statfs magic). */
bool is_network_fs(const char *path);
bool path_exists(const char *path);
/* The pid namespace of this process, such as "pid:[4026531836]". A pid is valid only in its
 * namespace, that is, within one container. */
void pid_space(char out[64]);
void net_space(char out[64]);
/* A random number of the running system, which another start of it does not have; "": not known. */
void boot_id_read(char out[64]);
/* How many files this process may have open, after the limit was raised to `wanted` as far as is
 * allowed. */
uint64_t open_files_allow(uint64_t wanted);
bool folder_exists(const char *path);
/* False too if it cannot be read. */
bool folder_is_empty(const char *path);
/* A regular file that this user may execute. */
