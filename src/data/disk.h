/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <errno.h>

#include "base/err.h"

/*
 * What a failed write to a disk is to the run: a full one stops it (and it can be resumed),
 * anything else is the error it was. Call it before errno changes.
 */
static inline int disk_error(struct err *err, int rc)
{
    if (errno != ENOSPC && errno != EDQUOT)
        return rc;
    if (err)
        err->code = ERR_STOPPED;
    return ERR_STOPPED;
}
