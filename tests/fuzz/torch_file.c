/* SPDX-License-Identifier: Apache-2.0 */
#include "torch_file.h"

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "tensor/crc.h"
#include "tensor/pickle/pickle.h"
#include "tensor/zip/zip_write.h"

enum {
    STORED_MAX_BYTES = 1 << 16
};

static void entry_add(struct zip_writer *zip, const char *record, struct str content,
                      struct buf *out)
{
    cleanup_free char *name = xasprintf("f/%s", record);
    struct zip_new_entry entry = {
        .name = str_of(name), .bytes = content.len, .crc = crc_of(0, content)};
    size_t begin = out->len;
    zip_header_add(zip, &entry, out);
    zip_entry_done(zip, &entry, out->len - begin);
    buf_add_str(out, content);
}

void torch_file_make(struct str text, struct buf *out)
{
    struct zip_writer zip = {0};
    struct pickle pickle;
    struct err err = {0};
    uint64_t bytes = 0;
    char record[64];
    int rc = pickle_read(&pickle, text, &(struct pickle_opts){.name = "fuzz"}, &err);
    entry_add(&zip, "data.pkl", text, out);
    for (size_t i = 0; rc == 0 && i < pickle.n_storages; i++) {
        const struct pickle_storage *storage = &pickle.storages[i];
        char content[STORED_MAX_BYTES];
        uint64_t len = storage->n_elements * storage->element_bytes;
        bytes += MIN(len, (uint64_t)STORED_MAX_BYTES + 1);
        if (bytes > STORED_MAX_BYTES || storage->key.len > 20)
            break;
        for (size_t at = 0; at < len; at++)
            content[at] = (char)(at * 37 + (at >> 8) + i);
        snprintf(record, sizeof(record), "data/%.*s", (int)storage->key.len, storage->key.at);
        entry_add(&zip, record, (struct str){content, len}, out);
    }
    entry_add(&zip, "version", STR("3\n"), out);
    zip_end_add(&zip, out);
    zip_writer_release(&zip);
    pickle_release(&pickle);
}
