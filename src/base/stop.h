/* SPDX-License-Identifier: Apache-2.0
 *
 * Work that may take long asks from time to time whether it is to stop. is_asked() is called on the
 * thread that began the work, and may run an event loop meanwhile.
 */
#pragma once

#include "base/err.h"

struct stop {
    bool (*is_asked)(void *context); /* NULL: never */
    void *context;
};

/* ERR_STOPPED if the work is to stop. */
MUST_CHECK static inline int stop_check(struct stop stop, struct err *err)
{
    return stop.is_asked && stop.is_asked(stop.context) ? fail(err, ERR_STOPPED, "stopped") : 0;
}
