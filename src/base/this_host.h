/* SPDX-License-Identifier: Apache-2.0
 *
 * The machine that this process runs on.
 */
#pragma once

#include <stdint.h>

enum {
    HOST_NAME_BYTES = 256
};

/* "" if the kernel does not tell. */
void host_name(char out[HOST_NAME_BYTES]);
/* Those that this process may run on: a job has a part of the machine. At least 1. */
uint32_t processors_allowed(void);
