/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/zip/zip_out.h"

#include <zlib.h>

#include "tensor/crc.h"

int zip_out_begin(struct zip_out *zip, struct zip_new_entry *entry, struct err *err)
{
    buf_reset(&zip->header);
    zip_header_add(&zip->zip, entry, &zip->header);
    zip->crc = 0;
    zip->bytes = 0;
    return outfile_write(zip->file, buf_str(&zip->header), err);
}

int zip_out_add(struct zip_out *zip, struct str bytes, struct err *err)
{
    zip->crc = crc_of(zip->crc, bytes);
    zip->bytes += bytes.len;
    return outfile_write(zip->file, bytes, err);
}

void zip_out_passed(struct zip_out *zip, uint32_t crc, uint64_t bytes)
{
    zip->crc = (uint32_t)crc32_combine(zip->crc, crc, (z_off_t)bytes);
    zip->bytes += bytes;
}

int zip_out_end(struct zip_out *zip, struct zip_new_entry *entry, struct err *err)
{
    char patch[ZIP_PATCH_BYTES];
    ASSERT(entry->bytes == 0 || entry->bytes == zip->bytes);
    entry->crc = zip->crc;
    entry->bytes = zip->bytes;
    zip_header_patch(entry, patch);
    zip_entry_done(&zip->zip, entry, zip->header.len);
    return outfile_patch(zip->file, entry->header_at + ZIP_PATCH_AT,
                         (struct str){patch, sizeof(patch)}, err);
}

int zip_out_finish(struct zip_out *zip, struct err *err)
{
    buf_reset(&zip->header);
    zip_end_add(&zip->zip, &zip->header);
    return outfile_write(zip->file, buf_str(&zip->header), err);
}

void zip_out_release(struct zip_out *zip)
{
    buf_release(&zip->header);
    zip_writer_release(&zip->zip);
}
