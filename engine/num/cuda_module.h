/* SPDX-License-Identifier: Apache-2.0
 *
 * The interface between the program and its CUDA module. The module is C++ and is linked with
 * cuBLAS; it uses nothing of the program but headers.
 */
#pragma once

#include "num/backend.h"

#define CUDA_MODULE_FILE "muster-kge-cuda.so"
#define CUDA_MODULE_OPEN "muster_kge_cuda_open"

enum {
    CUDA_MODULE_VERSION = 2 /* the version of struct num_backend and of the descriptors */
};

/*
 * Opens the first of the visible devices. Returns 0; otherwise `reason` holds a sentence. Refuses a
 * caller of another version, or a caller whose table has another size.
 */
typedef int cuda_module_open_fn(struct num_backend *be, unsigned version, size_t table_bytes,
                                char *reason, size_t reason_bytes);
