/* SPDX-License-Identifier: Apache-2.0
 *
 * Zip files as torch.save and numpy write them, read strictly: the central directory is the truth, the
 * end record ends the file, entries neither overlap nor hide one another. A file that two readers
 * could understand in two ways is refused. Sources: PKWARE APPNOTE 6.3.10, and what torch 1.6 to 2.8
 * and numpy write.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct zip_entry {
    struct str name;                                 /* whole, borrowed from the zip */
    uint64_t header_at, end_at, bytes, packed_bytes; /* its data end at end_at at the latest */
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
    bool has_crcs; /* false: all are 0, as torch.save(compute_crc32=False) leaves them */
};

/* Begins the file as a zip does? */
bool zip_is_one(struct str head);
/* The name of the entry that a file begins with; "" if there is none, or it is longer than the head. */
struct str zip_first_name(struct str head);
/*
 * The directory; entries' own headers are looked at when their data are. ERR_DATA naming the path, the
 * offset and the reason. Release also after a failure.
 */
MUST_CHECK int zip_read(struct zip *zip, const char *path, int fd, uint64_t file_bytes,
                        struct err *err);
void zip_release(struct zip *zip);
/* NULL if there is none. */
const struct zip_entry *zip_find(const struct zip *zip, struct str name);
/* The same for names in about the order of by_name, each a step behind the last: *place begins with 0. */
const struct zip_entry *zip_find_next(const struct zip *zip, struct str name, size_t *place);
/* Where its data begin: its own header has to say the same of it as the directory. */
MUST_CHECK int zip_entry_locate(const struct zip *zip, const struct zip_entry *entry,
                                uint64_t *data_at, struct err *err);
/* Adds the content of a stored or deflated entry, checked against its CRC; ERR_DATA if it is longer than max_bytes. */
MUST_CHECK int zip_entry_read(const struct zip *zip, const struct zip_entry *entry,
                              uint64_t max_bytes, struct buf *out, struct err *err);
/* ERR_DATA if `crc`, of all its bytes, is not what the file says. */
MUST_CHECK int zip_entry_check(const struct zip *zip, const struct zip_entry *entry, uint32_t crc,
                               struct err *err);
/* All of it, a window at a time, checked against its CRC when it is through. */
struct zip_sink {
    int (*put)(void *context, struct str bytes, struct err *err);
    void *context;
};
MUST_CHECK int zip_entry_pass(const struct zip *zip, const struct zip_entry *entry,
                              const struct zip_sink *sink, struct err *err);
/* Adds the first `len` bytes of it, as far as it has them; the CRC is of the whole, and not checked. */
MUST_CHECK int zip_entry_head(const struct zip *zip, const struct zip_entry *entry, uint64_t len,
                              struct buf *out, struct err *err);
