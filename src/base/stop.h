/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that may take long asks now and then whether it is to go on. It is asked on the thread that began the
 * work, and may let a loop turn meanwhile.
 */
#pragma once

#include "base/err.h"

struct stop {
    bool (*is_asked)(void *context); /* NULL: never */
    void *context;
};

/* ERR_STOPPED if it is. */
MUST_CHECK static inline int stop_check(struct stop stop, struct err *err)
{
    return stop.is_asked && stop.is_asked(stop.context) ? fail(err, ERR_STOPPED, "stopped") : 0;
}
