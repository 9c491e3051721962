/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as safetensors. The tensors of what is accepted fill the file, one behind the other.
 */
#include "fuzz.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tensor/safetensors.h"

int fuzz_target(const uint8_t *data, size_t size)
{
    struct safetensors file;
    struct err err = {0};
    uint64_t at = 0;
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    ASSERT(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    int rc = safetensors_read(&file, "fuzz", fd, size, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    for (size_t i = 0; rc == 0 && i < file.n_tensors; i++) {
        ASSERT(file.tensors[i].begin == at && file.tensors[i].end >= at);
        ASSERT(file.tensors[i].dims_at + file.tensors[i].n_dims <= file.n_dims);
        at = file.tensors[i].end;
    }
    ASSERT(rc || file.data_at + at == size);
    safetensors_release(&file);
    close(fd);
    return 0;
}
