/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the headers and the directory of a zip that torch.load can map: stored entries with their
 * data at multiples of 64, sizes and CRC in the header, and zip64 records for the entries that need
 * them. The zip64 end record is always written. The caller writes the headers, the directory and
 * the data.
 */
#pragma once

#include <stdint.h>

#include "base/buf.h"

enum {
    ZIP_ALIGN_BYTES = 64,
    ZIP_BLOCK_BYTES = 4096,      /* the blocks that file systems can share between files */
    ZIP_END_BYTES = 56 + 20 + 22 /* the end records, behind the directory */
};

struct zip_writer {
    struct buf directory;
    uint64_t at; /* offset in the file of the next entry */
    uint64_t n_entries;
};

struct zip_new_entry {
    struct str name;
    uint64_t bytes;
    uint32_t crc;
    bool has_place; /* its data begin at byte in_block of a block, a multiple of 64 */
    uint32_t in_block;
    uint64_t header_at; /* filled in by zip_header_add() */
};

/* Adds the entry's header to out. The caller writes it, then entry->bytes of data, then calls
 * zip_entry_done(). */
void zip_header_add(const struct zip_writer *writer, struct zip_new_entry *entry, struct buf *out);
/*
 * Records the entry for the directory. To be called when the entry is complete, with its final size
 * and CRC.
 */
void zip_entry_done(struct zip_writer *writer, const struct zip_new_entry *entry,
                    uint64_t header_bytes);
/*
 * For an entry whose size and CRC were not known when its header was made: the bytes to write over
 * the header at ZIP_PATCH_AT. The size of an entry of 4 GiB or more must have been known then.
 */
enum {
    ZIP_PATCH_AT = 14,
    ZIP_PATCH_BYTES = 12
};
void zip_header_patch(const struct zip_new_entry *entry, char patch[ZIP_PATCH_BYTES]);
/* Adds the directory and the end records. */
void zip_end_add(struct zip_writer *writer, struct buf *out);
void zip_writer_release(struct zip_writer *writer);
