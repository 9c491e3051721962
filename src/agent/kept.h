/* SPDX-License-Identifier: Apache-2.0
 *
 * The program on a host where a head has installed it (node/bootstrap.h): a folder in a cache folder of the user,
 * named by the hash of its files. Several agents, of several machines, may share the cache folder.
 */
#pragma once

#include "base/attr.h"
#include "base/err.h"

/*
 * Takes the folder in which the program at self_path lies to the name that it must have, which other agents then find,
 * and removes programs that have not been used for long. ERR_DATA if it is not the bundle of that name.
 */
MUST_CHECK int kept_install(const char *self_path, const char *name, struct err *err);
/* The program is in use: to be called at its start, and once an hour. */
void kept_touch(const char *self_path);
