/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a zip into a file, entry by entry, and computes the CRC of each entry's bytes as they
 * pass.
 */
#pragma once

#include "base/outfile.h"
#include "tensor/zip/zip_write.h"

struct zip_out {
    struct outfile *file; /* borrowed */
    struct zip_writer zip;
    struct buf header;
    uint32_t crc;   /* of the current entry */
    uint64_t bytes; /* of the current entry, so far */
};

/* Begins an entry. entry->bytes is its size, or 0 if that is not known yet; a size of 4 GiB or more
 * must be given. */
MUST_CHECK int zip_out_begin(struct zip_out *zip, struct zip_new_entry *entry, struct err *err);
MUST_CHECK int zip_out_add(struct zip_out *zip, struct str bytes, struct err *err);
/*
 * Accounts for bytes of the entry that the caller put into the file by other means; `crc` is the
 * CRC of these bytes.
 */
void zip_out_passed(struct zip_out *zip, uint32_t crc, uint64_t bytes);
/* Ends the entry, and writes its size and CRC into its header. */
MUST_CHECK int zip_out_end(struct zip_out *zip, struct zip_new_entry *entry, struct err *err);
/* Writes the directory, after all entries. */
MUST_CHECK int zip_out_finish(struct zip_out *zip, struct err *err);
void zip_out_release(struct zip_out *zip);
