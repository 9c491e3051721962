/* SPDX-License-Identifier: Apache-2.0
 *
 * The signals by which a program can be asked to end, and which muster hands on to what it started.
 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* "SIGTERM": its number. 0: it is none of them. */
int end_signal_find(struct str name);
bool end_signal_is(int number);
/* "SIGTERM"; of any other number "a signal". */
const char *end_signal_name(int number);
