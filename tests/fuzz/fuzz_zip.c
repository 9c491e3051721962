/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a zip. Entries of what is accepted lie in the file without touching one another, are
 * found by their names, and can be read or say why not.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tensor/zip/zip.h"

enum {
    READ_MAX_BYTES = 1 << 20
};

static void entry_check(const struct zip *zip, const struct zip_entry *entry)
{
    struct buf out = BUF_INIT;
    struct err err = {0};
    uint64_t data_at;
    size_t place = entry->name.len; /* any */
    ASSERT(entry->header_at < entry->end_at && entry->end_at <= zip->file_bytes);
    ASSERT(zip_find(zip, entry->name) == entry);
    ASSERT(zip_find_next(zip, entry->name, &place) == entry);
    int rc = zip_entry_locate(zip, entry, &data_at, &err);
    ASSERT(rc == 0 ? data_at > entry->header_at && data_at + entry->packed_bytes <= entry->end_at
                   : rc == ERR_DATA && err.text[0] != '\0');
    rc = zip_entry_read(zip, entry, READ_MAX_BYTES, &out, &err);
    ASSERT(rc == 0 ? out.len == entry->bytes : rc == ERR_DATA && err.text[0] != '\0');
    buf_release(&out);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct zip zip;
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    int rc = zip_read(&zip, "fuzz", fd, size, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    for (size_t i = 0; rc == 0 && i < zip.n_entries; i++) {
        entry_check(&zip, &zip.entries[i]);
        for (size_t k = 0; k < i; k++)
            ASSERT(zip.entries[k].end_at <= zip.entries[i].header_at ||
                   zip.entries[i].end_at <= zip.entries[k].header_at);
    }
    ASSERT(rc || !zip_find(&zip, STR("no such name\n")));
    zip_release(&zip);
    close(fd);
    return 0;
}
