/* SPDX-License-Identifier: Apache-2.0
 *
 * Which commit a folder is at, read from the files of .git: no process is started for it.
 */
#pragma once

#include <stdbool.h>

/* The commit (40 or 64 hex digits) checked out in the repository around `folder`, a new string;
 * NULL if there is none or it cannot be told. Worktrees, packed refs and detached heads are
 * understood. */
char *git_commit_of(const char *folder);
