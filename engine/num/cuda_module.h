/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program and its module for CUDA agree on. The module is C++ and is linked with cuBLAS;
 * of the program it has nothing but headers.
 */
#pragma once

#include "num/backend.h"

#define CUDA_MODULE_FILE "muster-kge-cuda.so"
#define CUDA_MODULE_OPEN "muster_kge_cuda_open"

enum {
    CUDA_MODULE_VERSION = 2 /* of num_backend and the descriptors */
};

/*
 * The first device of those that are visible. 0, or `reason` is a sentence. Refuses a caller of
 * another version, or whose table is of another size.
 */
typedef int cuda_module_open_fn(struct num_backend *be, unsigned version, size_t table_bytes,
                                char *reason, size_t reason_bytes);
