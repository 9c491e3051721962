/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts in an order, borrowed from whoever typed them.
 */
#pragma once

#include <stddef.h>

struct texts {
    const char **at;
    size_t len;
};
