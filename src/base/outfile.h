/* SPDX-License-Identifier: Apache-2.0
 *
 * A file that appears at its place whole and durable, or not at all. Until then it has no name
 * where the file system can do that (O_TMPFILE), so even kill -9 leaves nothing behind; elsewhere,
 * and for the moment of replacing a file, it is <name>.new, or <name>.<pid>-<n>.new where that is
 * somebody's, or .muster-<pid>-<n>.new where those would be too long: no file is touched that was not made here. stdout, devices and pipes are written to
 * directly.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

struct outfile {
    char *path, *beside; /* beside: NULL while nameless */
    const char *name;    /* for messages */
    int fd;
    bool is_direct, overwrite, is_synced;
    struct buf pending;
    uint64_t bytes;
    uint64_t sent_bytes; /* of them, on their way to the disk */
};

#define OUTFILE_INIT \
    {                \
        .fd = -1     \
    }

/* True of "-", devices and pipes: there is nothing to replace, and no place beside it. */
bool output_is_direct(const char *path);
/* Without slashes at its end: what names beside it begin with. A new string. */
char *output_base_new(const char *out_path);
/* ERR_USAGE if something is there and may not be overwritten. */
MUST_CHECK int outfile_open(struct outfile *file, const char *path, bool overwrite,
                            struct err *err);
/* One that never gets a name, to see how large it would be. */
MUST_CHECK int outfile_open_nameless(struct outfile *file, struct err *err);
/* Write what is pending if there is much of it. Add to file->pending, then call this. */
MUST_CHECK int outfile_pump(struct outfile *file, struct err *err);
/* These bytes, behind what is pending, without another copy. */
MUST_CHECK int outfile_write(struct outfile *file, struct str bytes, struct err *err);
/*
 * `len` bytes of another file that are from then on in both, until one of them is written to: the file
 * system shares blocks of 4096 bytes, and the bytes that do not fill one are written. *is_shared says whether
 * it could; if not, nothing was added.
 */
MUST_CHECK int outfile_share(struct outfile *file, int fd, uint64_t offset, uint64_t len,
                             bool *is_shared, struct err *err);
/* Write over bytes that were written before, where the file is no pipe: `offset` in the file. */
MUST_CHECK int outfile_patch(struct outfile *file, uint64_t offset, struct str bytes,
                             struct err *err);
/* So many bytes more, which are patched in later; zeros until then. Not where the file is a pipe. */
MUST_CHECK int outfile_extend(struct outfile *file, uint64_t bytes, struct err *err);
/*
 * All that there is was added; the disk may begin, while other files are written. Parked, the
 * descriptor is given back, for more files than can be open: until it is put in place it has a name
 * beside its own.
 */
MUST_CHECK int outfile_finish(struct outfile *file, bool is_parked, struct err *err);
/* Everything on disk, not yet in place. */
MUST_CHECK int outfile_sync(struct outfile *file, struct err *err);
/* Everything on disk, then in place; the folder's entry may be lost in a power cut. */
MUST_CHECK int outfile_place(struct outfile *file, struct err *err);
/* Everything on disk, then in place. */
MUST_CHECK int outfile_commit(struct outfile *file, struct err *err);
/* Drops what was not committed. Fine after a commit. */
void outfile_close(struct outfile *file);
/* A whole file at once, replacing what is there. */
MUST_CHECK int outfile_put(const char *path, struct str content, struct err *err);
