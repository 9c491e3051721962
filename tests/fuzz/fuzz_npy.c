/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an array of numpy. The shape of what is accepted accounts for every byte.
 */
#include "fuzz.h"

#include "tensor/npy.h"

int fuzz_target(const uint8_t *data, size_t size)
{
    struct npy npy;
    struct err err = {0};
    struct str file = {(const char *)data, size};
    int rc = npy_parse(&npy, "fuzz", file, size, &err);
    ASSERT(rc == 0 || (rc == ERR_DATA && err.text[0]));
    if (rc)
        return 0;
    uint64_t bytes = npy.element_bytes;
    for (size_t i = 0; i < npy.n_dims; i++)
        bytes *= npy.shape[i];
    ASSERT(npy.data_at <= size && npy.data_at + npy.data_bytes == size);
    ASSERT(bytes == npy.data_bytes || (npy.descr.len > 0 && npy.descr.at[0] == '['));
    return 0;
}
