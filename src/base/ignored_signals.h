/* SPDX-License-Identifier: Apache-2.0
 *
 * The signals that muster ignores: SIGPIPE, and SIGXFSZ, since a limit on the size of files is an error like a full disk.
 * A signal that is ignored stays ignored in a program that is started: without SIGPIPE, its pipes would not end with their
 * readers. So each start of a program puts the signals back.
 */
#pragma once

#include <signal.h>

void signals_ignore(void);
/* In a forked process, before exec. */
void signals_put_back(void);
/* For posix_spawnattr_setsigdefault(). */
void signals_ignored(sigset_t *out);
