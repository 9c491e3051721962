/* SPDX-License-Identifier: Apache-2.0
 *
 * Programs and scripts: where they are, and whether they can be run.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"

bool path_is_executable(const char *path);
/*
 * Where a program that belongs to the one at `self_path` lies: beside it, or when both are installed under libexec, or
 * in bin. A new string; NULL if it is in none of these places.
 */
char *program_find_beside(const char *self_path, const char *name);
/* True if a folder of the list has a program of that name. As in PATH, an empty folder means
 * ".". */
bool path_finds(const char *path_list, const char *program);
/* ERR_UNAVAILABLE if a program, by its path or its name in PATH, cannot be executed as a worker. */
MUST_CHECK int program_check(const char *program, struct err *err);
/* The script in the words of a command, if its program is an interpreter and the script a regular file. Borrowed; NULL:
 * there is none, or not as far as is known. */
const char *program_script(const char *const *command);
/* ERR_UNAVAILABLE, with the cure, if a script that is somewhere else is not here. */
MUST_CHECK int script_check(const char *script, struct err *err);
