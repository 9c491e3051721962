/* SPDX-License-Identifier: Apache-2.0
 *
 * A zip in the making, as torch.load maps it: stored entries with their data at multiples of 64, sizes
 * and CRC in the header, zip64 records where they are needed and at the end always. It makes headers
 * and the directory; the bytes are written by whoever has them.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    ZIP_ALIGN_BYTES = 64,
    ZIP_BLOCK_BYTES = 4096,      /* of file systems that share blocks among files */
    ZIP_END_BYTES = 56 + 20 + 22 /* of the end records, behind the directory */
};

struct zip_writer {
    struct buf directory;
    uint64_t at; /* in the file */
    uint64_t n_entries;
};

struct zip_new_entry {
    struct str name;
    uint64_t bytes;
    uint32_t crc;
    bool has_place; /* its data begin as far into a block as in_block says: a multiple of 64 */
    uint32_t in_block;
    uint64_t header_at; /* filled in: for zip_header_patch() */
};

/* Adds the header to out; behind it go entry->bytes of data, then zip_entry_done() is told. */
void zip_header_add(const struct zip_writer *writer, struct zip_new_entry *entry, struct buf *out);
/* The entry is written whole, its size and CRC are now as they stand. */
void zip_entry_done(struct zip_writer *writer, const struct zip_new_entry *entry,
                    uint64_t header_bytes);
/*
 * Where size and CRC were not known before: the bytes that go over the header at ZIP_PATCH_AT. What is
 * not smaller than 4 GiB has to have said so in its header.
 */
enum {
    ZIP_PATCH_AT = 14,
    ZIP_PATCH_BYTES = 12
};
void zip_header_patch(const struct zip_new_entry *entry, char patch[ZIP_PATCH_BYTES]);
/* The directory and the end records. */
void zip_end_add(struct zip_writer *writer, struct buf *out);
void zip_writer_release(struct zip_writer *writer);
