/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/zip/zip_write.h"

#include "tensor/bytes.h"

enum {
    LOCAL_BYTES = 30,
    EXTRA_HEAD_BYTES = 4,
    EXTRA_ZIP64 = 1,
    EXTRA_PADDING = 0x4246, /* "FB", the padding field that torch writes */
    VERSION_STORED = 10,
    VERSION_ZIP64 = 45,
    FLAG_UTF8 = 0x0800,
    DATE_NONE = 0x21 /* 1980-01-01, the first there is */
};

static void le_add(struct buf *out, uint64_t value, size_t n_bytes)
{
    char bytes[8];
    le_put(bytes, value, n_bytes);
    buf_add(out, bytes, n_bytes);
}

static uint64_t narrow(uint64_t value)
{
    return MIN(value, (uint64_t)UINT32_MAX);
}

static bool is_wide(uint64_t value)
{
    return value >= UINT32_MAX;
}

/*
 * Adds the fields from "version needed" to the lengths of name and extra, which both headers have.
 */
static void common_add(const struct zip_new_entry *entry, bool is_zip64, size_t extra_bytes,
                       struct buf *out)
{
    le_add(out, is_zip64 ? VERSION_ZIP64 : VERSION_STORED, 2);
    le_add(out, FLAG_UTF8, 2);
    le_add(out, 0, 2); /* stored */
    le_add(out, 0, 2); /* midnight */
    le_add(out, DATE_NONE, 2);
    le_add(out, entry->crc, 4);
    le_add(out, narrow(entry->bytes), 4);
    le_add(out, narrow(entry->bytes), 4);
    le_add(out, entry->name.len, 2);
    le_add(out, extra_bytes, 2);
}

void zip_header_add(const struct zip_writer *writer, struct zip_new_entry *entry, struct buf *out)
{
    bool is_zip64 = is_wide(entry->bytes);
    size_t zip64_bytes = is_zip64 ? EXTRA_HEAD_BYTES + 16 : 0;
    uint64_t least = writer->at + LOCAL_BYTES + entry->name.len + zip64_bytes + EXTRA_HEAD_BYTES;
    size_t padding = entry->has_place ? (size_t)((entry->in_block - least) % ZIP_BLOCK_BYTES)
                                      : (size_t)(-least % ZIP_ALIGN_BYTES);
    entry->header_at = writer->at;
    le_add(out, 0x04034b50, 4);
    common_add(entry, is_zip64, zip64_bytes + EXTRA_HEAD_BYTES + padding, out);
    buf_add_str(out, entry->name);
    if (is_zip64) {
        le_add(out, EXTRA_ZIP64, 2);
        le_add(out, 16, 2);
        le_add(out, entry->bytes, 8);
        le_add(out, entry->bytes, 8);
    }
    le_add(out, EXTRA_PADDING, 2);
    le_add(out, padding, 2);
    for (size_t i = 0; i < padding; i++)
        buf_add_char(out, 'Z');
}

static void record_add(const struct zip_new_entry *entry, struct buf *out)
{
    bool has_size = is_wide(entry->bytes), has_place = is_wide(entry->header_at);
    size_t wide_bytes = (has_size ? 16 : 0) + (has_place ? 8 : 0);
    le_add(out, 0x02014b50, 4);
    le_add(out, VERSION_ZIP64 | 3 << 8, 2); /* made on Unix */
    common_add(entry, wide_bytes > 0, wide_bytes ? EXTRA_HEAD_BYTES + wide_bytes : 0, out);
    le_add(out, 0, 2); /* comment */
    le_add(out, 0, 2); /* volume */
    le_add(out, 0, 2); /* text or not */
    le_add(out, 0, 4); /* rights */
    le_add(out, narrow(entry->header_at), 4);
    buf_add_str(out, entry->name);
    if (wide_bytes == 0)
        return;
    le_add(out, EXTRA_ZIP64, 2);
    le_add(out, wide_bytes, 2);
    if (has_size) {
        le_add(out, entry->bytes, 8);
        le_add(out, entry->bytes, 8);
    }
    if (has_place)
        le_add(out, entry->header_at, 8);
}

void zip_entry_done(struct zip_writer *writer, const struct zip_new_entry *entry,
                    uint64_t header_bytes)
{
    record_add(entry, &writer->directory);
    writer->at = entry->header_at + header_bytes + entry->bytes;
    writer->n_entries++;
}

void zip_header_patch(const struct zip_new_entry *entry, char patch[ZIP_PATCH_BYTES])
{
    le_put(patch, entry->crc, 4);
    le_put(patch + 4, narrow(entry->bytes), 4);
    le_put(patch + 8, narrow(entry->bytes), 4);
}

void zip_end_add(struct zip_writer *writer, struct buf *out)
{
    uint64_t directory_at = writer->at, bytes = writer->directory.len, n = writer->n_entries;
    buf_add_str(out, buf_str(&writer->directory));
    le_add(out, 0x06064b50, 4);
    le_add(out, 44, 8); /* bytes of this record behind this field */
    le_add(out, VERSION_ZIP64 | 3 << 8, 2);
    le_add(out, VERSION_ZIP64, 2);
    le_add(out, 0, 8); /* volumes */
    le_add(out, n, 8);
    le_add(out, n, 8);
    le_add(out, bytes, 8);
    le_add(out, directory_at, 8);
    le_add(out, 0x07064b50, 4);
    le_add(out, 0, 4);
    le_add(out, directory_at + bytes, 8);
    le_add(out, 1, 4);
    le_add(out, 0x06054b50, 4);
    le_add(out, 0, 4); /* volumes */
    le_add(out, MIN(n, (uint64_t)UINT16_MAX), 2);
    le_add(out, MIN(n, (uint64_t)UINT16_MAX), 2);
    le_add(out, narrow(bytes), 4);
    le_add(out, narrow(directory_at), 4);
    le_add(out, 0, 2); /* comment */
}

void zip_writer_release(struct zip_writer *writer)
{
    buf_release(&writer->directory);
}
