/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as GGUF. The tensors of what is accepted lie within the file, and have names of their
 * own.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tensor/gguf.h"

static void accepted_check(const struct gguf *file, size_t size)
{
    uint64_t bytes = 0;
    ASSERT(file->version == 2 || file->version == 3);
    ASSERT(file->n_values == file->keys.len && file->n_tensors == file->names.len);
    for (size_t i = 0; i < file->n_values; i++)
        ASSERT(gguf_get(file, name_index_get(&file->keys, i)) == &file->values[i]);
    for (size_t i = 0; i < file->n_tensors; i++) {
        ASSERT(file->tensors[i].type && file->tensors[i].n_dims <= GGUF_DIMS_MAX);
        bytes += file->tensors[i].bytes;
    }
    ASSERT(file->data_at + bytes <= size);
}

int fuzz_target(const uint8_t *data, size_t size)
{
    struct gguf file;
    struct err err = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    int rc = gguf_read(&file, "fuzz", fd, size, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc == 0)
        accepted_check(&file, size);
    gguf_release(&file);
    close(fd);
    return 0;
}
