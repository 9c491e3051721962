/* SPDX-License-Identifier: Apache-2.0
 *
 * A zip on its way into a file: entry by entry, each as bytes that are added up as they pass.
 */
#pragma once

#include "base/outfile.h"
#include "tensor/zip/zip_write.h"

struct zip_out {
    struct outfile *file; /* borrowed */
    struct zip_writer zip;
    struct buf header;
    uint32_t crc;   /* of the entry at hand */
    uint64_t bytes; /* of it, so far */
};

/* entry->bytes is as many as will come, or 0 where that is not known; of 4 GiB and more it must be. */
MUST_CHECK int zip_out_begin(struct zip_out *zip, struct zip_new_entry *entry, struct err *err);
MUST_CHECK int zip_out_add(struct zip_out *zip, struct str bytes, struct err *err);
/* Bytes of this CRC got into the file by another way. */
void zip_out_passed(struct zip_out *zip, uint32_t crc, uint64_t bytes);
/* Size and CRC go into the header. */
MUST_CHECK int zip_out_end(struct zip_out *zip, struct zip_new_entry *entry, struct err *err);
/* The directory, when all entries are there. */
MUST_CHECK int zip_out_finish(struct zip_out *zip, struct err *err);
void zip_out_release(struct zip_out *zip);
