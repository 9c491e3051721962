/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files as torch.save and numpy write them, read strictly: the central directory is
 * authoritative, the end record ends the file, and entries must not overlap. A file that two
 * readers could understand in two ways is refused. Sources: PKWARE APPNOTE 6.3.10, and what torch
 * 1.6 to 2.8 and numpy write.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct zip_entry {
    struct str name;                                 /* the full path, borrowed from the zip */
    uint64_t header_at, end_at, bytes, packed_bytes; /* the data end at or before end_at */
    uint32_t crc;
    bool is_deflated;
};

struct zip {
    const char *path; /* borrowed */
    int fd;           /* borrowed */
    uint64_t file_bytes;
    struct buf directory;
    struct zip_entry *entries; /* in the order of the directory */
    uint32_t *by_name;         /* indices, shorter names first, for zip_find() */
    size_t n_entries;
    bool has_crcs; /* false: all CRCs are 0, as torch.save(compute_crc32=False) leaves them */
};

/* Does the file begin like a zip? */
bool zip_is_one(struct str head);
/*
 * The name of the entry at the beginning of a file; "" if there is no entry, or if its name does
 * not end within `head`.
 */
struct str zip_first_name(struct str head);
/*
 * Reads the directory. zip_entry_locate() reads the header of an entry. ERR_DATA naming the path,
 * the offset and the reason. Call zip_release() after a failure too.
 */
MUST_CHECK int zip_read(struct zip *zip, const char *path, int fd, uint64_t file_bytes,
                        struct err *err);
void zip_release(struct zip *zip);
/* The entry of this name; NULL if there is none. */
const struct zip_entry *zip_find(const struct zip *zip, struct str name);
/* zip_find() for names that come in about the order of by_name: it first tries the entry behind the
 * last one found. *place is 0 before the first call. */
const struct zip_entry *zip_find_next(const struct zip *zip, struct str name, size_t *place);
/*
 * Finds where the entry's data begin. The entry's own header must have the name that the directory
 * has; the sizes in that header are not compared.
 */
MUST_CHECK int zip_entry_locate(const struct zip *zip, const struct zip_entry *entry,
                                uint64_t *data_at, struct err *err);
/* Adds the content of a stored or deflated entry, checked against its CRC; ERR_DATA if it is longer
 * than max_bytes. */
MUST_CHECK int zip_entry_read(const struct zip *zip, const struct zip_entry *entry,
                              uint64_t max_bytes, struct buf *out, struct err *err);
/* ERR_DATA if `crc`, computed from all bytes of the entry, is not the CRC in the directory. */
MUST_CHECK int zip_entry_check(const struct zip *zip, const struct zip_entry *entry, uint32_t crc,
                               struct err *err);
/* Passes the whole content to the sink, a window at a time, and then checks its CRC. */
struct zip_sink {
    int (*put)(void *context, struct str bytes, struct err *err);
    void *context;
};
MUST_CHECK int zip_entry_pass(const struct zip *zip, const struct zip_entry *entry,
                              const struct zip_sink *sink, struct err *err);
/* Adds the first `len` bytes of the content, or all if it has fewer. The CRC is not checked,
 * because it is of the whole content. */
MUST_CHECK int zip_entry_head(const struct zip *zip, const struct zip_entry *entry, uint64_t len,
                              struct buf *out, struct err *err);
