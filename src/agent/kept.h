/* SPDX-License-Identifier: Apache-2.0
 *
 * The program on a host where a head has installed it (node/bootstrap.h). It is a folder inside a cache folder of the
 * user; the hash of its files is the folder's name. Several agents, of several machines, may share the cache folder.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

/*
 * Renames the folder of the program at self_path to `name`, under which other agents find it, and removes programs
 * that have not been used for long. ERR_DATA if the folder is not the bundle of that name.
 */
MUST_CHECK int kept_install(const char *self_path, const char *name, struct err *err);
/* Notes that the program is in use. Call it when the program starts, and once an hour. */
void kept_touch(const char *self_path);
