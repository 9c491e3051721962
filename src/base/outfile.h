/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears at its place whole and durable, or not at all. Until then it has no name
 * where the file system can do that (O_TMPFILE), so even kill -9 leaves nothing behind; elsewhere,
 * and for the moment of replacing a file, it is <name>.new, or <name>.<pid>-<n>.new if that name is
 * taken, or .muster-<pid>-<n>.new where those would be too long: no file is touched that was not
 * made here. stdout, devices and pipes are written to directly. A symbolic link stays: the file that it leads to is
 * made, or replaced.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct outfile {
    char *path, *beside; /* path: its place, behind all links; beside: NULL while nameless */
    const char *name;    /* for messages: as it was given, which own_name holds */
    char *own_name;
    int fd;
    bool is_direct, overwrite, is_synced;
    struct buf pending;
    uint64_t bytes;
    uint64_t sent_bytes; /* of `bytes`: those that the kernel was told to write to the disk */
};

#define OUTFILE_INIT \
    {                \
        .fd = -1     \
    }

/* True for "-", devices and pipes: they are not replaced, and no file is made beside them. */
bool output_is_direct(const char *path);
/* out_path without slashes at its end: the prefix of the names beside it. A new string. */
char *output_base_new(const char *out_path);
/*
 * The place of the file that `path` leads to through symbolic links, whether it exists or not; a new string. ERR_USAGE
 * for a file that is known by a descriptor, as /dev/stdout is where it is redirected: to replace it would not reach
 * whoever holds it open.
 */
MUST_CHECK int output_follow(const char *path, char **out, struct err *err);
/* ERR_USAGE if no file may be put at `path`: it exists and is not to be replaced, or output_follow() refuses it. */
MUST_CHECK int output_check_free(const char *path, bool overwrite, struct err *err);
/* ERR_USAGE as from output_check_free(). */
MUST_CHECK int outfile_open(struct outfile *file, const char *path, bool overwrite,
                            struct err *err);
/* Opens an output that never gets a name, to find out how large it would be. */
MUST_CHECK int outfile_open_nameless(struct outfile *file, struct err *err);
/* Write what is pending if there is much of it. Add to file->pending, then call this. */
MUST_CHECK int outfile_pump(struct outfile *file, struct err *err);
/* Writes what is pending and then these bytes, without copying them into the buffer. */
MUST_CHECK int outfile_write(struct outfile *file, struct str bytes, struct err *err);
/*
 * Adds `len` bytes of another file without copying them, where the file system can let both files
 * share blocks (FICLONERANGE): whole blocks of 4096 bytes are shared until one of the files is
 * written to, and the bytes that do not fill a block are copied. *is_shared says whether it could;
 * if not, nothing was added.
 */
MUST_CHECK int outfile_share(struct outfile *file, int fd, uint64_t offset, uint64_t len,
                             bool *is_shared, struct err *err);
/* Write over bytes that were written before, at `offset` in the file. Not for pipes. */
MUST_CHECK int outfile_patch(struct outfile *file, uint64_t offset, struct str bytes,
                             struct err *err);
/* Add `bytes` zero bytes, to be written over later with outfile_patch(). Not for pipes. */
MUST_CHECK int outfile_extend(struct outfile *file, uint64_t bytes, struct err *err);
/*
 * To be called when everything was added: the kernel begins to write it to the disk, while other
 * files are written. With is_parked the descriptor is closed, for outputs of more files than can be
 * open; the file then has a name beside its place until it is put in place.
 */
MUST_CHECK int outfile_finish(struct outfile *file, bool is_parked, struct err *err);
/* Everything on disk, not yet in place. */
MUST_CHECK int outfile_sync(struct outfile *file, struct err *err);
/* Everything on disk, then in place; the folder's entry may be lost in a power cut. */
MUST_CHECK int outfile_place(struct outfile *file, struct err *err);
/* Everything on disk, then in place. */
MUST_CHECK int outfile_commit(struct outfile *file, struct err *err);
/* Drops what was not committed. May be called after a commit too. */
void outfile_close(struct outfile *file);
/* A whole file at once, replacing what is there. */
MUST_CHECK int outfile_put(const char *path, struct str content, struct err *err);
