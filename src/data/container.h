/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of records that are not text: Parquet, Arrow, spreadsheets, compressed files whose name
 * does not say so. muster does not read or write them, and must not take them for lines.
 */
#pragma once

#include "base/buf.h"
#include "base/err.h"

enum {
    CONTAINER_HEAD_BYTES = 64 /* enough of a file to recognise a container */
};

/*
 * ERR_DATA, with the cure, if a file that begins with `head` is a container. A stream has no name,
 * so its cure does not ask for another extension.
 */
MUST_CHECK int container_refuse(const char *name, struct str head, bool is_stream, struct err *err);
