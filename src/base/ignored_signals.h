/* SPDX-License-Identifier: Apache-2.0
 *
 * The signals that muster ignores, so that a write fails instead of ending muster: SIGPIPE, and
 * SIGXFSZ, since a limit on the size of files is an error like a full disk. An ignored signal stays
 * ignored across exec, and a program that ignores SIGPIPE may not end when the reader of its pipe
 * has ended. So the signals are reset whenever a program is started.
 */
#pragma once

#include <signal.h>

void signals_ignore(void);
/* In a forked process, before exec. */
void signals_put_back(void);
/* For posix_spawnattr_setsigdefault(). */
void signals_ignored(sigset_t *out);
