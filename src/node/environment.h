/* SPDX-License-Identifier: Apache-2.0
 *
 * What the environment of a worker on a seat has beyond muster's own: its devices, its number, and in PYTHONPATH the
 * folder with muster.py. What depends on the machine is added on that machine: for a seat of another host by its
 * agent, from the agent's own allocation.
 */
#pragma once

#include "node/allocation.h"

void seat_environment_add(const struct allocation *allocation, uint32_t number,
                          struct env_list *env);
/* The folder with muster.py, beside the program that muster keeps on another host,
 * beside the sources in a build tree, under share/ when installed; free() it. NULL: none. */
char *python_dir_new(const char *self_path);
